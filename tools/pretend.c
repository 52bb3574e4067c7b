/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into the slurmd of a test cluster: makes a small machine look like the one that the
 * node pretends to be. CPU masks are stored as requested, in a table that all processes of the node
 * share, and are applied to the existing CPUs (number modulo count). Slurm and the plugin then read
 * back what they set; the job itself, whose environment has no preload, sees the real CPUs. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOTS 65536

struct slot {
    _Atomic pid_t pid;
    cpu_set_t cpus;
};

static struct slot *table;
static cpu_set_t machine; /* the CPUs that the node pretends to have */
static int real_count;

/* "0x0000ffff,0xffffffff", hwloc's format, or the number of CPUs. */
static void parse_machine(const char *text)
{
    char *end;
    int groups = 1;

    CPU_ZERO(&machine);
    if (strncmp(text, "0x", 2) != 0) {
        for (int cpu = 0; cpu < atoi(text) && cpu < CPU_SETSIZE; cpu++)
            CPU_SET(cpu, &machine);
        return;
    }
    for (const char *c = text; *c; c++)
        groups += *c == ',';
    for (int group = groups - 1; group >= 0; group--) {
        unsigned long bits = *text == ',' ? 0 : strtoul(text, &end, 16);

        for (int bit = 0; bit < 32; bit++)
            if (bits >> bit & 1 && group * 32 + bit < CPU_SETSIZE)
                CPU_SET(group * 32 + bit, &machine);
        text = strchr(text, ',');
        if (!text)
            break;
        text++;
    }
}

__attribute__((constructor)) static void pretend_init(void)
{
    const char *cpus = getenv("MEGATRON_PRETEND_CPUS"), *path = getenv("MEGATRON_PRETEND_TABLE");
    size_t size = SLOTS * sizeof(struct slot);
    void *memory = MAP_FAILED;
    int fd;

    if (!cpus || !path)
        return;
    parse_machine(cpus);
    real_count = (int)sysconf(_SC_NPROCESSORS_ONLN);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    if (ftruncate(fd, (off_t)size) == 0)
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory != MAP_FAILED)
        table = memory;
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *mask)
{
    cpu_set_t wanted, real;
    struct slot *slot;

    if (!table)
        return (int)syscall(SYS_sched_setaffinity, pid, size, mask);
    if (pid == 0)
        pid = gettid();
    CPU_ZERO(&wanted);
    CPU_ZERO(&real);
    memcpy(&wanted, mask, size < sizeof(wanted) ? size : sizeof(wanted));
    CPU_AND(&wanted, &wanted, &machine);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &wanted))
            CPU_SET(cpu % real_count, &real);
    if (syscall(SYS_sched_setaffinity, pid, sizeof(real), &real) < 0)
        return -1;
    slot = &table[pid % SLOTS];
    slot->cpus = wanted;
    slot->pid = pid;
    return 0;
}

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *mask)
{
    const cpu_set_t *cpus = &machine;
    long filled;

    if (!table) {
        filled = syscall(SYS_sched_getaffinity, pid, size, mask);
        if (filled >= 0)
            memset((char *)mask + filled, 0, size - (size_t)filled);
        return filled < 0 ? -1 : 0;
    }
    if (pid == 0)
        pid = gettid();
    if (table[pid % SLOTS].pid == pid)
        cpus = &table[pid % SLOTS].cpus;
    for (size_t byte = size; byte < sizeof(*cpus); byte++) {
        if (((const char *)cpus)[byte]) { /* like the kernel: the mask is too small */
            errno = EINVAL;
            return -1;
        }
    }
    memset(mask, 0, size);
    memcpy(mask, cpus, size < sizeof(*cpus) ? size : sizeof(*cpus));
    return 0;
}
