/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup.h"
#include "lib/file.h"

#include <stdio.h>
#include <string.h>

enum { LINE = 4096 };

/* Is "cpu,cpuacct" a sublist of mount options such as "rw,cpu,cpuacct"? */
static int has_option(const char *options, const char *option)
{
    size_t length = strlen(option);

    for (const char *at = options; (at = strstr(at, option)); at++)
        if (at > options && strchr(", ", at[-1]) && strchr(",\n", at[length]))
            return 1;
    return 0;
}

/* Find the mount point of a hierarchy: cgroup2, or cgroup v1 with these controllers. */
static int find_mount(const char *root, int v2, const char *controllers, char *mount, size_t size)
{
    char path[LINE], line[LINE];
    FILE *file;
    int found = 0;

    snprintf(path, sizeof(path), "%s/proc/self/mountinfo", root);
    file = fopen(path, "re");
    if (!file)
        return 0;
    while (!found && fgets(line, sizeof(line), file)) {
        char *tail = strstr(line, " - "), point[LINE];

        if (!tail || sscanf(line, "%*s %*s %*s %*s %4095s", point) != 1)
            continue;
        if (v2 ? strncmp(tail, " - cgroup2 ", 11) == 0
               : strncmp(tail, " - cgroup ", 10) == 0 && has_option(tail, controllers))
            found = snprintf(mount, size, "%s%s", root, point) < (int)size;
    }
    fclose(file);
    return found;
}

/* Find this process's path in the hierarchy: "0::/path" or "3:cpuset:/path". */
static int find_path(const char *root, int v2, char *path, size_t size)
{
    char name[LINE], line[LINE];
    FILE *file;
    int found = 0;

    snprintf(name, sizeof(name), "%s/proc/self/cgroup", root);
    file = fopen(name, "re");
    if (!file)
        return 0;
    while (!found && fgets(line, sizeof(line), file)) {
        char *controllers = strchr(line, ':'), *rest;

        if (!controllers || !(rest = strchr(++controllers, ':')))
            continue;
        *rest++ = '\0';
        rest[strcspn(rest, "\n")] = '\0';
        if (v2 ? controllers[0] == '\0' : strstr(controllers, "cpuset") != NULL)
            found = snprintf(path, size, "%s", rest) < (int)size;
    }
    fclose(file);
    return found;
}

/* Read a CPU list from a file; returns 0 if the file does not exist. */
static int read_list(const char *directory, const char *name, struct cpuset *cpus)
{
    char path[3 * LINE], line[LINE];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return file_read_line(path, line, sizeof(line)) > 0 &&
           cpuset_parse(name, line, cpus, NULL) == 0 && !cpuset_is_empty(cpus);
}

int cgroup_step_cpus(const char *root, struct cpuset *cpus)
{
    char mount[LINE], path[LINE], directory[2 * LINE];
    struct cpuset limit;

    for (int v2 = 0; v2 <= 1; v2++) {
        char *step;

        if (!find_mount(root, v2, "cpuset", mount, sizeof(mount)) ||
            !find_path(root, v2, path, sizeof(path)) || !(step = strstr(path, "/step_")))
            continue;
        snprintf(directory, sizeof(directory), "%s%s", mount, path);
        if (!v2) {
            if (read_list(directory, "cpuset.effective_cpus", cpus) ||
                read_list(directory, "cpuset.cpus", cpus))
                return 1;
            continue;
        }
        if (!read_list(directory, "cpuset.cpus.effective", cpus))
            continue;
        /* The effective list also exists without a limit, which is on the step or on the job. */
        step[1 + strcspn(step + 1, "/")] = '\0';
        snprintf(directory, sizeof(directory), "%s%s", mount, path);
        if (read_list(directory, "cpuset.cpus", &limit))
            return 1;
        *step = '\0';
        snprintf(directory, sizeof(directory), "%s%s", mount, path);
        if (read_list(directory, "cpuset.cpus", &limit))
            return 1;
    }
    return 0;
}

/* The cgroup.procs file of the cgroup above all jobs, for one line of /proc/self/cgroup (which is
 * modified). With v2 only leaf cgroups can have processes; Slurm has a leaf for its own. */
static int find_outside(const char *root, char *line, char *file, size_t size)
{
    char *controllers = strchr(line, ':'), *path, *job, mount[LINE];
    int v2;

    if (!controllers || !(path = strchr(++controllers, ':')))
        return 0;
    *path++ = '\0';
    v2 = controllers[0] == '\0';
    if (!strstr(path, "/job_") || !(job = strstr(path, v2 ? "/job_" : "/uid_")) ||
        !find_mount(root, v2, controllers, mount, sizeof(mount)))
        return 0;
    *job = '\0';
    return snprintf(file, size, "%s%s%s/cgroup.procs", mount, path, v2 ? "/system" : "") <
           (int)size;
}

void cgroup_leave_job(const char *root)
{
    char path[LINE], line[LINE];
    FILE *file, *processes;

    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) {
        if (!find_outside(root, line, path, sizeof(path)) || !(processes = fopen(path, "r+e")))
            continue;
        fputs("0", processes); /* the writer */
        fclose(processes);
    }
    if (file)
        fclose(file);
}
