/* SPDX-License-Identifier: Apache-2.0 */
/* What rank 0 receives from a rank 1 that writes whatever it wants: sizes that wrap around or that
 * no machine has, sizes without data, messages in pieces, before and after they are expected. */
#include "engine/comm/mesh.h"
#include "tap.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BYTES = 300000, CHANNEL = 3 };

static const struct secret_key key = {.bytes = {7}};

struct header {
    uint32_t channel, unused;
    uint64_t bytes;
};

/* Rank 1: its star, and its bare connection to rank 0. */
struct other {
    struct rendezvous_address address;
    struct star *star;
    int fd;
};

static void *connect_other(void *argument)
{
    struct other *o = argument;
    struct rendezvous_address none = {.port = 0}, all[2];
    struct error err;

    o->star = star_join(1, 2, &o->address, -1, 60, &err);
    if (!o->star || star_gather(o->star, &none, all, sizeof(none), 60, &err))
        return NULL;
    all[0].key = key;
    o->fd = rendezvous_connect(1, 0, 2, &all[0], 60, &err);
    return NULL;
}

static struct mesh *open_mesh(struct star **star, struct other *o)
{
    struct error err = {.text = ""};
    int listener = rendezvous_listen(0, "127.0.0.1", &o->address, &err);
    struct mesh *mesh = NULL;
    pthread_t thread;

    o->star = NULL;
    o->fd = -1;
    if (listener < 0 || pthread_create(&thread, NULL, connect_other, o))
        return NULL;
    *star = star_join(0, 2, &o->address, listener, 60, &err);
    if (*star)
        mesh = mesh_create(*star, 0, 2, &key, 60, &err);
    if (!mesh)
        diag("%s", err.text);
    pthread_join(thread, NULL);
    close(listener);
    return mesh;
}

static void close_mesh(struct mesh *mesh, struct star *star, struct other *o)
{
    if (o->fd >= 0)
        close(o->fd);
    mesh_destroy(mesh);
    star_destroy(o->star);
    star_destroy(star);
}

/* Let rank 0 take what rank 1 has sent. */
static int move(struct mesh *mesh, struct error *err)
{
    int rc = 0;

    for (int i = 0; i < 20 && rc == 0; i++)
        rc = mesh_progress(mesh, 2000, err);
    return rc;
}

static void send_all(int fd, const void *data, size_t bytes)
{
    if (send(fd, data, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
        diag("cannot send %zu bytes", bytes);
}

static void test_sizes(void)
{
    static const struct {
        const char *name;
        uint64_t announced;
        size_t expected; /* by rank 0; 0: nothing */
        int rc;
    } rows[] = {
        {"a size that wraps around", UINT64_MAX, 0, -1},
        {"one that wraps around with a header", UINT64_MAX - 15, 0, -1},
        {"one that wraps around with more", UINT64_MAX - 39, 0, -1},
        {"half of all addresses", (uint64_t)1 << 63, 0, -1},
        {"more than the limit", MESH_MOST_BYTES + 1, 0, -1},
        {"more than is expected", UINT64_MAX, 8, -1},
        {"one byte more than is expected", 9, 8, -1},
        {"the limit, without data", MESH_MOST_BYTES, 0, 0},
        {"nothing", 0, 0, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct header header = {.channel = CHANNEL, .bytes = rows[i].announced};
        char data[64] = "", into[16];
        struct error err = {.text = ""};
        int pending = 1;
        struct mesh_message message = {.peer = 1,
                                       .channel = CHANNEL,
                                       .data = into,
                                       .bytes = rows[i].expected,
                                       .pending = &pending};
        struct other other;
        struct star *star = NULL;
        struct mesh *mesh = open_mesh(&star, &other);

        if (!mesh) {
            ok(0, "%s: no mesh", rows[i].name);
            continue;
        }
        if (rows[i].expected > 0)
            mesh_receive(mesh, &message);
        send_all(other.fd, &header, sizeof(header));
        if (rows[i].announced > 0)
            send_all(other.fd, data, sizeof(data));
        ok(move(mesh, &err) == rows[i].rc && !err.text[0] == !rows[i].rc, "%s", rows[i].name);
        if (err.text[0])
            diag("%s", err.text);
        close_mesh(mesh, star, &other);
    }
}

/* A message is expected after the first, second ... of its pieces has arrived, another one of the
 * same channel follows, and one of another channel is between them. */
static void test_pieces(void)
{
    unsigned char *data = malloc(BYTES), *got = malloc(BYTES), small[2] = "", between = 0;
    struct other other;
    struct star *star = NULL;
    struct mesh *mesh = open_mesh(&star, &other);
    struct header headers[] = {{CHANNEL, 0, BYTES}, {CHANNEL + 1, 0, 1}, {CHANNEL, 0, 1}};
    int wrong = 0, late = 0;

    for (int i = 0; i < BYTES; i++)
        data[i] = (unsigned char)(i % 251);
    for (int when = 0; mesh && when < 6; when++) {
        int pending = 3;
        struct error err = {.text = ""};
        struct mesh_message messages[] = {
            {.peer = 1, .channel = CHANNEL, .data = got, .bytes = BYTES, .pending = &pending},
            {.peer = 1, .channel = CHANNEL, .data = small, .bytes = 1, .pending = &pending},
            {.peer = 1, .channel = CHANNEL + 1, .data = &between, .bytes = 1, .pending = &pending}};

        memset(got, 0, BYTES);
        for (int piece = 0; piece < 5; piece++) {
            size_t part = BYTES / 3;

            if (piece == when)
                mesh_receive(mesh, &messages[0]);
            if (piece == 0)
                send_all(other.fd, &headers[0], sizeof(headers[0]));
            else if (piece < 4)
                send_all(other.fd, data + (size_t)(piece - 1) * part, part);
            else {
                send_all(other.fd, &headers[1], sizeof(headers[1]));
                send_all(other.fd, "x", 1);
                send_all(other.fd, &headers[2], sizeof(headers[2]));
                send_all(other.fd, "y", 1);
            }
            wrong += move(mesh, &err) < 0;
        }
        if (when == 5)
            mesh_receive(mesh, &messages[0]);
        mesh_receive(mesh, &messages[1]);
        mesh_receive(mesh, &messages[2]);
        for (int i = 0; i < 100 && pending > 0 && !wrong; i++)
            wrong += mesh_progress(mesh, 100000, &err) < 0;
        late += pending;
        wrong += memcmp(got, data, BYTES) != 0 || small[0] != 'y' || between != 'x';
    }
    ok(mesh && !wrong && !late, "messages in pieces arrive whole, whenever they are expected");
    if (mesh)
        close_mesh(mesh, star, &other);
    free(data);
    free(got);
}

int main(void)
{
    test_sizes();
    test_pieces();
    return done_testing();
}
