/* SPDX-License-Identifier: Apache-2.0 */
/* Hugging Face's tokenizer.json: BPE (byte-level or SentencePiece-style), Unigram and WordPiece. It
 * describes a pipeline, whose parts are read by huggingface_*.c. Truncation and padding do not
 * affect how text becomes ids and are ignored; so is the post-processor, unless requested, as in
 * Megatron (include_special_tokens is false by default). */
#include "huggingface.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int read_root(struct pipeline *pipeline, struct json_value root, struct error *err)
{
    struct tokenizer *tokenizer = pipeline->tokenizer;
    struct json_value post;

    tokenizer->split = (struct split_options){.rule = SPLIT_CUTS};
    if (json_type(root) != JSON_OBJECT)
        return error_set(err, "%s: the file is not a JSON object", pipeline->path);
    if (huggingface_read_components(pipeline, root, err) < 0 ||
        huggingface_read_model(pipeline, root, err) < 0 ||
        huggingface_read_added_tokens(pipeline, root, err) < 0)
        return -1;
    /* Cutting would create words that are not words. */
    if (tokenizer->bpe.whole_words && tokenizer->split.rule == SPLIT_CUTS)
        return error_set(err,
                         "%s: model BPE with ignore_merges is not supported without a pattern that "
                         "splits texts into words" OTHER_TOKENIZER,
                         pipeline->path);
    if (tokenizer->model == MODEL_WORDPIECE) {
        tokenizer->decode = DECODE_WORDPIECE;
    } else if (!pipeline->byte_level) {
        tokenizer->normalizer.active = 1;
        tokenizer->decode = DECODE_SENTENCEPIECE;
    }
    tokenizer->vocab_size = (int64_t)tokenizer->vocabulary.count;
    huggingface_find_ends(pipeline);
    if (tokenizer->config.add_specials && json_member(root, "post_processor", &post) == 0 &&
        template_read(post, &tokenizer->vocabulary, &tokenizer->before, &tokenizer->after, err) < 0)
        return error_prefix(err, "%s", pipeline->path);
    return 0;
}

int load_huggingface(struct tokenizer *tokenizer, struct error *err)
{
    struct pipeline pipeline = {.tokenizer = tokenizer};
    const char *model = tokenizer->config.model;
    struct stat status;
    struct json *json;
    int rc;

    if (!model)
        return error_set_code(err, ERROR_USAGE,
                              "HuggingFaceTokenizer needs a tokenizer.json or its directory; name "
                              "it with --tokenizer-model");
    if (strlen(model) + 32 > sizeof(pipeline.path))
        return error_set(err, "the path of the tokenizer is too long; use a shorter one");
    snprintf(pipeline.path, sizeof(pipeline.path), "%s%s", model,
             stat(model, &status) == 0 && S_ISDIR(status.st_mode) ? "/tokenizer.json" : "");
    if (file_read(pipeline.path, HUGGINGFACE_FILE_LIMIT, &pipeline.text, err) < 0)
        return -1;
    json = json_read(pipeline.text.data, pipeline.text.length, err);
    rc = json ? read_root(&pipeline, json_root(json), err) : error_prefix(err, "%s", pipeline.path);
    json_destroy(json);
    file_bytes_clear(&pipeline.text);
    return rc;
}
