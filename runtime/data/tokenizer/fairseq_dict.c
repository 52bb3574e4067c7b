/* SPDX-License-Identifier: Apache-2.0 */
#include "fairseq.h"
#include "base/core/file_lines.h"
#include "tokenizer.h"
#include "trie.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

#define FILE_LIMIT ((size_t)1 << 30)

static const char *const specials[] = {"<s>", "<pad>", "</s>", "<unk>"};

void fairseq_dict_clear(struct fairseq_dict *dict)
{
    word_table_clear(&dict->words);
    memset(dict, 0, sizeof(*dict));
}

/* A count at the end of a line, after a space. Returns the length of the word before it, or 0. */
static size_t split_line(const char *line, size_t length, int64_t *count)
{
    size_t digits = 0;
    int64_t value = 0;

    while (digits < length && line[length - 1 - digits] >= '0' && line[length - 1 - digits] <= '9')
        digits++;
    if (digits == 0 || digits > 18 || digits + 1 >= length || line[length - 1 - digits] != ' ')
        return 0;
    for (size_t i = length - digits; i < length; i++)
        value = 10 * value + (line[i] - '0');
    *count = value;
    return length - digits - 1;
}

static int add_line(struct fairseq_dict *dict, const char *line, size_t length, struct error *err)
{
    static const char overwrite[] = " #fairseq:overwrite";
    size_t mark = sizeof(overwrite) - 1, word, before = dict->words.count;
    int replaces = 0;
    int64_t count;

    while (length > 0 && strchr(" \t\r\v\f", line[length - 1]))
        length--;
    if (length > mark && memcmp(line + length - mark, overwrite, mark) == 0) {
        replaces = 1;
        length -= mark;
    }
    word = split_line(line, length, &count);
    if (word == 0)
        return error_set(err,
                         "the line is not a word, a space and its count, as in fairseq's dict.txt");
    if (replaces && word_table_find(&dict->words, line, word) != WORD_NONE)
        return error_set(err, "\"%.*s\" with #fairseq:overwrite is not supported; remove the line",
                         (int)(word < 40 ? word : 40), line);
    word_table_add(&dict->words, line, word, count);
    if (dict->words.count == before)
        return error_set(err, "\"%.*s\" is in the dictionary already; remove the line",
                         (int)(word < 40 ? word : 40), line);
    return 0;
}

static int add_lines(struct fairseq_dict *dict, const struct file_bytes *bytes, const char *path,
                     struct error *err)
{
    struct file_lines lines = file_lines(bytes);

    while (file_next_line(&lines))
        if (add_line(dict, lines.line, lines.length, err) < 0)
            return error_prefix(err, "%s, line %zu", path, lines.number);
    return 0;
}

int fairseq_dict_read(struct fairseq_dict *dict, const char *path, struct error *err)
{
    struct file_bytes bytes;
    int rc;

    memset(dict, 0, sizeof(*dict));
    if (file_read(path, FILE_LIMIT, &bytes, err) < 0)
        return -1;
    for (int i = 0; i < FAIRSEQ_SPECIALS; i++)
        word_table_add(&dict->words, specials[i], strlen(specials[i]), 1);
    rc = add_lines(dict, &bytes, path, err);
    file_bytes_clear(&bytes);
    if (rc < 0)
        return -1;
    if (dict->words.count == FAIRSEQ_SPECIALS)
        return error_set(err, "%s: the dictionary is empty", path);
    if (dict->words.count > INT32_MAX)
        return error_set(
            err, "%s: the dictionary has %zu entries; at most %d are supported" OTHER_TOKENIZER,
            path, (size_t)dict->words.count, INT32_MAX);
    dict->written = dict->words.count;
    dict->mask = word_table_find(&dict->words, "<mask>", 6);
    if (dict->mask == WORD_NONE)
        dict->mask = word_table_add(&dict->words, "<mask>", 6, 1);
    return 0;
}

/* --- Writing --------------------------------------------------------------------------------- */

struct ranked {
    const char *text;
    size_t length;
    int64_t count;
};

/* By falling count; the order of bytes in UTF-8 is that of code points. */
static int compare_words(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;
    size_t both = a->length < b->length ? a->length : b->length;
    int order;

    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    order = memcmp(a->text, b->text, both);
    if (order != 0)
        return order;
    return a->length < b->length ? -1 : a->length > b->length;
}

static int is_special(const struct ranked *word)
{
    for (int i = 0; i < FAIRSEQ_SPECIALS; i++)
        if (word->length == strlen(specials[i]) &&
            memcmp(word->text, specials[i], word->length) == 0)
            return 1;
    return 0;
}

static void put_line(struct text_buffer *out, const char *word, size_t length, int64_t count)
{
    char number[32];
    int digits = snprintf(number, sizeof(number), " %" PRId64 "\n", count);

    text_buffer_put(out, word, length);
    text_buffer_put(out, number, (size_t)digits);
}

static void put_lines(const struct ranked *list, size_t count, const struct fairseq_rules *rules,
                      struct text_buffer *out)
{
    int64_t ids = FAIRSEQ_SPECIALS;

    for (size_t i = 0; i < count && list[i].count >= rules->threshold &&
                       (rules->words <= 0 || ids < rules->words);
         i++, ids++)
        put_line(out, list[i].text, list[i].length, list[i].count);
    for (int made = 0; rules->multiple > 1 && ids % rules->multiple != 0; made++, ids++) {
        char word[32];
        int length = snprintf(word, sizeof(word), "madeupword%04d", made);

        put_line(out, word, (size_t)length, 0);
    }
}

int fairseq_dict_write(const struct word_table *counts, const struct fairseq_rules *rules,
                       const char *path, struct error *err)
{
    struct ranked *list = xcalloc(counts->count + 1, sizeof(*list));
    struct text_buffer text = {0};
    size_t count = 0;
    int rc;

    for (size_t i = 0; i < counts->count; i++) {
        list[count] = (struct ranked){word_table_text(counts, i), counts->entries[i].length,
                                      counts->entries[i].count};
        count += !is_special(&list[count]);
    }
    qsort(list, count, sizeof(*list), compare_words);
    put_lines(list, count, rules, &text);
    rc = file_write_whole(path, text.data, text.length, 0, err);
    text_buffer_clear(&text);
    free(list);
    return rc;
}
