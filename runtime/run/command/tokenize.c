/* SPDX-License-Identifier: Apache-2.0 */
/* megatron tokenize and megatron detokenize: text to token ids and back. */
#include "commands.h"
#include "base/core/file_lines.h"
#include "base/core/storage.h"
#include "base/core/option_rows.h"
#include "lib/parse.h"
#include "data/tokenizer/tokenizer_options.h"
#include "base/core/xmalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_LIMIT (((size_t)1 << 32) - 2)

struct settings {
    struct tokenizer_config tokenizer;
    int lines, pieces, count, append_eod;
};

#define AT(field) offsetof(struct settings, field)

static const struct option tokenize_options[] = {
    TOKENIZER_OPTIONS(tokenizer),
    HEADING("Text"),
    FLAG("lines", lines, "treat each input line as a separate text"),
    FLAG("append-eod", append_eod, "append the end-of-document token to each text"),
    FLAG("pieces", pieces, "print one id per line, with its text"),
    FLAG("count", count, "print only the number of ids"),
    {0},
};

static const struct option detokenize_options[] = {
    TOKENIZER_OPTIONS(tokenizer),
    HEADING("Ids"),
    FLAG("lines", lines, "treat the ids of each line as a separate text"),
    {0},
};

/* State shared by both commands. */
struct session {
    const struct settings *settings;
    struct tokenizer *tokenizer;
    struct encoder *encoder;
    struct token_buffer ids;
    struct text_buffer text;
    int64_t *numbers;
    size_t number_capacity;
};

static int64_t id_at(const struct session *session, size_t at)
{
    return token_buffer_at(&session->ids, at, tokenizer_id_size(session->tokenizer));
}

/* Print a token's text with newlines and other control characters escaped. */
static void print_piece(const struct session *session, int64_t id)
{
    size_t length = 0;
    const char *text = tokenizer_piece(session->tokenizer, id, &length);

    printf("%lld\t\"", (long long)id);
    for (size_t i = 0; text && i < length; i++) {
        unsigned char byte = (unsigned char)text[i];

        if (byte == '"' || byte == '\\')
            printf("\\%c", byte);
        else if (byte == '\n')
            printf("\\n");
        else if (byte < 0x20 || byte == 0x7F)
            printf("\\x%02X", byte);
        else
            putchar(byte);
    }
    printf("\"\n");
}

static int tokenize_text(struct session *session, const char *text, size_t length,
                         struct error *err)
{
    session->ids.count = 0;
    if (tokenizer_encode(session->encoder, text, length, &session->ids, err) < 0)
        return -1;
    if (session->settings->append_eod &&
        tokenizer_append(session->encoder, tokenizer_eod(session->tokenizer), &session->ids, err) <
            0)
        return -1;
    if (session->settings->count) {
        printf("%zu\n", session->ids.count);
        return 0;
    }
    for (size_t i = 0; i < session->ids.count; i++) {
        if (session->settings->pieces)
            print_piece(session, id_at(session, i));
        else
            printf("%s%lld", i > 0 ? " " : "", (long long)id_at(session, i));
    }
    if (!session->settings->pieces)
        printf("\n");
    return 0;
}

/* Decode all ids in a text. */
static int detokenize_text(struct session *session, const char *text, size_t length,
                           struct error *err)
{
    const char *end = text + length;
    size_t count = 0;

    while (text < end) {
        const char *word = text;
        char number[32];

        while (text < end && !strchr(" \t\r\n", *text))
            text++;
        if (text == word) {
            text++;
            continue;
        }
        if ((size_t)(text - word) >= sizeof(number))
            return error_set_code(
                err, ERROR_USAGE,
                "\"%.*s...\" is not a token id; write whole numbers separated by spaces", 31, word);
        memcpy(number, word, (size_t)(text - word));
        number[text - word] = '\0';
        if (count == session->number_capacity) {
            size_t capacity = session->number_capacity * 2 + 1024;
            session->numbers = xrealloc(session->numbers, capacity, sizeof(*session->numbers));
            session->number_capacity = capacity;
        }
        if (parse_int64("id", number, 0, INT64_MAX, &session->numbers[count++], err) < 0)
            return -1;
    }
    session->text.length = 0;
    if (tokenizer_decode(session->tokenizer, session->numbers, count, &session->text, err) < 0)
        return -1;
    if (session->text.length > 0)
        fwrite(session->text.data, 1, session->text.length, stdout);
    if (session->settings->lines)
        putchar('\n');
    return 0;
}

typedef int text_function(struct session *session, const char *text, size_t length,
                          struct error *err);

/* Call 'run' for each line, without its newline. */
static int for_lines(struct session *session, const struct file_bytes *input, text_function *run,
                     struct error *err)
{
    struct file_lines lines = file_lines(input);

    while (file_next_line(&lines))
        if (run(session, lines.line, lines.length, err) < 0)
            return error_prefix(err, "line %zu", lines.number);
    return 0;
}

static int for_input(struct session *session, text_function *run, struct error *err)
{
    struct file_bytes input;
    int rc;

    if (file_read("/dev/stdin", INPUT_LIMIT, &input, err) < 0)
        return -1;
    rc = session->settings->lines ? for_lines(session, &input, run, err)
                                  : run(session, input.data, input.length, err);
    file_bytes_clear(&input);
    return rc;
}

/* All ids on the command line form one text. */
static void join_words(const struct options_result *result, struct text_buffer *out)
{
    for (size_t i = 0; i < result->word_count; i++)
        out->capacity += strlen(result->words[i]) + 1;
    out->data = xmalloc(out->capacity + 1);
    for (size_t i = 0; i < result->word_count; i++) {
        size_t length = strlen(result->words[i]);

        memcpy(out->data + out->length, result->words[i], length);
        out->length += length;
        out->data[out->length++] = ' ';
    }
}

static int run_words(struct session *session, const struct options_result *result, int decode,
                     struct error *err)
{
    struct text_buffer joined = {0};
    int rc = 0;

    if (decode) {
        join_words(result, &joined);
        rc = detokenize_text(session, joined.data, joined.length, err);
        if (rc == 0 && !session->settings->lines)
            putchar('\n');
        text_buffer_clear(&joined);
        return rc;
    }
    for (size_t i = 0; i < result->word_count && rc == 0; i++)
        rc = tokenize_text(session, result->words[i], strlen(result->words[i]), err);
    return rc;
}

static int open_session(struct session *session, int decode, struct error *err)
{
    /* A small cache, because texts typed at a terminal are short. */
    errno = 0;
    session->tokenizer = tokenizer_create(&session->settings->tokenizer, err);
    if (!session->tokenizer)
        return file_path_error(err);
    if (session->settings->append_eod && tokenizer_eod(session->tokenizer) < 0)
        return error_set_code(err, ERROR_USAGE,
                              "--append-eod: the vocabulary has no end-of-document token; drop it");
    if (!decode)
        session->encoder = encoder_create(session->tokenizer, (size_t)4 << 20, err);
    return decode || session->encoder ? 0 : -1;
}

static int run(const struct settings *settings, const struct options_result *result, int decode,
               struct error *err)
{
    struct session session = {.settings = settings};
    int rc = open_session(&session, decode, err);

    if (rc == 0)
        rc = result->word_count > 0
                 ? run_words(&session, result, decode, err)
                 : for_input(&session, decode ? detokenize_text : tokenize_text, err);
    token_buffer_clear(&session.ids);
    text_buffer_clear(&session.text);
    free(session.numbers);
    encoder_destroy(session.encoder);
    tokenizer_destroy(session.tokenizer);
    return rc;
}

static int run_tokenize(void *given, const struct options_result *result, struct error *err)
{
    return run(given, result, 0, err);
}

static int run_detokenize(void *given, const struct options_result *result, struct error *err)
{
    return run(given, result, 1, err);
}

const struct command command_tokenize = {
    .name = "tokenize",
    .summary = "print the token ids of a text",
    .usage = "Usage: megatron tokenize [OPTION...] [TEXT...]\n"
             "Print the token ids of texts, given as arguments or on standard input.\n",
    .options = tokenize_options,
    .size = sizeof(struct settings),
    .run = run_tokenize,
};

const struct command command_detokenize = {
    .name = "detokenize",
    .summary = "print the text of token ids",
    .usage = "Usage: megatron detokenize [OPTION...] [ID...]\n"
             "Print the text of token ids, given as arguments or on standard input.\n",
    .options = detokenize_options,
    .size = sizeof(struct settings),
    .run = run_detokenize,
};
