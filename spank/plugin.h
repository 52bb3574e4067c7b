/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's one context, and its parts: one file or more for each kind of process that loads it.
 *
 *   client*.c  srun, sbatch, salloc: as the user, before anything is queued or launched
 *   daemon.c   slurmd: as root, once
 *   step.c     slurmstepd before it forks the tasks and after they have exited: as root; does not
 *              touch the user's files
 *   task*.c    the forked task: as the user, before it becomes the user's program */
#ifndef MEGATRON_PLUGIN_H
#define MEGATRON_PLUGIN_H

#include <slurm/spank.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/error.h"
#include "settings.h"
#include "share.h"

/* Callbacks that count only once, even if several lines load the plugin. */
enum callback {
    CALLBACK_INIT_POST_OPT,
    CALLBACK_LOCAL_USER_INIT,
    CALLBACK_USER_INIT,
    CALLBACK_TASK_INIT,
    CALLBACK_COUNT
};

struct plugin {
    bool second_copy; /* another copy of the plugin was loaded first */
    unsigned lines;   /* of plugstack.conf that load this copy */
    unsigned calls[CALLBACK_COUNT];
    unsigned exits;
    struct config config;
    struct settings settings;
    /* An error in a callback whose failure would drain a node, or break jobs that do not use the
     * plugin. The next callback that may fail reports it. */
    bool failed;
    struct error failure;
    bool within_job;                   /* srun: the job existed before it and continues after it */
    struct command_line *command_line; /* clients: read once; NULL: not yet */
    unsigned components;               /* clients: of the (het) job, whose options have been read */
    struct settings first;             /* sbatch: the options of the first component */
    bool used;                         /* remote: this is an srun step that requested the plugin */
    struct share *share;
    uint32_t tasks;  /* that share it */
    int lifetime[2]; /* pipe that keeps the container alive; the write end stays here */
};

/* The plugin's version, "0.1.0", and the Slurm version that it was built for, "22.05.8". */
const char *plugin_version_text(void);
const char *plugin_slurm_text(void);

/* Print a warning to the user of a client: "megatron: warning: TEXT". On a node, see task_warn. */
void plugin_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Record an error for later; the first one counts. */
void plugin_defer(struct plugin *plugin, const struct error *err);

/* Exit the process, which is a client. exit() would deadlock: Slurm's handlers would wait for the
 * lock that is held around callbacks. */
void client_leave(int rc) __attribute__((noreturn));

/* Answer --megatron-model=list and exit the process, which is a client. */
void client_list_models(void) __attribute__((noreturn));

int client_init_post_opt(struct plugin *plugin, spank_t spank, struct error *err);
int client_local_user_init(struct plugin *plugin, spank_t spank, struct error *err);

/* After client_local_user_init has failed and the error was reported: exit, or have the step's
 * tasks fail, if the job continues after it. Returns what the callback returns. */
int client_refuse_step(const struct plugin *plugin, spank_t spank);

void client_clear(struct plugin *plugin);

void daemon_init(struct plugin *plugin);

/* Before the fork. Failures are deferred to the tasks. */
void step_user_init(struct plugin *plugin, spank_t spank);

/* After all tasks of the node have exited: if a task failed here, end the step on all nodes; clean
 * up after its image. */
void step_exit(struct plugin *plugin, spank_t spank);

int task_init(struct plugin *plugin, spank_t spank);

#endif
