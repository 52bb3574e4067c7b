/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "rendezvous.h"
#include "lib/clock.h"
#include "handshake.h"
#include "peer.h"
#include "socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECT_SECONDS = 5, WELCOME_SECONDS = 60 };
enum { MOST_PAUSE = 1000 }; /* milliseconds */

void rendezvous_set_silence(int fd, int seconds)
{
    int idle = seconds / 8 > 0 ? seconds / 8 : 1, probes = 8;
    unsigned milliseconds = (unsigned)seconds * 1000;

    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    /* The same for unacknowledged data, which would delay the probes. */
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof(milliseconds));
}

void rendezvous_prepare(int fd)
{
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    rendezvous_set_silence(fd, RENDEZVOUS_SILENCE);
}

/* --- Listening ------------------------------------------------------------------------------- */

/* One connection per rank may exceed a process's default limit. */
static void allow_many_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int bind_to(int port)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in old = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int off = 0, on = 1, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
        failed;

    if (fd >= 0) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        failed = bind(fd, (struct sockaddr *)&address, sizeof(address));
    } else {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        failed = bind(fd, (struct sockaddr *)&old, sizeof(old));
    }
    if (fd >= 0 && (failed || listen(fd, 4096))) {
        close(fd);
        return -1;
    }
    return fd;
}

static void add_host(struct rendezvous_address *address, const char *host)
{
    size_t used = strlen(address->hosts);

    if (used + strlen(host) + 2 <= sizeof(address->hosts))
        snprintf(address->hosts + used, sizeof(address->hosts) - used, "%s%s", used ? " " : "",
                 host);
}

/* List all addresses of this node, node-local ones last. */
static void add_interfaces(struct rendezvous_address *address)
{
    struct ifaddrs *list = NULL;
    char text[INET6_ADDRSTRLEN];

    if (getifaddrs(&list) < 0)
        return;
    for (int loop = 0; loop < 2; loop++)
        for (struct ifaddrs *i = list; i; i = i->ifa_next) {
            const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)i->ifa_addr;
            const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)four;

            if (!four || !(i->ifa_flags & IFF_LOOPBACK) != !loop)
                continue;
            if (four->sin_family == AF_INET &&
                inet_ntop(AF_INET, &four->sin_addr, text, sizeof(text)))
                add_host(address, text);
            else if (four->sin_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr) &&
                     inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof(text)))
                add_host(address, text);
        }
    freeifaddrs(list);
}

int rendezvous_listen(int port, const char *master, struct rendezvous_address *address,
                      struct error *err)
{
    struct sockaddr_in6 bound;
    socklen_t length = sizeof(bound);
    int fd;

    memset(address, 0, sizeof(*address));
    allow_many_files();
    fd = bind_to(port);
    if (fd < 0 || getsockname(fd, (struct sockaddr *)&bound, &length) < 0) {
        int number = errno;

        error_set_errno(err, number, "cannot listen on port %d for the other ranks", port);
        if (number == EADDRINUSE)
            error_append(err, "; set MASTER_PORT to a free port");
        if (fd >= 0)
            close(fd);
        return -1;
    }
    /* IPv4 and IPv6 addresses have the port at the same offset. */
    address->port = ntohs(bound.sin6_port);
    if (secret_random(address->key.bytes, SECRET_BYTES, err) < 0) {
        close(fd);
        return -1;
    }
    if (master)
        add_host(address, master);
    add_interfaces(address);
    return fd;
}

/* --- Connecting ------------------------------------------------------------------------------ */

/* Try to connect for a few seconds only: an address may be unreachable. */
static int connect_to(const struct addrinfo *a, double until)
{
    double soon = clock_now() + CONNECT_SECONDS;
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    int failed = 0;
    socklen_t length = sizeof(failed);

    if (fd < 0)
        return -1;
    if (connect(fd, a->ai_addr, a->ai_addrlen) == 0)
        return fd;
    if (errno == EINPROGRESS) {
        int rc = 0;

        while (rc == 0 && clock_now() < soon)
            rc = socket_wait(fd, SOCKET_WRITE, soon < until ? soon : until);
        if (rc > 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &length) == 0 && !failed)
            return fd;
    }
    close(fd);
    return -1;
}

/* What is needed to reach a rank. */
struct destination {
    const struct rendezvous_address *address;
    int own, other, size;
    double until;
    int refused; /* something listens there, but did not prove that it is that rank */
    int foreign; /* it listens on another host, and the world has no secret */
    struct peer_nodes nodes;
};

/* Prove that we belong to the same world, and check that the other end does. */
static int greet(int fd, const struct destination *d)
{
    const struct secret_key *key = &d->address->key;
    struct handshake_hello hello = {.size = d->size, .from = d->own, .to = d->other};
    struct handshake_welcome welcome;
    struct handshake_proof proof;
    double soon = clock_now() + WELCOME_SECONDS;

    if (soon > d->until)
        soon = d->until;
    gethostname(hello.host, sizeof(hello.host) - 1);
    if (secret_random(hello.number, sizeof(hello.number), NULL) < 0 ||
        handshake_sign_hello(key, &hello) < 0 || socket_send(fd, &hello, sizeof(hello), soon) ||
        socket_receive(fd, &welcome, sizeof(welcome), soon) ||
        handshake_check_welcome(key, &hello, &welcome) < 0 ||
        handshake_sign_proof(key, &welcome, &proof) < 0)
        return -1;
    return socket_send(fd, &proof, sizeof(proof), soon);
}

static int try_host(const char *host, struct destination *d)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    char service[16];
    int fd = -1;

    snprintf(service, sizeof(service), "%d", d->address->port);
    if (getaddrinfo(host, service, &hints, &found))
        return -1;
    for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
        fd = connect_to(a, d->until);
        if (fd < 0)
            continue;
        if (d->address->key.known && !peer_is_expected(&d->nodes, fd))
            d->foreign = 1;
        else if (greet(fd, d))
            d->refused = 1;
        else
            continue;
        close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

static int try_all(struct destination *d)
{
    char hosts[sizeof(d->address->hosts)], *rest = hosts;
    int fd = -1;

    memcpy(hosts, d->address->hosts, sizeof(hosts));
    hosts[sizeof(hosts) - 1] = '\0';
    for (char *host; fd < 0 && (host = strtok_r(rest, " ", &rest));)
        fd = try_host(host, d);
    return fd;
}

/* Thousands of ranks that wait for rank 0 must not overload name servers and its node, nor connect
 * all at once. */
static unsigned next_pause(unsigned milliseconds, int rank)
{
    unsigned next = milliseconds + milliseconds / 4 + (unsigned)rank % 16;

    return next < MOST_PAUSE ? next : MOST_PAUSE;
}

int rendezvous_connect(int own, int other, int size, const struct rendezvous_address *address,
                       double deadline, struct error *err)
{
    struct destination d = {.address = address,
                            .own = own,
                            .other = other,
                            .size = size,
                            .until = clock_now() + deadline};
    unsigned milliseconds = 20;
    int fd = try_all(&d);

    while (fd < 0 && !d.foreign && clock_now() < d.until) {
        clock_sleep(milliseconds * 1e-3);
        milliseconds = next_pause(milliseconds, own);
        fd = try_all(&d);
    }
    peer_nodes_clear(&d.nodes);
    if (fd < 0 && d.foreign)
        return error_set_code(
            err, ERROR_USAGE,
            "rank %d refuses to connect to rank %d at %.*s without a secret, since "
            "that is another host; set MEGATRON_SECRET to the same random text "
            "for all ranks, or to " SECRET_NONE " to trust the network",
            own, other, (int)sizeof(address->hosts), address->hosts);
    if (fd < 0)
        return error_set(
            err, "rank %d could not connect to rank %d at %.*s, port %d, within %.0f s%s", own,
            other, (int)sizeof(address->hosts), address->hosts, address->port, deadline,
            d.refused ? "; a process there did not accept this rank: set the same "
                        "MEGATRON_SECRET for all ranks"
                      : "; see that rank's output, and check that no firewall blocks "
                        "the port");
    rendezvous_prepare(fd);
    return fd;
}
