/* SPDX-License-Identifier: Apache-2.0 */
/* The MPI backend for CPU ranks: creating and destroying the world and its groups; collectives are
 * in mpi_operations.c. Blocking MPI calls are guarded (guard.h): a rank that waits for too long
 * prints a message and exits. MPI may never notice that a rank was lost with its slurmstepd or its
 * node, but the TCP connections to rank 0 (star.h) do. */
#include "mpi_world.h"
#include "guard.h"
#include "launcher.h"
#include "base/core/log.h"
#include "mpi_star.h"
#include "lib/clock.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A rank that was told the reason is also being terminated by the launcher; it reports and exits by
 * itself only if that fails. */
#define TOLD_SECONDS 5.0

/* For an error to reach main(), which aborts all ranks. */
#define GRACE_SECONDS 10.0

/* When a connection closes, Open MPI 5 exits from within any MPI call, and its message gets lost
 * under srun. This delay, which is longer than the others, lets the watch report the lost rank and
 * abort all ranks instead; main() cannot, because the call does not return. */
#define EXIT_DELAY       "OMPI_MCA_mpi_abort_delay"
#define EXIT_DELAY_GRACE 4.0

enum { GRACE = 3 }; /* seconds that rank 0 has to abort all ranks before another rank does */

enum {
    ABORT_SECONDS = 15
}; /* that an abort may take: with GRACE, and until standard error is read */

static struct comm_group *group_create(struct comm *base, const char *name, const int *ranks,
                                       int count, struct error *err)
{
    struct mpi_group *group = calloc(1, sizeof(*group));
    struct guard *guard;
    int rc;

    if (!group) {
        error_set(err, "out of memory");
        return NULL;
    }
    guard = guard_begin(
        base->deadline, err,
        "rank %d: creating the %s groups of %d ranks timed out after %.0f s at step "
        "%lld; another rank has ended or hangs: see the output of the other ranks, or %s",
        base->rank, name, base->size, base->deadline, (long long)comm_step(base), base->longer);
    if (!guard) {
        free(group);
        return NULL;
    }
    group->base.comm = base;
    group->base.size = count;
    snprintf(group->base.name, sizeof(group->base.name), "%s", name);
    /* Groups of one call do not overlap, so the first rank identifies them. */
    rc = MPI_Comm_split(MPI_COMM_WORLD, count > 0 ? ranks[0] : MPI_UNDEFINED, base->rank,
                        &group->comm);
    guard_end(guard);
    if (rc != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING] = "";
        int length;

        MPI_Error_string(rc, text, &length);
        error_set(err,
                  "rank %d: MPI cannot create the communicator of the %s group: %.200s; see the "
                  "output of the other ranks, and check MPI with `megatron comm-test`",
                  base->rank, name, text);
        free(group);
        return NULL;
    }
    if (count > 0) {
        MPI_Comm_rank(group->comm, &group->base.rank);
        MPI_Comm_set_errhandler(group->comm, MPI_ERRORS_RETURN);
    }
    return &group->base;
}

/* The run is over; a rank that hangs in shutdown must still report that and exit. */
static struct guard *guard_at_end(const struct mpi_comm *comm)
{
    struct error ignored;

    return guard_begin(comm->cpu.base.deadline, &ignored,
                       "rank %d: not all of the %d ranks reached the end within %.0f s; another "
                       "rank has ended or hangs: see the output of the other ranks, or %s",
                       comm->cpu.base.rank, comm->cpu.base.size, comm->cpu.base.deadline,
                       comm->cpu.base.longer);
}

static void group_destroy(struct comm_group *base)
{
    struct mpi_group *group = (struct mpi_group *)base;
    struct mpi_comm *comm = (struct mpi_comm *)base->comm;

    /* Freeing waits for the other ranks, which may have exited. */
    if (group->comm != MPI_COMM_NULL && !comm->cpu.failed) {
        struct guard *guard = guard_at_end(comm);

        MPI_Comm_free(&group->comm);
        guard_end(guard);
    }
    free(group->space);
    free(group);
}

static void abort_all(struct comm *base, const char *reason)
{
    struct mpi_comm *comm = (struct mpi_comm *)base;
    struct error ignored;
    struct guard *guard;

    /* The watch may have begun to abort while main() has, or the other way round. */
    if (atomic_exchange(&comm->aborting, 1)) {
        clock_sleep(2 * ABORT_SECONDS);
        _exit(1);
    }
    guard = guard_begin(ABORT_SECONDS, &ignored,
                        "rank %d: MPI_Abort did not end the other ranks; this one exits alone; end "
                        "them with scancel",
                        base->rank);
    fflush(stdout);
    /* Rank 0 reports a failure of all ranks: the others are ended before they would report it. */
    if (base->rank > 0)
        clock_sleep(GRACE);
    log_error("rank %d aborts all ranks: %s", base->rank, reason);
    log_drain();
    if (comm->cpu.star)
        star_abort(comm->cpu.star, reason);
    if (launcher_abort() < 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    guard_end(guard);
    _exit(1);
}

static void close_comm(struct comm *base)
{
    struct mpi_comm *comm = (struct mpi_comm *)base;
    struct error ignored;

    /* MPI_Finalize waits for all ranks without a deadline, so call it only if all ranks have
     * reached this point. */
    if (comm->started_mpi && !comm->cpu.failed &&
        comm_host_gather(base, NULL, NULL, 0, &ignored) == 0) {
        struct guard *guard = guard_at_end(comm);

        mpi_destroy_operators(comm);
        MPI_Finalize();
        guard_end(guard);
    }
    cpu_comm_clear(&comm->cpu);
    free(comm);
}

static void on_lost(void *context, const char *text)
{
    struct mpi_comm *comm = context;

    cpu_fail(&comm->cpu, "at step %lld: %s", (long long)comm_step(&comm->cpu.base), text);
}

static void on_over(void *context)
{
    struct mpi_comm *comm = context;

    abort_all(&comm->cpu.base, comm->cpu.failure.text);
}

/* Does MPI exit by itself when a rank is lost? */
static bool mpi_exits(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length, release = 0;

    MPI_Get_library_version(text, &length);
    return sscanf(text, "Open MPI v%d", &release) == 1 && release >= 5;
}

/* Watch the other ranks. If they cannot be reached, the run continues without: deadlines remain. */
static int watch_others(struct mpi_comm *comm, const struct comm_options *options,
                        struct error *err)
{
    if (mpi_star(options, &comm->cpu.star, &comm->cpu.base.warning, err) < 0)
        return -1;
    if (comm->cpu.star)
        comm->cpu.watch = watch_begin(
            comm->cpu.star, options->rank,
            &(struct watch_options){.told = TOLD_SECONDS,
                                    .grace = mpi_exits() ? EXIT_DELAY_GRACE : GRACE_SECONDS,
                                    .lost = on_lost,
                                    .over = on_over,
                                    .context = comm},
            err);
    return comm->cpu.star && !comm->cpu.watch ? -1 : 0;
}

static int start_mpi(const struct comm_options *options, int *started, struct error *err)
{
    int initialized = 0, provided, rank, size, rc = MPI_SUCCESS, met = 0;

    MPI_Initialized(&initialized);
    if (!initialized && launcher_missing()) {
        error_set(err, "srun started the ranks without PMIx, which MPI needs to connect them; use "
                       "`srun --mpi=pmix`, or set MpiDefault=pmix in slurm.conf");
        if (options->rank > 0)
            error_silence(err); /* rank 0 prints it */
        return -1;
    }
    if (!initialized) {
        struct guard *guard = guard_begin(
            options->deadline, err,
            "rank %d of %d: MPI_Init did not return within %.0f s; another rank has ended, "
            "hangs or was not started: see the output of the other ranks",
            options->rank, options->size, options->deadline);

        if (!guard)
            return -1;
        /* The delay holds for MPI_Abort, too. */
        if (mpi_exits() && launcher_can_abort())
            setenv(EXIT_DELAY, "60", 0);
        rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
        if (rc == MPI_SUCCESS)
            met = launcher_barrier(err);
        guard_end(guard);
    }
    if (rc != MPI_SUCCESS)
        return error_set(err, "cannot initialize MPI; see its own messages above, and check that "
                              "`srun --mpi=list` has pmix");
    if (met < 0)
        return -1;
    *started = !initialized;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank != options->rank || size != options->size)
        return error_set(
            err,
            "the environment variables say rank %d of %d, but MPI says %d of %d; start the ranks "
            "with `srun --mpi=pmix` or mpirun",
            options->rank, options->size, rank, size);
    return 0;
}

__attribute__((visibility("default"))) comm_backend_open_function comm_backend_open;

struct comm *comm_backend_open(const struct comm_options *options, struct error *err)
{
    struct mpi_comm *comm = calloc(1, sizeof(*comm));

    if (!comm) {
        error_set(err, "out of memory");
        return NULL;
    }
    cpu_comm_init(&comm->cpu, "mpi", options);
    comm->cpu.base.close = close_comm;
    comm->cpu.base.group_create = group_create;
    comm->cpu.base.group_destroy = group_destroy;
    comm->cpu.base.abort = abort_all;
    mpi_set_operations(comm);
    /* Last: from now on the watch may report a lost rank. */
    if (start_mpi(options, &comm->started_mpi, err) < 0 || mpi_create_operators(comm, err) < 0 ||
        watch_others(comm, options, err) < 0) {
        cpu_comm_clear(&comm->cpu);
        free(comm);
        return NULL;
    }
    return &comm->cpu.base;
}
