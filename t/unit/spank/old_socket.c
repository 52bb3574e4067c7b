/* SPDX-License-Identifier: Apache-2.0 */
/* The PMIx socket of a killed slurmstepd is removed; nothing else is. */
#include "spank/old_socket.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tap.h"

enum kind { NONE, DESERTED, LISTENING, PLAIN };

static const struct {
    const char *name, *variable, *own, *other;
    enum kind kind;
    bool removed;
} rows[] = {
    {"a socket without a process", "12", "n1_12.3", "stepd.slurm.pmix.12.3", DESERTED, true},
    {"also in a heterogeneous job", "12", "n1_12.3.1", "stepd.slurm.pmix.12.3", DESERTED, true},
    {"a node with underscores", "12", "n_12.3_1_12.3", "stepd.slurm.pmix.12.3", DESERTED, true},
    {"without SLURM_JOB_ID", "", "n1_12.3", "stepd.slurm.pmix.12.3", DESERTED, true},
    {"named after the first component", "10", "n1_12.3.2", "stepd.slurm.pmix.10.3", DESERTED, true},
    {"the step of one component", "10", "n1_12.3", "stepd.slurm.pmix.10.3", DESERTED, true},
    {"of a later job", "13", "n1_12.3", "stepd.slurm.pmix.13.3", DESERTED, false},
    {"of no job", "1x", "n1_12.3", "stepd.slurm.pmix.1.3", DESERTED, false},
    {"no such socket", "12", "n1_12.3", "", NONE, false},
    {"a socket on which a process listens", "12", "n1_12.3", "stepd.slurm.pmix.12.3", LISTENING,
     false},
    {"a plain file", "12", "n1_12.3", "stepd.slurm.pmix.12.3", PLAIN, false},
    {"another step's", "12", "n1_12.3", "stepd.slurm.pmix.12.30", DESERTED, false},
    {"in the slurmstepd of another step", "12", "n1_12.34", "stepd.slurm.pmix.12.3", DESERTED,
     false},
};

static int listen_at(const char *directory, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", directory, name);
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 1) < 0)
        perror(address.sun_path);
    return fd;
}

static void try_row(size_t row)
{
    char directory[] = "/tmp/old_socket.XXXXXX", own[108], other[108], path[256] = "";
    int fd, second = -1;
    bool removed;

    if (!mkdtemp(directory))
        return;
    snprintf(own, sizeof(own), "%s/%s", directory, rows[row].own);
    snprintf(other, sizeof(other), "%s/%s", directory, rows[row].other);
    fd = listen_at(directory, rows[row].own);
    if (rows[row].kind == PLAIN)
        second = open(other, O_CREAT | O_WRONLY, 0600);
    else if (rows[row].kind != NONE)
        second = listen_at(directory, rows[row].other);
    if (rows[row].kind == DESERTED)
        close(second);
    removed = old_socket_remove(12, old_socket_job(12, rows[row].variable), 3, path, sizeof(path));
    ok(removed == rows[row].removed && (!removed || strcmp(path, other) == 0) &&
           (rows[row].kind == NONE || (access(other, F_OK) < 0) == removed),
       "%s: %s", rows[row].name, rows[row].removed ? "removed" : "kept");
    close(fd);
    if (rows[row].kind == LISTENING || rows[row].kind == PLAIN)
        close(second);
    unlink(own);
    if (rows[row].kind != NONE)
        unlink(other);
    rmdir(directory);
}

int main(void)
{
    ok(old_socket_job(1128, "1001") == 1001 && old_socket_job(1128, "1000") == 1128,
       "a heterogeneous job has at most 128 components");
    for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++)
        try_row(row);
    return done_testing();
}
