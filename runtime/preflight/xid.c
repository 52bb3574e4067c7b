/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "xid.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* NVIDIA's catalog of Xids, those that are not caused by the program. */
static const struct {
    int number;
    enum xid_action action;
} actions[] = {
    {13, XID_RESTART}, {31, XID_RESTART}, {48, XID_RESET},   {54, XID_REPLACE},  {64, XID_RESET},
    {74, XID_RESET},   {79, XID_REBOOT},  {94, XID_RESTART}, {95, XID_RESET},    {109, XID_RESET},
    {110, XID_RESET},  {119, XID_RESET},  {120, XID_RESET},  {126, XID_RESTART}, {136, XID_RESET},
    {140, XID_RESET},  {143, XID_RESET},  {151, XID_REBOOT}, {155, XID_RESET},   {156, XID_RESET},
    {158, XID_RESET},  {168, XID_REBOOT},
};

enum xid_action xid_action(int number)
{
    for (size_t i = 0; i < sizeof(actions) / sizeof(*actions); i++)
        if (actions[i].number == number)
            return actions[i].action;
    return XID_NOTE;
}

const char *xid_advice(enum xid_action action)
{
    static const char *const texts[] = {
        [XID_NOTE] = "no action is needed",
        [XID_RESTART] = "a program crashed on this GPU; watch for a repetition",
        [XID_RESET] = "reset the GPU (nvidia-smi --gpu-reset) or reboot the node",
        [XID_REBOOT] = "reboot the node; have the GPU checked if it happens again",
        [XID_REPLACE] = "drain the node and have the GPU or its power cable replaced",
    };

    return texts[action];
}

/* "NVRM: Xid (PCI:0000:53:00): 79, pid=..." */
static void take_line(struct node_facts *node, const char *line)
{
    const char *at = strstr(line, "NVRM: Xid (PCI:");
    struct xid_facts *xid = node->xids;
    char bus[16];
    int number, i;

    if (!at || sscanf(at, "NVRM: Xid (PCI:%15[0-9a-fA-F:.]): %d", bus, &number) != 2)
        return;
    for (i = 0; i < node->xid_count; i++, xid++)
        if (xid->number == number && strcmp(xid->bus, bus) == 0)
            break;
    if (i == FACTS_XIDS)
        return;
    if (i == node->xid_count) {
        node->xid_count++;
        memcpy(xid->bus, bus, sizeof(bus));
        xid->number = number;
        xid->count = 0;
    }
    xid->count++;
}

/* A read of /dev/kmsg returns one record; of a file, which tests use, many lines. */
void xid_read(struct node_facts *node, const char *root)
{
    enum { SIZE = 65536, MOST = 1 << 20 };
    char path[PATH_MAX], *text = malloc(SIZE), *rest, *line;
    ssize_t length;
    int fd;

    snprintf(path, sizeof(path), "%s/dev/kmsg", root);
    fd = text ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    node->xid_count = fd < 0 ? -1 : 0;
    for (int i = 0; fd >= 0 && i < MOST; i++) {
        length = read(fd, text, SIZE - 1);
        if (length < 0 && errno == EPIPE) /* the record was overwritten; the next read continues */
            continue;
        if (length <= 0)
            break;
        text[length] = '\0';
        for (rest = text; (line = strsep(&rest, "\n"));)
            take_line(node, line);
    }
    if (fd >= 0)
        close(fd);
    free(text);
}
