#include "ending.h"
#include "command.h"
#include "train.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* What libraries have to close a run whose code is settled. */
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

/* A code that all ranks have come to must be that of all, and what they refuse must be said.
 * Launchers end the others by SIGTERM with the first that ends, and srun hands on the highest code,
 * which would be that of the signal. So none ends before rank 0 has spoken and all answer the
 * signal with their code; so does one whose libraries do not let go. */
static void end_together(struct comm *comm, int code, const struct error *err)
{
    struct sigaction action = {.sa_handler = code == TRAIN_REFUSED ? end_refused : end_early};
    struct error ignored;

    if (code == TRAIN_REFUSED && comm->rank == 0)
        fprintf(stderr, "megatron: %s\n", err->text);
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
