/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"
#include "lib/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_SECONDS    2.0
#define FORWARD_SECONDS 0.2

enum log_level { LOG_LEVEL_NOTE, LOG_LEVEL_WARNING, LOG_LEVEL_ERROR };

static void deliver(enum log_level level, const char *format, va_list args)
{
    static const char *const names[] = {
        [LOG_LEVEL_NOTE] = "note: ", [LOG_LEVEL_WARNING] = "warning: ", [LOG_LEVEL_ERROR] = ""};
    char text[2048];

    vsnprintf(text, sizeof(text), format, args);
    fflush(stdout); /* if both go to one file, the message must not split a line */
    /* On a terminal, there may be a progress line: replace it. */
    fprintf(stderr, "%smegatron: %s%s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", names[level],
            text);
}

void log_note(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    deliver(LOG_LEVEL_NOTE, format, args);
    va_end(args);
}

void log_warning(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    deliver(LOG_LEVEL_WARNING, format, args);
    va_end(args);
}

void log_error(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    deliver(LOG_LEVEL_ERROR, format, args);
    va_end(args);
}

void log_drain(void)
{
    double end = clock_now() + READ_SECONDS;
    struct stat status;
    int left;

    fflush(stderr);
    if (fstat(STDERR_FILENO, &status) < 0 ||
        (!S_ISFIFO(status.st_mode) && !S_ISSOCK(status.st_mode)))
        return;
    while (ioctl(STDERR_FILENO, FIONREAD, &left) == 0 && left > 0 && clock_now() < end)
        clock_sleep(0.005);
    clock_sleep(FORWARD_SECONDS);
}
