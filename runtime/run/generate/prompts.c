/* SPDX-License-Identifier: Apache-2.0 */
#include "prompts.h"
#include "base/core/json.h"
#include "base/core/list.h"
#include "lib/file.h"
#include "run/checkpoint/directory.h"
#include "run/checkpoint/tokenizer_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define JSON_LIMIT        ((size_t)16 << 20)
#define MOST_PROMPT_BYTES ((size_t)4 << 30)

/* --- Texts ----------------------------------------------------------------------------------- */

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

/* One prompt per line; empty lines are skipped. "-" is standard input. */
static int read_file(struct lines *lines, const char *name, struct error *err)
{
    bool is_input = strcmp(name, "-") == 0;
    const char *called = is_input ? "standard input" : name;
    struct file_bytes bytes;
    char *rest, *line;

    if ((is_input ? file_read_fd(STDIN_FILENO, called, MOST_PROMPT_BYTES, &bytes, err)
                  : file_read(name, MOST_PROMPT_BYTES, &bytes, err)) < 0) {
        error_prefix(err, "cannot read the prompts");
        error_append(err, "; correct --prompt-file");
        err->code = ERROR_USAGE;
        return -1;
    }
    lines->file = rest = bytes.data;
    if (check_text(bytes.data, bytes.length, called, err) < 0)
        return -1;
    while ((line = strsep(&rest, "\n"))) {
        size_t length = strlen(line);

        if (length > 0 && line[length - 1] == '\r')
            line[length - 1] = '\0';
        if (line[0])
            *list_add(lines) = line;
    }
    return 0;
}

void lines_clear(struct lines *lines)
{
    list_free(lines);
    free(lines->file);
    lines->file = NULL;
}

int prompts_lines(struct lines *lines, const struct generate_options *o, struct error *err)
{
    const char *file = o->prompt_file;

    list_append(lines, o->prompt.items, o->prompt.count);
    list_append(lines, o->prompts.items, o->prompts.count);
    if (!file && lines->count == 0 && !isatty(STDIN_FILENO))
        file = "-";
    if (file && read_file(lines, file, err) < 0)
        return -1;
    if (lines->count > 0)
        return 0;
    return error_set_code(err, ERROR_USAGE,
                          "no prompt to continue; use --prompt TEXT, --prompt-file FILE, or pass "
                          "prompts on standard input");
}

/* --- The tokenizer --------------------------------------------------------------------------- */

/* A JSON file next to the weights, or NULL if there is none that can be read. */
static struct json *read_beside(const char *directory, const char *name)
{
    struct error ignored;
    char path[PATH_MAX];

    return directory_path(path, &ignored, "%s/%s", directory, name) == 0
               ? json_read_file(path, JSON_LIMIT, &ignored)
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
                       "and merges.txt); choose a tokenizer with --tokenizer-type and the options "
                       "for its files",
                       o->load);
        return NULL;
    }
    if (config.add_bos && config.add_specials) {
        error_set_code(
            err, ERROR_USAGE,
            "the beginning-of-sequence token and all special tokens cannot both be added; drop "
            "--tokenizer-add-bos or --tokenizer-hf-include-special-tokens");
        return NULL;
    }
    config.add_bos = 0; /* prepended to the prompt below */
    if (config.type == TOKENIZER_NULL && config.vocab_size <= 0)
        config.vocab_size = vocabulary - 1;
    tokenizer = tokenizer_create(&config, err);
    if (tokenizer && tokenizer_vocab_size(tokenizer) > vocabulary) {
        error_set_code(err, ERROR_USAGE,
                       "the tokenizer has %" PRId64 " tokens, but the model in %s has only %" PRId64
                       ": it belongs to another model; choose a tokenizer with --tokenizer-type "
                       "and the options for its files",
                       tokenizer_vocab_size(tokenizer), o->load, vocabulary);
        tokenizer_destroy(tokenizer);
        return NULL;
    }
    return tokenizer;
}

/* Does a text begin with the beginning-of-sequence token? As in transformers: what
 * tokenizer_config.json says, otherwise yes for Llama, Mistral and Gemma. */
static bool begins_with_bos(const struct generate_options *o, const struct origin *origin)
{
    const struct network *network = &origin->model.network;
    struct json_value value;
    struct json *json;
    int add;

    if (o->tokenizer.add_bos)
        return true;
    if (o->tokenizer_given || o->tokenizer.add_specials) /* one of the post-processor's tokens */
        return false;
    json = read_beside(o->load, "tokenizer_config.json");
    if (!json && origin->kind != ORIGIN_HF)
        return false;
    switch (network->architecture) {
    case ARCHITECTURE_ANY:
        add = network->shape.family == MODEL_LLAMA;
        break;
    case ARCHITECTURE_LLAMA:
    case ARCHITECTURE_MISTRAL:
    case ARCHITECTURE_GEMMA:
    case ARCHITECTURE_GEMMA2:
    case ARCHITECTURE_GEMMA3:
        add = 1;
        break;
    default:
        add = 0;
    }
    if (json && json_member(json_root(json), "add_bos_token", &value) == 0)
        json_bool(value, &add);
    json_destroy(json);
    return add;
}

/* --- Where texts end ------------------------------------------------------------------------- */

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
    struct json *json = read_beside(directory, name);
    struct json_iterator iterator;
    struct json_value value, item;
    int64_t id;

    if (json && json_member(json_root(json), "eos_token_id", &value) == 0) {
        if (json_integer(value, &id) == 0)
            add_stop(p, id);
        else if (json_type(value) == JSON_ARRAY && json_iterate(value, &iterator) == 0)
            while (json_next(&iterator, NULL, NULL, &item))
                if (json_integer(item, &id) == 0)
                    add_stop(p, id);
    }
    json_destroy(json);
}

static int find_stops(struct prompts *p, const struct generate_options *o,
                      const struct origin *origin, struct error *err)
{
    if (o->eod_id >= p->vocabulary)
        return error_set_code(err, ERROR_USAGE,
                              "the end-of-document token %" PRId64
                              " is not in the vocabulary (0 to %" PRId64
                              "), so no text would end; change --eod-id",
                              o->eod_id, p->vocabulary - 1);
    if (o->ignore_eod)
        return 0;
    if (o->eod_id >= 0) {
        add_stop(p, o->eod_id);
        return 0;
    }
    add_stop(p, tokenizer_eod(p->tokenizer));
    add_stop(p, tokenizer_eos(p->tokenizer));
    if (origin->kind == ORIGIN_HF) {
        add_stops_of(p, o->load, "config.json");
        add_stops_of(p, o->load, "generation_config.json");
    }
    return 0;
}

/* --- Tokens ---------------------------------------------------------------------------------- */

/* The ids of prompt 'number', after the token 'first' unless that is -1. */
static int make_text(struct text *text, const struct generate_options *o, int64_t positions,
                     const struct token_buffer *ids, size_t id_size, int64_t first, size_t number,
                     struct error *err)
{
    int64_t count = (int64_t)ids->count + (first >= 0), limit;

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
    limit = o->out_seq_length > 0 ? o->out_seq_length : count + o->tokens;
    limit = limit < positions ? limit : positions;
    if (limit <= count)
        return error_set_code(err, ERROR_USAGE,
                              "a maximum length of %" PRId64
                              " tokens leaves no room for generated tokens: prompt %zu has %" PRId64
                              "; raise --out-seq-length",
                              o->out_seq_length, number + 1, count);
    *text = (struct text){.prompt = count, .length = count, .limit = limit, .number = number};
    text->ids = xcalloc((size_t)limit, sizeof(*text->ids));
    if (first >= 0)
        text->ids[0] = (int32_t)first;
    for (size_t i = 0; i < ids->count; i++)
        text->ids[i + (first >= 0)] = (int32_t)token_buffer_at(ids, i, id_size);
    return 0;
}

static int encode_lines(struct prompts *p, const struct generate_options *o,
                        const struct origin *origin, const struct lines *lines, struct error *err)
{
    struct encoder *encoder = encoder_create(p->tokenizer, 1 << 20, err);
    struct token_buffer ids = {0};
    int64_t bos = begins_with_bos(o, origin) ? tokenizer_bos(p->tokenizer) : -1;
    int rc = -1;

    if (!encoder)
        return -1;
    if (o->tokenizer.add_bos && bos < 0) {
        error_set_code(err, ERROR_USAGE,
                       "the vocabulary has no beginning-of-sequence token to add; drop "
                       "--tokenizer-add-bos");
        goto out;
    }
    p->texts = xcalloc(lines->count, sizeof(*p->texts));
    for (; p->count < (int64_t)lines->count; p->count++) {
        size_t number = (size_t)p->count;
        int64_t first = bos;

        ids.count = 0;
        if (tokenizer_encode(encoder, lines->items[number], strlen(lines->items[number]), &ids,
                             err) < 0) {
            error_prefix(err, "prompt %zu", number + 1);
            goto out;
        }
        /* After the end-of-document token another document begins. */
        if (ids.count == 0 && bos < 0)
            first = tokenizer_eod(p->tokenizer);
        if (make_text(&p->texts[number], o, origin->model.network.positions, &ids,
                      tokenizer_id_size(p->tokenizer), first, number, err) < 0)
            goto out;
    }
    rc = 0;
out:
    token_buffer_clear(&ids);
    encoder_destroy(encoder);
    return rc;
}

/* Rank 0 reads and tokenizes. */
static int prepare(struct prompts *p, const struct generate_options *o, const struct origin *origin,
                   struct error *err)
{
    struct lines lines = {0};
    int rc = -1;

    if (prompts_lines(&lines, o, err) < 0)
        goto out;
    p->tokenizer = prompts_tokenizer(o, origin, err);
    if (!p->tokenizer || encode_lines(p, o, origin, &lines, err) < 0)
        goto out;
    p->vocabulary = tokenizer_vocab_size(p->tokenizer);
    rc = find_stops(p, o, origin, err);
out:
    lines_clear(&lines);
    return rc;
}

/* --- Broadcast ------------------------------------------------------------------------------- */

/* Sent first. After it come the texts as numbers, one after the other: prompt length, limit, prompt
 * ids. */
struct head {
    int64_t count, ids; /* texts, and numbers of all texts */
    int64_t vocabulary, stop_count, stops[STOPS];
};

static int unpack(struct prompts *p, const int32_t *in, int64_t ids, int64_t count,
                  struct error *err)
{
    if (count < 0 || count > ids / 2)
        return error_bug(err, "rank 0 sent %lld prompts as %lld numbers", (long long)count,
                         (long long)ids);
    p->texts = xcalloc((size_t)count, sizeof(*p->texts));
    for (; p->count < count; p->count++) {
        struct text *text = &p->texts[p->count];

        if (ids < 2 || in[0] < 0 || in[0] > ids - 2 || in[1] < in[0])
            return error_bug(err, "rank 0 sent prompt %lld with sizes that do not fit",
                             (long long)p->count);
        *text = (struct text){.prompt = in[0], .limit = in[1], .number = (uint64_t)p->count};
        text->ids = xcalloc((size_t)text->limit, sizeof(*text->ids));
        memcpy(text->ids, in + 2, (size_t)text->prompt * sizeof(*in));
        in += 2 + text->prompt;
        ids -= 2 + text->prompt;
    }
    return 0;
}

static int share(struct prompts *p, struct comm *comm, struct error *err)
{
    struct head head = {.count = p->count, .vocabulary = p->vocabulary};
    int32_t *numbers, *at;
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
    numbers = at = xcalloc((size_t)head.ids, sizeof(*numbers));
    for (int64_t t = 0; t < p->count; t++) {
        const struct text *text = &p->texts[t];

        *at++ = (int32_t)text->prompt;
        *at++ = (int32_t)text->limit;
        memcpy(at, text->ids, (size_t)text->prompt * sizeof(*at));
        at += text->prompt;
    }
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
