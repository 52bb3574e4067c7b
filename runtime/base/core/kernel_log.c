/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel_log.h"
#include "xmalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int kernel_log_open(const char *root, int new_only)
{
    char path[PATH_MAX];
    int log;

    snprintf(path, sizeof(path), "%s/dev/kmsg", root);
    log = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (log >= 0 && new_only)
        lseek(log, 0, SEEK_END);
    return log;
}

/* A read of /dev/kmsg returns one record; of a file, which tests use, many lines. */
void kernel_log_xids(int log, void (*each)(void *context, const char *bus, int number),
                     void *context)
{
    enum { SIZE = 65536, MOST = 1 << 20 };
    char *text = xmalloc(SIZE), *rest, *line, bus[16];
    int number;

    for (int i = 0; i < MOST; i++) {
        ssize_t length = read(log, text, SIZE - 1);

        if (length < 0 && errno == EPIPE) /* the record was overwritten; the next read continues */
            continue;
        if (length <= 0)
            break;
        text[length] = '\0';
        /* "NVRM: Xid (PCI:0000:53:00): 79, pid=..." */
        for (rest = text; (line = strsep(&rest, "\n"));) {
            const char *at = strstr(line, "NVRM: Xid (PCI:");

            if (at && sscanf(at, "NVRM: Xid (PCI:%15[0-9a-fA-F:.]): %d", bus, &number) == 2)
                each(context, bus, number);
        }
    }
    free(text);
}
