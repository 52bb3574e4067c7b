/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "facts.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/kernel_log.h"

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

static void take_xid(void *context, const char *bus, int number)
{
    struct node_facts *node = context;
    struct xid_facts *xid = node->xids;
    int i;

    for (i = 0; i < node->xid_count; i++, xid++)
        if (xid->number == number && strcmp(xid->bus, bus) == 0)
            break;
    if (i == FACTS_XIDS)
        return;
    if (i == node->xid_count) {
        node->xid_count++;
        snprintf(xid->bus, sizeof(xid->bus), "%s", bus);
        xid->number = number;
        xid->count = 0;
    }
    xid->count++;
}

void xid_read(struct node_facts *node, const char *root)
{
    int log = kernel_log_open(root, 0);

    node->xid_count = log < 0 ? -1 : 0;
    if (log < 0)
        return;
    kernel_log_xids(log, take_xid, node);
    close(log);
}
