/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "run.h"
#include "lib/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Print the sum of several counts and each of them. */
static void show_counts(const struct output_layout *layout, const char *word, int from, int to)
{
    int64_t all = 0;

    for (int i = from; i < to; i++)
        all += layout->faults[i];
    printf("  %s:%*s%" PRId64 "\n", word, 16 - (int)strlen(word), "", all);
    for (int i = from; i < to; i++)
        if (layout->faults[i] > 0)
            printf("    %-14" PRId64 " %s%s%s\n", layout->faults[i],
                   document_fault_text((enum document_fault)i), i == FAULT_LENGTH ? "; " : "",
                   i == FAULT_LENGTH ? "raise --max-line-bytes" : "");
}

static void show_faults(const struct output_layout *layout)
{
    int64_t left_out = 0, unclosed = 0;

    show_counts(layout, "skipped", 1, FAULT_BROKEN_END);
    for (int i = FAULT_BROKEN_END; i < FAULT_LEFT_OUT_END; i++)
        left_out += layout->faults[i];
    if (left_out > 0)
        show_counts(layout, "left out", FAULT_BROKEN_END, FAULT_LEFT_OUT_END);
    for (int i = FAULT_LEFT_OUT_END; i < FAULT_COUNT; i++)
        unclosed += layout->faults[i];
    if (unclosed > 0)
        show_counts(layout, "unclosed markup", FAULT_LEFT_OUT_END, FAULT_COUNT);
}

void summary_print(const struct run *run, const struct jobs *engine)
{
    const struct preprocess_config *config = run->config;
    const struct output_layout *layout = &run->layout;
    const struct position *end = &layout->cuts[layout->shards];
    double elapsed = clock_now() - engine->begin + 1e-9;
    double cores = (double)run->encode.threads * (double)engine->world->size;
    /* What earlier launches have done took no time of this one. */
    double bytes = (double)(layout->bytes - run->chunks.before_bytes);
    int64_t tokens = 0;

    for (size_t k = 0; k < layout->keys; k++)
        tokens += end->tokens[k];
    fprintf(stderr, "Processed %" PRId64 " documents (%.6g docs/s, %.6g MB/s).\n", end->documents,
            (double)end->documents / elapsed, (double)layout->bytes / elapsed / 1048576);
    printf("Done: %s\n", config->output_prefix);
    printf("  documents:       %" PRId64 "\n", end->documents);
    for (size_t k = 0; k < layout->keys; k++)
        printf("  tokens:          %" PRId64 " in %" PRId64 " sequence%s, %s (%s)\n",
               end->tokens[k], end->sequences[k], end->sequences[k] == 1 ? "" : "s",
               layout->id_size == 2 ? "uint16" : "int32", config->keys[k]);
    /* With a maximum number of documents, more input was read than became tokens. */
    if (config->max_documents > 0)
        printf("  input:           %" PRId64 " bytes read\n", layout->bytes);
    else
        printf("  input:           %" PRId64 " bytes, %.4f tokens per byte\n", layout->bytes,
               layout->bytes > 0 ? (double)tokens / (double)layout->bytes : 0);
    printf("  time:            %.3f s, %.2f MB/s and %.0f tokens/s per core of %.0f\n", elapsed,
           bytes / elapsed / 1048576 / cores,
           layout->bytes > 0 ? (double)tokens * bytes / (double)layout->bytes / elapsed / cores : 0,
           cores);
    show_faults(layout);
    fflush(stdout);
}
