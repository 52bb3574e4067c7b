/* SPDX-License-Identifier: Apache-2.0 */
/* Memory available to a process on CPUs: that of the machine, limited by its cgroups. */
#include "cpu.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Read the number in a cgroup file; "max", or no file: no limit. */
static unsigned long long limit_in(const char *path)
{
    unsigned long long limit;
    FILE *file = fopen(path, "r");

    if (!file)
        return SIZE_MAX;
    if (fscanf(file, "%llu", &limit) != 1)
        limit = SIZE_MAX;
    fclose(file);
    return limit;
}

/* The lowest limit of a cgroup and its ancestors. In a container the path may be the host's; then
 * the root of the mounted hierarchy applies, which is checked in any case. */
static unsigned long long limit_of(const char *mount, char *group, const char *name)
{
    unsigned long long least = SIZE_MAX, limit;
    char path[2048], *slash;

    for (;;) {
        snprintf(path, sizeof(path), "%s%s/%s", mount, group, name);
        limit = limit_in(path);
        least = limit < least ? limit : least;
        slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

static unsigned long long group_limit(const char *root)
{
    unsigned long long least = SIZE_MAX, limit;
    char path[1024], line[1024], mount[1024];
    FILE *file;

    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file)) {
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;

        if (!group)
            continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        limit = SIZE_MAX;
        if (strcmp(names + 1, "memory") == 0) {
            snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup/memory", root);
            limit = limit_of(mount, group, "memory.limit_in_bytes");
        } else if (names[1] == '\0') {
            snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup", root);
            limit = limit_of(mount, group, "memory.max");
        }
        least = limit < least ? limit : least;
    }
    if (file)
        fclose(file);
    return least;
}

int cpu_memory_under(const char *root, struct device_memory *memory, struct error *err)
{
    unsigned long long total = 0, available = 0, limit = group_limit(root);
    char line[1024];
    FILE *file;

    snprintf(line, sizeof(line), "%s/proc/meminfo", root);
    file = fopen(line, "r");
    if (!file)
        return error_set_errno(err, errno, "cannot open /proc/meminfo");
    while (fgets(line, sizeof(line), file)) {
        sscanf(line, "MemTotal: %llu", &total);
        sscanf(line, "MemAvailable: %llu", &available);
    }
    fclose(file);
    total *= 1024;
    available *= 1024;
    memory->total = (size_t)(limit < total ? limit : total);
    memory->available = (size_t)(limit < available ? limit : available);
    return 0;
}
