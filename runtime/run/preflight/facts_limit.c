/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of other ranks may be anything: texts get an end, counts stay within their arrays, and sums
 * and differences of the other numbers do not overflow. */
#include "facts.h"

#define END_TEXT(text)   ((text)[sizeof(text) - 1] = '\0')
#define MOST_NUMBER      1000000
#define MOST_WIDE_NUMBER ((int64_t)1 << 53)

/* -1 is "unknown" in many places. */
static void limit(int32_t *number, int32_t most)
{
    *number = *number < -1 ? -1 : *number > most ? most : *number;
}

void facts_limit_number(int64_t *number)
{
    *number = *number < -1 ? -1 : *number > MOST_WIDE_NUMBER ? MOST_WIDE_NUMBER : *number;
}

void facts_limit_counters(struct counter_facts *counters)
{
    limit(&counters->count, FACTS_PORTS);
    for (int i = 0; i < FACTS_PORTS; i++) {
        struct port_counters *port = &counters->ports[i];

        END_TEXT(port->device);
        port->errors %= MOST_WIDE_NUMBER;
        port->downs %= MOST_WIDE_NUMBER;
    }
}

void facts_limit_gpus(struct gpu_state gpus[FACTS_GPUS])
{
    for (struct gpu_state *gpu = gpus; gpu < gpus + FACTS_GPUS; gpu++) {
        END_TEXT(gpu->bus);
        limit(&gpu->links_up, MOST_NUMBER);
        limit(&gpu->links_down, MOST_NUMBER);
        facts_limit_number(&gpu->link_errors);
    }
}

void facts_limit(struct facts *facts)
{
    struct node_facts *node = &facts->node;

    END_TEXT(facts->host);
    END_TEXT(facts->model);
    END_TEXT(node->kind);
    END_TEXT(node->program);
    END_TEXT(node->driver);
    END_TEXT(node->nccl);
    END_TEXT(node->first_down);
    END_TEXT(node->nvml);
    END_TEXT(node->address.hosts);
    limit(&node->gpu_count, FACTS_GPUS);
    limit(&node->xid_count, FACTS_XIDS);
    for (int i = 0; i < FACTS_XIDS; i++)
        END_TEXT(node->xids[i].bus);
    facts_limit_gpus(node->gpu);
    facts_limit_counters(&node->before);
}
