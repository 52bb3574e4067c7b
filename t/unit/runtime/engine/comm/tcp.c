/* SPDX-License-Identifier: Apache-2.0 */
/* The TCP backend: worlds of processes whose collectives are compared with sums in the order of the
 * ranks, bit by bit; and processes without the secret, which connect to every listening port. */
#define _GNU_SOURCE
#include "engine/comm/comm.h"
#include "engine/comm/handshake.h"
#include "tap.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 6 };

static int port;

struct world {
    int rank, size;
    struct device *device;
    struct device_stream *stream;
    struct comm *comm;
    struct error err;
};

comm_backend_open_function comm_backend_open;

static int open_world(struct world *w, int rank, int size, const char *secret, double deadline)
{
    struct device_options device = {.threads = 1};
    struct comm_options options = {.rank = rank,
                                   .size = size,
                                   .master = "127.0.0.1",
                                   .port = port,
                                   .secret = secret,
                                   .deadline = deadline};

    *w = (struct world){.rank = rank, .size = size};
    w->device = device_open("cpu", &device, &w->err);
    w->stream = w->device ? device_stream_create(w->device, 0) : NULL;
    options.device = w->device;
    w->comm = w->stream ? comm_backend_open(&options, &w->err) : NULL;
    return w->comm ? 0 : -1;
}

static void close_world(struct world *w)
{
    comm_close(w->comm);
    device_stream_destroy(w->stream);
    device_close(w->device);
}

/* Numbers whose sum depends on the order in which they are added. */
static float number(int rank, size_t i, int salt)
{
    return (float)((rank * 7919 + (int)(i % 1013) * 31 + salt * 17) % 1009) * 0.37f + 1e-3f * rank;
}

static float sum_in_order(int size, size_t i, int salt)
{
    float sum = number(0, i, salt);

    for (int r = 1; r < size; r++)
        sum += number(r, i, salt);
    return sum;
}

static int same(struct world *w, const float *got, const float *expected, size_t count)
{
    if (device_stream_wait(w->stream, 60, &w->err) < 0)
        return 0;
    return memcmp(got, expected, count * sizeof(float)) == 0;
}

/* Both ways to reduce, with sizes that the ranks do not divide. */
static int reduces(struct world *w, struct comm_group *group)
{
    static const size_t counts[] = {1, 3, 1000, 4096, 4097, 30001, 200003};
    float *buffer = malloc(200003 * sizeof(float)), *expected = malloc(200003 * sizeof(float));
    int64_t numbers[3] = {w->rank, -w->rank, 7};
    int good = 1;

    for (size_t k = 0; good && k < sizeof(counts) / sizeof(counts[0]); k++) {
        for (size_t i = 0; i < counts[k]; i++) {
            buffer[i] = number(group->rank, i, (int)k);
            expected[i] = sum_in_order(group->size, i, (int)k);
        }
        comm_all_reduce(group, w->stream, buffer, counts[k], TYPE_FP32, COMM_SUM);
        good = same(w, buffer, expected, counts[k]);
    }
    comm_all_reduce(group, w->stream, numbers, 3, TYPE_INT64, COMM_MAX);
    good = good && device_stream_wait(w->stream, 60, &w->err) == 0 && numbers[2] == 7;
    free(buffer);
    free(expected);
    return good && numbers[0] >= w->rank && numbers[1] >= -w->rank;
}

static int gathers_and_scatters(struct world *w, struct comm_group *group)
{
    enum { PART = 5001 };
    size_t all_count = (size_t)group->size * PART, own = (size_t)group->rank * PART;
    float *all = malloc(all_count * sizeof(float)), *expected = malloc(all_count * sizeof(float));
    float *part = malloc(PART * sizeof(float));
    int good = 1;

    for (int in_place = 0; in_place < 2; in_place++) {
        for (size_t i = 0; i < all_count; i++)
            expected[i] = number((int)(i / PART), i % PART, in_place);
        for (size_t i = 0; i < PART; i++)
            (in_place ? all + own : part)[i] = number(group->rank, i, in_place);
        comm_all_gather(group, w->stream, in_place ? all + own : part, all, PART, TYPE_FP32);
        good = good && same(w, all, expected, all_count);

        for (size_t i = 0; i < all_count; i++) {
            all[i] = number(group->rank, i, 9);
            expected[i] = sum_in_order(group->size, i, 9);
        }
        comm_reduce_scatter(group, w->stream, all, in_place ? all + own : part, PART, TYPE_FP32);
        good = good && same(w, in_place ? all + own : part, expected + own, PART);
    }
    free(all);
    free(expected);
    free(part);
    return good;
}

/* Weights in fp8: single bytes, in place. */
static int gathers_bytes(struct world *w, struct comm_group *group)
{
    enum { PART = 5001 };
    size_t all_count = (size_t)group->size * PART, own = (size_t)group->rank * PART;
    uint8_t *all = calloc(all_count, 1);
    int good;

    for (size_t i = 0; i < PART; i++)
        all[own + i] = (uint8_t)(group->rank * 11 + (int)i % 251);
    comm_all_gather(group, w->stream, all + own, all, PART, TYPE_E4M3);
    good = device_stream_wait(w->stream, 60, &w->err) == 0;
    for (size_t i = 0; i < all_count && good; i++)
        good = all[i] == (uint8_t)((int)(i / PART) * 11 + (int)(i % PART) % 251);
    free(all);
    return good;
}

static int broadcasts(struct world *w, struct comm_group *group)
{
    float data[777], expected[777];
    int good = 1;

    for (int root = 0; root < group->size; root++) {
        for (size_t i = 0; i < 777; i++) {
            data[i] = number(group->rank, i, 3);
            expected[i] = number(root, i, 3);
        }
        comm_broadcast(group, w->stream, data, 777, TYPE_FP32, root);
        good = good && same(w, data, expected, 777);
    }
    return good;
}

/* A ring with messages larger than the sockets' buffers, a message to itself, and an all-reduce
 * while the exchange is under way. */
static int exchanges(struct world *w, struct comm_group *group)
{
    enum { COUNT = 1 << 20 };
    int next = (group->rank + 1) % group->size;
    int before = (group->rank + group->size - 1) % group->size;
    float *out = malloc(COUNT * sizeof(float)), *in = malloc(COUNT * sizeof(float));
    float own[2] = {(float)w->rank, 0}, got[2] = {-1, -1}, one = 1;
    struct comm_message messages[] = {
        {.peer = next, .send = 1, .buffer = out, .count = COUNT, .type = TYPE_FP32},
        {.peer = before, .send = 0, .buffer = in, .count = COUNT, .type = TYPE_FP32},
        {.peer = group->rank, .send = 1, .buffer = own, .count = 2, .type = TYPE_FP32},
        {.peer = group->rank, .send = 0, .buffer = got, .count = 2, .type = TYPE_FP32},
    };
    int good = 1;

    for (size_t i = 0; i < COUNT; i++)
        out[i] = number(w->rank, i, 5);
    comm_exchange(group, w->stream, messages, 4);
    comm_all_reduce(group, w->stream, &one, 1, TYPE_FP32, COMM_SUM);
    good = device_stream_wait(w->stream, 60, &w->err) == 0 && one == (float)group->size;
    for (size_t i = 0; i < COUNT && good; i++)
        good = in[i] == number((w->rank - group->rank) + before, i, 5);
    free(out);
    free(in);
    return good && got[0] == own[0] && got[1] == own[1];
}

static int on_host(struct world *w)
{
    int64_t all[MOST], own = w->rank * 3, most = w->rank, word = w->rank == 1 ? 42 : 0;
    int good = comm_host_gather(w->comm, &own, all, sizeof(own), &w->err) == 0;

    for (int r = 0; r < w->size; r++)
        good = good && all[r] == r * 3;
    good = good && comm_host_collect(w->comm, &own, all, sizeof(own), 0, &w->err) == 0;
    good = good && comm_host_broadcast(w->comm, &word, sizeof(word), 1, &w->err) == 0 && word == 42;
    return good && comm_host_max(w->comm, &most, 1, &w->err) == 0 && most == w->size - 1 &&
           comm_check(w->comm, &w->err) == 0;
}

/* Groups of neighbors and of every second rank, on the same connections. */
static int works(struct world *w)
{
    int all[MOST], half[MOST], count = 0, base = w->rank / 2 * 2, pair[2] = {base, base + 1};
    int members = base + 1 < w->size ? 2 : 1;
    struct comm_group *groups[3];
    int good;

    for (int r = 0; r < w->size; r++) {
        all[r] = r;
        if (r % 2 == w->rank % 2)
            half[count++] = r;
    }
    groups[0] = comm_group_create(w->comm, "world", all, w->size, &w->err);
    groups[1] = comm_group_create(w->comm, "pair", pair, members, &w->err);
    groups[2] = comm_group_create(w->comm, "half", half, count, &w->err);
    good = groups[0] && groups[1] && groups[2] && on_host(w) && reduces(w, groups[0]) &&
           reduces(w, groups[1]) && reduces(w, groups[2]) && gathers_and_scatters(w, groups[0]) &&
           gathers_bytes(w, groups[0]) && gathers_and_scatters(w, groups[2]) &&
           gathers_bytes(w, groups[2]) && broadcasts(w, groups[0]) && broadcasts(w, groups[1]) &&
           exchanges(w, groups[0]);
    for (int i = 0; i < 3; i++)
        comm_group_destroy(groups[i]);
    return good;
}

static int play(int rank, int size)
{
    struct world w;
    int good = open_world(&w, rank, size, "a secret", 60) == 0 && works(&w);

    if (!good)
        diag("rank %d: %s", rank, w.err.text);
    close_world(&w);
    return good;
}

/* Fork 'size' ranks; the number of those that are not content. */
static int run_ranks(int size, int (*role)(int rank, int size))
{
    pid_t ranks[MOST];
    int bad = 0;

    fflush(stdout);
    for (int r = 0; r < size; r++) {
        ranks[r] = fork();
        if (ranks[r] == 0) {
            int good = role(r, size);

            fflush(stdout);
            _exit(!good);
        }
    }
    for (int r = 0; r < size; r++) {
        int status = 0;

        waitpid(ranks[r], &status, 0);
        bad += status != 0;
    }
    port++;
    return bad;
}

/* --- What goes wrong ------------------------------------------------------------------------- */

/* Rank 1 has another secret: nobody meets it, and rank 0 names it. */
static int play_stranger(int rank, int size)
{
    struct world w;
    int rc = open_world(&w, rank, size, rank == 1 ? "another" : "a secret", 1);
    const char *expected[] = {
        "1 of 3 ranks did not connect within 1 s: 1; connections without the right secret were "
        "refused (",
        "set the same MEGATRON_SECRET for all ranks", ""};
    int good = rc < 0 && strstr(w.err.text, expected[rank]);

    if (!good)
        diag("rank %d: %s", rank, w.err.text);
    close_world(&w);
    return good;
}

/* The last rank dies in the middle of the work: the others stop waiting, long before the deadline.
 */
/* The last rank ends when all others have what it sent: a process that ends with data that it has
 * not read resets its connections. */
static atomic_int *passed; /* shared by the processes */

static int play_death(int rank, int size)
{
    int all[MOST] = {0, 1, 2, 3, 4, 5};
    struct comm_group *group;
    struct world w;
    float one = 1;
    int good;

    if (open_world(&w, rank, size, "a secret", 60) < 0)
        return 0;
    group = comm_group_create(w.comm, "world", all, size, &w.err);
    comm_all_reduce(group, w.stream, &one, 1, TYPE_FP32, COMM_SUM);
    good = device_stream_wait(w.stream, 60, &w.err) == 0;
    atomic_fetch_add(passed, 1);
    for (int i = 0; rank == size - 1 && i < 6000 && atomic_load(passed) < size; i++)
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    if (rank == size - 1)
        _exit(!good);
    comm_all_reduce(group, w.stream, &one, 1, TYPE_FP32, COMM_SUM);
    good = good && device_stream_wait(w.stream, 60, &w.err) < 0 && comm_check(w.comm, &w.err) < 0 &&
           w.err.code == ERROR_RANK && strstr(w.err.text, "has ended");
    if (!good)
        diag("rank %d: %s", rank, w.err.text);
    comm_group_destroy(group);
    close_world(&w);
    return good;
}

/* Rank 1 does not take part in a collective: the others time out and name it. */
static int play_absence(int rank, int size)
{
    int all[MOST] = {0, 1, 2, 3, 4, 5};
    struct comm_group *group;
    struct world w;
    float one = 1;
    int good = 1;

    if (open_world(&w, rank, size, "a secret", 1) < 0)
        return 0;
    group = comm_group_create(w.comm, "world", all, size, &w.err);
    if (rank == 1)
        nanosleep(&(struct timespec){1, 600000000}, NULL);
    else
        comm_all_reduce(group, w.stream, &one, 1, TYPE_FP32, COMM_SUM);
    if (rank != 1)
        good = device_stream_wait(w.stream, 60, &w.err) < 0 &&
               strstr(w.err.text, "all-reduce in group world of 3 ranks timed out after 1 s");
    if (!good)
        diag("rank %d: %s", rank, w.err.text);
    nanosleep(&(struct timespec){rank != 1, 0}, NULL);
    _exit(!good);
}

/* --- Processes without the secret ------------------------------------------------------------ */

enum { HELD = 300 };

/* The ports that something listens on in this network namespace. */
static int listening(int *ports, int most)
{
    static const char *const files[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    int count = 0;

    for (int k = 0; k < 2; k++) {
        FILE *file = fopen(files[k], "re");
        char line[512], address[64];
        unsigned found, state;

        while (file && fgets(line, sizeof(line), file) && count < most)
            if (sscanf(line, " %*d: %63[0-9A-F]:%x %*[0-9A-F]:%*x %x", address, &found, &state) ==
                    3 &&
                state == 0x0A)
                ports[count++] = (int)found;
        if (file)
            fclose(file);
    }
    return count;
}

/* Connect to a port; say nothing, nonsense, half a hello, or a hello with another key. */
static int intrude(int to, int how)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)to),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct handshake_hello hello = {.size = 3, .from = 1 + how % 2, .to = 0};
    struct secret_key key = {.bytes = {1, 2, 3}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    size_t length = how % 4 == 2 ? sizeof(hello) / 2 : sizeof(hello);

    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    handshake_sign_hello(&key, &hello);
    if (how % 4 == 1)
        memset(&hello, 'x', sizeof(hello));
    if (how % 4 > 0 && send(fd, &hello, length, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        hello.size = 0; /* closed already */
    return fd;
}

/* Until killed. Writes the number of connections and of bytes that it got to 'result'. */
static void be_hostile(int result)
{
    int ports[64], held[HELD], count = 0, numbers[2] = {0, 0};
    char answer[64];

    for (int round = 0;; round++) {
        int found = listening(ports, 64);

        for (int i = 0; i < 16 * found; i++) {
            int fd = intrude(ports[i / 16], round + i);

            if (fd < 0)
                continue;
            numbers[0]++;
            if (count == HELD) {
                struct pollfd p = {held[numbers[0] % HELD], POLLIN, 0};

                if (poll(&p, 1, 0) > 0 && recv(p.fd, answer, sizeof(answer), MSG_DONTWAIT) > 0)
                    numbers[1]++;
                close(held[numbers[0] % HELD]);
                held[numbers[0] % HELD] = fd;
            } else {
                held[count++] = fd;
            }
        }
        for (int i = 0; i < count; i++)
            if (recv(held[i], answer, sizeof(answer), MSG_DONTWAIT) > 0)
                numbers[1]++;
        if (pwrite(result, numbers, sizeof(numbers), 0) < 0)
            _exit(1);
        nanosleep(&(struct timespec){0, found ? 200000 : 1000000}, NULL);
    }
}

/* Ranks that arrive late: the port is open to strangers for a while. */
static int play_late(int rank, int size)
{
    nanosleep(&(struct timespec){rank > 0, 0}, NULL);
    return play(rank, size);
}

enum { REPLAYED = 1500 }; /* more than a listener serves at once */

/* Until killed: send the same right hello of rank 1 on many connections, as if it had been
 * recorded, and nothing after it. */
static void be_replaying(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct handshake_hello hello = {.size = 2, .from = 1, .to = 0};
    struct secret_key key;

    secret_derive("a secret", &key, NULL);
    handshake_sign_hello(&key, &hello);
    for (int i = 0; i < REPLAYED;) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
            send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) == (ssize_t)sizeof(hello)) {
            atomic_store(passed, ++i);
            continue;
        }
        if (fd >= 0)
            close(fd);
        nanosleep(&(struct timespec){0, 10000000}, NULL); /* rank 0 does not listen yet */
    }
    pause();
    _exit(0);
}

/* Rank 1 connects in less time than a listener gives a connection for its handshake. */
static int play_replayed(int rank, int size)
{
    struct world w;
    int good;

    for (int i = 0; rank == 1 && i < 6000 && atomic_load(passed) < REPLAYED; i++)
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    good = open_world(&w, rank, size, "a secret", rank == 1 ? 8 : 60) == 0;
    if (!good)
        diag("rank %d: %s", rank, w.err.text);
    close_world(&w);
    return good;
}

static void among_replays(void)
{
    struct rlimit limit;
    pid_t hostile;
    int bad;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < 2 * REPLAYED) {
        skip("replayed greetings", "too few open files are allowed");
        return;
    }
    atomic_store(passed, 0);
    fflush(stdout);
    hostile = fork();
    if (hostile == 0)
        be_replaying();
    bad = run_ranks(2, play_replayed);
    kill(hostile, SIGKILL);
    waitpid(hostile, NULL, 0);
    ok(bad == 0, "%d replayed greetings do not keep a rank out", REPLAYED);
}

static int up_loopback(void)
{
    struct ifreq request = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM, 0), rc = ioctl(fd, SIOCGIFFLAGS, &request);

    request.ifr_flags |= IFF_UP;
    if (rc == 0)
        rc = ioctl(fd, SIOCSIFFLAGS, &request);
    close(fd);
    return rc;
}

/* In a network namespace of its own, so that other services of this machine are left alone. */
static void among_strangers(void)
{
    int result = memfd_create("result", 0), numbers[2] = {0, 0}, bad, left, ports[8];
    pid_t hostile;

    if (unshare(CLONE_NEWNET) < 0 || up_loopback() < 0) {
        ok(1, "processes without the secret # SKIP no network namespace");
        return;
    }
    fflush(stdout);
    hostile = fork();
    if (hostile == 0)
        be_hostile(result);
    bad = run_ranks(3, play_late);
    left = listening(ports, 8);
    kill(hostile, SIGKILL);
    waitpid(hostile, NULL, 0);
    if (pread(result, numbers, sizeof(numbers), 0) < 0)
        bad++;
    ok(bad == 0, "ranks meet and work while strangers connect to every port");
    ok(numbers[0] > 0, "who did connect: %d times", numbers[0]);
    ok(numbers[1] == 0, "and learned nothing");
    ok(left == 0, "no port is left open");
}

int main(void)
{
    /* Ports that no other test uses at the same time. */
    if (unshare(CLONE_NEWNET) == 0 && up_loopback() < 0)
        diag("no loopback device in a network namespace");
    port = 20000 + (int)(getpid() * 7) % 12000; /* below those of connections, 32768 */
    passed = mmap(NULL, sizeof(*passed), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ok(run_ranks(2, play) == 0, "two ranks");
    ok(run_ranks(3, play) == 0, "three ranks");
    ok(run_ranks(6, play) == 0, "six ranks");
    ok(run_ranks(3, play_stranger) == 0, "a rank with another secret is missing");
    ok(run_ranks(4, play_death) == 0, "a rank that dies is reported");
    ok(run_ranks(3, play_absence) == 0, "a rank that does not take part is reported");
    among_replays();
    among_strangers();
    return done_testing();
}
