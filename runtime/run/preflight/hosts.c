/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "preflight_private.h"
#include "engine/comm/hostlist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    else if (!list || hostlist_at(list, 0, host, size) < 0)
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
            hostlist_at(list, node + (rank - before) / tasks, host, size);
            return;
        }
        before += tasks * times;
        node += times;
        at = *end == ',' ? end + 1 : NULL;
    }
}
