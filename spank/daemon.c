/* SPDX-License-Identifier: Apache-2.0 */
/* slurmd: discover the node's topology at startup and store it in a file for the tasks. */
#include "plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/file.h"
#include "place.h"
#include "lib/topology.h"
#include "lib/trusted.h"

/* The name of this node: from `slurmd -N NAME`, else the host name. Several slurmd may share a
 * host. */
static void node_name(char *name, size_t size)
{
    char line[4096];
    ssize_t got = file_read_text("/proc/self/cmdline", line, sizeof(line));

    for (char *word = line; got > 0 && word < line + got; word += strlen(word) + 1) {
        char *next = word + strlen(word) + 1;

        if (strncmp(word, "-N", 2) != 0)
            continue;
        if (word[2] || next < line + got) {
            snprintf(name, size, "%s", word[2] ? word + 2 : next);
            return;
        }
    }
    if (gethostname(name, size - 1))
        name[0] = '\0';
    name[size - 1] = '\0';
    name[strcspn(name, ".")] = '\0';
}

static int make_directory(const char *path, struct error *err)
{
    char directory[4096], *slash;
    struct stat status;

    snprintf(directory, sizeof(directory), "%s", path);
    slash = strrchr(directory, '/');
    *slash = '\0';
    if (mkdir(directory, 0755) && errno != EEXIST)
        return error_set_errno(err, errno, "cannot create %s", directory);
    if (lstat(directory, &status) || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
        status.st_mode & 022)
        return error_set(
            err,
            "%s must be a directory of root that nobody else can write to; correct it, "
            "or name another one with run= in plugstack.conf",
            directory);
    return trusted_parents(directory, err);
}

static int export_topology(const struct config *config, struct error *err)
{
    char node[256], path[4096];
    struct topology *topology;
    int rc;

    node_name(node, sizeof(node));
    if (!node[0] || strchr(node, '/'))
        return error_set(err,
                         "cannot determine the name of this node; check NodeName in slurm.conf");
    place_topology_path(config, node, path, sizeof(path));
    if (make_directory(path, err))
        return -1;
    topology = place_discover(config, err);
    if (!topology)
        return -1;
    rc = topology_save(topology, path, err);
    topology_destroy(topology);
    return rc;
}

void daemon_init(struct plugin *plugin)
{
    struct error err;

    if (plugin->config.bad)
        slurm_error("megatron: %s", plugin->config.error.text);
    if (plugin->config.off & (PART_ALL | PART_DISCOVERY))
        return;
    if (export_topology(&plugin->config, &err))
        slurm_error("megatron: cannot export the topology of this node, so each step discovers it: "
                    "%s",
                    err.text);
}
