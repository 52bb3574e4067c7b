/* SPDX-License-Identifier: Apache-2.0 */
#include "hf_fields.h"

#include <stdio.h>
#include <string.h>

/* --- One setting ------------------------------------------------------------------------------ */

int hf_is_null(struct json_value object, const char *key)
{
    struct json_value value;

    return json_member(object, key, &value) == 0 && json_type(value) == JSON_NULL;
}

static int read_integer(struct json_value object, const char *key, int64_t least, int64_t other,
                        int64_t *out, struct error *err)
{
    struct json_value value;

    if (json_member(object, key, &value) < 0 || json_type(value) == JSON_NULL) {
        *out = other;
        return other < 0 ? error_set(err, "%s is missing", key) : 0;
    }
    if (json_integer(value, out) == 0 && *out >= least && *out <= INT32_MAX)
        return 0;
    return least > 0 ? error_set(err, "%s must be a positive integer", key)
                     : error_set(err, "%s must be an integer from 0 to %d", key, INT32_MAX);
}

int hf_read_size(struct json_value object, const char *key, int64_t other, int64_t *out,
                 struct error *err)
{
    return read_integer(object, key, 1, other, out, err);
}

int hf_read_count(struct json_value object, const char *key, int64_t other, int64_t *out,
                  struct error *err)
{
    return read_integer(object, key, 0, other, out, err);
}

int hf_read_real(struct json_value object, const char *key, double other, double *out,
                 struct error *err)
{
    struct json_value value;

    *out = other;
    return json_member(object, key, &value) < 0 || json_real(value, out) == 0
               ? 0
               : error_set(err, "%s must be a number", key);
}

int hf_read_real_or_null(struct json_value object, const char *key, double other, double *out,
                         struct error *err)
{
    *out = 0;
    return hf_is_null(object, key) ? 0 : hf_read_real(object, key, other, out, err);
}

int hf_read_flag(struct json_value object, const char *key, int other, int *out, struct error *err)
{
    struct json_value value;

    *out = other;
    return json_member(object, key, &value) < 0 || json_bool(value, out) == 0
               ? 0
               : error_set(err, "%s must be true or false", key);
}

int hf_read_text(struct json_value object, const char *key, const char *other, const char **out,
                 struct error *err)
{
    struct json_value value;
    size_t length;

    *out = other;
    return json_member(object, key, &value) < 0 || json_string(value, out, &length) == 0
               ? 0
               : error_set(err, "%s must be a string", key);
}

void hf_write_real(struct json_writer *json, const char *key, double value)
{
    char text[32];

    snprintf(text, sizeof(text) - 2, "%.9g", value);
    if (!strpbrk(text, ".e"))
        strcat(text, ".0");
    json_put_json(json, key, text, strlen(text));
}

void hf_write_cap(struct json_writer *json, const char *key, double value)
{
    if (value > 0)
        hf_write_real(json, key, value);
    else
        json_put_string(json, key, NULL);
}

/* --- Tables ----------------------------------------------------------------------------------- */

double hf_usual(const struct hf_usual *list, const char *key, double other)
{
    for (; list && list->key; list++)
        if (strcmp(list->key, key) == 0)
            return list->value;
    return other;
}

int hf_fields_read(const struct hf_field *fields, const struct hf_usual *usual,
                   struct json_value object, struct network *network, struct error *err)
{
    for (const struct hf_field *f = fields; f->key; f++) {
        void *out = (char *)network + f->member;
        double other = hf_usual(usual, f->key, f->usual);
        int rc = 0;

        if (f->use == HF_WRITTEN_ONLY)
            continue;
        switch (f->kind) {
        case HF_SIZE_OR_NULL:
            if (hf_is_null(object, f->key))
                other = 0;
            /* fall through */
        case HF_SIZE:
            rc = read_integer(object, f->key, 1, (int64_t)other, out, err);
            break;
        case HF_COUNT:
            rc = read_integer(object, f->key, 0, (int64_t)other, out, err);
            break;
        case HF_REAL:
        case HF_NUMBER:
            rc = hf_read_real(object, f->key, other, out, err);
            break;
        case HF_REAL_OR_NULL:
        case HF_CAP:
            rc = hf_read_real_or_null(object, f->key, other, out, err);
            break;
        case HF_FLAG:
            rc = hf_read_flag(object, f->key, (int)other, out, err);
            break;
        case HF_CONSTANT:
            break;
        }
        if (rc < 0)
            return -1;
    }
    return 0;
}

void hf_fields_write(const struct hf_field *fields, const struct network *network,
                     struct json_writer *json)
{
    for (const struct hf_field *f = fields; f->key; f++) {
        const void *at = (const char *)network + f->member;

        if (f->use == HF_READ_ONLY)
            continue;
        switch (f->kind) {
        case HF_SIZE_OR_NULL:
            if (*(const int64_t *)at == 0) {
                json_put_string(json, f->key, NULL);
                break;
            }
            /* fall through */
        case HF_SIZE:
        case HF_COUNT:
            json_put_integer(json, f->key, *(const int64_t *)at);
            break;
        case HF_REAL:
        case HF_REAL_OR_NULL:
            hf_write_real(json, f->key, *(const double *)at);
            break;
        case HF_CAP:
            hf_write_cap(json, f->key, *(const double *)at);
            break;
        case HF_NUMBER:
            json_put_number(json, f->key, *(const double *)at, 9);
            break;
        case HF_FLAG:
            json_put_bool(json, f->key, *(const int *)at);
            break;
        case HF_CONSTANT:
            json_put_json(json, f->key, f->text, strlen(f->text));
            break;
        }
    }
}
