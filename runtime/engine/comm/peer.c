/* SPDX-License-Identifier: Apache-2.0 */
#include "base/core/xmalloc.h"
#include "config.h"

#include "hostlist.h"
#include "peer.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_NODES = 1 << 16 };

extern char **environ;

/* An IPv4 address becomes the IPv6 one that an IPv6 socket shows for it. */
static int read_address(const struct sockaddr *from, struct in6_addr *to)
{
    memset(to, 0, sizeof(*to));
    if (from && from->sa_family == AF_INET) {
        to->s6_addr[10] = to->s6_addr[11] = 0xff;
        memcpy(to->s6_addr + 12, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
        return 0;
    }
    if (!from || from->sa_family != AF_INET6)
        return -1;
    *to = ((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
    return 0;
}

static int same(const struct in6_addr *a, const struct in6_addr *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

/* Does an interface of this host have the address? Those of a link alone may be in use on other
 * links, too. */
static int is_own(const struct in6_addr *address)
{
    struct ifaddrs *list = NULL;
    struct in6_addr own;
    int found = 0;

    if (IN6_IS_ADDR_LINKLOCAL(address) || getifaddrs(&list) < 0)
        return 0;
    for (struct ifaddrs *i = list; i && !found; i = i->ifa_next)
        found = read_address(i->ifa_addr, &own) == 0 && same(&own, address);
    freeifaddrs(list);
    return found;
}

static int is_local(int fd, const struct in6_addr *peer)
{
    struct sockaddr_storage name;
    socklen_t length = sizeof(name);
    struct in6_addr own;

    if (IN6_IS_ADDR_LOOPBACK(peer) || (IN6_IS_ADDR_V4MAPPED(peer) && peer->s6_addr[12] == 127))
        return 1;
    if (getsockname(fd, (struct sockaddr *)&name, &length) == 0 &&
        read_address((struct sockaddr *)&name, &own) == 0 && same(&own, peer))
        return 1;
    return is_own(peer);
}

static void add_host(struct peer_nodes *nodes, const char *host)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;

    if (getaddrinfo(host, NULL, &hints, &found))
        return;
    for (struct addrinfo *a = found; a; a = a->ai_next) {
        struct in6_addr address;

        if (read_address(a->ai_addr, &address) < 0)
            continue;
        nodes->addresses = xrealloc(nodes->addresses, nodes->count + 1, sizeof(*nodes->addresses));
        nodes->addresses[nodes->count++] = address;
    }
    freeaddrinfo(found);
}

/* One of Slurm's lists of nodes: of the step, of the job and of each component of a het job. NULL
 * after the last one. */
static const char *find_list(size_t number)
{
    static const char *const prefixes[] = {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"};

    for (char **variable = environ; *variable; variable++)
        for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
            const char *list = strchr(*variable, '=');

            if (list && strncmp(*variable, prefixes[i], strlen(prefixes[i])) == 0 && number-- == 0)
                return list + 1;
        }
    return NULL;
}

/* Returns 0 if there are no more. */
static int look_up_next(struct peer_nodes *nodes)
{
    const char *list;
    char host[256];

    while ((list = find_list(nodes->lists))) {
        if (nodes->hosts < MOST_NODES && hostlist_at(list, nodes->hosts, host, sizeof(host)) == 0) {
            nodes->hosts++;
            add_host(nodes, host);
            return 1;
        }
        nodes->lists++;
        nodes->hosts = 0;
    }
    return 0;
}

int peer_is_expected(struct peer_nodes *nodes, int fd)
{
    struct sockaddr_storage name;
    socklen_t length = sizeof(name);
    struct in6_addr peer;

    if (getpeername(fd, (struct sockaddr *)&name, &length) < 0 ||
        read_address((struct sockaddr *)&name, &peer) < 0)
        return 0;
    if (is_local(fd, &peer))
        return 1;
    for (size_t i = 0;; i++) {
        while (i == nodes->count)
            if (!look_up_next(nodes))
                return 0;
        if (same(&nodes->addresses[i], &peer))
            return 1;
    }
}

void peer_nodes_clear(struct peer_nodes *nodes)
{
    free(nodes->addresses);
    *nodes = (struct peer_nodes){0};
}
