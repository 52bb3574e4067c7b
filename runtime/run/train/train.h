/* SPDX-License-Identifier: Apache-2.0 */
/* The training run of one rank. */
#ifndef MEGATRON_TRAIN_H
#define MEGATRON_TRAIN_H

#include "arguments.h"
#include "run/checkpoint/checkpoint.h"
#include "engine/comm/comm.h"

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

/* Tell the other ranks to exit because of 'err'. If this returns, this rank prefixes the error with
 * its own rank, as the others do. */
void ending_abort(struct comm *comm, struct error *err);

/* Close 'comm' and 'device', either of which may be NULL. 'code' is what train_run will return. If
 * all ranks agree on it, which is the case for TRAIN_REFUSED (rank 0 prints 'err') and
 * TRAIN_ENDED_EARLY, they wait for each other, and SIGTERM then makes this process exit with the
 * corresponding exit code. */
void ending_close(struct comm *comm, struct device *device, int code, const struct error *err);

#endif
