/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron preflight`: every rank of a job tests its node and device, rank 0 compares and names
 * the faulty nodes.
 *
 *     struct preflight_options options = {.root = "", .scratch = "/tmp", .timeout = 20};
 *     struct findings findings = {0};
 *
 *     if (preflight_run(&options, &world, &findings, &nodes, err) == 0 && world.rank == 0)
 *         findings_print(&findings, false, stdout);
 *     findings_clear(&findings);
 */
#ifndef MEGATRON_PREFLIGHT_H
#define MEGATRON_PREFLIGHT_H

#include "findings.h"
#include "run/plan/machine.h"
#include "engine/parallel/ranks.h"
#include "base/core/world.h"

struct preflight_options {
    int full; /* about 30 s instead of 8 */
    enum device_choice device;
    const char *root;                /* of /proc, /sys and /dev; "" is the machine itself */
    const char *shared, *scratch;    /* directories; shared NULL: do not test */
    int scratch_named;               /* by the user rather than by default */
    const struct machines *machines; /* to find the node's kind */
    const char *kind;                /* NULL: by the product name of the machine */
    double timeout;                  /* seconds after which a rank that does not answer is dead */
};

/* Run all tests. On rank 0 'findings' gets the verdicts, sorted, and 'nodes' the number of nodes
 * of the job, also of those that did not answer; on other ranks they stay empty. Returns 0 or -1.
 */
int preflight_run(const struct preflight_options *options, const struct world *world,
                  struct findings *findings, int *nodes, struct error *err);

#endif
