/* SPDX-License-Identifier: Apache-2.0 */
/* A record of the data options next to the checkpoints, so that a resumed run with other data is
 * noticed: its samples would not continue where the run stopped. */
#ifndef MEGATRON_DATA_RECORD_H
#define MEGATRON_DATA_RECORD_H

#include "arguments.h"

/* Compare the options and the seed in use with the record in --load, if there is one, and warn
 * about what differs; then write the record to --save. Training does not need it: a failure is only
 * a warning. One rank calls it when the run is sure to start: one that is refused must not change
 * the record.
 */
void data_record_keep(const struct arguments *arguments, uint64_t seed);

#endif
