/* SPDX-License-Identifier: Apache-2.0 */
#include "old_socket.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/parse.h"

/* slurmstepd has a socket SPOOL/NODE_JOB.STEP, or SPOOL/NODE_JOB.STEP.COMPONENT in a heterogeneous
 * job. If 'fd' is that one, put SPOOL/ into 'spool'. */
static bool is_own_socket(int fd, const char *ending, struct sockaddr_un *spool)
{
    socklen_t length = sizeof(*spool) - 1;
    char *slash, *found;

    memset(spool, 0, sizeof(*spool));
    if (getsockname(fd, (struct sockaddr *)spool, &length) < 0 || spool->sun_family != AF_UNIX ||
        spool->sun_path[0] != '/')
        return false;
    slash = strrchr(spool->sun_path, '/');
    found = strstr(slash, ending);
    while (found && found[strlen(ending)] != '\0' && found[strlen(ending)] != '.')
        found = strstr(found + 1, ending);
    if (!found)
        return false;
    slash[1] = '\0';
    return true;
}

static bool find_spool(const char *ending, struct sockaddr_un *spool)
{
    DIR *directory = opendir("/proc/self/fd");
    const struct dirent *entry;
    bool found = false;

    if (!directory)
        return false;
    while (!found && (entry = readdir(directory)))
        found = entry->d_name[0] != '.' && is_own_socket(atoi(entry->d_name), ending, spool);
    closedir(directory);
    return found;
}

static bool is_deserted(const struct sockaddr_un *address)
{
    struct stat status;
    int fd;
    bool refused;

    if (lstat(address->sun_path, &status) < 0 || !S_ISSOCK(status.st_mode))
        return false;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    refused = connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
              errno == ECONNREFUSED;
    close(fd);
    return refused;
}

/* Slurm numbers the components of a heterogeneous job consecutively; MAX_HET_JOB_COMPS is 128. */
uint32_t old_socket_job(uint32_t job, const char *text)
{
    enum { COMPONENTS = 128 };
    int64_t leader;

    if (parse_int64("SLURM_JOB_ID", text, 1, job, &leader, NULL) < 0 || job - leader >= COMPONENTS)
        return job;
    return (uint32_t)leader;
}

bool old_socket_remove(uint32_t job, uint32_t leader, uint32_t step, char *path, size_t size)
{
    struct sockaddr_un address;
    char ending[32], name[64];

    snprintf(ending, sizeof(ending), "_%u.%u", job, step);
    /* As Slurm's mpi/pmix names it. */
    snprintf(name, sizeof(name), "stepd.slurm.pmix.%d.%d", (int)leader, (int)step);
    if (!find_spool(ending, &address) ||
        strlen(address.sun_path) + strlen(name) >= sizeof(address.sun_path))
        return false;
    strcat(address.sun_path, name);
    if (!is_deserted(&address) || unlink(address.sun_path) < 0)
        return false;
    snprintf(path, size, "%s", address.sun_path);
    return true;
}
