/* How a rank ends, so that the launcher hands on the code and the words that the run came to. */
#ifndef MEGATRON_ENDING_H
#define MEGATRON_ENDING_H

#include "comm.h"

/* Tell the other ranks to end because of 'err'. Where this comes back, this rank says whose words
 * these are, as the others do. */
void ending_abort(struct comm *comm, struct error *err);

/* Close 'comm' and 'device', of which either may be NULL. 'code' is what train_run will return:
 * where that is one that all ranks have come to, TRAIN_REFUSED (rank 0 says 'err') or
 * TRAIN_ENDED_EARLY, they wait for each other, and from here on SIGTERM ends this process with the
 * exit code for it. */
void ending_close(struct comm *comm, struct device *device, int code, const struct error *err);

#endif
