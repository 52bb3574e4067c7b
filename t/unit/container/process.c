/* SPDX-License-Identifier: Apache-2.0 */
/* Work of container/ that may be killed: processes, scratch directories, containers that exit. */
#include "container.h"
#include "lib/file.h"
#include "container/process.h"
#include "container/scratch.h"
#include "container/start.h"

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>

static void test_processes(void)
{
    static const struct {
        const char *argv[4];
        double timeout;
        int rc, status, timed_out;
        const char *output, *complaint;
    } rows[] = {
        {{"sh", "-c", "echo out; echo '[INFO] x' >&2; echo '[ERROR] bad' >&2; echo y >&2; exit 3",
          NULL},
         0,
         0,
         3,
         0,
         "out\n",
         "bad"},
        {{"sh", "-c", "echo last >&2", NULL}, 0, 0, 0, 0, "", "last"},
        {{"sh", "-c", "kill -9 $$", NULL}, 0, 0, 137, 0, "", ""},
        {{"sh", "-c", "sleep 60 & wait", NULL}, 0.3, 0, 143, 1, "", ""},
        {{"no-such-program", NULL, NULL, NULL}, 0, -1, 0, 0, "", ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct process_request request = {
            .argv = rows[i].argv, .path = "/usr/bin:/bin", .timeout = rows[i].timeout};
        struct process_result result;
        char line[128];

        is_int(process_run(&request, &result, &err), rows[i].rc, rows[i].argv[0]);
        if (rows[i].rc < 0) {
            is(err.text,
               "cannot find the program no-such-program in /usr/bin:/bin; install it, or correct "
               "the path",
               "sentence");
            continue;
        }
        is_int(result.status, rows[i].status, "status");
        is_int(result.timed_out, rows[i].timed_out, "timed out");
        is(result.output, rows[i].output, "output");
        process_complaint(result.errors, line, sizeof(line));
        is(line, rows[i].complaint, "complaint");
    }
}

/* Lines of standard error as they arrive. */
static void add_line(void *argument, const char *line)
{
    char *lines = argument;

    snprintf(lines + strlen(lines), 128 - strlen(lines), "<%s>", line);
}

static void test_lines(void)
{
    const char *const argv[] = {
        "sh", "-c", "printf 'one\\ntw' >&2; sleep 0.3; printf 'o\\r\\n\\nlast' >&2", NULL};
    char lines[128] = "";
    const struct process_request request = {
        .argv = argv, .path = "/usr/bin:/bin", .line = add_line, .argument = lines};
    struct process_result result;

    is_int(process_run(&request, &result, &err), 0, "a program that prints lines");
    is(lines, "<one><two><last>", "each line arrives once, complete");
}

/* Kill a process that runs a program which has started another: both must exit, and the first has
 * time to undo its work. */
static void test_killed_caller(void)
{
    static const char script[] =
        "trap 'echo x >undone; exit' TERM; sleep 600 & echo $! >begun; wait";
    const char *const argv[] = {"sh", "-c", script, NULL};
    const struct process_request request = {.argv = argv, .path = "/usr/bin:/bin"};
    const struct timespec moment = {.tv_nsec = 20000000};
    struct process_result result;
    char path[128], text[32] = "";
    pid_t caller = fork();
    int grandchild;

    if (caller == 0) {
        if (chdir(directory) == 0)
            process_run(&request, &result, &err);
        _exit(1);
    }
    snprintf(path, sizeof(path), "%s/begun", directory);
    for (int i = 0; i < 3000 && !strchr(text, '\n'); i++) {
        nanosleep(&moment, NULL);
        file_read_text(path, text, sizeof(text));
    }
    grandchild = atoi(text);
    ok(grandchild > 1 && kill(grandchild, 0) == 0, "a program that started another");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    kill(caller, SIGKILL);
    for (int i = 0; i < 3000 && kill(grandchild, 0) == 0; i++) {
        nanosleep(&moment, NULL);
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    ok(kill(grandchild, 0) < 0, "ends with it when its caller is killed");
    snprintf(path, sizeof(path), "%s/undone", directory);
    ok(access(path, F_OK) == 0, "and can undo its work");
}

/* If the container has exited, the program must not run outside it. */
static void test_join_ended(void)
{
    struct error err = {.text = ""};
    pid_t child = fork();
    bool entered = true;

    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    is_int(container_join(child, 0, "/", &entered, &err), -1, "an ended container is not joined");
    ok(strstr(err.text, "mnt namespace") != NULL, "and it is reported: %s", err.text);
    is_int(entered, 0, "and nothing was entered");
    is_int(container_join(getpid(), 0, "/", &entered, &err), -1,
           "nor is a process outside that has its number");
    is(err.text, "the container has ended; the log of slurmd on this node says why",
       "and it is reported");
}

/* Another process of the user sweeps continuously: directories in use must survive, and all others
 * must go. */
static void test_scratch(void)
{
    struct scratch scratch;
    char parent[128], file[4096], others[2][512];
    struct utsname host;
    int made = 0, kept = 0, left = 0;
    struct dirent *item;
    DIR *listed;
    pid_t sweepers[2];

    snprintf(parent, sizeof(parent), "%s/scratch", directory);
    mkdir(parent, 0700);
    for (int i = 0; i < 2; i++) {
        sweepers[i] = fork();
        while (sweepers[i] == 0)
            scratch_sweep(parent);
    }
    for (int i = 0; i < 1000; i++) {
        if (scratch_create(&scratch, parent, &err) < 0)
            continue;
        made++;
        snprintf(file, sizeof(file), "%s/file", scratch.path);
        write_file(file, "x", 1);
        kept += access(file, F_OK) == 0;
        scratch_destroy(&scratch);
    }
    for (int i = 0; i < 2; i++) {
        kill(sweepers[i], SIGKILL);
        waitpid(sweepers[i], NULL, 0);
    }
    if (!is_int(made, 1000, "directories are made while others sweep"))
        diag("%s", err.text);
    is_int(kept, 1000, "and kept");
    for (int removing = 0; removing < 2; removing++) {
        pid_t owner = fork();

        if (owner == 0) {
            scratch_create(&scratch, parent, &err);
            snprintf(file, sizeof(file), "%s/file", scratch.path);
            write_file(file, "x", 1);
            snprintf(file, sizeof(file), "%s/alive", scratch.path);
            if (removing) /* this one exits first, which is allowed */
                unlink(file);
            kill(getpid(), SIGKILL);
        }
        waitpid(owner, NULL, 0);
    }
    /* The directory of a host whose name begins like this one's, and a user's. */
    uname(&host);
    for (int i = 0; i < 2; i++) {
        snprintf(others[i], sizeof(others[i]), "%s/megatron-image-%u-%s-%s", parent,
                 (unsigned)geteuid(), host.nodename, i == 0 ? "2-abcdef" : "backup-of-it");
        mkdir(others[i], 0700);
    }
    scratch_sweep(parent);
    for (int i = 0; i < 2; i++)
        is_int(rmdir(others[i]), 0, "what another host, or nobody, made is kept");
    listed = opendir(parent);
    while ((item = readdir(listed)))
        left += item->d_name[0] != '.';
    closedir(listed);
    is_int(left, 0, "what killed processes left is swept, also half removed");
}

int main(void)
{
    if (!mkdtemp(directory))
        return 1;
    test_processes();
    test_lines();
    test_killed_caller();
    test_join_ended();
    test_scratch();
    return finish();
}
