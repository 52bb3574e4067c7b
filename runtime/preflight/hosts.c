/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The end of the item at 'at': the comma outside of brackets that follows it, or the end. */
static const char *item_end(const char *at)
{
    int depth = 0;

    for (; *at && (*at != ',' || depth > 0); at++)
        depth += *at == '[' ? 1 : *at == ']' ? -1 : 0;
    return at;
}

/* Host 'index' of one item "prefix[ranges]suffix". Returns how many hosts the item has, if fewer;
 * -1 if it is malformed; or 0 with 'name' filled. */
static int64_t from_item(const char *at, const char *end, int64_t index, char *name, size_t size)
{
    const char *open = memchr(at, '[', (size_t)(end - at));
    const char *close = open ? memchr(open, ']', (size_t)(end - open)) : NULL;
    int64_t count = 0;

    if (!open) {
        if (index > 0)
            return 1;
        snprintf(name, size, "%.*s", (int)(end - at), at);
        return 0;
    }
    if (!close)
        return -1;
    for (const char *range = open + 1; range < close;) {
        char *after;
        long first = strtol(range, &after, 10), last = first;
        int width = (int)(after - range);

        if (after == range || first < 0)
            return -1;
        if (*after == '-')
            last = strtol(after + 1, &after, 10);
        if (last < first || (*after != ',' && *after != ']'))
            return -1;
        if (index < count + last - first + 1) {
            snprintf(name, size, "%.*s%0*ld%.*s", (int)(open - at), at, width,
                     first + (long)(index - count), (int)(end - close - 1), close + 1);
            return 0;
        }
        count += last - first + 1;
        range = after + 1;
    }
    return count > 0 ? count : -1;
}

int hosts_at(const char *list, int64_t index, char *name, size_t size)
{
    name[0] = '\0';
    while (list && *list) {
        const char *end = item_end(list);
        int64_t passed = from_item(list, end, index, name, size);

        if (passed <= 0)
            return (int)passed;
        index -= passed;
        list = *end ? end + 1 : end;
    }
    return -1;
}

static int64_t number_of(const char *variable)
{
    const char *text = getenv(variable);

    return text ? strtoll(text, NULL, 10) : 0;
}

int hosts_rank_0(const struct world *world, char *host, size_t size, int *port, struct error *err)
{
    const char *list = getenv("SLURM_STEP_NODELIST");

    *port = world->master_port > 0
                ? (int)world->master_port
                : 20480 + (int)((number_of("SLURM_JOB_ID") * 16 + number_of("SLURM_STEP_ID") +
                                 number_of("OMPI_MCA_ess_base_jobid") % 9973) %
                                10240);
    if (world->master_addr)
        snprintf(host, size, "%s", world->master_addr);
    else if (world->nodes <= 1)
        snprintf(host, size, "localhost");
    else if (!list || hosts_at(list, 0, host, size) < 0)
        return error_set_code(err, ERROR_USAGE,
                              "cannot determine which node runs rank 0; set MASTER_ADDR and "
                              "MASTER_PORT");
    return 0;
}

void hosts_of_rank(int rank, const struct world *world, char *host, size_t size)
{
    const char *list = getenv("SLURM_STEP_NODELIST"), *at = getenv("SLURM_STEP_TASKS_PER_NODE");
    int64_t node = 0, before = 0;

    host[0] = '\0';
    if (strcmp(world->source, "SLURM") != 0 && strcmp(world->source, "MEGATRON") != 0)
        return;
    while (list && at && *at) {
        char *end;
        long tasks = strtol(at, &end, 10), times = 1;

        if (end == at || tasks < 1)
            return;
        if (strncmp(end, "(x", 2) == 0)
            times = strtol(end + 2, &end, 10), end++;
        if (rank < before + tasks * times) {
            hosts_at(list, node + (rank - before) / tasks, host, size);
            return;
        }
        before += tasks * times;
        node += times;
        at = *end == ',' ? end + 1 : NULL;
    }
}
