/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of a task's start; task.c explains how they work together. */
#ifndef MEGATRON_TASK_PRIVATE_H
#define MEGATRON_TASK_PRIVATE_H

#include "facts.h"
#include "place.h"
#include "plugin.h"

struct task {
    struct plugin *plugin;
    spank_t spank;
    struct facts facts;
    struct place_notes notes;
    bool arrived; /* it was counted in: the other tasks of the node no longer wait for it */
    bool inside;  /* it sees the image's files */
};

/* The name of a process decides whether Slurm's signals reach it: proctrack/linuxproc never signals
 * a process called slurmstepd, which is a task's name until it executes the user's program. A task
 * that waits uses one of these names meanwhile, so that scancel, and the signals that another
 * node sends on failure, can terminate it. */
#define TASK_NAME_IMAGE "megatron-image" /* waits for the container, or gets the image */
#define TASK_NAME_WAIT  "megatron-wait"  /* waits until another task has reported an error */

/* Change the process name; 'before' (17 bytes) gets the old one. */
void task_rename(const char *name, char before[17]);
void task_restore_name(const char before[17]);

/* task_fail.c: report 'err' once for the node and end the step on all nodes. Returns -1. */
int task_fail(struct task *task, const struct error *err);

/* task_decide.c: in the last task to arrive, decide for all tasks of the node. Returns 0 or -1. */
int task_decide(struct task *task, struct error *err);

/* Print a line of this node to the user: "megatron: NODE: TEXT" or "megatron: NODE: warning: TEXT".
 */
void task_note(const struct task *task, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void task_warn(const struct task *task, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* task_container.c: start the container in the leader, and wait for it in the others; then
 * adopt its environment. Join it as the last thing before the user's program. Both return 0 or -1.
 */
int task_open_container(struct task *task, struct error *err);
int task_enter_container(struct task *task, struct error *err);

/* The handler of SIGTERM and CONTROLLER_END_START while a task starts. */
void task_on_terminate(int number);

#endif
