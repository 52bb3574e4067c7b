/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

#define NARROW_LIMIT 65500 /* Megatron's: from here on ids are int32 */

void model_set_unigram(struct tokenizer *tokenizer, const double *scores)
{
    struct unigram *unigram = &tokenizer->unigram;
    size_t count = tokenizer->vocabulary.count;

    tokenizer->model = MODEL_UNIGRAM;
    tokenizer->bpe.all_tokens = 1;
    unigram->bpe = &tokenizer->bpe;
    unigram->scores = xcalloc(count + 1, sizeof(*scores));
    unigram->added = xcalloc(count + 1, sizeof(*scores));
    memcpy(unigram->scores, scores, count * sizeof(*scores));
    unigram->largest = fabs(unigram->unknown_score);
    for (size_t id = 0; id < count; id++) {
        unigram->added[id] = isnan(scores[id]) ? 0 : scores[id];
        if (fabs(unigram->added[id]) > unigram->largest)
            unigram->largest = fabs(unigram->added[id]);
    }
    /* An unknown character counts once, with its first byte. */
    if (!tokenizer->bpe.unknown_bytes && tokenizer->bpe.unknown_id < count)
        unigram->added[tokenizer->bpe.unknown_id] = unigram->unknown_score;
    for (unsigned byte = 0; tokenizer->bpe.unknown_bytes && byte < 256; byte++)
        if (tokenizer->bpe.byte_ids[byte] < count)
            unigram->added[tokenizer->bpe.byte_ids[byte]] =
                (byte & 0xC0) == 0x80 ? 0 : unigram->unknown_score;
}

/* The cuts as one byte for two bytes. */
static void set_cuts(struct tokenizer *tokenizer)
{
    tokenizer->cuts = xmalloc(65536);
    for (unsigned first = 0; first < 256; first++)
        for (unsigned second = 0; second < 256; second++)
            tokenizer->cuts[first | second << 8] =
                bpe_joined(&tokenizer->bpe, (uint8_t)first, (uint8_t)second) ? 0 : SPLIT_HERE;
    if (tokenizer->bpe.space_runs)
        tokenizer->cuts[' ' | ' ' << 8] = SPLIT_SPACES;
}

static int load_null(struct tokenizer *tokenizer, struct error *err)
{
    if (tokenizer->config.vocab_size < 1)
        return error_set_code(err, ERROR_USAGE,
                              "NullTokenizer needs a vocabulary size; set it with --vocab-size");
    tokenizer->vocab_size = tokenizer->config.vocab_size + 1;
    tokenizer->eod = tokenizer->config.vocab_size;
    tokenizer->decode = DECODE_NUMBERS;
    return 0;
}

static const struct {
    const char *name;
    int (*load)(struct tokenizer *tokenizer, struct error *err);
} types[] = {
    [TOKENIZER_GPT2_BPE] = {"GPT2BPETokenizer", load_gpt2},
    [TOKENIZER_LLAMA2] = {"Llama2Tokenizer", load_sentencepiece},
    [TOKENIZER_SENTENCEPIECE] = {"SentencePieceTokenizer", load_sentencepiece},
    [TOKENIZER_GPT_SENTENCEPIECE] = {"GPTSentencePieceTokenizer", load_sentencepiece},
    [TOKENIZER_LLAMA3] = {"Llama3Tokenizer", load_tiktoken},
    [TOKENIZER_TIKTOKEN] = {"TikTokenizer", load_tiktoken},
    [TOKENIZER_HUGGINGFACE] = {"HuggingFaceTokenizer", load_huggingface},
    [TOKENIZER_BERT_LOWER_CASE] = {"BertWordPieceLowerCase", load_bert},
    [TOKENIZER_BERT_CASE] = {"BertWordPieceCase", load_bert},
    [TOKENIZER_FAIRSEQ_WORDS] = {"FairseqWords", load_fairseq_words},
    [TOKENIZER_FAIRSEQ_BPE] = {"FairseqBPE", load_fairseq_bpe},
    [TOKENIZER_NULL] = {"NullTokenizer", load_null},
};

const char *tokenizer_type_name(enum tokenizer_type type)
{
    return types[type].name;
}

/* The tokens before and after each text; those of the post-processor are already set. */
static int set_around(struct tokenizer *tokenizer, struct error *err)
{
    const struct tokenizer_config *config = &tokenizer->config;

    if (config->add_specials && config->type != TOKENIZER_HUGGINGFACE)
        return error_set_code(
            err, ERROR_USAGE,
            "only HuggingFaceTokenizer can add all special tokens of its model; use "
            "--tokenizer-add-bos instead of --tokenizer-hf-include-special-tokens");
    if (!config->add_bos)
        return 0;
    if (config->add_specials)
        return error_set_code(
            err, ERROR_USAGE,
            "the beginning-of-sequence token and all special tokens cannot both be "
            "added; drop --tokenizer-add-bos or --tokenizer-hf-include-special-tokens");
    if (tokenizer->bos < 0)
        return error_set_code(
            err, ERROR_USAGE,
            "the vocabulary has no beginning-of-sequence token to add; drop --tokenizer-add-bos");
    tokenizer->before.ids[tokenizer->before.count++] = (uint32_t)tokenizer->bos;
    return 0;
}

struct tokenizer *tokenizer_create(const struct tokenizer_config *config, struct error *err)
{
    struct tokenizer *tokenizer = xcalloc(1, sizeof(*tokenizer));

    specials_init(&tokenizer->specials);
    specials_init(&tokenizer->late_specials);
    specials_init(&tokenizer->kept);
    tokenizer->config = *config;
    tokenizer->eod = tokenizer->bos = tokenizer->eos = -1;
    if (types[config->type].load(tokenizer, err) < 0)
        goto failed;
    if (config->type != TOKENIZER_NULL && tokenizer->model != MODEL_WORDPIECE &&
        tokenizer->model != MODEL_WORDS) {
        bpe_finish(&tokenizer->bpe, tokenizer->cut_spaces);
        set_cuts(tokenizer);
    }
    if (tokenizer->model == MODEL_UNIGRAM && unigram_finish(&tokenizer->unigram, err) < 0)
        goto failed;
    if (set_around(tokenizer, err) < 0)
        goto failed;
    normalizer_find_plain(&tokenizer->normalizer);
    tokenizer->id_size =
        (tokenizer->written > 0 ? tokenizer->written : tokenizer->vocab_size) < NARROW_LIMIT ? 2
                                                                                             : 4;
    /* The caller's strings were needed for loading only. */
    tokenizer->config.vocab_file = tokenizer->config.merge_file = tokenizer->config.model = NULL;
    return tokenizer;
failed:
    error_advise(err, "get its files again from their source if they are damaged, or choose "
                      "another tokenizer (--tokenizer-type)");
    tokenizer_destroy(tokenizer);
    return NULL;
}

void tokenizer_destroy(struct tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    vocabulary_clear(&tokenizer->vocabulary);
    bpe_clear(&tokenizer->bpe);
    specials_clear(&tokenizer->specials);
    specials_clear(&tokenizer->late_specials);
    specials_clear(&tokenizer->kept);
    normalizer_clear(&tokenizer->normalizer);
    wordpiece_clear(&tokenizer->wordpiece);
    unigram_clear(&tokenizer->unigram);
    steps_clear(&tokenizer->steps);
    rewrites_clear(&tokenizer->rewrites);
    if (tokenizer->dict)
        fairseq_dict_clear(tokenizer->dict);
    free(tokenizer->dict);
    free(tokenizer->map);
    free(tokenizer->unknown_text);
    free(tokenizer->cuts);
    free(tokenizer);
}

int64_t tokenizer_vocab_size(const struct tokenizer *tokenizer)
{
    return tokenizer->vocab_size;
}

int64_t tokenizer_eod(const struct tokenizer *tokenizer)
{
    return tokenizer->eod;
}

int64_t tokenizer_bos(const struct tokenizer *tokenizer)
{
    return tokenizer->bos;
}

int64_t tokenizer_eos(const struct tokenizer *tokenizer)
{
    return tokenizer->eos;
}

int64_t tokenizer_token(const struct tokenizer *tokenizer, const char *text)
{
    return vocabulary_find(&tokenizer->vocabulary, text);
}

size_t tokenizer_id_size(const struct tokenizer *tokenizer)
{
    return tokenizer->id_size;
}
