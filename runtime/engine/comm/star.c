/* SPDX-License-Identifier: Apache-2.0 */
#include "base/core/xmalloc.h"
#include "star.h"
#include "lib/clock.h"
#include "socket.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* The header of a message. */
enum kind { DATA = 'D', ABORT = 'A', GOODBYE = 'G' };

enum { REASON = 512, EVENTS = 64 };

/* How often a wait for one rank checks whether another is lost. */
#define GLANCE_SECONDS 0.25

/* What has happened on a connection since it was last checked. */
enum { NEWS = 1, ENDED = 2 };

struct star {
    int rank, size;
    int *fds;                /* on rank 0: to every other rank; else: [0] to rank 0. -1: closed */
    char (*hosts)[64];       /* on rank 0: the hosts of the others */
    atomic_uchar *marks;     /* per connection: NEWS, ENDED */
    atomic_int marked;       /* some marks may be set */
    int count;               /* of fds */
    int epoll, wake;         /* polls all connections, and a descriptor that ends a wait */
    pthread_mutex_t lock;    /* for sending, so that an abort does not split a message */
    pthread_mutex_t reading; /* held while a message is read, so that no other thread peeks
                                into the middle of it */
};

/* The rank at the other end of connection i. */
static int peer_of(const struct star *star, int i)
{
    return star->rank == 0 ? i + 1 : 0;
}

/* --- Beginning and end ----------------------------------------------------------------------- */

static struct star *allocate(int rank, int size)
{
    struct star *star = xcalloc(1, sizeof(*star));
    size_t count = rank == 0 ? (size_t)size : 2;

    star->rank = rank;
    star->size = size;
    star->epoll = star->wake = -1;
    pthread_mutex_init(&star->lock, NULL);
    pthread_mutex_init(&star->reading, NULL);
    star->fds = xcalloc(count, sizeof(*star->fds));
    star->hosts = xcalloc(count, sizeof(*star->hosts));
    star->marks = xcalloc(count, sizeof(*star->marks));
    star->count = (int)count - 1;
    for (int i = 0; i < star->count; i++)
        star->fds[i] = -1;
    return star;
}

/* Use epoll: idle connections cost nothing. */
static int follow_all(struct star *star, struct error *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = UINT32_MAX};
    int failed;

    star->epoll = epoll_create1(EPOLL_CLOEXEC);
    star->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    failed = star->epoll < 0 || star->wake < 0 ||
             epoll_ctl(star->epoll, EPOLL_CTL_ADD, star->wake, &event) < 0;
    for (int i = 0; i < star->count && !failed; i++) {
        event =
            (struct epoll_event){.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.u32 = (uint32_t)i};
        failed = epoll_ctl(star->epoll, EPOLL_CTL_ADD, star->fds[i], &event) < 0;
    }
    return failed ? error_set_errno(err, errno, "rank %d cannot watch the other ranks", star->rank)
                  : 0;
}

struct star *star_join(int rank, int size, const struct rendezvous_address *address, int listener,
                       double deadline, struct error *err)
{
    struct star *star = allocate(rank, size);
    int failed;

    if (rank == 0) {
        failed = rendezvous_accept(listener, 0, size, &address->key, deadline, star->fds,
                                   star->hosts, err);
    } else {
        star->fds[0] = rendezvous_connect(rank, 0, size, address, deadline, err);
        failed = star->fds[0] < 0;
    }
    if (failed || follow_all(star, err)) {
        star_destroy(star);
        return NULL;
    }
    return star;
}

struct star *star_create(int rank, int size, const char *master, int port,
                         const struct secret_key *key, double deadline, struct error *err)
{
    struct rendezvous_address address = {.port = port};
    struct star *star;
    int listener = -1;

    snprintf(address.hosts, sizeof(address.hosts), "%s", master ? master : "localhost");
    if (rank == 0) {
        listener = rendezvous_listen(port, NULL, &address, err);
        if (listener < 0)
            return NULL;
    }
    address.key = *key;
    star = star_join(rank, size, &address, listener, deadline, err);
    if (listener >= 0)
        close(listener);
    return star;
}

static int send_message(struct star *star, int i, enum kind kind, const void *data, size_t bytes,
                        double until)
{
    char message[1 + REASON] = {(char)kind};
    size_t first = bytes < REASON ? bytes : REASON;
    int failed;

    /* Send a short message in one call, so that the end of this process does not split it. */
    if (first > 0)
        memcpy(message + 1, data, first);
    pthread_mutex_lock(&star->lock);
    failed = socket_send(star->fds[i], message, 1 + first, until) ||
             (bytes > first &&
              socket_send(star->fds[i], (const char *)data + first, bytes - first, until));
    pthread_mutex_unlock(&star->lock);
    return failed ? -1 : 0;
}

void star_destroy(struct star *star)
{
    if (!star)
        return;
    for (int i = 0; i < star->count; i++) {
        if (star->fds[i] < 0)
            continue;
        send_message(star, i, GOODBYE, NULL, 0, clock_now() + 1);
        close(star->fds[i]);
    }
    if (star->epoll >= 0)
        close(star->epoll);
    if (star->wake >= 0)
        close(star->wake);
    pthread_mutex_destroy(&star->lock);
    pthread_mutex_destroy(&star->reading);
    free(star->fds);
    free(star->hosts);
    free(star->marks);
    free(star);
}

/* --- Watching -------------------------------------------------------------------------------- */

static enum star_news lost(const struct star *star, int i, int number, struct error *err)
{
    const char *on = star->rank == 0 && star->hosts[i][0] ? " on " : "";
    const char *host = *on ? star->hosts[i] : "";
    int peer = peer_of(star, i);

    if (number)
        error_set_errno(err, number, "rank %d: lost contact with rank %d%s%s", star->rank, peer, on,
                        host);
    else
        error_set(err, "rank %d: rank %d%s%s has ended", star->rank, peer, on, host);
    /* Pods and mpirun on a workstation have no sacct. */
    error_append(err, "; see the output of rank %d%s", peer,
                 getenv("SLURM_JOB_ID") ? ", and sacct for how it ended" : "");
    if (err)
        err->code = ERROR_RANK;
    return STAR_LOST;
}

/* Peek at what has arrived on connection i. Clears its mark if there is nothing more. */
static enum star_news look_at(struct star *star, int i, struct error *err)
{
    char message[1 + REASON];
    unsigned char marks = atomic_exchange(&star->marks[i], 0), keep = marks;
    ssize_t got = recv(star->fds[i], message, sizeof(message), MSG_PEEK | MSG_DONTWAIT);
    enum star_news result = STAR_QUIET;
    int number = errno;

    if (got < 0 && (number == EAGAIN || number == EINTR)) {
        keep = 0;
    } else if (got <= 0) {
        result = lost(star, i, got < 0 ? number : 0, err);
    } else if (message[0] == GOODBYE) {
        keep = 0;
    } else if (message[0] == ABORT && got == (ssize_t)sizeof(message)) {
        message[REASON] = '\0';
        error_set(err, "%s", message + 1);
        result = STAR_TOLD;
    } else if ((marks & ENDED) && (message[0] != DATA || star->rank == 0)) {
        /* An incomplete abort message, or data whose sender waits for a reply of rank 0. Such a
         * reply itself can still be read. */
        result = lost(star, i, 0, err);
    }
    if (keep) {
        atomic_fetch_or(&star->marks[i], keep);
        atomic_store(&star->marked, 1);
    }
    return result;
}

/* Check the marked connections, except number 'busy', whose message is being read. */
static enum star_news look(struct star *star, int busy, struct error *err)
{
    enum star_news result = STAR_QUIET;

    if (!atomic_exchange(&star->marked, 0))
        return STAR_QUIET;
    for (int i = 0; i < star->count && result == STAR_QUIET; i++)
        if (i == busy && atomic_load(&star->marks[i]))
            atomic_store(&star->marked, 1);
        else if (atomic_load(&star->marks[i]))
            result = look_at(star, i, err);
    if (result)
        atomic_store(&star->marked, 1);
    return result;
}

/* Mark the connections with events. Returns the number of events. */
static int collect(struct star *star, int milliseconds)
{
    struct epoll_event events[EVENTS];
    uint64_t number;
    int count = epoll_wait(star->epoll, events, EVENTS, milliseconds);

    for (int i = 0; i < count; i++) {
        uint32_t at = events[i].data.u32;

        if (at == UINT32_MAX) {
            while (read(star->wake, &number, sizeof(number)) > 0)
                ;
            continue;
        }
        atomic_fetch_or(&star->marks[at], events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)
                                              ? NEWS | ENDED
                                              : NEWS);
        atomic_store(&star->marked, 1);
    }
    return count;
}

/* --- Messages -------------------------------------------------------------------------------- */

/* Receive from connection i. The loss of any other rank ends the wait, too: the rank that we wait
 * for may be waiting for that one. */
static int receive(struct star *star, int i, void *data, size_t bytes, double until,
                   struct error *err)
{
    char *at = data;

    while (bytes > 0) {
        ssize_t got = recv(star->fds[i], at, bytes, MSG_DONTWAIT);
        double soon = clock_now() + GLANCE_SECONDS;
        enum star_news news;

        if (got > 0) {
            at += got;
            bytes -= (size_t)got;
            continue;
        }
        if (got == 0 || (errno != EAGAIN && errno != EINTR))
            return lost(star, i, got < 0 ? errno : 0, err);
        if (clock_now() >= until)
            return lost(star, i, ETIMEDOUT, err);
        socket_wait(star->fds[i], SOCKET_READ, soon < until ? soon : until);
        collect(star, 0);
        news = look(star, i, err);
        if (news)
            return news;
    }
    return 0;
}

/* Receive a DATA message from connection i; an abort message is returned as the error. */
static int receive_data(struct star *star, int i, void *data, size_t bytes, double until,
                        struct error *err)
{
    unsigned char head;
    char reason[REASON];
    int rc = receive(star, i, &head, 1, until, err);

    if (rc)
        return rc;
    if (head == ABORT) {
        if (socket_receive(star->fds[i], reason, sizeof(reason), clock_now() + 1))
            return lost(star, i, errno, err);
        reason[REASON - 1] = '\0';
        error_set(err, "%s", reason);
        return STAR_TOLD;
    }
    if (head != DATA)
        return lost(star, i, 0, err);
    return receive(star, i, data, bytes, until, err);
}

/* Messages can be read by another thread again. Returns 'result'. */
static int unlock(struct star *star, int result)
{
    pthread_mutex_unlock(&star->reading);
    return result;
}

/* On rank 0: gather all ranks' parts. */
static int receive_parts(struct star *star, const void *part, void *all, size_t bytes, double until,
                         struct error *err)
{
    if (bytes > 0)
        memmove(all, part, bytes);
    for (int i = 0; i < star->count; i++)
        if (receive_data(star, i, (char *)all + (size_t)(i + 1) * bytes, bytes, until, err))
            return -1;
    return 0;
}

static int gather(struct star *star, const void *part, void *all, size_t bytes, double until,
                  struct error *err)
{
    if (star->rank != 0) {
        if (send_message(star, 0, DATA, part, bytes, until))
            return lost(star, 0, errno, err);
        return receive_data(star, 0, all, bytes * (size_t)star->size, until, err);
    }
    if (receive_parts(star, part, all, bytes, until, err))
        return -1;
    for (int i = 0; i < star->count; i++)
        if (send_message(star, i, DATA, all, bytes * (size_t)star->size, until))
            return lost(star, i, errno, err);
    return 0;
}

int star_gather(struct star *star, const void *part, void *all, size_t bytes, double deadline,
                struct error *err)
{
    pthread_mutex_lock(&star->reading);
    return unlock(star, gather(star, part, all, bytes, clock_now() + deadline, err));
}

/* Through rank 0, to which all are connected. */
static int collect_at(struct star *star, const void *part, void *all, size_t bytes, int root,
                      double until, struct error *err)
{
    size_t together = bytes * (size_t)star->size;
    void *passing;
    int rc;

    if (star->rank != 0) {
        if (send_message(star, 0, DATA, part, bytes, until))
            return lost(star, 0, errno, err);
        return star->rank == root ? receive_data(star, 0, all, together, until, err) : 0;
    }
    if (root == 0)
        return receive_parts(star, part, all, bytes, until, err);
    passing = xmalloc(together);
    rc = receive_parts(star, part, passing, bytes, until, err);
    if (rc == 0 && send_message(star, root - 1, DATA, passing, together, until))
        rc = lost(star, root - 1, errno, err);
    free(passing);
    return rc;
}

int star_collect(struct star *star, const void *part, void *all, size_t bytes, int root,
                 double deadline, struct error *err)
{
    pthread_mutex_lock(&star->reading);
    return unlock(star, collect_at(star, part, all, bytes, root, clock_now() + deadline, err));
}

/* Through rank 0, to which all are connected. */
static int broadcast(struct star *star, void *data, size_t bytes, int root, double until,
                     struct error *err)
{
    if (star->rank == root && root != 0)
        return send_message(star, 0, DATA, data, bytes, until) ? lost(star, 0, errno, err) : 0;
    if (star->rank != 0)
        return receive_data(star, 0, data, bytes, until, err);
    if (root != 0 && receive_data(star, root - 1, data, bytes, until, err))
        return -1;
    for (int i = 0; i < star->count; i++)
        if (i != root - 1 && send_message(star, i, DATA, data, bytes, until))
            return lost(star, i, errno, err);
    return 0;
}

int star_broadcast(struct star *star, void *data, size_t bytes, int root, double deadline,
                   struct error *err)
{
    pthread_mutex_lock(&star->reading);
    return unlock(star, broadcast(star, data, bytes, root, clock_now() + deadline, err));
}

static int greatest(struct star *star, int64_t *numbers, int count, double until, struct error *err)
{
    size_t bytes = (size_t)count * sizeof(*numbers);
    int64_t theirs[STAR_NUMBERS];

    if (star->rank != 0) {
        if (send_message(star, 0, DATA, numbers, bytes, until))
            return lost(star, 0, errno, err);
        return receive_data(star, 0, numbers, bytes, until, err);
    }
    for (int i = 0; i < star->count; i++) {
        if (receive_data(star, i, theirs, bytes, until, err))
            return -1;
        for (int k = 0; k < count; k++)
            if (theirs[k] > numbers[k])
                numbers[k] = theirs[k];
    }
    for (int i = 0; i < star->count; i++)
        if (send_message(star, i, DATA, numbers, bytes, until))
            return lost(star, i, errno, err);
    return 0;
}

int star_max(struct star *star, int64_t *numbers, int count, double deadline, struct error *err)
{
    if (count > STAR_NUMBERS)
        return error_bug(err, "%d numbers are too many for one message between ranks", count);
    pthread_mutex_lock(&star->reading);
    return unlock(star, greatest(star, numbers, count, clock_now() + deadline, err));
}

/* --- Watching from another thread --------------------------------------------------------------
 */

enum star_news star_wait(struct star *star, double seconds, struct error *err)
{
    enum star_news result;

    if (collect(star, (int)(seconds * 1000)) == EVENTS)
        while (collect(star, 0) == EVENTS)
            ;
    /* A thread that is reading messages will check for itself, and the marks remain. */
    if (!atomic_load(&star->marked) || pthread_mutex_trylock(&star->reading))
        return STAR_QUIET;
    result = look(star, -1, err);
    pthread_mutex_unlock(&star->reading);
    return result;
}

void star_wake(struct star *star)
{
    uint64_t one = 1;
    ssize_t ignored = write(star->wake, &one, sizeof(one));

    (void)ignored;
}

void star_address(const struct star *star, char *text, size_t size)
{
    struct sockaddr_storage own;
    socklen_t length = sizeof(own);

    text[0] = '\0';
    if (star->count < 1 || getsockname(star->fds[0], (struct sockaddr *)&own, &length) < 0 ||
        getnameinfo((struct sockaddr *)&own, length, text, (socklen_t)size, NULL, 0,
                    NI_NUMERICHOST))
        text[0] = '\0';
    /* Rank 0 accepts IPv4 connections on an IPv6 socket. */
    if (strncmp(text, "::ffff:", 7) == 0)
        memmove(text, text + 7, strlen(text + 7) + 1);
    if (strncmp(text, "127.", 4) == 0 || strcmp(text, "::1") == 0)
        text[0] = '\0';
}

void star_abort(struct star *star, const char *reason)
{
    char text[REASON] = "";

    snprintf(text, sizeof(text), "%s", reason);
    for (int i = 0; i < star->count; i++)
        send_message(star, i, ABORT, text, sizeof(text), clock_now() + 1);
}
