/* SPDX-License-Identifier: Apache-2.0 */
/* The NCCL watchdog, without a GPU: NCCL and CUDA are functions of this file, in which collectives
 * finish at once, hang or fail as a case requires. Two processes are the ranks. */
#include "engine/comm/comm.h"
#include "tap.h"

#include <arpa/inet.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- What NCCL and CUDA do in this process --------------------------------------------------- */

static struct {
    int hang;                      /* collectives never finish */
    int stuck;                     /* and do not even start */
    int full;                      /* a stream accepts nothing more until an abort */
    int starting;                  /* initialization never finishes */
    ncclResult_t result, reported; /* of a collective immediately; of the group, later */
    const char *more;              /* NCCL's last error */
    int open, aborted;             /* communicators */
    int inside;                    /* threads inside a call */
    int crossed;                   /* two were inside at once, or one entered after the abort */
} fake;

static char communicators[8];

/* Every call that uses a communicator; NCCL requires the caller to make one at a time. */
static void enter(void)
{
    if (__atomic_fetch_add(&fake.inside, 1, __ATOMIC_ACQ_REL) > 0 ||
        __atomic_load_n(&fake.aborted, __ATOMIC_ACQUIRE) > 0)
        fake.crossed = 1;
    usleep(20);
    __atomic_fetch_sub(&fake.inside, 1, __ATOMIC_ACQ_REL);
}

static ncclResult_t make(ncclComm_t *comm)
{
    *comm = (ncclComm_t)(void *)&communicators[fake.open++];
    return ncclInProgress;
}

static ncclResult_t collective(void)
{
    enter();
    return fake.result ? fake.result : ncclInProgress;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 'i', sizeof(*id));
    return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    ncclUniqueId same;

    (void)size;
    ncclGetUniqueId(&same);
    if (config->blocking || memcmp(&id, &same, sizeof(id)) != 0)
        return ncclInvalidArgument;
    if (fake.starting && rank == 1)
        raise(SIGKILL);
    return make(comm);
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *made,
                           ncclConfig_t *config)
{
    (void)comm, (void)key, (void)config;
    enter();
    if (fake.stuck)
        return ncclInProgress;
    return color == NCCL_SPLIT_NOCOLOR ? ncclSuccess : make(made);
}
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    (void)comm;
    __atomic_add_fetch(&fake.aborted, 1, __ATOMIC_RELEASE);
    return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *result)
{
    int world = (char *)comm == communicators;

    enter();
    *result = fake.stuck || fake.starting ? ncclInProgress : world ? ncclSuccess : fake.reported;
    return ncclSuccess;
}
const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclRemoteError ? "remote error" : "another error";
}
const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return fake.more;
}
ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    (void)from, (void)to, (void)count, (void)type, (void)op, (void)comm, (void)stream;
    return collective();
}
ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    (void)from, (void)to, (void)count, (void)type, (void)comm, (void)stream;
    return collective();
}
ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    (void)from, (void)to, (void)count, (void)type, (void)op, (void)comm, (void)stream;
    return collective();
}
ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    (void)from, (void)to, (void)count, (void)type, (void)root, (void)comm, (void)stream;
    return collective();
}
ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    (void)from, (void)count, (void)type, (void)peer, (void)comm, (void)stream;
    return ncclSuccess;
}
ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    (void)to, (void)count, (void)type, (void)peer, (void)comm, (void)stream;
    return ncclSuccess;
}
/* The header declares them without parameters, which is not a prototype. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

ncclResult_t ncclGroupStart(void)
{
    return ncclSuccess;
}
ncclResult_t ncclGroupEnd(void)
{
    return collective();
}
ncclResult_t ncclCommRegister(const ncclComm_t comm, void *memory, size_t bytes, void **handle)
{
    (void)comm, (void)memory, (void)bytes, (void)handle;
    return ncclInvalidUsage;
}
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    (void)comm, (void)handle;
    return ncclSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device)
{
    (void)device;
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = (cudaEvent_t)(void *)communicators;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)event, (void)stream;
    while (fake.full && __atomic_load_n(&fake.aborted, __ATOMIC_ACQUIRE) == 0)
        usleep(1000);
    return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    (void)event;
    return fake.hang ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    (void)event;
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    (void)stream;
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

/* --- A rank ---------------------------------------------------------------------------------- */

comm_backend_open_function comm_backend_open;

static char device_text[1024];

static void device_failed(struct device *device, const struct error *failure)
{
    (void)device;
    snprintf(device_text, sizeof(device_text), "%s", failure->text);
}

static void *no_stream(struct device_stream *stream)
{
    (void)stream;
    return NULL;
}

enum trouble { NO_TROUBLE, STARTS, DIES, HANGS, FULL, CUT, STUCK, REFUSED, REPORTED, TOLD };

struct scene {
    const char *name;
    enum trouble trouble;   /* of rank 1; HANGS and those after it: of rank 0 */
    const char *zero, *one; /* the expected messages of rank 0 and rank 1; "": none */
};

static const struct scene scenes[] = {
    {"a good end", NO_TROUBLE, "", ""},
    {"a rank that is killed while the world starts", STARTS,
     "rank 0: rank 1 on * has ended; see the output of rank 1", NULL},
    {"a rank that is killed", DIES,
     "at step 7, in all-reduce in group tensor of 2 ranks: rank 0: rank 1 on * has ended; see the "
     "output of rank 1",
     NULL},
    {"a collective that hangs", HANGS,
     "rank 0: all-reduce in group tensor of 2 ranks timed out after 1 s at step 7; another rank "
     "of the group has ended or hangs: see the output of the other ranks, or raise the timeout",
     "rank 0: all-reduce in group tensor of 2 ranks timed out after 1 s at step 7; another rank "
     "of the group has ended or hangs: see the output of the other ranks, or raise the timeout"},
    {"one that hangs before a stream that is full", FULL,
     "rank 0: all-reduce in group tensor of 2 ranks timed out after 1 s at step 7; another rank "
     "of the group has ended or hangs: see the output of the other ranks, or raise the timeout",
     "rank 0: all-reduce in group tensor of 2 ranks timed out after 1 s at step 7; another rank "
     "of the group has ended or hangs: see the output of the other ranks, or raise the timeout"},
    {"a group that does not come about", CUT,
     "rank 0: ncclCommSplit in group tensor could not start within 1 s at step 0; another rank of "
     "the group has ended or hangs: see the output of the other ranks, or raise the timeout",
     "rank 0: ncclCommSplit in group tensor could not start within 1 s at step 0; another rank of "
     "the group has ended or hangs: see the output of the other ranks, or raise the timeout"},
    {"one that does not begin", STUCK,
     "rank 0: all-reduce in group tensor could not start within 1 s at step 7; another rank of the "
     "group has ended or hangs: see the output of the other ranks, or raise the timeout",
     "rank 0: all-reduce in group tensor could not start within 1 s at step 7; another rank of the "
     "group has ended or hangs: see the output of the other ranks, or raise the timeout"},
    {"one that is refused", REFUSED,
     "rank 0: all-reduce in group tensor failed at step 7: another error (two ranks on one GPU); "
     "set NCCL_DEBUG=INFO and run again to see why",
     "rank 0: all-reduce in group tensor failed at step 7: another error (two ranks on one GPU); "
     "set NCCL_DEBUG=INFO and run again to see why"},
    {"an error of the network", REPORTED,
     "rank 0: NCCL reports an error in group tensor at step 7, in all-reduce: remote error; set "
     "NCCL_DEBUG=INFO and run again to see why",
     "rank 0: NCCL reports an error in group tensor at step 7, in all-reduce: remote error; set "
     "NCCL_DEBUG=INFO and run again to see why"},
    {"a rank that gives up", TOLD, "rank 1: the disk is full", "rank 1: the disk is full"},
};

/* Shared by both ranks: does rank 0 wait for rank 1 in a collective? */
static int *waits;

/* Wait until the watchdog has reported a failure and has handled it completely. */
static void await(struct comm *comm, struct error *err)
{
    while (comm_check(comm, err) == 0 ||
           __atomic_load_n(&fake.aborted, __ATOMIC_ACQUIRE) < fake.open)
        usleep(1000);
}

static void play(const struct scene *scene, int rank, struct comm *comm, struct comm_group *group,
                 struct device_stream *stream, struct error *err)
{
    float number = 0;

    comm_set_step(comm, 7);
    for (int i = 0; i < 500; i++) /* some while the watchdog polls */
        comm_all_reduce(group, stream, &number, 1, TYPE_FP32, COMM_SUM);
    fake.hang = rank == 0 && (scene->trouble == DIES || scene->trouble == HANGS ||
                              scene->trouble == FULL || scene->trouble == REPORTED);
    fake.stuck = rank == 0 && scene->trouble == STUCK;
    if (rank == 0 && (scene->trouble == HANGS || scene->trouble == FULL || scene->trouble == STUCK))
        comm->deadline = 1;
    if (rank == 0 && scene->trouble == REFUSED) {
        fake.result = ncclInvalidUsage;
        fake.more = "two ranks on one GPU\nand more";
    }
    comm_all_reduce(group, stream, &number, 1, TYPE_FP32, COMM_SUM);
    fake.full = rank == 0 && scene->trouble == FULL;
    if (fake.full)
        comm_all_reduce(group, stream, &number, 1, TYPE_FP32, COMM_SUM);
    if (rank == 0 && scene->trouble == REPORTED)
        fake.reported = ncclRemoteError;
    if (rank == 0)
        __atomic_store_n(waits, 1, __ATOMIC_RELEASE);
    if (rank == 1 && scene->trouble == DIES) {
        while (!__atomic_load_n(waits, __ATOMIC_ACQUIRE))
            usleep(1000);
        raise(SIGKILL);
    }
    if (rank == 1 && scene->trouble == TOLD)
        comm_abort(comm, "the disk is full");
    if (scene->trouble != NO_TROUBLE)
        await(comm, err);
}

/* Report through the pipe what went wrong; exit 0 if all ranks that must know were told. */
static void be_rank(const struct scene *scene, int rank, int port, int out)
{
    struct device device = {.fail = device_failed, .stream_native = no_stream};
    struct device_stream stream = {.device = &device};
    struct comm_options options = {.rank = rank,
                                   .size = 2,
                                   .master = "localhost",
                                   .port = port,
                                   .deadline = 60,
                                   .longer = "raise the timeout",
                                   .device = &device};
    struct error err = {.text = ""};
    struct comm_group *group = NULL;
    struct comm *comm;
    int known;

    fake.starting = scene->trouble == STARTS;
    comm = comm_backend_open(&options, &err);
    if (comm && rank == 0 && scene->trouble == CUT)
        comm->deadline = fake.stuck = 1;
    if (comm)
        group = comm_group_create(comm, "tensor", (const int[]){0, 1}, 2, &err);
    if (group)
        play(scene, rank, comm, group, &stream, &err);
    else if (comm && scene->trouble == CUT)
        await(comm, &err);
    known = !err.text[0] || strcmp(device_text, err.text) == 0;
    if (write(out, err.text, strlen(err.text)) < 0)
        known = 0;
    close(out);
    if (err.text[0])
        _exit(!known || fake.crossed);
    comm_group_destroy(group);
    comm_close(comm);
    _exit(fake.aborted != fake.open || fake.crossed);
}

/* --- The stage ------------------------------------------------------------------------------- */

static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) ||
        getsockname(fd, (struct sockaddr *)&address, &length))
        address.sin_port = 0;
    close(fd);
    return ntohs(address.sin_port);
}

/* Does 'text' match? A star stands for a word. */
static int matches(const char *text, const char *expected)
{
    for (; *expected; expected++) {
        if (*expected == '*')
            text += strcspn(text, " ");
        else if (*text++ != *expected)
            return 0;
    }
    return *text == '\0';
}

static void run_scene(const struct scene *scene)
{
    const char *expected[2] = {scene->zero, scene->one};
    int port = free_port(), ends[2][2];
    pid_t pids[2];

    *waits = 0;
    for (int rank = 0; rank < 2; rank++) {
        if (pipe(ends[rank]))
            return;
        fflush(stdout);
        pids[rank] = fork();
        if (pids[rank] == 0) {
            alarm(60);
            be_rank(scene, rank, port, ends[rank][1]);
        }
        close(ends[rank][1]);
    }
    for (int rank = 0; rank < 2; rank++) {
        char text[1024] = "";
        size_t used = 0;
        ssize_t got;
        int status;

        while ((got = read(ends[rank][0], text + used, sizeof(text) - 1 - used)) > 0)
            used += (size_t)got;
        close(ends[rank][0]);
        waitpid(pids[rank], &status, 0);
        if (!expected[rank])
            continue;
        ok(matches(text, expected[rank]), "%s: message of rank %d: %s", scene->name, rank, text);
        ok(status == 0,
           "%s: rank %d has told its device, let go of all communicators and never called NCCL "
           "twice at once",
           scene->name, rank);
    }
}

int main(void)
{
    unsetenv("SLURM_JOB_ID"); /* with it, messages name sacct */
    waits = mmap(NULL, sizeof(*waits), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (waits == MAP_FAILED)
        return skip_all("no shared memory");
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
        run_scene(&scenes[i]);
    return done_testing();
}
