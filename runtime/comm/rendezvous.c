/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "rendezvous.h"
#include "clock.h"
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
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HELLO = 'H', HELLO_SECONDS = 5, CONNECT_SECONDS = 5, WELCOME_SECONDS = 60 };
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

static void prepare(int fd)
{
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    rendezvous_set_silence(fd, RENDEZVOUS_SILENCE);
}

/* Rank 0's reply. A rank that connected to a wrong address does not receive it. */
static uint64_t welcome_of(uint64_t token)
{
    return token * 2 + 1;
}

/* --- Rank 0 ---------------------------------------------------------------------------------- */

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
        error_set_errno(err, errno, "rank 0 cannot listen on port %d for the other ranks", port);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    /* IPv4 and IPv6 addresses have the port at the same offset. */
    address->port = ntohs(bound.sin6_port);
    if (getrandom(&address->token, sizeof(address->token), 0) < 0)
        address->token = (uint64_t)getpid();
    if (master)
        add_host(address, master);
    add_interfaces(address);
    return fd;
}

/* Name the ranks that have not connected. */
static int report_missing(const int *fds, int size, double deadline, struct error *err)
{
    char names[256] = "";
    int missing = 0;

    for (int rank = 1; rank < size; rank++) {
        size_t used = strlen(names);

        if (fds[rank - 1] >= 0)
            continue;
        if (missing++ < 16)
            snprintf(names + used, sizeof(names) - used, " %d", rank);
    }
    return error_set(err, "%d of %d ranks did not connect within %.0f s:%s%s", missing, size,
                     deadline, names, missing > 16 ? " ..." : "");
}

int rendezvous_accept(int listener, int size, uint64_t token, double deadline, int *fds,
                      char (*hosts)[64], struct error *err)
{
    double until = clock_now() + deadline;
    int come = 0;

    while (come < size - 1 && clock_now() < until) {
        struct rendezvous_hello hello;
        uint64_t welcome = welcome_of(token);
        int fd;

        if (socket_wait(listener, SOCKET_READ, until) <= 0)
            continue;
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE))
            return error_set_errno(err, errno,
                                   "rank 0 cannot keep connections to %d ranks open, %d have "
                                   "connected; raise the limit on open files (ulimit -Hn)",
                                   size, come + 1);
        if (fd < 0)
            continue;
        prepare(fd);
        /* Anyone may connect here; only ranks of this world know the token. */
        if (socket_receive(fd, &hello, sizeof(hello), clock_now() + HELLO_SECONDS) ||
            hello.kind != HELLO || hello.size != size || hello.token != token || hello.rank < 1 ||
            hello.rank >= size || fds[hello.rank - 1] >= 0 ||
            socket_send(fd, &welcome, sizeof(welcome), clock_now() + HELLO_SECONDS)) {
            close(fd);
            continue;
        }
        hello.host[sizeof(hello.host) - 1] = '\0';
        memcpy(hosts[hello.rank - 1], hello.host, sizeof(hello.host));
        fds[hello.rank - 1] = fd;
        come++;
    }
    return come < size - 1 ? report_missing(fds, size, deadline, err) : 0;
}

/* --- The others ------------------------------------------------------------------------------ */

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

/* Identify ourselves, and check that the other end is rank 0. */
static int greet(int fd, const struct rendezvous_hello *hello, double until)
{
    double soon = clock_now() + WELCOME_SECONDS;
    uint64_t welcome;

    if (soon > until)
        soon = until;
    if (socket_send(fd, hello, sizeof(*hello), soon) ||
        socket_receive(fd, &welcome, sizeof(welcome), soon))
        return -1;
    return welcome == welcome_of(hello->token) ? 0 : -1;
}

static int try_host(const char *host, int port, const struct rendezvous_hello *hello, double until)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    char service[16];
    int fd = -1;

    snprintf(service, sizeof(service), "%d", port);
    if (getaddrinfo(host, service, &hints, &found))
        return -1;
    for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
        fd = connect_to(a, until);
        if (fd >= 0 && greet(fd, hello, until)) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return fd;
}

static int try_all(const struct rendezvous_address *address, const struct rendezvous_hello *hello,
                   double until)
{
    char hosts[sizeof(address->hosts)], *rest = hosts;
    int fd = -1;

    memcpy(hosts, address->hosts, sizeof(hosts));
    hosts[sizeof(hosts) - 1] = '\0';
    for (char *host; fd < 0 && (host = strtok_r(rest, " ", &rest));)
        fd = try_host(host, address->port, hello, until);
    return fd;
}

/* Thousands of ranks that wait for rank 0 must not overload name servers and its node, nor connect
 * all at once. */
static unsigned next_pause(unsigned milliseconds, int rank)
{
    unsigned next = milliseconds + milliseconds / 4 + (unsigned)rank % 16;

    return next < MOST_PAUSE ? next : MOST_PAUSE;
}

int rendezvous_connect(int rank, int size, const struct rendezvous_address *address,
                       double deadline, struct error *err)
{
    struct rendezvous_hello hello = {
        .kind = HELLO, .size = size, .rank = rank, .token = address->token};
    double until = clock_now() + deadline;
    unsigned milliseconds = 20;
    int fd;

    gethostname(hello.host, sizeof(hello.host) - 1);
    fd = try_all(address, &hello, until);
    while (fd < 0 && clock_now() < until) {
        usleep(milliseconds * 1000);
        milliseconds = next_pause(milliseconds, rank);
        fd = try_all(address, &hello, until);
    }
    if (fd < 0)
        return error_set(err, "rank %d could not connect to rank 0 at %s, port %d, within %.0f s",
                         rank, address->hosts, address->port, deadline);
    prepare(fd);
    return fd;
}
