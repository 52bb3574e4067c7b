/* The words of a run that is started again and again. */
#ifndef MEGATRON_SUPERVISE_H
#define MEGATRON_SUPERVISE_H

#include <stddef.h>

#include "error.h"

/* The value of an option among the words of a command; the last one counts. NULL: not there. */
const char *words_value(const char *const *words, const char *name);

/* The words of the command for a run that has a checkpoint of its own in 'save': it goes on from
 * that, or from that of the iteration 'step' (NULL: the newest), not from where it once began.
 * Caller must free; NULL: out of memory. */
const char **words_resumed(const char *const *words, size_t count, const char *save,
                           const char *step);

/* Let 'step' be the iteration that the run is to go back to by --ckpt-step: as long as it has saved
 * nothing since that was first asked for. A file beside the checkpoints keeps that over a requeue.
 * NULL: none. Says what it decides. */
int words_step(const char *const *words, const char *save, const char **step, struct error *err);

#endif
