/* SPDX-License-Identifier: Apache-2.0 */
/* What slurmstepd does after the tasks of its node have exited: nothing, unless one failed or was
 * killed while working on an image. Every step of every job gets here. */
#include <grp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spank/controller.h"
#include "spank/facts.h"
#include "lib/file.h"
#include "spank/plugin.h"
#include "tap.h"

static int forks, questions;
static bool forking; /* really */

/* Replace the C library's and Slurm's functions: they count, and start nothing. */
pid_t fork(void)
{
    forks++;
    return forking ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : -1;
}

/* What the processes that step_exit starts share with this one. */
static struct {
    volatile time_t passed; /* added to the clock */
    volatile pid_t worker;
    volatile int dumpable, no_new_privileges;
    volatile uid_t user;
} * shared;

/* Replaces the C library's function. */
int clock_gettime(clockid_t id, struct timespec *now)
{
    int rc = (int)syscall(SYS_clock_gettime, id, now);

    now->tv_sec += shared ? shared->passed : 0;
    return rc;
}

enum { USER = 65533 };

const char *facts_variable(spank_t spank, const char *name, char *buffer, size_t size)
{
    (void)spank, (void)name, (void)buffer, (void)size;
    return "";
}

spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...)
{
    va_list args;

    (void)spank;
    questions++;
    va_start(args, item);
    if (item == S_JOB_UID || item == S_JOB_GID)
        *va_arg(args, uid_t *) = geteuid() == 0 ? USER : geteuid();
    va_end(args);
    return item == S_JOB_SUPPLEMENTARY_GIDS ? ESPANK_ERROR : ESPANK_SUCCESS;
}

int controller_signal_step(uint32_t job, uint32_t step, uint16_t number)
{
    (void)job, (void)step, (void)number;
    if (forking) {
        shared->dumpable = prctl(PR_GET_DUMPABLE);
        shared->no_new_privileges = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
        shared->user = getuid();
        shared->worker = getpid();
        for (;;)
            pause();
    }
    return 1;
}

void plugin_defer(struct plugin *plugin, const struct error *err)
{
    (void)plugin, (void)err;
}

static const struct {
    const char *name;
    bool used, end_step, begun; /* work on an image */
    enum share_state image;
    int forks;
} rows[] = {
    {"a step that does not use the plugin", false, false, false, SHARE_PENDING, 0},
    {"a step without an image", true, false, false, SHARE_PENDING, 0},
    {"an image that was started", true, false, true, SHARE_DONE, 0},
    {"an image that could not be: its task said why and left nothing", true, false, true,
     SHARE_FAILED, 0},
    {"a task killed at its work on an image: that is swept up", true, false, true, SHARE_PENDING,
     1},
    {"a task that failed without an image: the step ends on the other nodes", true, true, false,
     SHARE_PENDING, 1},
    {"a task that failed in its image", true, true, true, SHARE_DONE, 1},
    {"both", true, true, true, SHARE_PENDING, 2},
};

/* Does 'program' succeed in a process of the user? */
static bool as_user(int (*program)(pid_t), pid_t pid)
{
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    int status = -1;

    if (child == 0) {
        if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(USER, USER, USER) < 0 ||
                               setresuid(USER, USER, USER) < 0))
            _exit(2);
        _exit(program(pid) < 0);
    }
    waitpid(child, &status, 0);
    return status == 0;
}

static int attach(pid_t pid)
{
    return (int)ptrace(PTRACE_ATTACH, pid, NULL, NULL);
}

static int stop(pid_t pid)
{
    return kill(pid, SIGSTOP);
}

/* Can the user trace an ordinary process here? */
static bool can_trace(void)
{
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    bool can = false;

    if (child == 0) {
        if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(USER, USER, USER) < 0 ||
                               setresuid(USER, USER, USER) < 0))
            _exit(2);
        execlp("sleep", "sleep", "600", (char *)NULL);
        _exit(1);
    }
    for (int i = 0; i < 200 && !can; i++) {
        usleep(10000);
        can = as_user(attach, child);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return can;
}

static bool is_gone(pid_t pid)
{
    for (int i = 0; i < 500 && kill(pid, 0) == 0; i++)
        usleep(10000);
    return kill(pid, 0) < 0;
}

/* A process that works for the user outside the job's cgroups can be stopped by the user, but
 * neither traced nor kept beyond its time. */
static void test_worker(struct plugin *plugin, bool traces, const char *name)
{
    char path[64], score[16];
    int status = 0;

    shared->worker = 0;
    shared->passed = 0;
    forking = true;
    step_exit(plugin, NULL);
    forking = false;
    for (int i = 0; i < 1000 && !shared->worker; i++)
        usleep(10000);
    if (!ok(shared->worker > 0, "%s: a process works", name))
        return;
    if (geteuid() == 0) {
        is_int(shared->user, USER, "as the user");
        ok(!traces || !as_user(attach, shared->worker), "whom another process cannot trace");
        snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)shared->worker);
        ok(file_read_line(path, score, sizeof(score)) >= 0 && strcmp(score, "0") == 0,
           "and which is killed like others when memory runs out");
    }
    ok(as_user(stop, shared->worker), "it can be stopped");
    shared->passed = 1000;
    ok(waitpid(-1, &status, 0) > 0, "its supervisor ends");
    ok(is_gone(shared->worker), "and so does it, when its time is up");
}

static void test_outside(void)
{
    static const char script[] = "#!/bin/sh\n"
                                 "cd \"${0%/*}\"\n"
                                 "{ echo \"$*\"; env; echo PID=$$; } >seen\n"
                                 "exec sleep 600\n";
    static const char environment[] = "HOME=/h\0LD_PRELOAD=/evil\0BASH_ENV=/evil\0PATH=/evil\0";
    char directory[] = "/tmp/megatron-test-XXXXXX", path[64], text[2048] = "";
    struct plugin plugin = {.used = true};
    struct error err = {.text = ""};
    bool traces = can_trace();
    FILE *file = fopen("/proc/self/oom_score_adj", "w");

    if (file) {
        fputs("100", file);
        fclose(file);
    }

    plugin.share = share_create(1, &err);
    if (!plugin.share || prctl(PR_SET_CHILD_SUBREAPER, 1) || !mkdtemp(directory)) {
        ok(0, "a process of our own");
        return;
    }
    if (!traces)
        diag("no process can be traced on this machine");
    plugin.share->end_step = 1;
    test_worker(&plugin, traces, "ending the step");
    is_int(shared->dumpable, 0, "it is not dumpable");
    is_int(shared->no_new_privileges, 1, "and gets no new privileges");

    /* The importer of an administrator. */
    plugin.share->end_step = 0;
    snprintf(path, sizeof(path), "%s/importer", directory);
    file = fopen(path, "w");
    fputs(script, file);
    fclose(file);
    chmod(path, 0755);
    chmod(directory, 0777);
    plugin.config.importer = path;
    plugin.config.enroot_path = "/usr/bin:/bin";
    strcpy(plugin.share->leftovers.temporary, "/nowhere");
    memcpy(plugin.share->leftovers.environment, environment, sizeof(environment));
    plugin.share->image_state = SHARE_DONE;
    shared->worker = 0;
    shared->passed = 0;
    forking = true;
    step_exit(&plugin, NULL);
    forking = false;
    snprintf(path, sizeof(path), "%s/seen", directory);
    for (int i = 0; i < 1000 && !strstr(text, "PID="); i++) {
        usleep(10000);
        file_read_text(path, text, sizeof(text));
    }
    ok(strncmp(text, "release\n", 8) == 0 && strstr(text, "\nHOME=/h\n") &&
           strstr(text, "PATH=/usr/bin:/bin\n") && !strstr(text, "evil"),
       "the importer sees what the plugin passes, and nothing that the user added");
    shared->worker = strstr(text, "PID=") ? atoi(strstr(text, "PID=") + 4) : 0;
    if (ok(shared->worker > 0, "it runs") && geteuid() == 0)
        ok(!traces || !as_user(attach, shared->worker), "and the user cannot trace it");
    as_user(stop, shared->worker);
    shared->passed = 1000;
    ok(waitpid(-1, NULL, 0) > 0 && is_gone(shared->worker), "it ends when its time is up");
    unlink(path);
    snprintf(path, sizeof(path), "%s/importer", directory);
    unlink(path);
    rmdir(directory);
    share_destroy(plugin.share, 1);
}

int main(void)
{
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct plugin plugin = {.used = rows[i].used};
        struct error err = {.text = ""};

        plugin.share = share_create(2, &err);
        if (!plugin.share)
            return 1;
        plugin.share->end_step = rows[i].end_step;
        plugin.share->image_state = rows[i].image;
        if (rows[i].begun)
            strcpy(plugin.share->leftovers.temporary, "/nowhere");
        forks = questions = 0;
        step_exit(&plugin, NULL);
        is_int(forks, rows[i].forks, rows[i].name);
        ok((questions > 0) == (rows[i].forks > 0), "%s of Slurm",
           rows[i].forks > 0 ? "whose step it is is asked" : "nothing is asked");
        share_destroy(plugin.share, 2);
    }
    test_outside();
    return done_testing();
}
