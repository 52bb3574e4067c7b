/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: the rendezvous with a process that sends anything, to a rank that listens and
 * to one that connects. The first byte selects the side, and how honest the process is; what an
 * honest one sends has the right codes. Only one that is honest to the end is taken for a rank. */
#include "fuzz.h"
#include "engine/comm/handshake.h"
#include "engine/comm/rendezvous.h"
#include "engine/comm/socket.h"
#include "lib/clock.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

enum {
    LISTENING = 1, /* the tested rank listens */
    SIGNED = 2,    /* the first message has the code of its contents */
    RIGHT = 4,     /* ... and the contents of a rank */
    PROVEN = 8,    /* the last message is right */
    SLOW = 16,     /* the first message comes in two parts */
    HONEST = SIGNED | RIGHT | PROVEN
};

static const double wait_seconds = 0.02;
static const struct secret_key key = {.bytes = {1, 2, 3}};

struct stranger {
    const uint8_t *data;
    size_t size;
    unsigned how;
    int port, listener;
};

static size_t fill(void *message, size_t size, const struct stranger *s)
{
    size_t length = s->size < size ? s->size : size;

    if (length > 0)
        memcpy(message, s->data, length);
    return s->how & SIGNED ? size : length;
}

static void send_parts(int fd, const void *data, size_t size, const struct stranger *s)
{
    size_t first = s->how & SLOW ? size / 2 : size;

    if (socket_send(fd, data, first, clock_now() + 1) == 0 && first < size)
        socket_send(fd, (const char *)data + first, size - first, clock_now() + 1);
}

/* Connect as a rank would, or not quite. */
static void *connect_to_rank(void *argument)
{
    const struct stranger *s = argument;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)s->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct handshake_hello hello = {.size = 0};
    struct handshake_welcome welcome;
    struct handshake_proof proof = {.code = {0}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    size_t length = fill(&hello, sizeof(hello), s);
    double until = clock_now() + wait_seconds;

    if (s->how & RIGHT)
        hello.size = 2, hello.from = 1, hello.to = 0;
    else if (hello.size == 2 && hello.from == 1 && hello.to == 0)
        hello.to = 1; /* the input has the contents of a rank */
    if (s->how & SIGNED && handshake_sign_hello(&key, &hello) < 0)
        abort();
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
        send_parts(fd, &hello, length, s);
        if (socket_receive(fd, &welcome, sizeof(welcome), until) == 0) {
            if (!(s->how & SIGNED))
                abort(); /* only who has the key gets a reply */
            fill(&proof, sizeof(proof), s);
            if (s->how & PROVEN && handshake_sign_proof(&key, &welcome, &proof) < 0)
                abort();
            socket_send(fd, &proof, sizeof(proof), until);
        }
    }
    close(fd);
    return NULL;
}

/* Accept as a rank would, or not quite. */
static void *accept_rank(void *argument)
{
    const struct stranger *s = argument;
    double until = clock_now() + wait_seconds;
    struct pollfd ready = {s->listener, POLLIN, 0};
    struct handshake_hello hello;
    struct handshake_welcome welcome = {.number = {0}};
    size_t length = fill(&welcome, sizeof(welcome), s);
    int fd = poll(&ready, 1, 1000) > 0 ? accept(s->listener, NULL, NULL) : -1;

    if (fd < 0)
        return NULL;
    if (socket_receive(fd, &hello, sizeof(hello), until) == 0) {
        if (handshake_check_hello(&key, &hello) < 0)
            abort();
        if (s->how & SIGNED && handshake_sign_welcome(&key, &hello, &welcome) < 0)
            abort();
        send_parts(fd, &welcome, length, s);
        shutdown(fd, SHUT_WR);
        socket_receive(fd, &hello, sizeof(struct handshake_proof), until);
    }
    close(fd);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rendezvous_address address;
    static int listener = -1;
    struct stranger stranger;
    struct error err = {.text = ""};
    pthread_t thread;
    int fd = -1, rc;

    if (listener < 0)
        listener = rendezvous_listen(0, "127.0.0.1", &address, &err);
    if (listener < 0)
        abort();
    if (size < 1)
        return 0;
    snprintf(address.hosts, sizeof(address.hosts), "127.0.0.1");
    address.key = key;
    stranger = (struct stranger){data + 1, size - 1, data[0], address.port, listener};
    if (pthread_create(&thread, NULL, data[0] & LISTENING ? connect_to_rank : accept_rank,
                       &stranger))
        abort();
    if (data[0] & LISTENING) {
        char hosts[1][64];

        rc = rendezvous_accept(listener, 0, 2, &key, wait_seconds, &fd, hosts, &err);
        if (rc == 0 && (data[0] & HONEST) != HONEST)
            abort();
        if (rc == 0 && !memchr(hosts[0], 0, sizeof(hosts[0])))
            abort();
    } else {
        fd = rendezvous_connect(1, 0, 2, &address, wait_seconds / 4, &err);
        rc = fd < 0 ? -1 : 0;
        if (rc == 0 && !(data[0] & SIGNED))
            abort();
    }
    fuzz_check(rc < 0, &err);
    pthread_join(thread, NULL);
    if (fd >= 0)
        close(fd);
    while ((fd = accept(listener, NULL, NULL)) >= 0) /* what came too late */
        close(fd);
    return 0;
}
