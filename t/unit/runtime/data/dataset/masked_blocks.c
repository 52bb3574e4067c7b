/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks and batches of masked language models against fairseq's own results. */
#include "data/dataset/masked_blocks.h"
#include "tap.h"

static void test_blocks(void)
{
    static const int32_t lines[] = {30, 5, 60, 1, 40, 7, 3, 90, 20, 1, 1, 25};
    static const struct {
        enum break_mode mode;
        int count;
        int32_t lengths[12];
        int64_t last; /* where the last one begins */
    } rows[] = {
        {BREAK_NONE, 5, {63, 63, 63, 63, 31}, 252},
        {BREAK_COMPLETE, 5, {35, 61, 50, 90, 47}, 236},
        {BREAK_COMPLETE_DOC, 6, {35, 60, 50, 90, 20, 25}, 258},
        {BREAK_EOS, 12, {30, 5, 60, 1, 40, 7, 3, 90, 20, 1, 1, 25}, 258},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct blocks blocks = {0};
        struct blocks_state state = {0, 0};
        struct error err;

        blocks_add(&blocks, &state, rows[i].mode, 63, lines, 12, &err);
        blocks_finish(&blocks, &state, rows[i].mode, &err);
        ok(blocks.count == rows[i].count &&
               memcmp(blocks.lengths, rows[i].lengths, (size_t)rows[i].count * 4) == 0 &&
               blocks.begins[blocks.count - 1] == rows[i].last,
           "break mode %d cuts lines like fairseq", (int)rows[i].mode);
        blocks_clear(&blocks);
    }
}

/* Blocks of the given lengths, batched. The ends of the batches, as text. */
static void batch_ends(const int32_t *lengths, int64_t count, struct batching_config config,
                       char *out, size_t size)
{
    struct blocks blocks = {.lengths = (int32_t *)lengths, .count = count};
    struct batching batching;
    struct error err;
    size_t used = 0;

    out[0] = '\0';
    config.longest = 64;
    if (batching_make(&batching, &blocks, &config, &err) < 0)
        snprintf(out, size, "%s", err.text);
    for (int64_t i = 0; i < batching.batches; i++)
        used +=
            (size_t)snprintf(out + used, size - used, "%s%d", i ? " " : "", (int)batching.ends[i]);
    batching_clear(&batching);
}

static void test_batching(void)
{
    static const struct {
        const char *what;
        int64_t blocks, sentences, tokens, multiple;
        const char *ends;
    } rows[] = {
        {"full batches", 24, 8, 0, 8, "8 16 24"},
        {"a ragged end", 21, 8, 0, 8, "8 16 21"},
        {"a limit that is not a multiple", 30, 12, 0, 8, "8 16 24 30"},
        {"a small limit", 7, 3, 0, 8, "3 6 7"},
        {"a tail of its own", 29, 16, 0, 8, "16 24 29"},
        /* lengths 1 to 20 */
        {"a limit of tokens", 20, 100, 100, 1, "10 16 20"},
        {"a limit of tokens and a multiple", 20, 100, 100, 8, "8 14 19 20"},
    };
    int32_t lengths[64];
    char ends[1024];

    for (int i = 0; i < 64; i++)
        lengths[i] = i + 1;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        batch_ends(lengths, rows[i].blocks,
                   (struct batching_config){.max_sentences = rows[i].sentences,
                                            .max_tokens = rows[i].tokens,
                                            .multiple = rows[i].multiple},
                   ends, sizeof(ends));
        is(ends, rows[i].ends, rows[i].what);
    }
    batch_ends(lengths, 5, (struct batching_config){.max_sentences = 8, .max_tokens = 10}, ends,
               sizeof(ends));
    ok(strstr(ends, "a batch of 10 tokens cannot hold a sample") != NULL,
       "a limit of tokens below one sample is an error");
}

int main(void)
{
    test_blocks();
    test_batching();
    return done_testing();
}
