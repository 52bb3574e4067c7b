/* SPDX-License-Identifier: Apache-2.0 */
#include "vocabulary_check.h"
#include "base/core/log.h"

#include <inttypes.h>
#include <stdio.h>

/* FEWEST: so many tokens of any text use more than half of its vocabulary. */
enum { PLACES = 16, TOKENS = 512, FEWEST = 4096 };

/* Entry 'i' of 'count' at about equal distances. */
static int64_t place(int64_t i, int64_t count)
{
    return count <= PLACES ? i : i * (count - 1) / (PLACES - 1);
}

/* The error of a finding, to be filled in; NULL if it is not the first one. */
static struct error *found(struct vocabulary_check *check, enum vocabulary_finding kind)
{
    return check->findings[kind].count++ == 0 ? &check->findings[kind].err : NULL;
}

/* --- Tokens ---------------------------------------------------------------------------------- */

/* 'known': the file beside the corpus tells which tokenizer made it. */
static int check_range(struct vocabulary_check *check, const struct indexed *corpus, int known,
                       struct error *err)
{
    int64_t sequences = indexed_info(corpus)->sequences, looked = 0, largest = 0;
    int32_t tokens[TOKENS];

    for (int64_t i = 0; i < PLACES && i < sequences; i++) {
        int64_t sequence = place(i, sequences);
        int64_t count = indexed_tokens(corpus, sequence, 0, -1, tokens, TOKENS, err);

        if (count < 0)
            return -1;
        looked += count;
        for (int64_t j = 0; j < count; j++) {
            if (tokens[j] < 0 || tokens[j] >= check->vocabulary)
                return error_set_code(err, ERROR_VOCABULARY,
                                      "%s.bin contains token %" PRId32 " (sequence %" PRId64
                                      "), but the vocabulary has %" PRId64 " tokens",
                                      indexed_prefix(corpus), tokens[j], sequence,
                                      check->vocabulary);
            largest = tokens[j] > largest ? tokens[j] : largest;
        }
    }
    if (!known && looked >= FEWEST && largest < check->vocabulary / 2)
        error_set(
            found(check, FOUND_UNUSED),
            "%s.bin: the largest of %" PRId64 " tokens that were looked at is %" PRId64
            ", but the vocabulary has %" PRId64
            ": another tokenizer may have made it; use the tokenizer that made the data "
            "(--tokenizer-type and its files), or run `megatron preprocess` again with this one",
            indexed_prefix(corpus), looked, largest, check->vocabulary);
    return 0;
}

/* The last token of a document; -1 if it is empty. */
static int last_token(const struct indexed *corpus, int64_t document, int32_t *token,
                      struct error *err)
{
    int64_t ends[2], length;

    *token = -1;
    if (indexed_documents(corpus, document, 2, ends, err) < 0)
        return -1;
    if (ends[1] <= ends[0])
        return 0;
    length = indexed_length(corpus, ends[1] - 1, err);
    return length < 0 || (length > 0 &&
                          indexed_tokens(corpus, ends[1] - 1, length - 1, 1, token, 1, err) < 0)
               ? -1
               : 0;
}

static int check_ends(struct vocabulary_check *check, const struct indexed *corpus,
                      struct error *err)
{
    int64_t documents = indexed_info(corpus)->documents, looked = 0, as_first = 0;
    int32_t first = -1;

    for (int64_t i = 0; i < PLACES && i < documents; i++) {
        int32_t last;

        if (last_token(corpus, place(i, documents), &last, err) < 0)
            return -1;
        if (last == check->eod)
            return 0;
        if (last < 0)
            continue;
        if (looked++ == 0)
            first = last;
        as_first += last == first;
    }
    if (looked > 1 && as_first == looked)
        error_set(found(check, FOUND_OTHER_END),
                  "%s.bin: documents end with token %" PRId32
                  ", but the end-of-document token of this run is %" PRId64
                  "; use the tokenizer that made the data (--tokenizer-type and its files), or set "
                  "--eod-id",
                  indexed_prefix(corpus), first, check->eod);
    else if (looked > 0)
        error_set(found(check, FOUND_NO_END),
                  "%s.bin: none of %" PRId64 " document%s that %s looked at ends with the "
                  "end-of-document token %" PRId64
                  "; run `megatron preprocess` again with --append-eod",
                  indexed_prefix(corpus), looked, looked == 1 ? "" : "s",
                  looked == 1 ? "was" : "were", check->eod);
    return 0;
}

/* --- The file beside the corpus -------------------------------------------------------------- */

static int differ(const char *prefix, const struct tokenizer_identity *here, const char *other,
                  const struct tokenizer_identity *there, struct error *err)
{
    char words[2][DATA_IDENTITY_WORDS];

    data_identity_words(here, words[0]);
    data_identity_words(there, words[1]);
    return error_set_code(err, ERROR_USAGE,
                          "%s was made by %s, but %s %s; use the tokenizer that made the data "
                          "(--tokenizer-type and its "
                          "files), or run `megatron preprocess` again with this one",
                          prefix, words[0], other, words[1]);
}

static int check_identity(struct vocabulary_check *check, const struct indexed *corpus,
                          const struct data_identity *identity, struct error *err)
{
    const struct tokenizer_identity *made = &identity->tokenizer;
    const char *prefix = indexed_prefix(corpus);

    if (check->tokenizer && !data_identity_matches(made, check->tokenizer))
        return differ(prefix, made, "the tokenizer in use is", check->tokenizer, err);
    if (check->first_prefix[0] && !data_identity_matches(made, &check->first)) {
        char other[sizeof(check->first_prefix) + 16];

        snprintf(other, sizeof(other), "%s by", check->first_prefix);
        return differ(prefix, made, other, &check->first, err);
    }
    if (!check->first_prefix[0] && made->texts != 0) {
        snprintf(check->first_prefix, sizeof(check->first_prefix), "%s", prefix);
        check->first = *made;
    }
    if (check->vocabulary > 0 && made->vocab_size > check->vocabulary &&
        (!check->tokenizer || check->tokenizer->texts != made->texts))
        error_set(found(check, FOUND_LARGER),
                  "%s was made by a %s of %" PRId64 " tokens, but the vocabulary has %" PRId64
                  "; use the tokenizer that made the data (--tokenizer-type and its files), or run "
                  "`megatron preprocess` again with this one",
                  prefix, made->type, made->vocab_size, check->vocabulary);
    if (check->eod < 0)
        return 0;
    if (!identity->append_eod)
        error_set(found(check, FOUND_NO_END),
                  "%s was made without an end-of-document token after each document; run `megatron "
                  "preprocess` again with --append-eod",
                  prefix);
    else if (made->eod >= 0 && made->eod != check->eod)
        error_set(found(check, FOUND_OTHER_END),
                  "%s: documents end with token %" PRId64
                  ", but the end-of-document token of this run is %" PRId64
                  "; use the tokenizer that made the data (--tokenizer-type and its files), or set "
                  "--eod-id",
                  prefix, made->eod, check->eod);
    return 0;
}

int vocabulary_check(struct vocabulary_check *check, const struct indexed *corpus,
                     struct error *err)
{
    struct data_identity identity;
    struct error trouble;
    int known;

    known = data_identity_read(corpus, &identity, &trouble);
    if (known > 0 && check_identity(check, corpus, &identity, err) < 0)
        return -1;
    if (known < 0 && check->findings[FOUND_UNREADABLE].count++ == 0)
        check->findings[FOUND_UNREADABLE].err = trouble;
    if (check->vocabulary > 0 && check_range(check, corpus, known > 0, err) < 0)
        return -1;
    return known > 0 || check->eod < 0 ? 0 : check_ends(check, corpus, err);
}

void vocabulary_check_report(const struct vocabulary_check *check)
{
    for (int i = 0; i < FOUND_KINDS; i++) {
        int64_t others = check->findings[i].count - 1;

        if (others == 0)
            log_warning("%s", check->findings[i].err.text);
        else if (others > 0)
            log_warning("%s (and %" PRId64 " more dataset%s)", check->findings[i].err.text, others,
                        others == 1 ? "" : "s");
    }
}
