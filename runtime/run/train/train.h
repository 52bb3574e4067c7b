/* SPDX-License-Identifier: Apache-2.0 */
/* The training run of one rank. */
#ifndef MEGATRON_TRAIN_H
#define MEGATRON_TRAIN_H

#include "arguments.h"
#include "run/checkpoint/checkpoint.h"

/* Exit code of a run that ended before its last iteration, saved a checkpoint if --save is given,
 * and would continue if started again (EX_TEMPFAIL of sysexits.h). */
#define TRAIN_ENDED_EARLY 75

/* Files that a run writes to the --save directory when all ranks are connected, and when it is
 * finished: a launcher may report success although nothing ran. */
#define TRAIN_BEGUN ".begun"
#define TRAIN_DONE  ".done"

/* Set by `megatron supervise`. With it, a run writes its arguments to the second in the --save
 * directory unless it exists, and else prints only those that differ. */
#define TRAIN_SUPERVISED "MEGATRON_SUPERVISED"
#define TRAIN_ARGUMENTS  ".arguments"

/* All ranks found that the options do not match the checkpoint or data: another attempt would fail,
 * too. Rank 0 has printed the error. */
#define TRAIN_REFUSED CHECKPOINT_REFUSED

/* Train as specified by 'arguments' (derived). The logging rank writes log lines to standard
 * output. Returns 0 at the end of training, TRAIN_ENDED_EARLY, TRAIN_REFUSED, or -1; other ranks
 * are told to exit with the same error. */
int train_run(const struct arguments *arguments, const struct world *world, struct error *err);

/* --dry-run: print the plan of all ranks. */
int train_dry_run(const struct arguments *arguments, struct error *err);

#endif
