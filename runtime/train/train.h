/* The training run of one rank. */
#ifndef MEGATRON_TRAIN_H
#define MEGATRON_TRAIN_H

#include "arguments.h"
#include "checkpoint.h"

/* Exit code of a run that ended before its last step, saved where --save is given, and would go on
 * if started again (EX_TEMPFAIL of sysexits.h). */
#define TRAIN_ENDED_EARLY 75

/* What a run leaves in the directory of --save when its ranks have met, and when it has come to its
 * end: a launcher may say that all went well where nothing ran. */
#define TRAIN_BEGUN ".begun"
#define TRAIN_DONE  ".done"

/* All ranks found that these options do not go with the checkpoint: another start would not help.
 * Rank 0 has said so. */
#define TRAIN_REFUSED CHECKPOINT_REFUSED

/* Train as 'arguments' (derived) say. Log lines go to standard output on the rank that prints them.
 * Returns 0 at the end of training, TRAIN_ENDED_EARLY, TRAIN_REFUSED, or -1 with a sentence, with
 * which other ranks are told to end. */
int train_run(const struct arguments *arguments, const struct world *world, struct error *err);

/* --dry-run: print the plan of all ranks. */
int train_dry_run(const struct arguments *arguments, struct error *err);

#endif
