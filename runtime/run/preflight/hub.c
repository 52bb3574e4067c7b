/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "hub.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/clock.h"
#include "engine/comm/rendezvous.h"
#include "engine/comm/socket.h"
#include "base/core/xmalloc.h"

enum { PINGS = 4, NAME = 64 };

/* One rank that is stopped must not use up the time of all others. */
#define ANSWER_SECONDS 3.0

struct hub {
    int rank, size;
    int *fds; /* on rank 0: [i] to rank i + 1; otherwise [0] to rank 0. -1: closed */
    char (*hosts)[NAME];
    enum hub_state *states;
};

static struct hub *allocate(int rank, int size)
{
    struct hub *hub = xcalloc(1, sizeof(*hub));
    size_t count = (size_t)size;

    hub->rank = rank;
    hub->size = size;
    hub->fds = xcalloc(count, sizeof(*hub->fds));
    hub->hosts = xcalloc(count, sizeof(*hub->hosts));
    hub->states = xcalloc(count, sizeof(*hub->states));
    for (int i = 0; i < size; i++)
        hub->fds[i] = -1;
    return hub;
}

static int accept_all(struct hub *hub, int port, const struct secret_key *key, double deadline,
                      struct error *err)
{
    struct rendezvous_address address;
    int listener = rendezvous_listen(port, NULL, &address, err);

    if (listener < 0)
        return -1;
    gethostname(hub->hosts[0], NAME - 1);
    /* Missing ranks are found below. */
    rendezvous_accept(listener, 0, hub->size, key, deadline, hub->fds, hub->hosts + 1, NULL);
    close(listener);
    for (int rank = 1; rank < hub->size; rank++)
        if (hub->fds[rank - 1] < 0)
            hub->states[rank] = HUB_ABSENT;
    return 0;
}

struct hub *hub_open(int rank, int size, const char *host, int port, const char *secret,
                     double deadline, struct error *err)
{
    struct hub *hub = allocate(rank, size);
    struct rendezvous_address address = {.port = port};
    bool failed;

    if (size == 1)
        return hub;
    if (secret_derive(secret, &address.key, err) < 0) {
        failed = true;
    } else if (rank == 0) {
        failed = accept_all(hub, port, &address.key, deadline, err) < 0;
    } else {
        snprintf(address.hosts, sizeof(address.hosts), "%s", host);
        hub->fds[0] = rendezvous_connect(rank, 0, size, &address, deadline, err);
        failed = hub->fds[0] < 0;
    }
    if (failed) {
        hub_close(hub);
        return NULL;
    }
    return hub;
}

void hub_close(struct hub *hub)
{
    if (!hub)
        return;
    for (int i = 0; i < hub->size; i++)
        if (hub->fds[i] >= 0)
            close(hub->fds[i]);
    free(hub->fds);
    free(hub->hosts);
    free(hub->states);
    free(hub);
}

enum hub_state hub_state(const struct hub *hub, int rank)
{
    return hub->states[rank];
}

const char *hub_host(const struct hub *hub, int rank)
{
    return hub->hosts[rank];
}

static void lose(struct hub *hub, int rank, enum hub_state state)
{
    if (rank < 1 || hub->fds[rank - 1] < 0)
        return;
    close(hub->fds[rank - 1]);
    hub->fds[rank - 1] = -1;
    hub->states[rank] = state;
}

void hub_drop(struct hub *hub, int rank)
{
    lose(hub, rank, HUB_EXCLUDED);
}

static int lost_rank_0(const struct hub *hub, struct error *err)
{
    error_set(err, "rank %d lost its connection to rank 0: %s", hub->rank,
              errno ? strerror(errno) : "rank 0 has ended");
    error_append(err, "; see the output of rank 0");
    if (err)
        err->code = ERROR_RANK;
    return -1;
}

/* Read what has arrived from 'rank'. Is its part complete, or is it gone? */
static bool read_some(struct hub *hub, int rank, char *part, size_t bytes, size_t *got)
{
    ssize_t count = recv(hub->fds[rank - 1], part + *got, bytes - *got, MSG_DONTWAIT);

    if (count > 0)
        *got += (size_t)count;
    else if (count == 0 || (errno != EAGAIN && errno != EINTR))
        lose(hub, rank, HUB_ENDED);
    return *got == bytes || hub->fds[rank - 1] < 0;
}

/* On rank 0: receive from all at once, so that one that is silent does not delay the others. */
static void receive_parts(struct hub *hub, char *all, size_t bytes, double until)
{
    struct pollfd *polls = xcalloc((size_t)hub->size, sizeof(*polls));
    size_t *got = xcalloc((size_t)hub->size, sizeof(*got));
    int waiting = 0;

    for (int rank = 1; rank < hub->size; rank++) {
        polls[rank] = (struct pollfd){.fd = hub->fds[rank - 1], .events = POLLIN};
        waiting += polls[rank].fd >= 0;
    }
    while (waiting > 0 && clock_now() < until) {
        if (poll(polls + 1, (nfds_t)hub->size - 1, 50) <= 0)
            continue;
        for (int rank = 1; rank < hub->size; rank++)
            if (polls[rank].fd >= 0 && polls[rank].revents &&
                read_some(hub, rank, all + (size_t)rank * bytes, bytes, &got[rank])) {
                polls[rank].fd = -1;
                waiting--;
            }
    }
    for (int rank = 1; rank < hub->size; rank++) {
        if (polls[rank].fd >= 0)
            lose(hub, rank, HUB_SILENT);
        if (hub->states[rank] != HUB_ALIVE)
            memset(all + (size_t)rank * bytes, 0, bytes);
    }
    free(polls);
    free(got);
}

int hub_collect(struct hub *hub, const void *part, void *all, size_t bytes, double deadline,
                struct error *err)
{
    double until = clock_now() + deadline;

    if (hub->rank != 0)
        return socket_send(hub->fds[0], part, bytes, until) ? lost_rank_0(hub, err) : 0;
    memset(all, 0, bytes * (size_t)hub->size);
    memcpy(all, part, bytes);
    receive_parts(hub, all, bytes, until);
    return 0;
}

/* Rank 0 sends 'bytes' at 'from' to every other rank, and 'stride' bytes further to the next one.
 */
static int send_to_all(struct hub *hub, const char *from, size_t stride, void *mine, size_t bytes,
                       double deadline, struct error *err)
{
    double until = clock_now() + deadline;

    if (hub->rank != 0)
        return socket_receive(hub->fds[0], mine, bytes, until) ? lost_rank_0(hub, err) : 0;
    for (int rank = 1; rank < hub->size; rank++)
        if (hub->fds[rank - 1] >= 0 &&
            socket_send(hub->fds[rank - 1], from + (size_t)rank * stride, bytes, until))
            lose(hub, rank, errno == ETIMEDOUT ? HUB_SILENT : HUB_ENDED);
    return 0;
}

int hub_share(struct hub *hub, void *data, size_t bytes, double deadline, struct error *err)
{
    return send_to_all(hub, data, 0, data, bytes, deadline, err);
}

int hub_give(struct hub *hub, const void *all, void *mine, size_t bytes, double deadline,
             struct error *err)
{
    return send_to_all(hub, all, bytes, mine, bytes, deadline, err);
}

/* One round trip: rank 0 asks, 'rank' answers with its time. */
static int ping(struct hub *hub, int rank, double *ahead, double *uncertainty, double until)
{
    double begin = clock_now(), mine = clock_wall(), theirs, half;
    char question = 'c';

    if (socket_send(hub->fds[rank - 1], &question, 1, until) ||
        socket_receive(hub->fds[rank - 1], &theirs, sizeof(theirs), until)) {
        lose(hub, rank, errno == ETIMEDOUT ? HUB_SILENT : HUB_ENDED);
        return -1;
    }
    half = (clock_now() - begin) / 2;
    if (half < *uncertainty) {
        *uncertainty = half;
        *ahead = theirs - (mine + half);
    }
    return 0;
}

static int answer_pings(struct hub *hub, double until, struct error *err)
{
    char question;
    double now;

    for (int i = 0; i < PINGS; i++) {
        if (socket_receive(hub->fds[0], &question, 1, until))
            return lost_rank_0(hub, err);
        now = clock_wall();
        if (socket_send(hub->fds[0], &now, sizeof(now), until))
            return lost_rank_0(hub, err);
    }
    return 0;
}

int hub_compare_clocks(struct hub *hub, const char *asked, double *ahead, double *uncertainty,
                       double deadline, struct error *err)
{
    if (hub->rank != 0)
        return answer_pings(hub, clock_now() + deadline, err);
    for (int rank = 0; rank < hub->size; rank++) {
        double until = clock_now() + fmin(deadline, ANSWER_SECONDS);

        ahead[rank] = 0;
        uncertainty[rank] = rank == 0 ? 0 : INFINITY;
        for (int i = 0; rank > 0 && asked[rank] && i < PINGS && hub->fds[rank - 1] >= 0; i++)
            ping(hub, rank, &ahead[rank], &uncertainty[rank], until);
    }
    return 0;
}
