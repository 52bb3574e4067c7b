/* SPDX-License-Identifier: Apache-2.0 */
#include "base/core/xmalloc.h"
#include "config.h"

#include "lib/clock.h"
#include "mesh.h"
#include "rendezvous.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

struct head {
    uint32_t channel, unused;
    uint64_t bytes;
};

/* A message that has arrived, or arrives, before it is expected. Its memory grows with what has
 * arrived: the size in its header is only a claim. */
struct stray {
    struct stray *next;
    uint32_t channel;
    size_t bytes, room;
    char *data;
};

enum { FIRST_ROOM = 1 << 16 };

struct peer {
    int fd; /* -1: this rank itself, or closed */
    struct mesh_message *sending, **last_sending;
    struct head sent_head; /* of the first message */
    size_t sent;           /* bytes of it, with its head */
    struct mesh_message *expected, **last_expected;
    struct stray *strays, **last_stray;
    struct head head; /* of the arriving message */
    size_t got;       /* bytes of it, with its head */
    struct mesh_message *into;
    struct stray *stray; /* the arriving message goes into one of them; that is the last one */
};

struct mesh {
    int rank, size;
    struct peer *peers;
    struct pollfd *polls;
    int *polled; /* the rank of each poll */
    struct error trouble;
};

/* --- Connecting ------------------------------------------------------------------------------ */

static void free_stray(struct stray *stray)
{
    free(stray->data);
    free(stray);
}

static struct mesh *allocate(int rank, int size)
{
    struct mesh *mesh = xcalloc(1, sizeof(*mesh));

    mesh->rank = rank;
    mesh->size = size;
    mesh->peers = xcalloc((size_t)size, sizeof(*mesh->peers));
    mesh->polls = xcalloc((size_t)size, sizeof(*mesh->polls));
    mesh->polled = xcalloc((size_t)size, sizeof(*mesh->polled));
    for (int i = 0; i < size; i++) {
        struct peer *p = &mesh->peers[i];

        p->fd = -1;
        p->last_sending = &p->sending;
        p->last_expected = &p->expected;
        p->last_stray = &p->strays;
    }
    return mesh;
}

/* Connect to all lower ranks, then accept all higher ones. Rank 0 only accepts, so each rank's turn
 * comes. */
static int connect_all(struct mesh *mesh, struct rendezvous_address *addresses, int listener,
                       const struct secret_key *key, double until, struct error *err)
{
    int higher = mesh->size - mesh->rank - 1, rc, *fds;

    for (int i = 0; i < mesh->rank; i++) {
        addresses[i].key = *key;
        addresses[i].key.known = 0; /* rank 0 has checked that rank's host */
        mesh->peers[i].fd =
            rendezvous_connect(mesh->rank, i, mesh->size, &addresses[i], until - clock_now(), err);
        if (mesh->peers[i].fd < 0)
            return -1;
    }
    if (higher == 0)
        return 0;
    fds = xcalloc((size_t)higher, sizeof(*fds));
    for (int i = 0; i < higher; i++)
        fds[i] = -1;
    rc = rendezvous_accept(listener, mesh->rank, mesh->size, key, until - clock_now(), fds, NULL,
                           err);
    for (int i = 0; i < higher; i++)
        mesh->peers[mesh->rank + 1 + i].fd = fds[i];
    free(fds);
    return rc;
}

struct mesh *mesh_create(struct star *star, int rank, int size, const struct secret_key *key,
                         double deadline, struct error *err)
{
    double until = clock_now() + deadline;
    struct rendezvous_address own, *all = xcalloc((size_t)size, sizeof(*all));
    struct mesh *mesh = allocate(rank, size);
    char near[64];
    int listener, rc = -1;

    /* The address by which this rank is connected already, then all others of this node. */
    star_address(star, near, sizeof(near));
    listener = rendezvous_listen(0, near[0] ? near : NULL, &own, err);
    if (listener < 0)
        goto out;
    memset(&own.key, 0, sizeof(own.key)); /* all ranks have the same key already */
    if (star_gather(star, &own, all, sizeof(own), deadline, err) < 0)
        goto out;
    rc = connect_all(mesh, all, listener, key, until, err);
out:
    if (listener >= 0)
        close(listener);
    free(all);
    if (rc == 0)
        return mesh;
    mesh_destroy(mesh);
    return NULL;
}

void mesh_destroy(struct mesh *mesh)
{
    if (!mesh)
        return;
    for (int i = 0; i < mesh->size; i++) {
        struct peer *p = &mesh->peers[i];

        if (p->fd >= 0)
            close(p->fd);
        while (p->strays) {
            struct stray *stray = p->strays;

            p->strays = stray->next;
            free_stray(stray);
        }
    }
    free(mesh->peers);
    free(mesh->polls);
    free(mesh->polled);
    free(mesh);
}

/* --- Matching -------------------------------------------------------------------------------- */

static int disagree(struct mesh *mesh, int peer, size_t bytes, size_t expected)
{
    return error_set(&mesh->trouble,
                     "rank %d sent %zu bytes, but rank %d expected %zu; start all ranks with the "
                     "same options and the same version of megatron",
                     peer, bytes, mesh->rank, expected);
}

/* Take the first expected message of a channel, or NULL. */
static struct mesh_message *take_expected(struct peer *p, uint32_t channel)
{
    for (struct mesh_message **at = &p->expected; *at; at = &(*at)->next) {
        struct mesh_message *found = *at;

        if (found->channel != channel)
            continue;
        *at = found->next;
        if (!found->next)
            p->last_expected = at;
        return found;
    }
    return NULL;
}

static void remove_stray(struct peer *p, struct stray **at)
{
    struct stray *stray = *at;

    *at = stray->next;
    if (!stray->next)
        p->last_stray = at;
    free_stray(stray);
}

/* The first stray of a channel. */
static struct stray **find_stray(struct peer *p, uint32_t channel)
{
    for (struct stray **at = &p->strays; *at; at = &(*at)->next)
        if ((*at)->channel == channel)
            return at;
    return NULL;
}

static struct stray *add_stray(struct peer *p, uint32_t channel, size_t bytes)
{
    struct stray *stray = xmalloc(sizeof(*stray));

    *stray = (struct stray){.channel = channel, .bytes = bytes};
    *p->last_stray = stray;
    p->last_stray = &stray->next;
    return stray;
}

/* Make room for more than the first 'got' bytes of a stray. */
static int grow_stray(struct mesh *mesh, struct stray *stray, size_t got)
{
    size_t room = stray->room > 0 ? 2 * stray->room : FIRST_ROOM;
    char *data;

    if (got < stray->room || got == stray->bytes)
        return 0;
    room = room < stray->bytes ? room : stray->bytes;
    data = realloc(stray->data, room);
    if (!data)
        return error_set(&mesh->trouble, "cannot allocate %zu bytes for a message: out of memory",
                         room);
    stray->data = data;
    stray->room = room;
    return 0;
}

static void finish(struct mesh_message *message)
{
    --*message->pending;
}

void mesh_receive(struct mesh *mesh, struct mesh_message *message)
{
    struct peer *p = &mesh->peers[message->peer];
    struct stray **at = find_stray(p, message->channel), *stray = at ? *at : NULL;
    size_t arrived;

    message->next = NULL;
    if (!stray) {
        *p->last_expected = message;
        p->last_expected = &message->next;
        return;
    }
    if (stray->bytes != message->bytes) {
        disagree(mesh, message->peer, stray->bytes, message->bytes);
        return;
    }
    arrived = stray == p->stray ? p->got - sizeof(p->head) : stray->bytes;
    if (arrived > 0)
        memcpy(message->data, stray->data, arrived);
    if (stray == p->stray) {
        p->stray = NULL;
        p->into = message; /* the rest goes there */
    } else {
        finish(message);
    }
    remove_stray(p, at);
}

/* --- Moving ---------------------------------------------------------------------------------- */

/* Send as much as the connection takes. */
static void push(struct peer *p)
{
    while (p->sending && p->fd >= 0) {
        struct mesh_message *m = p->sending;
        struct iovec parts[2];
        struct msghdr header = {.msg_iov = parts};
        ssize_t sent;

        p->sent_head = (struct head){.channel = m->channel, .bytes = m->bytes};
        if (p->sent < sizeof(p->sent_head))
            parts[header.msg_iovlen++] =
                (struct iovec){(char *)&p->sent_head + p->sent, sizeof(p->sent_head) - p->sent};
        if (m->bytes > 0) {
            size_t done = p->sent > sizeof(p->sent_head) ? p->sent - sizeof(p->sent_head) : 0;

            parts[header.msg_iovlen++] = (struct iovec){(char *)m->data + done, m->bytes - done};
        }
        sent = sendmsg(p->fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EINTR)
            return; /* not now, or never again: reading shows the end of a connection */
        p->sent += sent > 0 ? (size_t)sent : 0;
        if (p->sent < sizeof(p->sent_head) + m->bytes)
            continue;
        p->sent = 0;
        p->sending = m->next;
        if (!p->sending)
            p->last_sending = &p->sending;
        finish(m);
    }
}

static void send_to_self(struct mesh *mesh, struct mesh_message *message)
{
    struct peer *p = &mesh->peers[mesh->rank];
    struct mesh_message *into = take_expected(p, message->channel);
    char *data = into ? into->data : NULL;
    struct stray *stray;

    if (into && into->bytes != message->bytes) {
        disagree(mesh, mesh->rank, message->bytes, into->bytes);
        return;
    }
    if (!into) {
        data = malloc(message->bytes + 1);
        if (!data) {
            error_set(&mesh->trouble, "cannot allocate %zu bytes for a message: out of memory",
                      message->bytes);
            return;
        }
        stray = add_stray(p, message->channel, message->bytes);
        stray->data = data;
    }
    if (message->bytes > 0)
        memcpy(data, message->data, message->bytes);
    if (into)
        finish(into);
    finish(message);
}

void mesh_send(struct mesh *mesh, struct mesh_message *message)
{
    struct peer *p = &mesh->peers[message->peer];

    if (message->bytes > MESH_MOST_BYTES) {
        error_bug(&mesh->trouble, "a message of %zu bytes is too long", message->bytes);
        return;
    }
    if (message->peer == mesh->rank) {
        send_to_self(mesh, message);
        return;
    }
    message->next = NULL;
    *p->last_sending = message;
    p->last_sending = &message->next;
    push(p);
}

/* The head of a message is complete: where does its data go? */
static int begin_message(struct mesh *mesh, int peer)
{
    struct peer *p = &mesh->peers[peer];
    size_t bytes;

    if (p->head.bytes > MESH_MOST_BYTES)
        return error_set(&mesh->trouble,
                         "rank %d announced a message of %" PRIu64 " bytes, which no rank sends; "
                         "start all ranks with the same version of megatron",
                         peer, p->head.bytes);
    bytes = (size_t)p->head.bytes;
    p->into = take_expected(p, p->head.channel);
    if (p->into && p->into->bytes != bytes)
        return disagree(mesh, peer, bytes, p->into->bytes);
    if (!p->into)
        p->stray = add_stray(p, p->head.channel, bytes);
    return 0;
}

static void end_message(struct peer *p)
{
    if (p->into)
        finish(p->into);
    p->into = NULL;
    p->stray = NULL;
    p->got = 0;
}

/* Receive what has arrived. */
static int pull(struct mesh *mesh, int peer)
{
    struct peer *p = &mesh->peers[peer];

    while (p->fd >= 0) {
        size_t head = sizeof(p->head);
        char *at;
        size_t left;
        ssize_t got;

        if (p->got < head) {
            at = (char *)&p->head + p->got;
            left = head - p->got;
        } else {
            size_t done = p->got - head;

            if (p->stray && grow_stray(mesh, p->stray, done) < 0)
                return -1;
            at = (p->into ? (char *)p->into->data : p->stray->data) + done;
            left = (p->into ? p->into->bytes : p->stray->room) - done;
        }
        got = recv(p->fd, at, left, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (got <= 0) {
            close(p->fd);
            p->fd = -1;
            return 0;
        }
        p->got += (size_t)got;
        if (p->got == head && begin_message(mesh, peer) < 0)
            return -1;
        if (p->got >= head && p->got == head + p->head.bytes)
            end_message(p);
    }
    return 0;
}

int mesh_progress(struct mesh *mesh, int microseconds, struct error *err)
{
    struct timespec most = {0, 1000L * microseconds};
    int count = 0, ready;

    for (int i = 0; i < mesh->size; i++) {
        struct peer *p = &mesh->peers[i];

        if (p->fd < 0)
            continue;
        mesh->polled[count] = i;
        mesh->polls[count++] =
            (struct pollfd){p->fd, (short)(POLLIN | (p->sending ? POLLOUT : 0)), 0};
    }
    ready = mesh->trouble.text[0] ? 0 : ppoll(mesh->polls, (nfds_t)count, &most, NULL);
    for (int i = 0; i < count && ready > 0; i++) {
        if (mesh->polls[i].revents & POLLOUT)
            push(&mesh->peers[mesh->polled[i]]);
        if (mesh->polls[i].revents & ~POLLOUT && pull(mesh, mesh->polled[i]) < 0)
            break;
    }
    if (!mesh->trouble.text[0])
        return 0;
    *err = mesh->trouble;
    return -1;
}
