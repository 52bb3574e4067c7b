/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes that placement is tested on. */
#ifndef MEGATRON_TEST_TOPOLOGIES_H
#define MEGATRON_TEST_TOPOLOGIES_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "tap.h"
#include "lib/topology.h"

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

/* Exports of real nodes, in the directory that MEGATRON_TEST_TOPOLOGIES names. */
static const char *const real_nodes[] = {"coral-lassen", "cts1-pascal", "g4dnmetal",
                                         "jureca-dc-gpu", "juwels-booster"};

enum {
    OWN_NODES = sizeof(own_nodes) / sizeof(own_nodes[0]),
    REAL_NODES = sizeof(real_nodes) / sizeof(real_nodes[0]),
};

__attribute__((unused)) static const char *node_path(const char *name, int real)
{
    static char path[4096];

    if (real)
        snprintf(path, sizeof(path), "%s/%s.xml", getenv("MEGATRON_TEST_TOPOLOGIES"), name);
    else
        snprintf(path, sizeof(path), "%s/t/topologies/%s.xml", TOP_SRCDIR, name);
    return path;
}

/* NULL if the file of a real node is missing, or if it cannot be read, with a message. */
__attribute__((unused)) static struct topology *read_node(const char *name, int real)
{
    struct error err = {.text = ""};
    struct topology *topology;

    if (real && (!getenv("MEGATRON_TEST_TOPOLOGIES") || access(node_path(name, 1), R_OK) < 0))
        return NULL;
    topology = topology_load(node_path(name, real), &err);
    if (!topology)
        printf("# %s\n", err.text);
    return topology;
}

/* A node whose file is missing: a skipped test if it is a real one, else a failed one. */
__attribute__((unused)) static void missing_node(const char *name, int real)
{
    if (real)
        skip(name, "no such file in MEGATRON_TEST_TOPOLOGIES");
    else
        ok(0, "%s is read", name);
}

#endif
