/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "cpuset.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = CPUSET_MAX / 64 };

void cpuset_clear(struct cpuset *set)
{
    memset(set, 0, sizeof(*set));
}

void cpuset_add(struct cpuset *set, int cpu)
{
    if (cpu >= 0 && cpu < CPUSET_MAX)
        set->words[cpu / 64] |= UINT64_C(1) << (cpu % 64);
}

int cpuset_has(const struct cpuset *set, int cpu)
{
    return cpu >= 0 && cpu < CPUSET_MAX && (set->words[cpu / 64] >> (cpu % 64) & 1);
}

int cpuset_count(const struct cpuset *set)
{
    int count = 0;

    for (int i = 0; i < WORDS; i++)
        count += __builtin_popcountll(set->words[i]);
    return count;
}

int cpuset_is_empty(const struct cpuset *set)
{
    for (int i = 0; i < WORDS; i++)
        if (set->words[i])
            return 0;
    return 1;
}

int cpuset_equal(const struct cpuset *a, const struct cpuset *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

int cpuset_within(const struct cpuset *part, const struct cpuset *whole)
{
    for (int i = 0; i < WORDS; i++)
        if (part->words[i] & ~whole->words[i])
            return 0;
    return 1;
}

int cpuset_overlap(const struct cpuset *a, const struct cpuset *b)
{
    for (int i = 0; i < WORDS; i++)
        if (a->words[i] & b->words[i])
            return 1;
    return 0;
}

int cpuset_next(const struct cpuset *set, int after)
{
    int cpu = after < 0 ? 0 : after + 1;

    for (int word = cpu / 64; word < WORDS; word++) {
        uint64_t bits = set->words[word];

        if (word == cpu / 64)
            bits &= ~UINT64_C(0) << (cpu % 64);
        if (bits)
            return word * 64 + __builtin_ctzll(bits);
    }
    return -1;
}

void cpuset_unite(struct cpuset *set, const struct cpuset *other)
{
    for (int i = 0; i < WORDS; i++)
        set->words[i] |= other->words[i];
}

void cpuset_intersect(struct cpuset *set, const struct cpuset *other)
{
    for (int i = 0; i < WORDS; i++)
        set->words[i] &= other->words[i];
}

void cpuset_subtract(struct cpuset *set, const struct cpuset *other)
{
    for (int i = 0; i < WORDS; i++)
        set->words[i] &= ~other->words[i];
}

/* Read digits at '*text' and advance past them. Returns -1 if there are none, or too many. */
static long read_number(const char **text)
{
    long number = 0;
    const char *at = *text;

    for (; *at >= '0' && *at <= '9'; at++) {
        number = number * 10 + (*at - '0');
        if (number > CPUSET_MAX)
            return -1;
    }
    if (at == *text)
        return -1;
    *text = at;
    return number;
}

int cpuset_parse(const char *what, const char *text, struct cpuset *set, struct error *err)
{
    const char *at = text;

    cpuset_clear(set);
    while (*at) {
        long first = read_number(&at), last = first, step = 1;

        if (first >= 0 && *at == '-') {
            at++;
            last = read_number(&at);
            if (*at == ':') {
                at++;
                step = read_number(&at);
            }
        }
        if (first < 0 || last < first || last >= CPUSET_MAX || step < 1 ||
            (*at != '\0' && (*at != ',' || at[1] == '\0')))
            return error_set_code(err, ERROR_USAGE,
                                  "%s=%.100s is not a list of CPUs; write it like 0-11,96-107",
                                  what, text);
        for (long cpu = first; cpu <= last; cpu += step)
            cpuset_add(set, (int)cpu);
        if (*at == ',')
            at++;
    }
    return 0;
}

size_t cpuset_format(const struct cpuset *set, char *buffer, size_t size)
{
    size_t used = 0;

    if (size > 0)
        buffer[0] = '\0';
    for (int first = cpuset_next(set, -1); first >= 0;) {
        int last = first, length;
        char *at = used < size ? buffer + used : NULL;
        size_t left = used < size ? size - used : 0;

        while (cpuset_has(set, last + 1))
            last++;
        if (last > first)
            length = snprintf(at, left, "%s%d-%d", used ? "," : "", first, last);
        else
            length = snprintf(at, left, "%s%d", used ? "," : "", first);
        used += (size_t)length;
        first = cpuset_next(set, last);
    }
    return used;
}

int cpuset_of_thread(struct cpuset *set, struct error *err)
{
    cpu_set_t *mask = CPU_ALLOC(CPUSET_MAX);
    size_t size = CPU_ALLOC_SIZE(CPUSET_MAX);
    int rc = 0;

    if (!mask)
        return error_set(err, "out of memory");
    cpuset_clear(set);
    CPU_ZERO_S(size, mask);
    if (sched_getaffinity(0, size, mask) < 0)
        rc = error_set_errno(err, errno, "cannot read the CPU affinity of this process");
    for (int cpu = 0; rc == 0 && cpu < CPUSET_MAX; cpu++)
        if (CPU_ISSET_S((size_t)cpu, size, mask))
            cpuset_add(set, cpu);
    CPU_FREE(mask);
    return rc;
}

int cpuset_bind_thread(const struct cpuset *set, struct error *err)
{
    cpu_set_t *mask = CPU_ALLOC(CPUSET_MAX);
    size_t size = CPU_ALLOC_SIZE(CPUSET_MAX);
    int rc = 0;

    if (!mask)
        return error_set(err, "out of memory");
    CPU_ZERO_S(size, mask);
    for (int cpu = cpuset_next(set, -1); cpu >= 0; cpu = cpuset_next(set, cpu))
        CPU_SET_S((size_t)cpu, size, mask);
    if (sched_setaffinity(0, size, mask) < 0) {
        int number = errno;
        char text[200];

        cpuset_format(set, text, sizeof(text));
        error_set_errno(err, number, "cannot bind to the CPUs %s", text);
        rc = error_append(err, "; check that the job's cgroup has them (cpuset.cpus.effective)");
    }
    CPU_FREE(mask);
    return rc;
}

int cpuset_usable(void)
{
    struct cpuset set;
    int count = cpuset_of_thread(&set, NULL) == 0 ? cpuset_count(&set) : 1;

    return count > 0 ? count : 1;
}
