/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks connect over TCP, exchange data, and detect each other's exit. Each case is a world of
 * processes; their exit codes must be the expected ones. */
#define _GNU_SOURCE
#include "tap.h"
#include "engine/comm/star.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 5, BYTES = 3000 };

enum ending { GATHER, ABSENT, FEW_FILES, VANISH, ABORT, HOLD_UP, STOP };

static int port;
static const struct secret_key key = {.bytes = {7}};

/* Wait until star_wait reports something. */
static int until_failure(struct star *star, struct error *err)
{
    for (int i = 0; i < 6000; i++) {
        if (star_wait(star, 0, err))
            return 1;
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    return 0;
}

static int gathers(struct star *star, int rank)
{
    unsigned char part[BYTES], all[SIZE * BYTES];
    struct error err;

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BYTES; i++)
            part[i] = (unsigned char)(rank * 31 + i + round);
        if (star_gather(star, part, all, BYTES, 60, &err) || star_wait(star, 0, &err))
            return 0;
        for (int r = 0; r < SIZE; r++)
            for (int i = 0; i < BYTES; i++)
                if (all[r * BYTES + i] != (unsigned char)(r * 31 + i + round))
                    return 0;
    }
    return star_gather(star, NULL, NULL, 0, 60, &err) == 0;
}

/* Rank 0 and others gather all parts alternately, and a rank that does not wait for any does not
 * delay what follows. */
static int collects(struct star *star, int rank)
{
    unsigned char part[BYTES], all[SIZE * BYTES];
    struct error err;

    for (int root = 0; root < SIZE; root++) {
        memset(part, rank * 16 + root, sizeof(part));
        if (star_collect(star, part, rank == root ? all : NULL, BYTES, root, 60, &err))
            return 0;
        for (int i = 0; i < SIZE * BYTES && rank == root; i++)
            if (all[i] != i / BYTES * 16 + root)
                return 0;
    }
    return 1;
}

/* From every rank in turn, nothing and much; a rank that only sends does not delay the next. */
static int broadcasts(struct star *star, int rank)
{
    static unsigned char data[1 << 20];
    struct error err;

    for (int root = 0; root < SIZE; root++) {
        memset(data, rank == root ? 7 + root : 0, sizeof(data));
        if (star_broadcast(star, NULL, 0, root, 60, &err) ||
            star_broadcast(star, data, sizeof(data), root, 60, &err))
            return 0;
        for (size_t i = 0; i < sizeof(data); i++)
            if (data[i] != 7 + root)
                return 0;
    }
    return 1;
}

static int agrees(struct star *star, int rank)
{
    int64_t numbers[] = {rank, -rank, rank == 2 ? INT64_MAX : INT64_MIN}, many[STAR_NUMBERS + 1];
    struct error err;

    return star_max(star, numbers, 3, 60, &err) == 0 && numbers[0] == SIZE - 1 && numbers[1] == 0 &&
           numbers[2] == INT64_MAX && star_max(star, many, STAR_NUMBERS + 1, 60, &err) < 0;
}

static int names_host(const struct error *err)
{
    char host[256] = "", expected[512];

    gethostname(host, sizeof(host) - 1);
    snprintf(expected, sizeof(expected),
             "rank 0: rank 3 on %.63s has ended; see the output of rank 3%s", host,
             getenv("SLURM_JOB_ID") ? ", and sacct for how it ended" : "");
    return strcmp(err->text, expected) == 0;
}

/* Rank 3 dies, rank 1 waits for it and does not arrive: rank 0 does not wait for rank 1. */
static int held_up(struct star *star, int rank)
{
    int64_t number = 0;
    struct error err;

    if (rank == 0) {
        int good = star_max(star, &number, 1, 60, &err) < 0 && names_host(&err);

        star_abort(star, err.text);
        return good;
    }
    return rank == 1 ? until_failure(star, &err) : star_max(star, &number, 1, 60, &err) < 0;
}

/* How many seconds the other ends of all connections of this process may stay silent. */
static void set_silence(int seconds)
{
    for (int fd = 3; fd < 256; fd++)
        rendezvous_set_silence(fd, seconds);
}

/* Rank 3 does nothing for longer than a node may stay silent; its kernel answers. */
static int stopped(struct star *star, int rank)
{
    int64_t number = rank;
    struct error err;

    set_silence(1);
    for (int i = 0; i < 30; i++) {
        if (rank != 3 && star_wait(star, 0, &err))
            return 0;
        nanosleep(&(struct timespec){0, 100000000}, NULL);
    }
    return star_max(star, &number, 1, 60, &err) == 0 && number == SIZE - 1;
}

/* Try to join until rank 0 has seen enough and this rank is killed. */
static _Noreturn void keep_coming(int rank)
{
    struct error err;

    for (;;) {
        struct star *star = star_create(rank, SIZE, NULL, port, &key, 60, &err);

        if (star)
            until_failure(star, &err);
        star_destroy(star);
    }
}

/* Rank 0 may not open as many files as there are ranks. */
static int few_files(int rank)
{
    struct error err = {.text = ""};
    int next = dup(STDOUT_FILENO);
    struct rlimit limit = {(rlim_t)next + 3, (rlim_t)next + 3};

    close(next);
    if (rank != 0)
        keep_coming(rank);
    if (setrlimit(RLIMIT_NOFILE, &limit))
        return 0;
    star_destroy(star_create(rank, SIZE, NULL, port, &key, 60, &err));
    if (!strstr(err.text, "raise the limit on open files"))
        diag("%s", err.text);
    return strstr(err.text, "raise the limit on open files") != NULL;
}

/* Rank 3 does not come. The others may be late on a busy machine: then rank 0 waits longer. */
static int absent(int rank)
{
    struct error err = {.text = ""};

    if (rank == 3)
        return 1;
    if (rank != 0)
        keep_coming(rank);
    for (int seconds = 2; seconds <= 128; seconds *= 4) {
        star_destroy(star_create(rank, SIZE, NULL, port, &key, seconds, &err));
        if (strstr(err.text, "1 of 5 ranks did not connect") && strstr(err.text, ": 3"))
            return 1;
        diag("%s", err.text);
    }
    return 0;
}

/* One rank of a world in which rank 3 does 'ending'. 1: everything was as expected. */
static int play(enum ending ending, int rank)
{
    struct error err = {.text = ""};
    struct star *star;
    int good;

    if (ending == ABSENT)
        return absent(rank);
    if (ending == FEW_FILES)
        return few_files(rank);
    star = star_create(rank, SIZE, NULL, port, &key, 60, &err);
    if (!star) {
        diag("rank %d: %s", rank, err.text);
        return 0;
    }
    good =
        gathers(star, rank) && collects(star, rank) && broadcasts(star, rank) && agrees(star, rank);
    if (ending == VANISH && rank == 3)
        _exit(!good);
    if (ending == VANISH && rank == 0)
        good = good && until_failure(star, &err) && names_host(&err);
    if (ending == HOLD_UP && rank == 3)
        _exit(!good);
    if (ending == HOLD_UP)
        good = good && held_up(star, rank);
    if (ending == STOP)
        good = good && stopped(star, rank);
    if (ending == ABORT && rank == 3)
        star_abort(star, "the moon is in the way");
    if (ending == ABORT && rank == 0) {
        good = good && until_failure(star, &err) && strcmp(err.text, "the moon is in the way") == 0;
        star_abort(star, err.text);
    }
    if (ending == ABORT && rank != 0)
        good = good && until_failure(star, &err) && strcmp(err.text, "the moon is in the way") == 0;
    if (!good)
        diag("rank %d: %s", rank, err.text);
    star_destroy(star);
    return good;
}

/* A port that nobody uses, below those that the kernel gives to connections of other programs. */
static int free_port(void)
{
    static int offset;
    int taken = 1, candidate = 0;

    while (taken) {
        struct sockaddr_in6 address = {.sin6_family = AF_INET6};
        int fd = socket(AF_INET6, SOCK_STREAM, 0);

        candidate = 15000 + (int)(getpid() * 7 + offset++ * 1009) % 15000;
        address.sin6_port = htons((uint16_t)candidate);
        taken = fd < 0 ? 0 : bind(fd, (struct sockaddr *)&address, sizeof(address));
        close(fd);
    }
    return candidate;
}

static void world(enum ending ending, const char *name)
{
    int bad = 0, alone = ending == ABSENT || ending == FEW_FILES; /* only rank 0 is judged */
    pid_t ranks[SIZE];

    port = free_port();
    fflush(stdout);
    for (int r = 0; r < SIZE; r++) {
        ranks[r] = fork();
        if (ranks[r] == 0) {
            int good = play(ending, r);

            fflush(stdout);
            _exit(!good);
        }
        if (ranks[r] < 0) /* the others wait in vain, for a minute */
            diag("rank %d: fork: %s", r, strerror(errno));
    }
    for (int r = 0; r < SIZE; r++) {
        int status = 0;

        if (ranks[r] < 0 || waitpid(ranks[r], &status, 0) < 0)
            status = -1;
        for (int other = 1; r == 0 && alone && other < SIZE; other++)
            if (ranks[other] > 0)
                kill(ranks[other], SIGKILL);
        if (status && (r == 0 || !alone)) {
            diag("rank %d: status %d", r, status);
            bad++;
        }
    }
    ok(bad == 0, "%s", name);
}

/* --- An abort that its rank did not live to finish -------------------------------------------- */

/* Rank 1 of two dies after sending this much of it; rank 0 polls, or waits for data. */
static int play_cut(const char *cut, int waits)
{
    struct rendezvous_address address;
    struct error err = {.text = ""};
    struct star *star;
    int64_t number = 0;
    int listener = rendezvous_listen(0, "127.0.0.1", &address, &err), news = 0;
    pid_t other = fork();

    if (other == 0) {
        int fd = rendezvous_connect(1, 0, 2, &address, 60, &err);

        _exit(fd < 0 || send(fd, cut, strlen(cut), 0) < 0);
    }
    star = star_join(0, 2, &address, listener, 60, &err);
    close(listener);
    if (star && waits)
        news = star_max(star, &number, 1, 60, &err);
    for (int i = 0; star && !waits && news == 0 && i < 600; i++)
        news = star_wait(star, 0.1, &err);
    waitpid(other, NULL, 0);
    star_destroy(star);
    if (!strstr(err.text, "has ended"))
        diag("%d: %s", news, err.text);
    return news != 0 && strstr(err.text, "rank 0: rank 1 on ") && strstr(err.text, "has ended");
}

static void cut_abort(void)
{
    ok(play_cut("A", 0) && play_cut("Athe moon", 0),
       "half an abort message means that its rank has exited");
    ok(play_cut("A", 1) && play_cut("Athe moon", 1), "even if data was expected");
}

/* --- A node that says nothing any more -------------------------------------------------------- */

static int set_loopback(int up)
{
    struct ifreq request = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM, 0), rc = ioctl(fd, SIOCGIFFLAGS, &request);

    request.ifr_flags = (short)(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    if (rc == 0)
        rc = ioctl(fd, SIOCSIFFLAGS, &request);
    close(fd);
    return rc;
}

/* Both ends of a star within one process; then the network between them is cut. */
static int play_silence(void)
{
    struct rendezvous_address address;
    struct error err = {.text = ""};
    struct star *star;
    int listener = rendezvous_listen(0, "127.0.0.1", &address, &err), news = 0;
    pid_t other = fork();

    star = star_join(other == 0 ? 1 : 0, 2, &address, listener, 60, &err);
    if (!star) {
        diag("%s", err.text);
        _exit(1);
    }
    set_silence(2);
    if (other == 0)
        for (;;)
            pause();
    if (star_wait(star, 0, &err) || set_loopback(0) < 0)
        news = 1; /* too early */
    for (int i = 0; i < 600 && news == 0; i++)
        news = star_wait(star, 0.1, &err);
    kill(other, SIGKILL);
    if (news != STAR_LOST)
        diag("%d: %s", news, err.text);
    return news == STAR_LOST && strstr(err.text, "rank 0: lost contact with rank 1") != NULL;
}

static void silent_node(void)
{
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWNET) < 0 || set_loopback(1) < 0)
            _exit(2);
        _exit(!play_silence());
    }
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
        ok(1, "a silent node is detected # SKIP no network namespace");
    else
        ok(status == 0, "a node that answers no more is noticed");
}

int main(void)
{
    world(GATHER, "five ranks meet and gather");
    world(ABSENT, "who does not come is named");
    world(FEW_FILES, "a limit of open files that is too low is named");
    unsetenv("SLURM_JOB_ID");
    world(VANISH, "a rank that vanishes is noticed");
    setenv("SLURM_JOB_ID", "1", 1);
    world(VANISH, "in a job of Slurm, sacct is named");
    world(ABORT, "a reason to end reaches everyone");
    world(HOLD_UP, "and ends the wait for another one");
    world(STOP, "a rank that is only slow is not");
    cut_abort();
    silent_node();
    return done_testing();
}
