/* SPDX-License-Identifier: Apache-2.0 */
#include "vocabulary_check.h"

#include <inttypes.h>

enum { PLACES = 16, TOKENS = 512 };

int vocabulary_check(const struct indexed *corpus, int64_t vocabulary, struct error *err)
{
    int64_t sequences = indexed_info(corpus)->sequences;
    int32_t tokens[TOKENS];

    for (int64_t i = 0; i < PLACES && i < sequences; i++) {
        int64_t sequence = sequences <= PLACES ? i : i * (sequences - 1) / (PLACES - 1);
        int64_t count = indexed_tokens(corpus, sequence, 0, -1, tokens, TOKENS, err);

        if (count < 0)
            return -1;
        for (int64_t j = 0; j < count; j++)
            if (tokens[j] < 0 || tokens[j] >= vocabulary)
                return error_set_code(err, ERROR_VOCABULARY,
                                      "%s.bin contains token %" PRId32 " (sequence %" PRId64
                                      "), but the vocabulary has %" PRId64 " tokens",
                                      indexed_prefix(corpus), tokens[j], sequence, vocabulary);
    }
    return 0;
}
