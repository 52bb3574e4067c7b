/* From logits to the next token. The logits of a text may be divided over ranks by vocabulary: each
 * rank offers its best candidates, and whoever has the offers of all picks the same token, on any
 * layout. The drawing is a race: every token runs with noise that depends on (seed, text, position,
 * token) alone, and the fastest of those that top-k and top-p leave wins, which draws by
 * probability. */
#ifndef MEGATRON_SAMPLER_H
#define MEGATRON_SAMPLER_H

#include <stdint.h>

struct sampling {
    double temperature; /* 0: the most likely token */
    int64_t top_k;      /* only so many of the most likely tokens; 0: all */
    double top_p;       /* of these only the fewest that have this probability together; 0: all */
    uint64_t seed;
};

/* Two numbers of one type, so that a collective can carry them. */
struct candidate {
    double key; /* a logit, or a result of the race */
    double id;  /* below 0: no candidate */
};

/* Number of candidates a rank with 'columns' columns of the logits offers. */
int64_t sampler_width(const struct sampling *sampling, int64_t columns);

/* The candidates among tokens 'first' .. 'first' + 'count' - 1, whose 'logits' these are, for the
 * token at 'position' of text number 'text'; 'out' has room for 'width' of them. */
void sampler_offer(const struct sampling *sampling, const float *logits, int64_t count,
                   int64_t first, uint64_t text, int64_t position, struct candidate *out,
                   int64_t width);

/* The token, from the candidates of all ranks in the order of their tokens; they are reordered.
 * -1: there is none, no logit is a number. */
int64_t sampler_pick(const struct sampling *sampling, struct candidate *candidates, int64_t count,
                     uint64_t text, int64_t position);

#endif
