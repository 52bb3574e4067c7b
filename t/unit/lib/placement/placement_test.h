/* SPDX-License-Identifier: Apache-2.0 */
/* The tests of placement, called by main() in placement.c. */
#ifndef MEGATRON_PLACEMENT_TEST_H
#define MEGATRON_PLACEMENT_TEST_H

#include "lib/placement.h"

/* A task as text: "gpus | nics | cpus | numa". */
void format_task(const struct placement_task *task, char *text, size_t size);

/* For requests, in placement_request.c. */
void test_errors(void);
void test_values(void);
void test_gpu_lists(void);

/* For tasks, in placement_tasks.c. */
void test_instances(void);
void test_overrides(void);
void test_starved(void);
void test_node_facts(void);

#endif
