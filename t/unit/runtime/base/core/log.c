/* SPDX-License-Identifier: Apache-2.0 */
#include "base/core/log.h"
#include "tap.h"

#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static char got[64];

/* A launcher that reads late. */
static void *read_late(void *argument)
{
    int *from = argument;

    usleep(100000);
    if (read(*from, got, sizeof(got) - 1) < 0)
        got[0] = '\0';
    return NULL;
}

static int waiting(int fd)
{
    int left = -1;

    ioctl(fd, FIONREAD, &left);
    return left;
}

int main(void)
{
    static const char line[] = "megatron: the reason\n";
    int terminal = dup(STDERR_FILENO), between[2];
    pthread_t reader;
    FILE *file = tmpfile();

    if (pipe(between) < 0 || terminal < 0 || !file)
        return 1;
    dup2(between[1], STDERR_FILENO);
    pthread_create(&reader, NULL, read_late, &between[0]);
    log_error("the reason");
    log_drain();
    is_int(waiting(between[0]), 0, "a pipe has been read when log_drain returns");
    pthread_join(reader, NULL);
    is(got, line, "  and the line is there");

    log_error("the reason");
    log_drain();
    is_int(waiting(between[0]), (int)strlen(line), "without a reader it does not wait forever");

    dup2(fileno(file), STDERR_FILENO);
    log_error("the reason");
    log_drain();
    is_int((int)lseek(fileno(file), 0, SEEK_END), (int)strlen(line), "a file");
    dup2(terminal, STDERR_FILENO);
    return done_testing();
}
