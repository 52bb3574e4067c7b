/* SPDX-License-Identifier: Apache-2.0 */
/* What `megatron plan` prints about a search.
 *
 *     struct search_request request = {.machine = machine, .nodes = 4, .recompute = -1};
 *     struct search search;
 *     struct own own;
 *
 *     if (own_open(&own, words, count, 4 * machine->gpus, err) == 0 &&
 *         search_run(&search, &own, &request, err) == 0)
 *         show_text(&(struct show){.search = &search, .request = &request, ...}, stdout);
 *     search_clear(&search);
 *     own_close(&own);
 */
#ifndef MEGATRON_SHOW_H
#define MEGATRON_SHOW_H

#include <stdbool.h>
#include <stdio.h>

#include "outlook.h"

struct show {
    const struct search *search;
    const struct search_request *request;
    struct outlook_request outlook;
    const char *model;        /* in words */
    const char *const *words; /* of `megatron train`, without the layout */
    int word_count;
    size_t top; /* how many of the best */
    bool explain;
};

/* The parts of a step in the order of the pictures and tables. */
enum { SHOW_PARTS = 11 };
struct show_part {
    const char *name, *color;
    double seconds;
};
void show_parts(const struct plan_time *time, struct show_part parts[SHOW_PARTS]);

/* "none", "selective" or "full". */
const char *show_recompute(enum plan_recompute recompute);

/* "bf16", "fp16" or "fp8". */
const char *show_precision(const struct plan_run *run);

void show_text(const struct show *show, FILE *stream);
void show_json(const struct show *show, FILE *stream);
void show_csv(const struct show *show, FILE *stream);

/* The recommended layout as a record that `megatron report` compares with the run. */
void show_record(const struct show *show, FILE *stream);

/* Bars of the time of a step by part, one per layout. */
void show_svg(const struct show *show, FILE *stream);

/* The arguments of `megatron train` for a candidate: those of the user and the layout. With
 * 'plugin' those that srun and sbatch take instead (--megatron-tp=...) come first, and are not
 * repeated. */
void show_command(const struct show *show, const struct candidate *candidate, bool plugin,
                  FILE *stream);

#endif
