/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of config.json: what they are read with, and tables of those that are a member of the
 * network, which are read and written alike. */
#ifndef MEGATRON_HF_FIELDS_H
#define MEGATRON_HF_FIELDS_H

#include "base/core/json.h"
#include "base/core/json_write.h"
#include "engine/model/model_config.h"

enum hf_kind {
    HF_SIZE,         /* a positive integer */
    HF_SIZE_OR_NULL, /* null stands for 0 */
    HF_COUNT,        /* an integer from 0 on */
    HF_REAL,         /* written as Python writes a float: transformers takes no integer instead */
    HF_REAL_OR_NULL, /* null is read as 0 */
    HF_CAP,          /* null stands for 0 */
    HF_NUMBER,       /* a real; a whole one is written as an integer */
    HF_FLAG,
    HF_CONSTANT, /* 'text', written as it is, and not read */
};

struct hf_field {
    const char *key;
    enum hf_kind kind;
    enum { HF_READ_AND_WRITTEN, HF_READ_ONLY, HF_WRITTEN_ONLY } use;
    size_t member;
    double usual; /* the value of an absent key; HF_REQUIRED: the key may not be absent */
    const char *text;
};

#define HF_REQUIRED (-1.0)

/* A row of a table for a member of struct network; the last row of a table has no key. */
#define HF_FIELD(text, type, name, value)                                                         \
    {                                                                                             \
        .key = (text), .kind = (type), .member = offsetof(struct network, name), .usual = (value) \
    }

/* What an absent key means in one family, if it is not what the table says. */
struct hf_usual {
    const char *key;
    double value;
};

/* The value for 'key' in a list that ends with a row without key, or 'other'. */
double hf_usual(const struct hf_usual *list, const char *key, double other);

int hf_fields_read(const struct hf_field *fields, const struct hf_usual *usual,
                   struct json_value object, struct network *network, struct error *err);
void hf_fields_write(const struct hf_field *fields, const struct network *network,
                     struct json_writer *json);

/* One setting. Each sets 'out' to its value, or to 'other' if it is absent; a value of the wrong
 * type is an error. A size or count may also be null, which is the same as absent; if 'other' is
 * negative, absent is an error. */
int hf_read_size(struct json_value object, const char *key, int64_t other, int64_t *out,
                 struct error *err);
int hf_read_count(struct json_value object, const char *key, int64_t other, int64_t *out,
                  struct error *err);
int hf_read_real(struct json_value object, const char *key, double other, double *out,
                 struct error *err);
int hf_read_real_or_null(struct json_value object, const char *key, double other, double *out,
                         struct error *err);
int hf_read_flag(struct json_value object, const char *key, int other, int *out, struct error *err);
int hf_read_text(struct json_value object, const char *key, const char *other, const char **out,
                 struct error *err);
int hf_is_null(struct json_value object, const char *key);

/* As HF_REAL and HF_CAP are written. */
void hf_write_real(struct json_writer *json, const char *key, double value);
void hf_write_cap(struct json_writer *json, const char *key, double value);

#endif
