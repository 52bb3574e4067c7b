/* SPDX-License-Identifier: Apache-2.0 */
/* BERT's vocab.txt: a token on each line, its number is the id. Megatron's BertWordPieceLowerCase
 * and BertWordPieceCase, with the ids of Hugging Face's BertTokenizerFast. */
#include "tokenizer_private.h"
#include "base/core/file_lines.h"

#include <string.h>

#define FILE_LIMIT (UINT64_C(1) << 28)
#define LONGEST    100 /* characters; Hugging Face's max_input_chars_per_word */

/* Length of a line without the white space at its end. */
static size_t trimmed(const char *line, size_t length)
{
    while (length > 0 && strchr(" \t\r\n\v\f", line[length - 1]) && line[length - 1])
        length--;
    return length;
}

static int read_lines(struct tokenizer *tokenizer, const struct file_bytes *bytes,
                      struct error *err)
{
    struct file_lines lines = file_lines(bytes);

    while (file_next_line(&lines))
        if (vocabulary_set(&tokenizer->vocabulary, (int64_t)lines.number - 1, lines.line,
                           trimmed(lines.line, lines.length), VOCABULARY_TOKEN, err) < 0)
            return error_prefix(err, "%s, line %zu", tokenizer->config.vocab_file, lines.number);
    return 0;
}

static int add_specials(struct tokenizer *tokenizer, struct error *err)
{
    static const char *const names[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        int64_t id = vocabulary_find(&tokenizer->vocabulary, names[i]);

        if (id < 0)
            return error_set(err,
                             "%s: the vocabulary has no token %s, which BERT's tokenizer needs",
                             tokenizer->config.vocab_file, names[i]);
        if (!tokenizer->config.special_as_text)
            specials_add(&tokenizer->specials, (const uint8_t *)names[i], strlen(names[i]),
                         (uint32_t)id, 0);
    }
    tokenizer->wordpiece.unknown = (uint32_t)vocabulary_find(&tokenizer->vocabulary, "[UNK]");
    tokenizer->bos = vocabulary_find(&tokenizer->vocabulary, "[CLS]");
    tokenizer->eos = tokenizer->eod = vocabulary_find(&tokenizer->vocabulary, "[SEP]");
    return 0;
}

int load_bert(struct tokenizer *tokenizer, struct error *err)
{
    const char *path = tokenizer->config.vocab_file;
    int lower = tokenizer->config.type == TOKENIZER_BERT_LOWER_CASE;
    struct file_bytes bytes;
    int rc;

    if (!path)
        return error_set_code(
            err, ERROR_USAGE,
            "%s needs a vocabulary file, BERT's vocab.txt; name it with --vocab-file",
            tokenizer_type_name((enum tokenizer_type)tokenizer->config.type));
    if (file_read(path, FILE_LIMIT, &bytes, err) < 0)
        return -1;
    rc = read_lines(tokenizer, &bytes, err);
    file_bytes_clear(&bytes);
    if (rc < 0)
        return -1;
    if (tokenizer->vocabulary.count == 0)
        return error_set(err, "%s: the vocabulary is empty", path);
    if (wordpiece_init(&tokenizer->wordpiece, &tokenizer->vocabulary, "##", 2, err) < 0)
        return error_prefix(err, "%s", path);
    tokenizer->wordpiece.longest = LONGEST;
    tokenizer->model = MODEL_WORDPIECE;
    tokenizer->split = (struct split_options){.rule = SPLIT_BERT};
    tokenizer->decode = DECODE_WORDPIECE;
    tokenizer->vocab_size = (int64_t)tokenizer->vocabulary.count;
    tokenizer->rewrites.list[tokenizer->rewrites.count++] = (struct rewrite){
        .kind = REWRITE_BERT, .clean = 1, .chinese = 1, .accents = lower, .lower = lower};
    return add_specials(tokenizer, err);
}
