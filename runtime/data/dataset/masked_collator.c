/* SPDX-License-Identifier: Apache-2.0 */
/* The collator draws whole tensors, an element for each token, one tensor after the other: which
 * tokens are predicted, which of these are masked, which of the others become random, and ids for
 * these. Draws whose result is not used count, too. */
#include "masked_tokens.h"
#include "mt19937.h"

#include <stdlib.h>
#include "base/core/xmalloc.h"

/* One element of torch.bernoulli with a tensor of fp32 probabilities: 24 of the 32 bits. This is
 * the same on all CPUs; PyTorch uses MKL only for a probability that is a number. */
static int draw_bernoulli(struct mt19937 *rng, double probability)
{
    return (float)(mt19937_next(rng) & 0xffffff) * 0x1p-24f < (float)probability;
}

static int is_special(const struct mask_config *c, int32_t token)
{
    for (size_t i = 0; i < c->special_count; i++)
        if (c->specials[i] == token)
            return 1;
    return c->special_count == 0 && token < c->first_random;
}

/* Can the token at 'i' be selected? Of a word only its first token, for all of them. */
static int is_candidate(const struct mask_config *c, const int32_t *tokens, int64_t i)
{
    if (is_special(c, tokens[i]))
        return 0;
    return !c->begins || i == 0 || c->begins[tokens[i]] || is_special(c, tokens[i - 1]);
}

static int64_t select_tokens(const struct mask_config *c, struct mt19937 *rng,
                             const int32_t *tokens, int64_t count, int32_t *labels)
{
    int64_t predicted = 0;
    int selected = 0;

    for (int64_t i = 0; i < count; i++) {
        int drawn = draw_bernoulli(rng, c->probability);

        if (is_candidate(c, tokens, i))
            selected = drawn;
        else if (is_special(c, tokens[i]))
            selected = 0;
        labels[i] = selected ? tokens[i] : BATCH_IGNORE;
        predicted += selected;
    }
    return predicted;
}

/* torch.randint: any id, also a special one. PyTorch takes 64 bits for 2^28 ids or more, which no
 * tokenizer has. */
static void replace_tokens(const struct mask_config *c, struct mt19937 *rng,
                           const unsigned char *random, int32_t *tokens, int64_t count)
{
    uint32_t ids = (uint32_t)(c->tokenizer_ids > 0 ? c->tokenizer_ids : c->vocabulary);

    for (int64_t i = 0; i < count; i++) {
        uint32_t token = mt19937_next(rng) % ids;

        if (random[i])
            tokens[i] = (int32_t)token;
    }
}

int64_t collator_apply(const struct mask_config *c, uint32_t seed, int32_t *tokens, int64_t count,
                       int32_t *labels)
{
    double masked = 1 - c->leave_unmasked - c->random_token;
    unsigned char *random = xcalloc((size_t)count, 1);
    struct mt19937 rng;
    int64_t predicted;

    mt19937_seed(&rng, seed); /* torch.manual_seed is RandomState's, of the low 32 bits */
    predicted = select_tokens(c, &rng, tokens, count, labels);
    for (int64_t i = 0; i < count; i++) {
        int drawn = draw_bernoulli(&rng, masked);

        random[i] = labels[i] != BATCH_IGNORE && !drawn;
        if (labels[i] != BATCH_IGNORE && drawn)
            tokens[i] = c->mask;
    }
    if (masked < 1 && c->random_token > 0) {
        for (int64_t i = 0; i < count; i++)
            random[i] &= (unsigned char)draw_bernoulli(&rng, c->random_token / (1 - masked));
        replace_tokens(c, &rng, random, tokens, count);
    }
    free(random);
    return predicted;
}
