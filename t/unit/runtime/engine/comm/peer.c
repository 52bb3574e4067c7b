/* SPDX-License-Identifier: Apache-2.0 */
/* Which hosts a world without a secret admits. A peer becomes that of another host when the address
 * that it has connected from is removed from this one. */
#define _GNU_SOURCE
#include "engine/comm/peer.h"
#include "engine/comm/rendezvous.h"
#include "tap.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static const char other[] = "10.213.7.9";

static int set_interface(const char *name, const char *address)
{
    struct ifreq request;
    struct sockaddr_in in = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_DGRAM, 0), rc;

    memset(&request, 0, sizeof(request));
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    inet_pton(AF_INET, address, &in.sin_addr);
    memcpy(&request.ifr_addr, &in, sizeof(in));
    rc = ioctl(fd, SIOCSIFADDR, &request);
    if (rc == 0) {
        request.ifr_flags = IFF_UP;
        rc = ioctl(fd, SIOCSIFFLAGS, &request);
    }
    close(fd);
    return rc;
}

/* Connect to a port of this host, from an address of it. */
static int connect_from(const char *from, int port)
{
    struct sockaddr_in source = {.sin_family = AF_INET};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    inet_pton(AF_INET, from, &source.sin_addr);
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    if (bind(fd, (struct sockaddr *)&source, sizeof(source)) == 0 &&
        connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
        return fd;
    close(fd);
    return -1;
}

static size_t looked_up;

static int expected(int fd)
{
    struct peer_nodes nodes = {0};
    int result = peer_is_expected(&nodes, fd);

    looked_up = nodes.count;
    peer_nodes_clear(&nodes);
    return result;
}

int main(void)
{
    struct rendezvous_address address;
    struct secret_key key;
    struct error err = {.text = ""};
    int listener, near, far, accepted[2], fds[1] = {-1};

    unsetenv("SLURM_STEP_NODELIST");
    unsetenv("SLURM_JOB_NODELIST");
    if (unshare(CLONE_NEWNET) < 0 || set_interface("lo", "127.0.0.1") < 0 ||
        set_interface("lo:1", other) < 0)
        return skip_all("no network namespace");
    listener = rendezvous_listen(0, NULL, &address, &err);
    near = connect_from("127.0.0.1", address.port);
    far = connect_from(other, address.port);
    for (int i = 0; i < 2; i++)
        accepted[i] = accept(listener, NULL, NULL);
    ok(near >= 0 && far >= 0 && accepted[0] >= 0 && accepted[1] >= 0, "two connections");
    ok(expected(accepted[0]) && expected(accepted[1]), "both are of this host");
    close(connect_from(other, address.port)); /* waits in the queue */
    set_interface("lo:1", "10.213.7.10");
    ok(expected(accepted[0]), "loopback is of this host");
    ok(!expected(accepted[1]), "an address that this host does not have is not");
    setenv("SLURM_JOB_NODELIST", "10.213.7.[1-8]", 1);
    ok(!expected(accepted[1]), "nor is one that Slurm does not name");
    setenv("SLURM_JOB_NODELIST_HET_GROUP_1", "10.213.7.[7-9]", 1);
    ok(expected(accepted[1]), "a node of the job is expected");
    unsetenv("SLURM_JOB_NODELIST_HET_GROUP_1");
    setenv("SLURM_JOB_NODELIST", "10.213.7.[9-200]", 1);
    ok(expected(accepted[1]) && looked_up == 1, "no node is looked up after the one that connects");
    setenv("SLURM_JOB_NODELIST", "10.213.7.[1-8]", 1);

    secret_derive(NULL, &key, &err);
    ok(rendezvous_accept(listener, 0, 2, &key, 0.3, fds, NULL, &err) < 0 &&
           strstr(err.text, "MEGATRON_SECRET"),
       "without a secret, a listener refuses another host: %s", err.text);
    ok(key.known && secret_derive("", &key, &err) == 0 && key.known, "an empty secret is none");
    ok(secret_derive(SECRET_NONE, &key, &err) == 0 && !key.known, "a user may ask for no secret");
    ok(secret_derive("0123456789abcdef", &key, &err) == 0 && !key.known, "a secret is one");
    return done_testing();
}
