/* SPDX-License-Identifier: Apache-2.0 */
/* How a rank exits, so that the launcher returns the run's exit code and shows its error message.
 */
#ifndef MEGATRON_ENDING_H
#define MEGATRON_ENDING_H

#include "engine/comm/comm.h"

/* Tell the other ranks to exit because of 'err'. If this returns, this rank prefixes the error with
 * its own rank, as the others do. */
void ending_abort(struct comm *comm, struct error *err);

/* Close 'comm' and 'device', either of which may be NULL. 'code' is what train_run will return. If
 * all ranks agree on it, which is the case for TRAIN_REFUSED (rank 0 prints 'err') and
 * TRAIN_ENDED_EARLY, they wait for each other, and SIGTERM then makes this process exit with the
 * corresponding exit code. */
void ending_close(struct comm *comm, struct device *device, int code, const struct error *err);

#endif
