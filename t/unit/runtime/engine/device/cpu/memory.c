/* SPDX-License-Identifier: Apache-2.0 */
/* Available memory: that of the machine, or less if a cgroup limits it. */
#include "engine/device/cpu/cpu.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[] = "/tmp/cpu-memory-XXXXXX";

static void put(const char *path, const char *text)
{
    char name[512], *slash;
    FILE *file;

    snprintf(name, sizeof(name), "%s/%s", root, path);
    for (slash = strchr(name + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(name, 0777);
        *slash = '/';
    }
    file = fopen(name, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        exit(1);
}

static const struct {
    const char *name, *groups, *path, *limit;
    size_t available;
} rows[] = {
    {"no control group", "", "x", "", 2048000},
    {"version 1", "4:memory:/a/b\n", "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "1000000\n",
     1000000},
    {"version 1, the group above", "4:memory:/a/c\n",
     "sys/fs/cgroup/memory/a/memory.limit_in_bytes", "900000\n", 900000},
    {"version 2 without a limit", "0::/d/e\n", "sys/fs/cgroup/d/e/memory.max", "max\n", 2048000},
    {"version 2", "0::/d/e\n", "sys/fs/cgroup/d/e/memory.max", "800000\n", 800000},
    {"version 2, a path of another world", "0::/../f\n", "sys/fs/cgroup/memory.max", "700000\n",
     700000},
    {"more than there is", "0::/g\n", "sys/fs/cgroup/memory.max", "9000000000\n", 2048000},
};

int main(void)
{
    struct device_memory memory;
    struct error err = {.text = ""};
    char command[128];

    if (!mkdtemp(root))
        return 1;
    put("proc/meminfo", "MemTotal: 4000 kB\nMemFree: 1 kB\nMemAvailable: 2000 kB\n");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        put("proc/self/cgroup", rows[i].groups);
        put(rows[i].path, rows[i].limit);
        ok(cpu_memory_under(root, &memory, &err) == 0 && memory.available == rows[i].available,
           "%s", rows[i].name);
    }
    snprintf(command, sizeof(command), "rm -rf %s", root);
    if (system(command) != 0)
        return 1;
    return done_testing();
}
