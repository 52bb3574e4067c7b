/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: what ranks that are connected send each other, from a peer that sends anything:
 * the star, the mesh, the hub of preflight and the facts that it collects. The rendezvous is
 * replaced by socket pairs, whose other ends are the peer's. The first byte selects the protocol.
 */
#include "fuzz.h"
#include "run/preflight/hub.h"
#include "run/preflight/judge.h"
#include "engine/comm/mesh.h"
#include "engine/comm/star.h"

#include <limits.h>
#include <string.h>
#include <sys/socket.h>

enum { PEERS = 2, SENT = 1 << 17, MESSAGES = 32 };

/* --- The rendezvous ----------------------------------------------------------------------------
 */

static int ours[PEERS], theirs[PEERS], taken;

static void open_pairs(void)
{
    const int size = 2 * SENT;

    taken = 0;
    for (int i = 0; i < PEERS; i++) {
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) < 0)
            abort();
        setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
        ours[i] = pair[0];
        theirs[i] = pair[1];
    }
}

/* Those that were handed out belong to who has got them. */
static void close_pairs(void)
{
    for (int i = 0; i < PEERS; i++) {
        close(theirs[i]);
        if (i >= taken)
            close(ours[i]);
    }
}

static int take_socket(void)
{
    if (taken == PEERS)
        abort();
    return ours[taken++];
}

int rendezvous_listen(int port, const char *master, struct rendezvous_address *address,
                      struct error *err)
{
    (void)port, (void)master, (void)err;
    memset(address, 0, sizeof(*address));
    return dup(STDERR_FILENO);
}

int rendezvous_accept(int listener, int own, int size, const struct secret_key *key,
                      double deadline, int *fds, char (*hosts)[64], struct error *err)
{
    (void)listener, (void)key, (void)deadline, (void)err;
    for (int i = 0; i < size - own - 1; i++) {
        fds[i] = take_socket();
        if (hosts)
            memset(hosts[i], 0, sizeof(hosts[i]));
    }
    return 0;
}

int rendezvous_connect(int own, int other, int size, const struct rendezvous_address *address,
                       double deadline, struct error *err)
{
    (void)own, (void)other, (void)size, (void)address, (void)deadline, (void)err;
    return take_socket();
}

void rendezvous_set_silence(int fd, int seconds)
{
    (void)fd, (void)seconds;
}

/* --- The input ---------------------------------------------------------------------------------
 */

struct input {
    const uint8_t *at, *end;
};

static unsigned take(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static void send_to_rank(int peer, const void *data, size_t size)
{
    if (size > 0 && send(theirs[peer], data, size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return; /* the rank has closed it, or reads too slowly: both are fine */
}

/* What is left of the input, 'size' bytes or more by repetition, and then the end: no wait takes
 * time. */
static void send_rest(const struct input *in, size_t size)
{
    static uint8_t all[SENT];
    size_t length = (size_t)(in->end - in->at), used = 0;

    while (length > 0 && (used == 0 || used < size) && used + length <= sizeof(all)) {
        memcpy(all + used, in->at, length);
        used += length;
    }
    for (int i = 0; i < PEERS; i++) {
        send_to_rank(i, all, used);
        shutdown(theirs[i], SHUT_WR);
    }
}

/* --- Star --------------------------------------------------------------------------------------
 */

static void try_star(int rank, struct input *in)
{
    const struct rendezvous_address nowhere = {.port = 1};
    struct error err = {.text = ""};
    struct star *star = star_join(rank, PEERS + 1, &nowhere, -1, 1, &err);
    unsigned count = take(in) % 8;
    const uint8_t *operations = in->at;

    fuzz_check(!star, &err);
    if (!star)
        return;
    in->at += in->end - in->at < 8 ? in->end - in->at : 8;
    send_rest(in, 0);
    for (unsigned i = 0; i < count && operations + i < in->at; i++) {
        size_t bytes = (size_t)(operations[i] >> 4) * 37;
        int root = (operations[i] >> 3 & 1) + 1, rc = 0;
        char *part = calloc(bytes + 1, 1), *all = calloc(bytes * (PEERS + 1) + 1, 1);
        int64_t numbers[STAR_NUMBERS] = {1, 2, 3};

        err.text[0] = '\0';
        switch (operations[i] % 8) {
        case 0:
            rc = star_gather(star, part, all, bytes, 1, &err);
            break;
        case 1:
            rc = star_collect(star, part, all, bytes, 0, 1, &err);
            break;
        case 2:
            rc = star_collect(star, part, all, bytes, root, 1, &err);
            break;
        case 3:
            rc = star_broadcast(star, part, bytes, 0, 1, &err);
            break;
        case 4:
            rc = star_broadcast(star, part, bytes, root, 1, &err);
            break;
        case 5:
            rc = star_max(star, numbers, 3, 1, &err);
            break;
        case 6:
            star_abort(star, "a reason");
            break;
        default:
            rc = star_wait(star, 0, &err);
        }
        fuzz_check(rc < 0, &err);
        free(part);
        free(all);
    }
    star_destroy(star);
}

/* --- Mesh --------------------------------------------------------------------------------------
 */

struct header {
    uint32_t channel, unused;
    uint64_t bytes;
};

/* Rank 0 of two. Each byte is an operation; its operands follow. Buffers have the exact size. */
static void try_mesh(struct input *in)
{
    const struct rendezvous_address nowhere = {.port = 1};
    const struct secret_key key = {.bytes = {1}};
    static const char own[1 + sizeof(struct rendezvous_address)] = "D";
    struct mesh_message messages[MESSAGES];
    int pending[MESSAGES], count = 0, failed = 0;
    struct error err = {.text = ""};
    struct star *star = star_join(0, 2, &nowhere, -1, 1, &err);
    struct mesh *mesh;

    send_to_rank(0, own, sizeof(own));
    mesh = star ? mesh_create(star, 0, 2, &key, 1, &err) : NULL;
    if (!mesh)
        abort();
    while (in->at < in->end && !failed) {
        unsigned operation = take(in), bytes, kind = operation % 8;
        struct header header = {.channel = operation >> 3 & 3};

        if (kind == 0) { /* anything */
            bytes = take(in) % 64;
            bytes = (long)bytes < in->end - in->at ? bytes : (unsigned)(in->end - in->at);
            send_to_rank(1, in->at, bytes);
            in->at += bytes;
        } else if (kind == 1) { /* a header, with a size near those that wrap */
            unsigned shift = take(in) % 64;

            header.bytes = (operation & 0x80 ? -(uint64_t)1 : 0) - ((uint64_t)take(in) << shift);
            send_to_rank(1, &header, sizeof(header));
        } else if (kind == 2) { /* a whole message */
            char data[256] = "";

            header.bytes = take(in);
            send_to_rank(1, &header, sizeof(header));
            send_to_rank(1, data, header.bytes);
        } else if (kind == 3) {
            shutdown(theirs[1], SHUT_WR);
        } else if (kind < 6 && count < MESSAGES) {
            bytes = take(in);
            pending[count] = 1;
            messages[count] = (struct mesh_message){.peer = operation >> 5 & 1,
                                                    .channel = header.channel,
                                                    .data = calloc(bytes + !bytes, 1),
                                                    .bytes = bytes,
                                                    .pending = &pending[count]};
            (kind == 4 ? mesh_receive : mesh_send)(mesh, &messages[count++]);
        }
        failed = kind >= 6 && mesh_progress(mesh, 0, &err) < 0;
    }
    for (int i = 0; i < 3 && !failed; i++)
        failed = mesh_progress(mesh, 0, &err) < 0;
    fuzz_check(failed, &err);
    mesh_destroy(mesh);
    star_destroy(star);
    for (int i = 0; i < count; i++) {
        if (pending[i] != 0 && pending[i] != 1)
            abort();
        free(messages[i].data);
    }
}

/* --- Hub ---------------------------------------------------------------------------------------
 */

static void judge_all(struct hub *hub, struct facts *facts, struct measures *measures)
{
    enum hub_state states[PEERS + 1];
    char hosts[PEERS + 1][64] = {"n0", "n1", "n2"};
    double ahead[PEERS + 1], uncertainty[PEERS + 1];
    char asked[PEERS + 1] = {0};
    int leaders[PEERS + 1], nodes = 0;
    struct machine machine = {.name = "fuzz"};
    struct findings findings = {0};
    struct error err = {.text = ""};
    FILE *out = fopen("/dev/null", "w");

    for (int r = 0; r <= PEERS; r++)
        asked[r] = (char)facts[r].leads;
    hub_compare_clocks(hub, asked, ahead, uncertainty, 1, &err);
    for (int r = 0; r <= PEERS; r++) {
        facts_limit(&facts[r]);
        measures_limit(&measures[r]);
        states[r] = hub_state(hub, r);
        if (states[r] == HUB_ALIVE && facts[r].leads)
            leaders[nodes++] = r;
        if (facts[r].host[0])
            snprintf(hosts[r], sizeof(hosts[r]), "%s", facts[r].host);
    }
    judge(&(struct job){.size = PEERS + 1,
                        .states = states,
                        .hosts = (const char(*)[64])hosts,
                        .facts = facts,
                        .measures = measures,
                        .ahead = ahead,
                        .uncertainty = uncertainty,
                        .leaders = leaders,
                        .nodes = nodes,
                        .full_ring = 1,
                        .machine = &machine},
          &findings);
    findings_sort(&findings);
    findings_print(&findings, 1, out);
    findings_write_records(&findings, 1, out);
    findings_clear(&findings);
    fclose(out);
}

static void try_hub(struct input *in)
{
    static struct facts facts[PEERS + 1];
    static struct measures measures[PEERS + 1];
    struct error err = {.text = ""};
    unsigned count = take(in) % 4;
    struct hub *hub = hub_open(0, PEERS + 1, "localhost", 1, NULL, 1, &err);

    fuzz_check(!hub, &err);
    if (!hub)
        return;
    send_rest(in, sizeof(facts[0]) + sizeof(measures[0]) + 256);
    memset(facts, 0, sizeof(facts));
    memset(measures, 0, sizeof(measures));
    facts[0].leads = 1;
    fuzz_check(hub_collect(hub, &facts[0], facts, sizeof(facts[0]), 1, &err) < 0, &err);
    fuzz_check(hub_share(hub, &facts[0], 100 * count, 1, &err) < 0, &err);
    fuzz_check(hub_collect(hub, &measures[0], measures, sizeof(measures[0]), 1, &err) < 0, &err);
    judge_all(hub, facts, measures);
    hub_close(hub);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data + 1, data + size};

    if (size < 1)
        return 0;
    open_pairs();
    if (data[0] % 4 < 2)
        try_star(data[0] % 4, &in);
    else if (data[0] % 4 == 2)
        try_mesh(&in);
    else
        try_hub(&in);
    close_pairs();
    return 0;
}
