#include "star.h"
#include "clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* What a message begins with. */
enum kind { HELLO = 'H', DATA = 'D', ABORT = 'A', GOODBYE = 'G' };

enum { REASON = 512 };

struct star {
    int rank, size;
    int *fds;                /* rank 0: of every other rank; else: [0] of rank 0. -1: gone */
    int count;               /* of fds */
    pthread_mutex_t lock;    /* of sending, so that an abort does not cut a message in two */
    pthread_mutex_t reading; /* held while messages are read: their middle means nothing */
};

/* The rank at the other end of connection i. */
static int peer_of(const struct star *star, int i)
{
    return star->rank == 0 ? i + 1 : 0;
}

static int wait_for(int fd, short events, double until)
{
    struct pollfd p = {fd, events, 0};
    double left = until - clock_now();

    return left > 0 ? poll(&p, 1, left > 1 ? 1000 : (int)(left * 1000) + 1) : -1;
}

static int send_all(int fd, const void *data, size_t bytes, double until)
{
    const char *at = data;

    while (bytes > 0) {
        ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent > 0) {
            at += sent;
            bytes -= (size_t)sent;
        } else if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            return -1;
        } else if (wait_for(fd, POLLOUT, until) < 0 && clock_now() >= until) {
            return -1;
        }
    }
    return 0;
}

/* Returns -1 at the end of the connection (errno 0), on an error, or when the time is over. */
static int receive_all(int fd, void *data, size_t bytes, double until)
{
    char *at = data;

    while (bytes > 0) {
        ssize_t got = recv(fd, at, bytes, MSG_DONTWAIT);

        if (got > 0) {
            at += got;
            bytes -= (size_t)got;
        } else if (got == 0) {
            errno = 0;
            return -1;
        } else if (errno != EAGAIN && errno != EINTR) {
            return -1;
        } else if (wait_for(fd, POLLIN, until) < 0 && clock_now() >= until) {
            errno = ETIMEDOUT;
            return -1;
        }
    }
    return 0;
}

static void prepare(int fd)
{
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

static int listen_on(int port, struct error *err)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in old = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int off = 0, on = 1, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), failed;

    if (fd >= 0) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        failed = bind(fd, (struct sockaddr *)&address, sizeof(address));
    } else {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        failed = bind(fd, (struct sockaddr *)&old, sizeof(old));
    }
    if (fd < 0 || failed || listen(fd, 4096)) {
        error_set_errno(err, errno, "rank 0 cannot listen on port %d for the other ranks", port);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}

/* Name the ranks that have not come. */
static int report_missing(const struct star *star, double deadline, struct error *err)
{
    char names[256] = "";
    int missing = 0;

    for (int i = 0; i < star->count; i++) {
        size_t used = strlen(names);

        if (star->fds[i] >= 0)
            continue;
        if (missing++ < 16)
            snprintf(names + used, sizeof(names) - used, " %d", peer_of(star, i));
    }
    return error_set(err, "%d of %d ranks did not come within %.0f s:%s%s", missing, star->size,
                     deadline, names, missing > 16 ? " ..." : "");
}

static int accept_all(struct star *star, int port, double deadline, struct error *err)
{
    double until = clock_now() + deadline;
    int listener = listen_on(port, err), come = 0;

    if (listener < 0)
        return -1;
    while (come < star->count && clock_now() < until) {
        int32_t hello[3];
        int fd;

        if (wait_for(listener, POLLIN, until) <= 0)
            continue;
        fd = accept(listener, NULL, NULL);
        if (fd < 0)
            continue;
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        prepare(fd);
        /* Anything may knock here; only ranks of this world know what to say. */
        if (receive_all(fd, hello, sizeof(hello), clock_now() + 5) || hello[0] != HELLO ||
            hello[1] != star->size || hello[2] < 1 || hello[2] >= star->size ||
            star->fds[hello[2] - 1] >= 0) {
            close(fd);
            continue;
        }
        star->fds[hello[2] - 1] = fd;
        come++;
    }
    close(listener);
    return come < star->count ? report_missing(star, deadline, err) : 0;
}

static int try_connect(const char *master, int port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    char service[16];
    int fd = -1;

    snprintf(service, sizeof(service), "%d", port);
    if (getaddrinfo(master, service, &hints, &found))
        return -1;
    for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen)) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return fd;
}

static int connect_one(struct star *star, const char *master, int port, double deadline,
                       struct error *err)
{
    int32_t hello[3] = {HELLO, star->size, star->rank};
    double until = clock_now() + deadline;

    while (star->fds[0] < 0 && clock_now() < until) {
        star->fds[0] = try_connect(master, port);
        if (star->fds[0] < 0)
            nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
    if (star->fds[0] < 0)
        return error_set(err, "rank %d cannot reach rank 0 at %s port %d within %.0f s", star->rank,
                         master, port, deadline);
    prepare(star->fds[0]);
    if (send_all(star->fds[0], hello, sizeof(hello), until))
        return error_set_errno(err, errno, "rank %d cannot talk to rank 0", star->rank);
    return 0;
}

struct star *star_create(int rank, int size, const char *master, int port, double deadline,
                         struct error *err)
{
    struct star *star = calloc(1, sizeof(*star));
    int failed;

    if (star) {
        star->count = rank == 0 ? size - 1 : 1;
        star->fds = malloc((size_t)(star->count + 1) * sizeof(int));
    }
    if (!star || !star->fds) {
        error_set(err, "out of memory");
        free(star);
        return NULL;
    }
    star->rank = rank;
    star->size = size;
    pthread_mutex_init(&star->lock, NULL);
    pthread_mutex_init(&star->reading, NULL);
    for (int i = 0; i < star->count; i++)
        star->fds[i] = -1;
    failed = rank == 0 ? accept_all(star, port, deadline, err)
                       : connect_one(star, master ? master : "localhost", port, deadline, err);
    if (failed) {
        star_destroy(star);
        return NULL;
    }
    return star;
}

static int send_message(struct star *star, int i, enum kind kind, const void *data, size_t bytes,
                        double until)
{
    unsigned char head = (unsigned char)kind;
    int failed;

    pthread_mutex_lock(&star->lock);
    failed = send_all(star->fds[i], &head, 1, until) ||
             (bytes > 0 && send_all(star->fds[i], data, bytes, until));
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
    pthread_mutex_destroy(&star->lock);
    pthread_mutex_destroy(&star->reading);
    free(star->fds);
    free(star);
}

static int lost(const struct star *star, int i, int number, struct error *err)
{
    if (number)
        return error_set_errno(err, number, "rank %d: no word from rank %d", star->rank,
                               peer_of(star, i));
    return error_set(err, "rank %d: rank %d has ended", star->rank, peer_of(star, i));
}

/* A message of DATA from connection i; an abort in its place is the error. */
static int receive_data(struct star *star, int i, void *data, size_t bytes, double until,
                        struct error *err)
{
    unsigned char head;
    char reason[REASON];

    if (receive_all(star->fds[i], &head, 1, until))
        return lost(star, i, errno, err);
    if (head == ABORT) {
        reason[0] = '\0';
        receive_all(star->fds[i], reason, sizeof(reason), clock_now() + 1);
        reason[REASON - 1] = '\0';
        return error_set(err, "%s", reason);
    }
    if (head != DATA)
        return lost(star, i, 0, err);
    if (bytes > 0 && receive_all(star->fds[i], data, bytes, until))
        return lost(star, i, errno, err);
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
    if (bytes > 0)
        memmove(all, part, bytes);
    for (int i = 0; i < star->count; i++)
        if (receive_data(star, i, (char *)all + (size_t)(i + 1) * bytes, bytes, until, err))
            return -1;
    for (int i = 0; i < star->count; i++)
        if (send_message(star, i, DATA, all, bytes * (size_t)star->size, until))
            return lost(star, i, errno, err);
    return 0;
}

int star_gather(struct star *star, const void *part, void *all, size_t bytes, double deadline,
                struct error *err)
{
    int result;

    pthread_mutex_lock(&star->reading);
    result = gather(star, part, all, bytes, clock_now() + deadline, err);
    pthread_mutex_unlock(&star->reading);
    return result;
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
    int result;

    if (count > STAR_NUMBERS)
        return error_set(err, "%d numbers are too many to agree on", count);
    pthread_mutex_lock(&star->reading);
    result = greatest(star, numbers, count, clock_now() + deadline, err);
    pthread_mutex_unlock(&star->reading);
    return result;
}

static int look(struct star *star, struct error *err)
{
    for (int i = 0; i < star->count; i++) {
        char message[1 + REASON];
        ssize_t got = recv(star->fds[i], message, sizeof(message), MSG_PEEK | MSG_DONTWAIT);

        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            return lost(star, i, 0, err);
        if (got == (ssize_t)sizeof(message) && message[0] == ABORT) {
            message[REASON] = '\0';
            return error_set(err, "%s", message + 1);
        }
    }
    return 0;
}

int star_check(struct star *star, struct error *err)
{
    int result;

    /* Who reads messages now will see what there is to see. */
    if (pthread_mutex_trylock(&star->reading))
        return 0;
    result = look(star, err);
    pthread_mutex_unlock(&star->reading);
    return result;
}

void star_abort(struct star *star, const char *reason)
{
    char text[REASON] = "";

    snprintf(text, sizeof(text), "%s", reason);
    for (int i = 0; i < star->count; i++)
        send_message(star, i, ABORT, text, sizeof(text), clock_now() + 1);
}
