/* SPDX-License-Identifier: Apache-2.0 */
#include "prompts.h"
#include "run/checkpoint/directory.h"
#include "lib/file.h"
#include "base/core/json.h"
#include "run/checkpoint/tokenizer_files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JSON_LIMIT        ((size_t)16 << 20)
#define MOST_PROMPT_BYTES ((size_t)4 << 30)

/* --- Texts ----------------------------------------------------------------------------------- */

static int add_line(struct lines *lines, const char *text, struct error *err)
{
    const char **more = realloc(lines->items, (lines->count + 1) * sizeof(*more));

    if (!more)
        return error_set(err, "out of memory");
    lines->items = more;
    more[lines->count++] = text;
    return 0;
}

/* Text after a NUL byte would be lost silently. */
static int check_text(const char *data, size_t length, const char *name, struct error *err)
{
    const char *nul = memchr(data, '\0', length);
    size_t line = 1;

    if (!nul)
        return 0;
    for (const char *at = data; (at = memchr(at, '\n', (size_t)(nul - at))); at++)
        line++;
    return error_set_code(
        err, ERROR_USAGE,
        "%s is not a text file: line %zu contains a NUL byte; prompts must be UTF-8 "
        "(convert UTF-16 with iconv -f UTF-16 -t UTF-8)",
        name, line);
}

/* Read a whole file or standard input, and append a NUL. */
static char *read_all(const char *name, struct error *err)
{
    int is_input = strcmp(name, "-") == 0, rc;
    const char *called = is_input ? "standard input" : name;
    struct file_bytes bytes;

    rc = is_input ? file_read_fd(STDIN_FILENO, called, MOST_PROMPT_BYTES, &bytes, err)
                  : file_read(name, MOST_PROMPT_BYTES, &bytes, err);
    if (rc < 0) {
        error_prefix(err, "cannot read the prompts");
        error_append(err, "; correct --prompt-file");
        err->code = ERROR_USAGE;
    } else {
        rc = check_text(bytes.data, bytes.length, called, err);
    }
    if (rc == 0)
        return bytes.data;
    file_bytes_clear(&bytes);
    return NULL;
}

/* One prompt per line; empty lines are skipped. */
static int read_file(struct lines *lines, const char *name, struct error *err)
{
    char *rest, *line;

    lines->file = rest = read_all(name, err);
    if (!rest)
        return -1;
    while ((line = strsep(&rest, "\n"))) {
        size_t length = strlen(line);

        if (length > 0 && line[length - 1] == '\r')
            line[length - 1] = '\0';
        if (line[0] && add_line(lines, line, err) < 0)
            return -1;
    }
    return 0;
}

void lines_clear(struct lines *lines)
{
    free(lines->items);
    free(lines->file);
    memset(lines, 0, sizeof(*lines));
}

int prompts_lines(struct lines *lines, const struct generate_options *o, struct error *err)
{
    const char *file = o->prompt_file;

    for (size_t i = 0; i < o->prompt.count; i++)
        if (add_line(lines, o->prompt.items[i], err) < 0)
            return -1;
    for (size_t i = 0; i < o->prompts.count; i++)
        if (add_line(lines, o->prompts.items[i], err) < 0)
            return -1;
    if (!file && lines->count == 0 && !isatty(STDIN_FILENO))
        file = "-";
    if (file && read_file(lines, file, err) < 0)
        return -1;
    if (lines->count > 0)
        return 0;
    error_set_code(err, ERROR_USAGE, "no prompt to continue");
    return error_append(
        err, "; use --prompt TEXT, --prompt-file FILE, or pass prompts on standard input");
}

/* --- The tokenizer --------------------------------------------------------------------------- */

/* The path of a file next to the weights, or NULL if it does not exist. */
static const char *beside(const char *directory, const char *name, char path[PATH_MAX])
{
    struct error ignored;

    return directory_path(path, &ignored, "%s/%s", directory, name) == 0 && access(path, R_OK) == 0
               ? path
               : NULL;
}

struct tokenizer *prompts_tokenizer(const struct generate_options *o, const struct origin *origin,
                                    struct error *err)
{
    struct tokenizer_config config = o->tokenizer;
    int64_t vocabulary = origin->model.network.shape.vocabulary;
    char first[PATH_MAX], second[PATH_MAX];
    struct tokenizer *tokenizer;
    int known = 1;

    if (!o->tokenizer_given)
        known = tokenizer_files_find(o->load, &config, first, second, err);
    if (known < 0)
        return NULL;
    /* A run without tokenizer files used the built-in GPT-2 tokenizer, or that of RoBERTa. */
    if (!known && origin->model.network.masked && vocabulary == 50265) {
        config.type = TOKENIZER_FAIRSEQ_BPE;
        known = 1;
    }
    if (!known && vocabulary != 50257) {
        error_set_code(err, ERROR_USAGE,
                       "%s contains no tokenizer (tokenizer.json, tokenizer.model, or vocab.json "
                       "and merges.txt)",
                       o->load);
        error_append(err,
                     "; choose a tokenizer with --tokenizer-type and the options for its files");
        return NULL;
    }
    if (config.add_bos && config.add_specials) {
        error_set_code(
            err, ERROR_USAGE,
            "the beginning-of-sequence token and all special tokens cannot both be added");
        error_append(err, "; drop --tokenizer-add-bos or --tokenizer-hf-include-special-tokens");
        return NULL;
    }
    config.add_bos = 0; /* prepended to the prompt below */
    if (config.type == TOKENIZER_NULL && config.vocab_size <= 0)
        config.vocab_size = vocabulary - 1;
    tokenizer = tokenizer_create(&config, err);
    if (tokenizer && tokenizer_vocab_size(tokenizer) > vocabulary) {
        error_set_code(err, ERROR_USAGE,
                       "the tokenizer has %" PRId64 " tokens, but the model in %s has only %" PRId64
                       ": it belongs to another model",
                       tokenizer_vocab_size(tokenizer), o->load, vocabulary);
        error_append(err,
                     "; choose a tokenizer with --tokenizer-type and the options for its files");
        tokenizer_destroy(tokenizer);
        return NULL;
    }
    return tokenizer;
}

static int has_bos(const struct model_config *model)
{
    switch (model->network.architecture) {
    case ARCHITECTURE_ANY:
        return model->network.shape.family == MODEL_LLAMA;
    case ARCHITECTURE_LLAMA:
    case ARCHITECTURE_MISTRAL:
    case ARCHITECTURE_GEMMA:
    case ARCHITECTURE_GEMMA2:
    case ARCHITECTURE_GEMMA3:
        return 1;
    default:
        return 0;
    }
}

/* Does a text begin with the beginning-of-sequence token? As in transformers: what
 * tokenizer_config.json says, otherwise yes for Llama, Mistral and Gemma. */
static int begins_with_bos(const struct generate_options *o, const struct origin *origin)
{
    char path[PATH_MAX];
    struct json_value value;
    struct error ignored;
    struct json *json = NULL;
    int add = has_bos(&origin->model);

    if (o->tokenizer.add_bos)
        return 1;
    if (o->tokenizer_given || o->tokenizer.add_specials) /* one of the post-processor's tokens */
        return 0;
    if (beside(o->load, "tokenizer_config.json", path))
        json = json_read_file(path, JSON_LIMIT, &ignored);
    if (!json && origin->kind != ORIGIN_HF)
        return 0;
    if (json && json_member(json_root(json), "add_bos_token", &value) == 0)
        json_bool(value, &add);
    json_destroy(json);
    return add;
}

/* --- Where texts end -------------------------------------------------------------------------- */

static void add_stop(struct prompts *p, int64_t id)
{
    for (int i = 0; i < p->stop_count; i++)
        if (p->stops[i] == id)
            return;
    if (id >= 0 && p->stop_count < STOPS)
        p->stops[p->stop_count++] = id;
}

/* "eos_token_id": a number or a list of numbers. */
static void add_stops_of(struct prompts *p, const char *directory, const char *name)
{
    char path[PATH_MAX];
    struct json_iterator iterator;
    struct json_value value, item;
    struct error ignored;
    struct json *json = NULL;
    int64_t id;

    if (beside(directory, name, path))
        json = json_read_file(path, JSON_LIMIT, &ignored);
    if (!json || json_member(json_root(json), "eos_token_id", &value) < 0) {
        json_destroy(json);
        return;
    }
    if (json_integer(value, &id) == 0)
        add_stop(p, id);
    else if (json_type(value) == JSON_ARRAY && json_iterate(value, &iterator) == 0)
        while (json_next(&iterator, NULL, NULL, &item))
            if (json_integer(item, &id) == 0)
                add_stop(p, id);
    json_destroy(json);
}

static int find_stops(struct prompts *p, const struct generate_options *o,
                      const struct origin *origin, struct error *err)
{
    if (o->eod_id >= p->vocabulary) {
        error_set_code(err, ERROR_USAGE,
                       "the end-of-document token %" PRId64
                       " is not in the vocabulary (0 to %" PRId64 "), so no text would end",
                       o->eod_id, p->vocabulary - 1);
        return error_append(err, "; change --eod-id");
    }
    if (o->ignore_eod)
        return 0;
    if (o->eod_id >= 0) {
        add_stop(p, o->eod_id);
        return 0;
    }
    add_stop(p, tokenizer_eod(p->tokenizer));
    add_stop(p, tokenizer_eos(p->tokenizer));
    if (origin->kind != ORIGIN_HF)
        return 0;
    add_stops_of(p, o->load, "config.json");
    add_stops_of(p, o->load, "generation_config.json");
    return 0;
}

/* --- Tokens ---------------------------------------------------------------------------------- */

/* The maximum length of a text. */
static int64_t limit_of(const struct generate_options *o, int64_t prompt, int64_t positions)
{
    int64_t limit = o->out_seq_length > 0 ? o->out_seq_length : prompt + o->tokens;

    return limit < positions ? limit : positions;
}

static int make_text(struct text *text, const struct generate_options *o, int64_t positions,
                     const struct token_buffer *ids, size_t id_size, int64_t first, size_t number,
                     struct error *err)
{
    int64_t count = (int64_t)ids->count + (first >= 0);

    if (count == 0)
        return error_set_code(err, ERROR_USAGE,
                              "prompt %zu is empty, and the tokenizer has no token to start a text "
                              "with; enter a prompt",
                              number + 1);
    if (count >= positions)
        return error_set_code(err, ERROR_USAGE,
                              "prompt %zu has %" PRId64 " tokens, but the model supports %" PRId64
                              " positions including the generated text; shorten the prompt",
                              number + 1, count, positions);
    *text = (struct text){.prompt = count, .length = count, .number = number};
    text->limit = limit_of(o, count, positions);
    if (text->limit <= count) {
        error_set_code(err, ERROR_USAGE,
                       "a maximum length of %" PRId64
                       " tokens leaves no room for generated tokens: prompt %zu has %" PRId64,
                       o->out_seq_length, number + 1, count);
        return error_append(err, "; raise --out-seq-length");
    }
    text->ids = malloc((size_t)text->limit * sizeof(*text->ids));
    if (!text->ids)
        return error_set(err, "out of memory");
    if (first >= 0)
        text->ids[0] = (int32_t)first;
    for (size_t i = 0; i < ids->count; i++)
        text->ids[i + (first >= 0)] =
            id_size == 2 ? ((const uint16_t *)ids->ids)[i] : ((const int32_t *)ids->ids)[i];
    return 0;
}

static int encode_lines(struct prompts *p, const struct generate_options *o,
                        const struct origin *origin, const struct lines *lines, struct error *err)
{
    struct encoder *encoder = encoder_create(p->tokenizer, 1 << 20, err);
    struct token_buffer ids = {0};
    int64_t bos = begins_with_bos(o, origin) ? tokenizer_bos(p->tokenizer) : -1;
    int rc = encoder ? 0 : -1;

    if (rc == 0 && o->tokenizer.add_bos && bos < 0) {
        error_set_code(err, ERROR_USAGE,
                       "the vocabulary has no beginning-of-sequence token to add");
        rc = error_append(err, "; drop --tokenizer-add-bos");
    }
    p->texts = calloc(lines->count, sizeof(*p->texts));
    if (!p->texts)
        rc = error_set(err, "out of memory");
    for (size_t i = 0; i < lines->count && rc == 0; i++) {
        int64_t first = bos;

        ids.count = 0;
        rc = tokenizer_encode(encoder, lines->items[i], strlen(lines->items[i]), &ids, err);
        if (rc < 0)
            error_prefix(err, "prompt %zu", i + 1);
        /* After the end-of-document token another document begins. */
        if (ids.count == 0 && bos < 0)
            first = tokenizer_eod(p->tokenizer);
        if (rc == 0)
            rc = make_text(&p->texts[i], o, origin->model.network.positions, &ids,
                           tokenizer_id_size(p->tokenizer), first, i, err);
        p->count += rc == 0;
    }
    token_buffer_clear(&ids);
    encoder_destroy(encoder);
    return rc;
}

/* What rank 0 does. */
static int prepare(struct prompts *p, const struct generate_options *o, const struct origin *origin,
                   struct error *err)
{
    struct lines lines = {0};
    int rc = prompts_lines(&lines, o, err);

    if (rc == 0) {
        p->tokenizer = prompts_tokenizer(o, origin, err);
        rc = p->tokenizer ? encode_lines(p, o, origin, &lines, err) : -1;
    }
    if (rc == 0) {
        p->vocabulary = tokenizer_vocab_size(p->tokenizer);
        rc = find_stops(p, o, origin, err);
    }
    lines_clear(&lines);
    return rc;
}

/* --- Broadcast ------------------------------------------------------------------------------- */

/* Sent first: the sizes of what follows, and all numbers. */
struct head {
    int64_t count, ids, vocabulary, stop_count, stops[STOPS];
};

/* Texts as numbers, one after the other: prompt length, limit, prompt ids. */
static void pack(const struct prompts *p, int32_t *out)
{
    for (int64_t t = 0; t < p->count; t++) {
        *out++ = (int32_t)p->texts[t].prompt;
        *out++ = (int32_t)p->texts[t].limit;
        memcpy(out, p->texts[t].ids, (size_t)p->texts[t].prompt * sizeof(*out));
        out += p->texts[t].prompt;
    }
}

static int unpack(struct prompts *p, const int32_t *in, int64_t ids, int64_t count,
                  struct error *err)
{
    if (count < 0 || count > ids / 2)
        return error_bug(err, "rank 0 sent %lld prompts as %lld numbers", (long long)count,
                         (long long)ids);
    p->texts = calloc((size_t)count, sizeof(*p->texts));
    if (!p->texts)
        return error_set(err, "out of memory");
    for (; p->count < count; p->count++) {
        struct text *text = &p->texts[p->count];

        if (ids < 2 || in[0] < 0 || in[0] > ids - 2 || in[1] < in[0])
            return error_bug(err, "rank 0 sent prompt %lld with sizes that do not fit",
                             (long long)p->count);
        *text = (struct text){.prompt = in[0], .limit = in[1], .number = (uint64_t)p->count};
        text->ids = malloc((size_t)text->limit * sizeof(*text->ids));
        if (!text->ids)
            return error_set(err, "out of memory");
        memcpy(text->ids, in + 2, (size_t)text->prompt * sizeof(*in));
        in += 2 + text->prompt;
        ids -= 2 + text->prompt;
    }
    return 0;
}

static int share(struct prompts *p, struct comm *comm, struct error *err)
{
    struct head head = {.count = p->count, .vocabulary = p->vocabulary};
    int32_t *numbers;
    int rc;

    head.stop_count = p->stop_count;
    memcpy(head.stops, p->stops, sizeof(head.stops));
    for (int64_t t = 0; t < p->count; t++)
        head.ids += 2 + p->texts[t].prompt;
    if (comm_host_broadcast(comm, &head, sizeof(head), 0, err) < 0)
        return -1;
    if (head.ids < 0 || head.stop_count < 0 || head.stop_count > STOPS)
        return error_bug(err, "rank 0 sent prompts of %lld numbers and %lld stop tokens",
                         (long long)head.ids, (long long)head.stop_count);
    numbers = calloc((size_t)head.ids + 1, sizeof(*numbers));
    if (!numbers)
        return error_set(err, "out of memory");
    pack(p, numbers);
    rc = comm_host_broadcast(comm, numbers, (size_t)head.ids * sizeof(*numbers), 0, err);
    if (rc == 0 && comm->rank != 0) {
        p->vocabulary = head.vocabulary;
        p->stop_count = (int)head.stop_count;
        memcpy(p->stops, head.stops, sizeof(head.stops));
        rc = unpack(p, numbers, head.ids, head.count, err);
    }
    free(numbers);
    return rc;
}

int prompts_read(struct prompts *p, const struct generate_options *o, const struct origin *origin,
                 struct comm *comm, struct error *err)
{
    memset(p, 0, sizeof(*p));
    if (comm->rank == 0 && prepare(p, o, origin, err) < 0)
        return -1;
    if (share(p, comm, err) < 0)
        return -1;
    for (int64_t t = 0; t < p->count; t++)
        if (p->texts[t].limit > p->longest)
            p->longest = p->texts[t].limit;
    return 0;
}

void prompts_clear(struct prompts *p)
{
    for (int64_t t = 0; t < p->count; t++) {
        free(p->texts[t].ids);
        free(p->texts[t].logits);
    }
    free(p->texts);
    tokenizer_destroy(p->tokenizer);
    memset(p, 0, sizeof(*p));
}
