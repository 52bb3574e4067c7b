/* SPDX-License-Identifier: Apache-2.0 */
#include "supervise.h"
#include "base/core/log.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A report that takes longer, because a file system hangs, is given up: it must not delay the next
 * start. */
enum { REPORT_SECONDS = 60 };

/* The file that standard output goes to, which is the run's log; 0 if it is not a file. */
static int find_log(char *path, size_t size)
{
    struct stat status;
    ssize_t length = readlink("/proc/self/fd/1", path, size - 1);

    if (length <= 0 || (size_t)length == size - 1)
        return 0;
    path[length] = '\0';
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

void supervise_report(const char *file, const char *const *words, const sigset_t *mask)
{
    const char *metrics = words_value(words, "--metrics-file");
    const char *command[8] = {"megatron", "report"};
    char log[PATH_MAX];
    int count = 2, status;
    pid_t pid;

    if (find_log(log, sizeof(log)))
        command[count++] = log;
    if (metrics && access(metrics, R_OK) == 0)
        command[count++] = metrics;
    if (count == 2) {
        log_warning("--report: there is no log and no metrics file to report on; send standard "
                    "output to a file, or add --metrics-file to the command");
        return;
    }
    command[count++] = "--output";
    command[count++] = file;
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        sigprocmask(SIG_SETMASK, mask, NULL);
        alarm(REPORT_SECONDS);
        execv("/proc/self/exe", (char *const *)(uintptr_t)command);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
}
