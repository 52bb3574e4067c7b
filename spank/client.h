/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the files of srun, sbatch and salloc:
 *
 *   client.c          what happens before a job is queued or a step is launched, in order
 *   client_request.c  what the command line, the script and the environment request
 *   client_image.c    --megatron-image: what can be checked or imported here
 *   client_plan.c     what `megatron plan` says about the job
 *   client_step.c     srun, when the step exists */
#ifndef MEGATRON_CLIENT_H
#define MEGATRON_CLIENT_H

#include "checks.h"
#include "plugin.h"
#include "request.h"

/* --- client_request.c ------------------------------------------------------------------------ */

enum program client_program(void);

/* Is this long option, of Slurm or of another plugin, on the command line? */
bool client_has_option(struct plugin *plugin, const char *option);

/* What the command line, the script and variables request. Outside an allocation, variables count
 * as explicit options. Inside one they describe the allocation, which a step need not use in full,
 * so they count only with 'allocated'. */
void client_request(struct plugin *plugin, bool allocated, struct request *request);

/* The tasks, nodes and GPUs that 'request' amounts to, without the nodes of MEGATRON_SPARES. */
void client_counts(const struct request *request, struct counts *counts);

/* Is this a component of a heterogeneous job? Its client knows the counts of that component only;
 * the tasks of all are checked on the nodes. */
bool client_is_het(const struct request *request);

/* A remedy for an error of the layout, if a step has inherited it from its job: not every step has
 * ranks. */
void client_advise_inherited(const struct plugin *plugin, const struct request *request,
                             struct error *err);

/* --- client_image.c, client_plan.c ----------------------------------------------------------- */

/* Reject or prepare the image of the job. Returns 0 or -1. */
int client_image(struct plugin *plugin, struct error *err);

/* Warn if the model does not fit. A job that cannot fit should not wait in a queue for that. It is
 * only a warning: options of the training program, which are not known here, change the memory that
 * it needs. */
void client_warn_memory(const struct plugin *plugin, const struct counts *counts);

/* For --megatron-check: print the plan. Returns whether the model is known not to fit. */
bool client_print_plan(const struct plugin *plugin, const struct counts *counts);

#endif
