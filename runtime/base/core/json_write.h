/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON. Commas, escapes and indentation are the writer's task.
 *
 *     struct json_writer json = {.stream = stdout};
 *
 *     json_open(&json, NULL, '{');
 *     json_put_string(&json, "host", name);
 *     json_put_number(&json, "seconds", seconds, 6);
 *     json_open(&json, "gpus", '[');
 *     for (int i = 0; i < count; i++)
 *         json_put_integer(&json, NULL, gpus[i]);
 *     json_close(&json);
 *     json_close(&json);
 *     json_end_line(&json);
 *
 * prints {"host":"n1","seconds":0.25,"gpus":[0,1]} and a newline. Without a stream, the text
 * collects in 'data'; free it with json_writer_clear. An allocation that fails ends the process, so
 * no call fails; a stream's errors are those of ferror(). */
#ifndef MEGATRON_JSON_WRITE_H
#define MEGATRON_JSON_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { JSON_WRITE_DEPTH = 16 };

/* A writer begins as zeros, except for the first two members. */
struct json_writer {
    FILE *stream; /* NULL: collect the text in 'data' */
    bool spaced;  /* {"a": 1, "b": 2} as Python writes it, instead of {"a":1,"b":2} */
    char *data;
    size_t size, room; /* 'data' has 'size' bytes and no NUL at the end */
    int depth;
    struct {
        char end;   /* the bracket that closes it */
        bool lines; /* one member per line */
        bool begun; /* it has a member */
    } open[JSON_WRITE_DEPTH];
    bool named; /* json_put_name was called for the next value */
};

/* Every value has a 'name' in an object, and NULL in an array and at the top. */

/* Open an object, '{', or an array, '['. json_open_lines writes each member on a line of its own,
 * indented by two spaces per level. */
void json_open(struct json_writer *json, const char *name, char bracket);
void json_open_lines(struct json_writer *json, const char *name, char bracket);

/* Close the object or array that was opened last. */
void json_close(struct json_writer *json);

/* A string; NULL becomes null. Bytes that are not UTF-8 become U+FFFD. */
void json_put_string(struct json_writer *json, const char *name, const char *text);
void json_put_text(struct json_writer *json, const char *name, const char *text, size_t size);

/* A string that printf makes, of at most 1,023 bytes. */
void json_put_format(struct json_writer *json, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void json_put_integer(struct json_writer *json, const char *name, int64_t value);

/* With 'digits' significant digits, or with 'decimals' digits after the point. Values that are not
 * finite become null. */
void json_put_number(struct json_writer *json, const char *name, double value, int digits);
void json_put_fixed(struct json_writer *json, const char *name, double value, int decimals);

void json_put_bool(struct json_writer *json, const char *name, bool value);

/* A value that is JSON already. */
void json_put_json(struct json_writer *json, const char *name, const char *text, size_t size);

/* The name of the next value, whose own is NULL: for names with a size. */
void json_put_name(struct json_writer *json, const char *name, size_t size);

/* A newline, after a value at the top. */
void json_end_line(struct json_writer *json);

/* Free the text and become a writer that has written nothing. 'stream' and 'spaced' stay. */
void json_writer_clear(struct json_writer *json);

#endif
