/* SPDX-License-Identifier: Apache-2.0 */
/* Algorithms that a device chose by timing (autotuning), agreed between the ranks and saved next to
 * the checkpoints: a run in deterministic mode that is resumed on any node computes bit-identical
 * results. */
#ifndef MEGATRON_CHOICES_H
#define MEGATRON_CHOICES_H

#include <stdbool.h>

#include "engine/parallel/parallel.h"

/* Merge the lines "key value" of all texts, keeping the first of each key. The caller frees the
 * result. */
char *choices_merge(const char *const *texts, size_t count);

/* Does 'text' differ from 'other' for any key of 'other', or lack it? */
bool choices_differ(const char *text, const char *other);

/* Before any plan is created: make the devices of all ranks use the choices saved in 'directory',
 * if any; 'restored' then holds them and the caller frees it, else it is NULL. If there are only
 * choices for another GPU model they are not used, and rank 0 prints a warning. Collective. */
int choices_restore(const struct parallel *parallel, struct device *device, const char *directory,
                    char **restored, struct error *err);

/* After the plans are created: make all devices use the choices of the first rank of each stage,
 * and store them for later runs if 'remember' is set (one rank per node is enough). 'again' is set
 * on all ranks if any rank must recreate its plans. If 'restored' (or NULL) did not cover all
 * choices, rank 0 prints a warning. Collective. */
int choices_agree(const struct parallel *parallel, struct device *device, const char *restored,
                  int remember, int *again, struct error *err);

/* Save rank 0's choices, which all ranks share after choices_agree, in 'directory'. Choices saved
 * there for another GPU model are renamed. */
int choices_keep(const struct parallel *parallel, struct device *device, const char *directory,
                 struct error *err);

#endif
