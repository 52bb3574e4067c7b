/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advice.h"

/* The user's kind of nodes, or the administrator's. 'source' says where it is set. */
static const char *node_kind(const struct plugin *plugin, const char **source)
{
    const char *kind = getenv("MEGATRON_NODE_KIND");

    *source = kind && kind[0] ? "MEGATRON_NODE_KIND" : "plugstack.conf: node_kind";
    return kind && kind[0] ? kind : plugin->config.node_kind;
}

void client_warn_memory(const struct plugin *plugin, const struct counts *counts)
{
    const struct settings *settings = &plugin->settings;
    const char *source, *kind = node_kind(plugin, &source);
    struct advice advice;

    advice_plan(settings, counts, kind, &advice);
    if (advice.bad_nodes)
        plugin_warn("%s=%s: the job is not planned: %s", source, kind, advice.problem);
    if (!advice.known || advice.fits)
        return;
    plugin_warn("%s with tp %lld, pp %lld, cp %lld: %s", settings->model->name,
                (long long)settings->layout.tp, (long long)settings->layout.pp,
                (long long)settings->layout.cp, advice.problem);
    if (advice.better.tp > 0)
        slurm_spank_log("megatron: --megatron-tp=%lld --megatron-pp=%lld --megatron-cp=%lld fits",
                        (long long)advice.better.tp, (long long)advice.better.pp,
                        (long long)advice.better.cp);
}

bool client_print_plan(const struct plugin *plugin, const struct counts *counts)
{
    const char *source, *kind = node_kind(plugin, &source);
    struct advice advice;
    char *rest = advice.plan, *line;

    advice_plan(&plugin->settings, counts, kind, &advice);
    if (!advice.fits && advice.problem[0])
        printf("  plan         %s%s\n", advice.known ? "" : "not made: ", advice.problem);
    if (!advice.known)
        return false;
    if (!advice.fits && advice.better.tp > 0)
        printf("  plan         --megatron-tp=%lld --megatron-pp=%lld --megatron-cp=%lld fits\n",
               (long long)advice.better.tp, (long long)advice.better.pp,
               (long long)advice.better.cp);
    while (advice.fits && (line = strsep(&rest, "\n")))
        if (line[0])
            printf("  plan         %s\n", line);
    return !advice.fits;
}
