/* Which of several ways to compute the same a device has chosen by timing, agreed between the
 * ranks and kept beside the checkpoints: a run in deterministic mode that is resumed, on whatever
 * node, computes with the same bits. */
#ifndef MEGATRON_CHOICES_H
#define MEGATRON_CHOICES_H

#include "parallel.h"

/* Lines "key value" of all texts, the first of each key, as a text to free; NULL without memory. */
char *choices_merge(const char *const *texts, size_t count);

/* Does 'text' choose otherwise than 'other' for any key that both have, or not at all? */
int choices_differ(const char *text, const char *other);

/* Before any plan is made: let the devices of all ranks take what was chosen by the run that saved
 * in 'directory', if it kept anything; it is in 'restored' then, to free, else NULL. Where there is
 * nothing but choices of another kind of GPU they are left alone, and rank 0 says so. Collective.
 */
int choices_restore(const struct parallel *parallel, struct device *device, const char *directory,
                    char **restored, struct error *err);

/* After the plans are made: let all devices take the choices of the first rank of each stage, and
 * this one 'remember' them for later runs: one rank of each node is enough. 'again' is set on all
 * ranks if the plans of any must be made anew. With 'restored' (or NULL) rank 0 says if that was
 * not enough to choose by. Collective. */
int choices_agree(const struct parallel *parallel, struct device *device, const char *restored,
                  int remember, int *again, struct error *err);

/* Keep what rank 0 has chosen, which is what all have after choices_agree, in 'directory'. What was
 * kept there for another kind of GPU stays, under another name. */
int choices_keep(const struct parallel *parallel, struct device *device, const char *directory,
                 struct error *err);

#endif
