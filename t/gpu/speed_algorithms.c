/* SPDX-License-Identifier: Apache-2.0 */
/* The energy of a product with other algorithms than the chosen one: with the fastest of those that
 * won for an installed product of its kind. If one needs less, it goes to the cache of choices, so
 * that training can be timed with it. */
#include "speed.h"

#include "lib/clock.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ALGORITHMS = 64, MOST_MEASURED = 5 };

/* This much slower than the chosen one, an algorithm is not run for long. */
static const double HOPELESS = 1.06;
/* The chosen one stays if no other is better by this factor, in two rounds. */
static const double GAIN = 1.01;
/* So long a GPU rests before a brief measurement, that its clocks are high. */
static const double REST = 0.05;

struct algorithm {
    char value[256];
    double once;   /* seconds of a brief measurement; 0: not accepted */
    double joules; /* of a run among many, the mean of 'rounds' */
    int rounds;
};

struct contest {
    const char *key;                        /* of the product */
    const char *text;                       /* of the device's choices before */
    struct algorithm list[MOST_ALGORITHMS]; /* the chosen one first, then in order of 'once' */
    int count;
};

static void add(struct contest *c, const char *value)
{
    for (int i = 0; i < c->count; i++)
        if (strcmp(c->list[i].value, value) == 0)
            return;
    if (c->count < MOST_ALGORITHMS && strlen(value) < sizeof(c->list[0].value))
        strcpy(c->list[c->count++].value, value);
}

/* What the keys of products that differ in sizes and strides alone have in common. */
static int kind_of(const char *key, char kind[128])
{
    char transposes[8], types[96];

    if (sscanf(key, "gemm:%*[^:]:%7[^:]:%*[^:]:%*[^:]:%*[^:]:%95s", transposes, types) != 2)
        return -1;
    snprintf(kind, 128, "%s:%s", transposes, types);
    return 0;
}

/* Add the algorithms of installed products of the same kind. The first line of the choices names
 * the file. */
static void add_installed(struct contest *c)
{
    const char *directory = getenv("MEGATRON_TUNING_DIR");
    char path[PATH_MAX], name[256] = "", line[1024], key[512], value[256], own[128], kind[128];
    FILE *file;

    sscanf(c->text, "for %255s", name);
    snprintf(path, sizeof(path), "%s/%s", directory ? directory : ".", name);
    file = fopen(path, "r");
    if (!file) {
        fprintf(stderr,
                "speed: cannot read %s; set MEGATRON_TUNING_DIR to etc/tuning and, if it has "
                "nothing for this GPU, run t/gpu/choices first\n",
                path);
        exit(1);
    }
    while (kind_of(c->key, own) == 0 && fgets(line, sizeof(line), file))
        if (sscanf(line, "%511s %255s", key, value) == 2 && kind_of(key, kind) == 0 &&
            strcmp(kind, own) == 0)
            add(c, value);
    fclose(file);
}

static int has_line(const char *text, const char *key, const char *value)
{
    char line[1024];

    snprintf(line, sizeof(line), "\n%s %s\n", key, value);
    return strstr(text, line) != NULL;
}

/* A plan with this algorithm, or NULL if the library does not accept it: then a new choice was
 * made, which is taken back, also in the file. */
static struct device_plan *make_with(const struct contest *c, const char *value)
{
    struct device_plan *made;
    char *after;
    int accepted;

    force(c->text, c->key, value, 0);
    made = make_now();
    after = choices();
    accepted = has_line(after, c->key, value);
    free(after);
    if (accepted)
        return made;
    plan_destroy(made);
    restore(c->text);
    return NULL;
}

/* Does the plan depend on this product? Variants that lost may have remembered products, too. */
static int matters(const struct contest *c)
{
    struct device_plan *made = make_with(c, "none");

    if (!made)
        return 1;
    plan_destroy(made);
    restore(c->text);
    return 0;
}

static void time_all(struct contest *c)
{
    for (int i = 0; i < c->count; i++) {
        struct device_plan *made = make_with(c, c->list[i].value);

        if (!made)
            continue;
        clock_sleep(REST);
        c->list[i].once = time_briefly(run_now, made);
        plan_destroy(made);
    }
}

/* After the chosen one, by time; those that are not accepted last. */
static int compare_times(const void *a, const void *b)
{
    double x = ((const struct algorithm *)a)->once, y = ((const struct algorithm *)b)->once;

    x = x > 0 ? x : 1e9, y = y > 0 ? y : 1e9;
    return (x > y) - (x < y);
}

static void measure_round(struct contest *c, int i)
{
    struct algorithm *a = &c->list[i];
    struct device_plan *made = make_with(c, a->value);
    struct energy energy;

    if (!made)
        return;
    energy = energy_measure(run_now, made, a->once);
    plan_destroy(made);
    a->joules = (a->joules * a->rounds + energy.joules) / (a->rounds + 1);
    a->rounds++;
    printf("    %-64.64s %8.3f ms  sustained %8.3f ms %4.0f W %8.4f J%s\n", a->value, a->once * 1e3,
           energy.seconds * 1e3, energy.joules / energy.seconds, energy.joules,
           i ? "" : "  chosen");
    fflush(stdout);
}

/* The algorithm that needs the least energy, by far enough. The winner and the chosen one have two
 * rounds, since the least of several noisy numbers is too small. */
static int find_best(struct contest *c)
{
    int best = 0;

    for (int i = 0; i < c->count && i <= MOST_MEASURED; i++)
        if (c->list[i].once > 0 && c->list[i].once < HOPELESS * c->list[0].once) {
            measure_round(c, i);
            if (c->list[i].rounds && c->list[i].joules < c->list[best].joules)
                best = i;
        }
    if (best == 0 || c->list[best].joules * GAIN > c->list[0].joules)
        return 0;
    measure_round(c, best);
    measure_round(c, 0);
    return c->list[best].joules * GAIN < c->list[0].joules ? best : 0;
}

static void measure_product(const char *key, const char *chosen)
{
    char *text = choices();
    struct contest c = {.key = key, .text = text};
    int best;

    if (matters(&c)) {
        add(&c, chosen);
        add_installed(&c);
        time_all(&c);
        qsort(c.list + 1, (size_t)c.count - 1, sizeof(*c.list), compare_times);
        best = find_best(&c);
        restore(text);
        if (best > 0) {
            force(text, key, c.list[best].value, 1);
            printf("    now chosen: %.64s\n", c.list[best].value);
        }
    }
    free(text);
}

void measure_algorithms(const char *before)
{
    char *text = choices(), key[512], value[256];

    reference = 0;
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        if (sscanf(line, "%511s %255s", key, value) == 2 && strncmp(key, "gemm:", 5) == 0 &&
            !has_line(before, key, value))
            measure_product(key, value);
    free(text);
}
