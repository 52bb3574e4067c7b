/* SPDX-License-Identifier: Apache-2.0 */
#include "base/core/command.h"
#include "base/core/log.h"
#include "train.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* Seconds that libraries have to shut down once the exit code is decided. */
enum { CLOSE_SECONDS = 20 };

void ending_abort(struct comm *comm, struct error *err)
{
    comm_abort(comm, err->text);
    if (comm->size > 1 && err->code != ERROR_RANK)
        error_prefix(err, "rank %d", comm->rank);
}

static void end_refused(int number)
{
    (void)number;
    _exit(EXIT_USAGE);
}

static void end_early(int number)
{
    (void)number;
    _exit(TRAIN_ENDED_EARLY);
}

/* An exit code that all ranks agree on must be that of every rank, and rank 0 must print the error.
 * A launcher sends SIGTERM to the other ranks when the first one exits, and srun returns the
 * highest exit code, which would be that of the signal. So no rank exits before rank 0 has printed
 * the error, and all ranks answer SIGTERM by exiting with that code; so does one whose libraries
 * hang in shutdown. */
static void end_together(struct comm *comm, int code, const struct error *err)
{
    struct sigaction action = {.sa_handler = code == TRAIN_REFUSED ? end_refused : end_early};
    struct error ignored;

    if (code == TRAIN_REFUSED && comm->rank == 0)
        log_error("%s", err->text);
    fflush(stdout);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    comm_host_gather(comm, NULL, NULL, 0, &ignored);
    alarm(CLOSE_SECONDS);
}

void ending_close(struct comm *comm, struct device *device, int code, const struct error *err)
{
    if (code == TRAIN_REFUSED || code == TRAIN_ENDED_EARLY)
        end_together(comm, code, err);
    comm_close(comm);
    device_close(device);
    alarm(0);
}
