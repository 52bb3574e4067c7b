/* SPDX-License-Identifier: Apache-2.0 */
/* The listening side of the rendezvous. It serves all connections at once: a process that connects
 * and says nothing must not delay the ranks. */
#include "base/core/xmalloc.h"
#include "config.h"

#include "lib/clock.h"
#include "handshake.h"
#include "peer.h"
#include "rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_PENDING = 1024, ACCEPTED_AT_ONCE = 64 };

/* Seconds that a connection has for the handshake, and until it may be closed to make room. */
#define HANDSHAKE_SECONDS 10.0
#define YOUNG_SECONDS     0.1

/* A connection that is not yet that of a rank. */
struct pending {
    int fd;
    bool greeted; /* its hello was right, though perhaps recorded */
    double since;
    size_t got; /* bytes of the hello, then of the proof */
    struct handshake_hello hello;
    struct handshake_welcome welcome;
    struct handshake_proof proof;
};

struct acceptor {
    int listener, own, size;
    const struct secret_key *key;
    int *fds;
    char (*hosts)[64];
    int missing;
    int refused; /* connections without the right key */
    int foreign; /* connections of other hosts to a world without a secret */
    struct peer_nodes nodes;
    int count; /* of pending, the oldest first */
    struct pending *pending[MOST_PENDING];
};

static void remove_pending(struct acceptor *r, int i)
{
    free(r->pending[i]);
    memmove(&r->pending[i], &r->pending[i + 1], (size_t)(r->count - i - 1) * sizeof(r->pending[0]));
    r->count--;
}

static void dismiss(struct acceptor *r, int i)
{
    close(r->pending[i]->fd);
    remove_pending(r, i);
}

/* Close the oldest connection, unless it is new: at first one that has not greeted, but a greeting
 * proves nothing either, since it may be a recorded one. */
static int make_room(struct acceptor *r, double now)
{
    for (int greeted = 0; greeted < 2; greeted++)
        for (int i = 0; i < r->count; i++)
            if (r->pending[i]->greeted == greeted && now - r->pending[i]->since > YOUNG_SECONDS) {
                dismiss(r, i);
                return 1;
            }
    return 0;
}

/* Returns 1 when the message is complete, 0 if more must come, -1 at its end or on an error. */
static int read_more(struct pending *g, void *message, size_t size)
{
    ssize_t got = recv(g->fd, (char *)message + g->got, size - g->got, MSG_DONTWAIT);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (got <= 0)
        return -1;
    g->got += (size_t)got;
    return g->got == size;
}

static int answer_hello(const struct acceptor *r, struct pending *g)
{
    int from = g->hello.from;

    if (handshake_check_hello(r->key, &g->hello) < 0 || g->hello.size != r->size ||
        g->hello.to != r->own || from <= r->own || from >= r->size ||
        secret_random(g->welcome.number, SECRET_BYTES, NULL) < 0 ||
        handshake_sign_welcome(r->key, &g->hello, &g->welcome) < 0)
        return -1;
    /* It fits into the empty buffer of a new connection. */
    if (send(g->fd, &g->welcome, sizeof(g->welcome), MSG_NOSIGNAL | MSG_DONTWAIT) !=
        (ssize_t)sizeof(g->welcome))
        return -1;
    g->greeted = true;
    g->got = 0;
    return 0;
}

/* The connection is that of a rank. If the rank has connected before, it has given up that
 * connection. */
static void admit(struct acceptor *r, int i)
{
    struct pending *g = r->pending[i];
    int at = g->hello.from - r->own - 1;

    if (r->fds[at] >= 0)
        close(r->fds[at]);
    else
        r->missing--;
    r->fds[at] = g->fd;
    g->hello.host[sizeof(g->hello.host) - 1] = '\0';
    if (r->hosts)
        memcpy(r->hosts[at], g->hello.host, sizeof(g->hello.host));
    remove_pending(r, i);
}

/* Returns 1 if the connection has left the list. */
static int serve(struct acceptor *r, int i)
{
    struct pending *g = r->pending[i];
    int rc;

    if (!g->greeted) {
        rc = read_more(g, &g->hello, sizeof(g->hello));
        if (rc < 0 || (rc > 0 && answer_hello(r, g) < 0)) {
            r->refused += rc > 0;
            dismiss(r, i);
            return 1;
        }
        return 0;
    }
    rc = read_more(g, &g->proof, sizeof(g->proof));
    if (rc == 0)
        return 0;
    if (rc > 0 && handshake_check_proof(r->key, &g->welcome, &g->proof) == 0)
        admit(r, i);
    else
        dismiss(r, i);
    return 1;
}

/* Accept what has connected. Returns 0; 1 if there is no room for more now; -1 if this process may
 * not open enough files. */
static int accept_more(struct acceptor *r, struct error *err)
{
    for (int i = 0; i < ACCEPTED_AT_ONCE; i++) {
        double now = clock_now();
        int fd;

        if (r->count == MOST_PENDING && !make_room(r, now))
            return 1;
        fd = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
            if (r->count > 0)
                return make_room(r, now) ? 0 : 1;
            error_set_errno(err, errno,
                            "rank %d cannot keep connections to %d ranks open, %d have connected",
                            r->own, r->size, r->size - r->missing);
            return error_append(err, "; raise the limit on open files (ulimit -Hn)");
        }
        if (fd < 0)
            return 0;
        if (r->key->known && !peer_is_expected(&r->nodes, fd)) {
            r->foreign++;
            close(fd);
            continue;
        }
        r->pending[r->count] = xcalloc(1, sizeof(struct pending));
        rendezvous_prepare(fd);
        r->pending[r->count]->fd = fd;
        r->pending[r->count++]->since = now;
    }
    return 0;
}

/* Wait for at most 'milliseconds' and serve what has arrived. 'full': do not accept more. */
static int serve_all(struct acceptor *r, int *full, int milliseconds, struct error *err)
{
    struct pollfd list[MOST_PENDING + 1];
    int count = r->count, ready;

    for (int i = 0; i < count; i++)
        list[i] = (struct pollfd){r->pending[i]->fd, POLLIN, 0};
    list[count] = (struct pollfd){*full ? -1 : r->listener, POLLIN, 0};
    ready = poll(list, (nfds_t)count + 1, *full && milliseconds > 50 ? 50 : milliseconds);
    *full = 0;
    if (ready < 0)
        return 0;
    for (int i = count - 1; i >= 0; i--) {
        if (list[i].revents && serve(r, i))
            continue;
        if (clock_now() - r->pending[i]->since > HANDSHAKE_SECONDS)
            dismiss(r, i);
    }
    if (list[count].revents) {
        int rc = accept_more(r, err);

        *full = rc > 0;
        return rc < 0 ? -1 : 0;
    }
    return 0;
}

/* Name the ranks that have not connected. */
static int report_missing(const struct acceptor *r, double deadline, struct error *err)
{
    char names[256] = "";
    int missing = 0;

    for (int rank = r->own + 1; rank < r->size; rank++) {
        size_t used = strlen(names);

        if (r->fds[rank - r->own - 1] >= 0)
            continue;
        if (missing++ < 16)
            snprintf(names + used, sizeof(names) - used, " %d", rank);
    }
    error_set(err, "%d of %d ranks did not connect within %.0f s:%s%s", missing, r->size, deadline,
              names, missing > 16 ? " ..." : "");
    if (r->foreign > 0)
        error_append(err,
                     "; connections from other hosts were refused (%d), since MEGATRON_SECRET is "
                     "not set; set it to the same random text for all ranks",
                     r->foreign);
    else if (r->refused > 0)
        error_append(err,
                     "; connections without the right secret were refused (%d); set the same "
                     "MEGATRON_SECRET for all ranks",
                     r->refused);
    else
        error_append(err, "; see their output, and check that no firewall blocks connections to "
                          "this node");
    return -1;
}

int rendezvous_accept(int listener, int own, int size, const struct secret_key *key,
                      double deadline, int *fds, char (*hosts)[64], struct error *err)
{
    struct acceptor *r = xcalloc(1, sizeof(*r));
    double until = clock_now() + deadline;
    int rc = 0, full = 0;

    *r = (struct acceptor){.listener = listener,
                           .own = own,
                           .size = size,
                           .key = key,
                           .fds = fds,
                           .hosts = hosts,
                           .missing = size - own - 1};
    while (r->missing > 0) {
        double left = until - clock_now();

        rc = left > 0 ? serve_all(r, &full, left > 0.5 ? 500 : (int)(left * 1000) + 1, err)
                      : report_missing(r, deadline, err);
        if (rc)
            break;
    }
    while (r->count > 0)
        dismiss(r, 0);
    peer_nodes_clear(&r->nodes);
    free(r);
    return rc;
}
