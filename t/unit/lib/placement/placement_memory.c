/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of a placement fails once: the result is an error, never a crash, and nothing
 * leaks (the sanitizers check that). */
#include "lib/node.h"
#include "lib/placement.h"
#include "tap.h"

#include <stdlib.h>
#include <unistd.h>

static long until_failure = -1; /* allocations that succeed; -1: all */

static int fails(void)
{
    return until_failure >= 0 && until_failure-- == 0;
}

/* The linker puts these between the library and libc (--wrap). */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t size)
{
    return fails() ? NULL : __real_strndup(text, size);
}

static const char node[] = "megatron-topology 1\n"
                           "place 0 -1 0 4\nplace 1 0 0 2\nplace 1 0 2 2\nplace 3 1 0 0\n"
                           "numa 0 1\nnuma 1 2\n"
                           "core 0 0,4\ncore 0 1,5\ncore 1 2,6\ncore 1 3,7\n"
                           "device 0 0000:10:1c.0 10de 20b0 302 3 -\n"
                           "device 0 0000:10:1d.0 10de 20b0 302 3 -\n"
                           "device 1 0000:10:1b.0 1d0f efa1 200 3 rdmap16s27\n"
                           "end\n";

static int read_text(struct error *err)
{
    struct topology *topology = topology_parse("node", node, sizeof(node) - 1, err);

    topology_destroy(topology);
    return topology ? 0 : -1;
}

static const struct topology *whole;

static int place(const char *bind, const char *nics, size_t tasks, struct error *err)
{
    struct placement_request request = {.tasks = tasks, .bind = bind, .nics = nics};
    struct placement *placement = placement_create(whole, &request, err);

    placement_destroy(placement);
    return placement ? 0 : -1;
}

static int place_auto(struct error *err)
{
    return place(NULL, NULL, 2, err);
}

static int place_core(struct error *err)
{
    return place("core", "all", 3, err);
}

static int place_lists(struct error *err)
{
    return place("0/1", "10:1b.0/rdmap16s27", 2, err);
}

static int place_within(struct error *err)
{
    return place("0-2", "rdmap16s27", 1, err);
}

static int check_values(struct error *err)
{
    return placement_check_bind("bind", "0-3/4", 2, err);
}

static int parse_gpus(struct error *err)
{
    size_t count;
    struct allocated_gpu *gpus = placement_parse_gpus("gpus", "0-1", whole, &count, err);

    free(gpus);
    return gpus ? 0 : -1;
}

static const struct {
    const char *name;
    int (*run)(struct error *err);
    int optional; /* allocations whose failure is not an error: warnings */
} calls[] = {
    {"reading a node", read_text, 0},           {"placing by GPU", place_auto, 0},
    {"placing by core", place_core, 4},         {"placing by lists", place_lists, 0},
    {"placing within a list", place_within, 0}, {"checking a value", check_values, 0},
    {"reading a list of GPUs", parse_gpus, 0},
};

int main(void)
{
    struct error err;
    struct topology *topology = topology_parse("node", node, sizeof(node) - 1, &err);

    whole = topology;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        long count = 0;
        int rc = -1, silent = 0, bad = 0;

        while (count < 1000) {
            err.text[0] = '\0';
            until_failure = count;
            rc = calls[i].run(&err);
            if (until_failure >= 0)
                break;
            silent += rc == 0;
            bad += rc < 0 && strcmp(err.text, "out of memory") != 0 &&
                   !strstr(err.text, "out of memory");
            count++;
        }
        until_failure = -1;
        ok(rc == 0 && count > 0 && bad == 0 && silent <= calls[i].optional,
           "%s: each of %ld allocations fails with a sentence %s", calls[i].name, count, err.text);
    }
    topology_destroy(topology);
    return done_testing();
}
