/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "pairs.h"

#include <errno.h>
#include <linux/tcp.h>
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/clock.h"
#include "engine/comm/socket.h"
#include "base/core/xmalloc.h"

enum { CHUNK = 1 << 20, MOST_CHUNKS = 4096 };

int pairs_count(int nodes)
{
    return nodes < 2 ? 0 : nodes == 2 ? 1 : nodes;
}

int pairs_right(int nodes, int i)
{
    return (i + 1) % nodes;
}

/* The round of a pair: rounds alternate, and the last pair of an odd ring has a round of its own.
 */
static int round_of(int nodes, int pair)
{
    return nodes % 2 == 1 && pair == nodes - 1 ? 2 : pair % 2;
}

int pairs_of_round(int nodes, int node, int round)
{
    int left = (node + nodes - 1) % nodes;

    if (node < pairs_count(nodes) && round_of(nodes, node) == round)
        return node;
    return left < pairs_count(nodes) && round_of(nodes, left) == round ? left : -1;
}

/* Each chunk begins with a byte that tells whether another one follows. */
static int send_chunks(int fd, char *buffer, double seconds, double until)
{
    double end = clock_now() + seconds;
    int more = 1;

    for (int i = 0; more; i++) {
        more = clock_now() < end && i + 1 < MOST_CHUNKS;
        buffer[0] = (char)more;
        if (socket_send(fd, buffer, CHUNK, until))
            return -1;
    }
    return 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The rate that a quarter of the chunks exceed: pauses of either process do not count. */
static int receive_chunks(int fd, char *buffer, double *times, double *rate, double until)
{
    int count = 0, more = 1;

    while (more) {
        double begin = clock_now();

        if (socket_receive(fd, buffer, CHUNK, until))
            return -1;
        more = buffer[0];
        if (count < MOST_CHUNKS)
            times[count++] = clock_now() - begin;
    }
    qsort(times, (size_t)count, sizeof(*times), by_value);
    *rate = CHUNK / fmax(times[count / 4], 1e-9);
    return 0;
}

/* Counters of this connection alone, so that other traffic of the node does not matter. */
static void read_tcp(int fd, struct pair_result *result)
{
    struct tcp_info info;
    socklen_t length = sizeof(info);

    memset(&info, 0, sizeof(info));
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) < 0)
        return;
    result->segments = info.tcpi_data_segs_out;
    /* Some were not lost: on a busy node an acknowledgment may come late, and the receiver then
     * reports a duplicate. */
    result->retransmitted = info.tcpi_total_retrans > info.tcpi_dsack_dups
                                ? info.tcpi_total_retrans - info.tcpi_dsack_dups
                                : 0;
}

static void fail(struct pair_result *result, const char *what, int number)
{
    result->failed = 1;
    snprintf(result->reason, sizeof(result->reason), "%s%s%s", what, number ? ": " : "",
             number ? strerror(number) : "");
}

static void exchange(int fd, int left, double seconds, double until, struct pair_result *result)
{
    char *buffer = xcalloc(1, CHUNK);
    double *times = xcalloc(MOST_CHUNKS, sizeof(*times)), rate = 0;
    int rc = 0;

    for (int turn = 0; rc == 0 && turn < 2; turn++) {
        rc = (turn == 0) == !!left ? send_chunks(fd, buffer, seconds / 2, until)
                                   : receive_chunks(fd, buffer, times, &rate, until);
        if (rc < 0)
            fail(result, "data transfer failed", errno ? errno : ECONNRESET);
    }
    result->rate = rate;
    free(buffer);
    free(times);
}

void pairs_exchange(int left, const struct rendezvous_address *address, int listener,
                    double seconds, double meet, double deadline, struct pair_result *result)
{
    char hosts[1][64];
    int fd = -1;

    *result = (struct pair_result){.tried = 1};
    if (left)
        fd = rendezvous_connect(1, 0, 2, address, meet, NULL);
    else
        rendezvous_accept(listener, 0, 2, &address->key, meet, &fd, hosts, NULL);
    if (fd < 0) {
        fail(result, left ? "cannot connect" : "no connection arrived", 0);
        return;
    }
    exchange(fd, left, seconds, clock_now() + deadline, result);
    read_tcp(fd, result);
    close(fd);
}
