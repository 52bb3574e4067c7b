/* SPDX-License-Identifier: Apache-2.0 */
#include "deadline.h"
#include "lib/clock.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

int with_deadline(int (*call)(void *), void *argument, int seconds)
{
    pid_t pid = fork();
    int status;

    if (pid < 0)
        return -1;
    if (pid == 0)
        _exit(call(argument) & 127);
    for (int i = 0; i < seconds * 500; i++) {
        pid_t ended = waitpid(pid, &status, WNOHANG);

        if (ended == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        if (ended < 0)
            return -1;
        clock_sleep(0.002);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1;
}
