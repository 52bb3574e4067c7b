/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer_private.h"
#include "lib/checksum.h"

#include <stdio.h>

/* Does it look like a special token, such as <s> or [MASK]? Some file formats list these in the
 * vocabulary, some apart from it, and some not at all. */
static int looks_special(const uint8_t *text, size_t length)
{
    return (text[0] == '<' && text[length - 1] == '>') ||
           (text[0] == '[' && text[length - 1] == ']');
}

void tokenizer_identify(const struct tokenizer *tokenizer, struct tokenizer_identity *identity)
{
    const struct vocabulary *vocabulary = &tokenizer->vocabulary;
    struct checksum sum, own;
    int ordinary = 0;

    *identity =
        (struct tokenizer_identity){.vocab_size = tokenizer->vocab_size, .eod = tokenizer->eod};
    snprintf(identity->type, sizeof(identity->type), "%s",
             tokenizer_type_name((enum tokenizer_type)tokenizer->config.type));
    if (tokenizer->config.type == TOKENIZER_NULL)
        return;
    checksum_begin(&sum);
    checksum_begin(&own);
    for (size_t id = 0; id < vocabulary->count; id++) {
        enum vocabulary_kind kind = vocabulary->entries[id].kind;
        uint64_t head[2] = {id};
        size_t length;
        const uint8_t *text = vocabulary_text(vocabulary, id, &length);

        if ((kind != VOCABULARY_TOKEN && kind != VOCABULARY_SPECIAL) || length == 0 ||
            looks_special(text, length))
            continue;
        head[1] = length;
        checksum_add(&sum, head, sizeof(head));
        checksum_add(&sum, text, length);
        if (kind == VOCABULARY_TOKEN) {
            own = sum;
            ordinary = 1;
        }
    }
    identity->texts = checksum_end(&sum);
    identity->own = ordinary ? checksum_end(&own) : 0;
}
