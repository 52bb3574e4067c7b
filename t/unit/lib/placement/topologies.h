/* The nodes that placement is tested on. */
#ifndef MEGATRON_TEST_TOPOLOGIES_H
#define MEGATRON_TEST_TOPOLOGIES_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "topology.h"

/* Our own, in t/topologies. */
static const char *const own_nodes[] = {"amd",
                                        "cpu-only",
                                        "dgx",
                                        "four-numa",
                                        "hgx4",
                                        "omnipath",
                                        "one-gpu",
                                        "p4d-flat",
                                        "p4d.24xlarge",
                                        "p5.48xlarge",
                                        "p5en.48xlarge",
                                        "p6-b200.48xlarge",
                                        "p6-b300.48xlarge",
                                        "slingshot",
                                        "subnuma",
                                        "uneven"};

/* Exports of real nodes, beside the repository where they are present. */
static const char *const real_nodes[] = {"coral-lassen", "cts1-pascal", "g4dnmetal",
                                         "jureca-dc-gpu", "juwels-booster"};

enum {
    OWN_NODES = sizeof(own_nodes) / sizeof(own_nodes[0]),
    REAL_NODES = sizeof(real_nodes) / sizeof(real_nodes[0]),
};

__attribute__((unused)) static const char *node_path(const char *name, int real)
{
    static char path[4096];

    snprintf(path, sizeof(path), "%s/%s/%s.xml", TOP_SRCDIR,
             real ? "../shared/topologies" : "t/topologies", name);
    return path;
}

/* NULL where a real node's file is not there, or with a failure that is shown. */
__attribute__((unused)) static struct topology *read_node(const char *name, int real)
{
    struct error err = {.text = ""};
    struct topology *topology;

    if (real && access(node_path(name, 1), R_OK) < 0)
        return NULL;
    topology = topology_load(node_path(name, real), &err);
    if (!topology)
        printf("# %s\n", err.text);
    return topology;
}

#endif
