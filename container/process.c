/* SPDX-License-Identifier: Apache-2.0 */
#include "process.h"
#include "lib/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TICK_MS = 200, NEAR_END_MS = 2, GRACE_SECONDS = 5, STOP_SECONDS = 1 };

struct child {
    pid_t pid;
    int output, errors; /* pipes; -1 once closed */
    size_t output_used, errors_used;
    char line[2048]; /* an incomplete line of standard error */
    size_t line_used;
};

int process_find(const char *name, const char *path, char *full, size_t size)
{
    if (strchr(name, '/'))
        return snprintf(full, size, "%s", name) < (int)size && access(full, X_OK) == 0 ? 0 : -1;
    while (path && *path) {
        size_t length = strcspn(path, ":");
        int written = snprintf(full, size, "%.*s/%s", (int)length, path, name);

        if (length > 0 && written > 0 && (size_t)written < size && access(full, X_OK) == 0)
            return 0;
        path += length + (path[length] == ':');
    }
    return -1;
}

/* Execute the program. */
static void run_program(const struct process_request *request, const char *program, int output,
                        int errors)
{
    int null = open("/dev/null", O_RDONLY);
    sigset_t none;

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (dup2(null, 0) < 0 || dup2(output, 1) < 0 || dup2(errors, 2) < 0)
        _exit(126);
    /* The program must not inherit descriptors of the task (PMI, Slurm's pipes). */
    close_range(3, ~0U, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (request->environment)
        execve(program, (char *const *)request->argv, (char *const *)request->environment);
    else
        execv(program, (char *const *)request->argv);
    dprintf(2, "cannot execute %s: %s\n", program, strerror(errno));
    _exit(127);
}

/* Exit with the program's code, as has_ended computes it. */
static void end_as(int status)
{
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/* Runs in the child, which is the session leader: wait for the program, and terminate the process
 * group if the caller is killed. Otherwise processes started by the program (downloads, mksquashfs)
 * would keep running. */
static void guard(const struct process_request *request, const char *program, pid_t parent,
                  int output, int errors)
{
    const struct timespec grace = {.tv_sec = GRACE_SECONDS};
    sigset_t awaited, ended;
    pid_t child;
    int status;

    setsid();
    prctl(PR_SET_NAME, "megatron-guard");
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    awaited = ended;
    sigaddset(&awaited, SIGHUP);
    sigprocmask(SIG_SETMASK, &awaited, NULL);
    prctl(PR_SET_PDEATHSIG, SIGHUP);
    if (getppid() != parent)
        _exit(126);
    child = fork();
    if (child == 0)
        run_program(request, program, output, errors);
    /* Signals are meant for the program, or for the caller, which has the same process name. */
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGURG, SIG_IGN);
    close_range(0, ~0U, 0);
    if (child < 0)
        _exit(126);
    while (getppid() == parent) {
        sigwaitinfo(&awaited, NULL);
        /* If the caller was killed as well, terminate whatever the program left running. */
        if (waitpid(child, &status, WNOHANG) == child && getppid() == parent)
            end_as(status);
    }
    kill(0, SIGTERM);
    sigtimedwait(&ended, NULL, &grace);
    kill(0, SIGKILL);
    _exit(126);
}

int process_not_started(const char *program, int number, struct error *err)
{
    const char *remedy = "check the limit on processes (ulimit -u, cgroup pids.max)";

    if (number == EMFILE || number == ENFILE)
        remedy = "check the limit on open files (ulimit -n)";
    if (number == ENOMEM)
        remedy = "the node or the step is out of memory: raise the memory limit of the job (sbatch "
                 "--mem)";
    return error_set(err, "cannot start %.300s: %s; %s", program, strerror(number), remedy);
}

static int start(const struct process_request *request, const char *program, struct child *child,
                 struct error *err)
{
    int output[2], errors[2], number;
    pid_t parent = getpid();

    if (pipe2(output, O_CLOEXEC) < 0)
        return process_not_started(program, errno, err);
    if (pipe2(errors, O_CLOEXEC) < 0) {
        number = errno;
        close(output[0]), close(output[1]);
        return process_not_started(program, number, err);
    }
    child->pid = fork();
    number = errno;
    if (child->pid == 0)
        guard(request, program, parent, output[1], errors[1]);
    close(output[1]), close(errors[1]);
    if (child->pid < 0) {
        close(output[0]), close(errors[0]);
        return process_not_started(program, number, err);
    }
    child->output = output[0];
    child->errors = errors[0];
    return 0;
}

/* Keep the first bytes of standard output. */
static void read_output(struct child *child, struct process_result *result)
{
    char waste[1024];
    size_t room = sizeof(result->output) - 1 - child->output_used;
    ssize_t got = room > 0 ? read(child->output, result->output + child->output_used, room)
                           : read(child->output, waste, sizeof(waste));

    if (got > 0 && room > 0)
        child->output_used += (size_t)got;
    if (got == 0 || (got < 0 && errno != EINTR)) {
        close(child->output);
        child->output = -1;
    }
}

/* Pass complete lines to the caller. A line longer than the buffer is passed in pieces. */
static void split_lines(const struct process_request *request, struct child *child,
                        const char *text, size_t count)
{
    for (size_t i = 0; request->line && i < count; i++) {
        bool ends = text[i] == '\n' || text[i] == '\r';

        if (!ends)
            child->line[child->line_used++] = text[i];
        if (child->line_used == 0 || (!ends && child->line_used < sizeof(child->line) - 1))
            continue;
        child->line[child->line_used] = '\0';
        child->line_used = 0;
        request->line(request->argument, child->line);
    }
}

/* Keep the last bytes of standard error. */
static void read_errors(const struct process_request *request, struct child *child,
                        struct process_result *result)
{
    size_t size = sizeof(result->errors) - 1;
    ssize_t got;

    if (child->errors_used == size) {
        memmove(result->errors, result->errors + size / 2, size - size / 2);
        child->errors_used -= size / 2;
    }
    got = read(child->errors, result->errors + child->errors_used, size - child->errors_used);
    if (got > 0) {
        split_lines(request, child, result->errors + child->errors_used, (size_t)got);
        child->errors_used += (size_t)got;
    }
    if (got == 0 || (got < 0 && errno != EINTR)) {
        split_lines(request, child, "\n", 1);
        close(child->errors);
        child->errors = -1;
    }
}

static void drain(const struct process_request *request, struct child *child,
                  struct process_result *result, int milliseconds)
{
    struct pollfd ready[2] = {{.fd = child->output, .events = POLLIN},
                              {.fd = child->errors, .events = POLLIN}};

    if (poll(ready, 2, milliseconds) <= 0)
        return;
    if (ready[0].revents)
        read_output(child, result);
    if (ready[1].revents)
        read_errors(request, child, result);
}

/* Check whether the child has exited, without waiting for it. */
static bool has_ended(struct child *child, struct process_result *result)
{
    int status;
    pid_t got = waitpid(child->pid, &status, WNOHANG);

    if (got == 0 || (got < 0 && errno == EINTR))
        return false;
    if (got < 0)
        result->status = 255;
    else
        result->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
}

static void watch(const struct process_request *request, struct child *child,
                  struct process_result *result)
{
    double begin = clock_now(), ticked = begin, asked_to_end = 0;
    double stop_grace = request->stop_grace > 0 ? request->stop_grace : STOP_SECONDS;

    while (!has_ended(child, result)) {
        double time = clock_now();

        /* Both pipes are closed, so the program is about to exit: poll often. */
        drain(request, child, result,
              child->output < 0 && child->errors < 0 ? NEAR_END_MS : TICK_MS);
        if (asked_to_end > 0) {
            /* A process that is stopped may be killed soon and has its own work to undo. */
            if (time - asked_to_end > (is_stopped(request->stop) ? stop_grace : GRACE_SECONDS))
                kill(-child->pid, SIGKILL);
            continue;
        }
        if ((request->timeout > 0 && time - begin > request->timeout) || is_stopped(request->stop))
            result->timed_out = true;
        if (request->tick && time - ticked >= 1) {
            ticked = time;
            if (request->tick(request->argument, time - begin) != 0)
                result->timed_out = true;
        }
        if (result->timed_out) {
            asked_to_end = time;
            kill(-child->pid, SIGTERM);
        }
    }
}

int process_run(const struct process_request *request, struct process_result *result,
                struct error *err)
{
    struct child child = {0};
    char program[4096];

    memset(result, 0, sizeof(*result));
    if (process_find(request->argv[0], request->path, program, sizeof(program)) < 0)
        return error_set(err,
                         "cannot find the program %s in %.300s; install it, or correct the path",
                         request->argv[0], request->path ? request->path : "(no PATH)");
    if (start(request, program, &child, err) < 0)
        return -1;
    watch(request, &child, result);
    /* Read what is left in the pipes, but do not wait for a grandchild that keeps them open. */
    for (int i = 0; i < 64 && (child.output >= 0 || child.errors >= 0); i++)
        drain(request, &child, result, 10);
    if (child.output >= 0)
        close(child.output);
    if (child.errors >= 0)
        close(child.errors);
    /* Nothing in the session may outlive its leader. */
    kill(-child.pid, SIGKILL);
    return 0;
}

int process_check_signal(const char *what, int status, struct error *err)
{
    if (status <= 128 || status >= 160)
        return 0;
    return error_set(err, "%s was killed by signal %d%s", what, status - 128,
                     status == 128 + SIGKILL
                         ? "; it probably ran out of memory: raise the memory limit of the job "
                           "(sbatch --mem)"
                         : "; run it again, and see dmesg on this node if it fails again");
}

/* One line of a program's error output, without its prefix. */
struct complaint {
    const char *text;
    int length;
};

static struct complaint unmarked(const char *line, size_t length)
{
    size_t mark = strncmp(line, "[ERROR] ", 8) == 0 ? 8 : strncmp(line, "[WARN] ", 7) == 0 ? 7 : 0;

    mark = mark < length ? mark : length;
    return (struct complaint){line + mark, (int)(length - mark)};
}

/* Is this a line of a list that follows a complaint, or the heading of the list? */
static bool is_detail(const char *line, size_t length)
{
    return line[0] == '\t' || line[0] == ' ' || line[length - 1] == ':';
}

void process_complaint(const char *errors, char *line, size_t size)
{
    static const char hook_text[] = "exited with return code";
    struct complaint error = {"", 0}, hook = error, plain = error, cause = error, warning = error;

    for (const char *at = errors; *at;) {
        size_t length = strcspn(at, "\r\n");
        struct complaint now = unmarked(at, length);

        if (memmem(at, length, hook_text, sizeof(hook_text) - 1))
            hook = now, cause = plain;
        else if (strncmp(at, "[ERROR] ", 8) == 0)
            error = now;
        else if (strncmp(at, "[WARN] ", 7) == 0)
            warning = now;
        else if (length > 0 && strncmp(at, "[INFO]", 6) != 0 &&
                 (plain.length == 0 || !is_detail(at, length)))
            plain = now;
        at += length + (at[length] != '\0');
    }
    /* What a hook printed before it failed is usually the reason. */
    if (error.length == 0 && hook.length > 0)
        snprintf(line, size, "%.*s%s%.*s", hook.length, hook.text, cause.length ? ": " : "",
                 cause.length, cause.text);
    else if (error.length > 0 || plain.length > 0)
        snprintf(line, size, "%.*s", error.length ? error.length : plain.length,
                 error.length ? error.text : plain.text);
    else
        snprintf(line, size, "%.*s", warning.length, warning.text);
}
