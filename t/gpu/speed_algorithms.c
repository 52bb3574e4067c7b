/* SPDX-License-Identifier: Apache-2.0 */
/* The energy of a product with other algorithms than the chosen one: with those that were the
 * fastest for an installed product of its kind. The one that needs the least goes to the cache of
 * choices, so that training can be timed with it. */
#include "speed.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ALGORITHMS = 64 };

/* This much slower than the chosen one, an algorithm is not run for long. */
static const double HOPELESS = 1.06;
/* The chosen one stays if no other is better by this factor. */
static const double GAIN = 1.01;

struct algorithms {
    const char *key;                /* of the product */
    char all[MOST_ALGORITHMS][256]; /* the chosen one first */
    int count;
};

static void add(struct algorithms *algorithms, const char *value)
{
    for (int i = 0; i < algorithms->count; i++)
        if (strcmp(algorithms->all[i], value) == 0)
            return;
    if (algorithms->count < MOST_ALGORITHMS && strlen(value) < sizeof(algorithms->all[0]))
        strcpy(algorithms->all[algorithms->count++], value);
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

/* Add the algorithms of installed products of the same kind. 'text': of the device's choices, whose
 * first line names the file. */
static void add_installed(struct algorithms *algorithms, const char *text)
{
    const char *directory = getenv("MEGATRON_TUNING_DIR");
    char path[PATH_MAX], name[256] = "", line[1024], key[512], value[256], own[128], kind[128];
    FILE *file;

    sscanf(text, "for %255s", name);
    snprintf(path, sizeof(path), "%s/%s", directory ? directory : ".", name);
    file = fopen(path, "r");
    if (!file || kind_of(algorithms->key, own) < 0) {
        fprintf(stderr, "speed: cannot read %s; set MEGATRON_TUNING_DIR to etc/tuning\n", path);
        exit(1);
    }
    while (fgets(line, sizeof(line), file))
        if (sscanf(line, "%511s %255s", key, value) == 2 && kind_of(key, kind) == 0 &&
            strcmp(kind, own) == 0)
            add(algorithms, value);
    fclose(file);
}

static int has_line(const char *text, const char *key, const char *value)
{
    char line[1024];

    snprintf(line, sizeof(line), "\n%s %s", key, value);
    return strstr(text, line) != NULL;
}

/* A plan with this algorithm; NULL: the library does not accept it, and another was chosen. */
static struct device_plan *make_with(const char *text, const char *key, const char *value)
{
    struct device_plan *made;
    char *now_chosen;
    int accepted;

    force(text, key, value, 0);
    made = make_now();
    now_chosen = choices();
    accepted = has_line(now_chosen, key, value);
    free(now_chosen);
    if (accepted)
        return made;
    plan_destroy(made);
    return NULL;
}

/* Measure each algorithm, and keep the one that needs the least energy in the cache. */
static void compare(const struct algorithms *algorithms, const char *text)
{
    double first = 0, least = 0;
    int winner = 0;

    for (int i = 0; i < algorithms->count; i++) {
        struct device_plan *made = make_with(text, algorithms->key, algorithms->all[i]);
        double once;

        if (!made)
            continue;
        once = time_briefly(run_now, made);
        if (i == 0)
            first = once;
        if (once < HOPELESS * first) {
            struct energy energy = energy_measure(run_now, made, once);

            printf("    %-64.64s %8.3f ms  for long %8.3f ms %4.0f W %8.4f J%s\n",
                   algorithms->all[i], once * 1e3, energy.seconds * 1e3,
                   energy.joules / energy.seconds, energy.joules, i ? "" : "  chosen");
            if (i == 0 || energy.joules * (winner ? 1 : GAIN) < least) {
                least = energy.joules;
                winner = i;
            }
        }
        plan_destroy(made);
    }
    force(text, algorithms->key, algorithms->all[winner], winner > 0);
    if (winner > 0)
        printf("    now chosen: %.64s\n", algorithms->all[winner]);
    fflush(stdout);
}

void measure_algorithms(const char *before)
{
    char *text = choices(), key[512], value[256];

    reference = 0;
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
        struct algorithms algorithms = {.key = key};

        if (sscanf(line, "%511s %255s", key, value) != 2 || strncmp(key, "gemm:", 5) != 0 ||
            has_line(before, key, ""))
            continue;
        add(&algorithms, value);
        add_installed(&algorithms, text);
        compare(&algorithms, text);
    }
    free(text);
}
