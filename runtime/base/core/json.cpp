/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "json.h"
#include "lib/file.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH_LIMIT 256

static const char *const type_names[] = {"null",   "a boolean", "a whole number", "a number",
                                         "a text", "an array",  "an object"};

const char *json_type_name(enum json_type type)
{
    return type_names[type];
}

struct json *json_read_file(const char *path, size_t limit, struct error *err)
{
    struct file_bytes bytes;
    struct json *json;

    if (file_read(path, limit, &bytes, err) < 0)
        return NULL;
    json = json_read(bytes.data, bytes.length, err);
    if (!json)
        error_prefix(err, "%s", path);
    file_bytes_clear(&bytes);
    return json;
}

#ifdef HAVE_SIMDJSON
#include <new>
#include <type_traits>
#include <simdjson.h>

using simdjson::dom::element;

struct json {
    simdjson::dom::parser parser;
    element root;
};

/* simdjson's handles are a document and a place in it, as ours are. */
template <typename T> static T as(struct json_value value)
{
    T handle;

    static_assert(sizeof(T) == sizeof(value) && std::is_trivially_copyable<T>::value,
                  "simdjson's handle has another form");
    memcpy((void *)&handle, &value, sizeof(value));
    return handle;
}

template <typename T> static struct json_value from(const T &handle)
{
    struct json_value value;

    static_assert(sizeof(T) == sizeof(value) && std::is_trivially_copyable<T>::value,
                  "simdjson's handle has another form");
    memcpy(&value, (const void *)&handle, sizeof(value));
    return value;
}

struct json *json_read(const char *text, size_t length, struct error *err)
{
    struct json *json = new (std::nothrow) struct json;
    simdjson::error_code code;

    if (!json) {
        error_set(err, "out of memory");
        return NULL;
    }
    code = json->parser.allocate(length, DEPTH_LIMIT);
    if (!code)
        code = json->parser.parse(text, length).get(json->root);
    if (code) {
        error_set(err, "is not valid JSON: %s; check that the file is complete",
                  simdjson::error_message(code));
        delete json;
        return NULL;
    }
    return json;
}

void json_destroy(struct json *json)
{
    delete json;
}

struct json_value json_root(const struct json *json)
{
    return from(json->root);
}

enum json_type json_type(struct json_value value)
{
    switch (as<element>(value).type()) {
    case simdjson::dom::element_type::ARRAY:
        return JSON_ARRAY;
    case simdjson::dom::element_type::OBJECT:
        return JSON_OBJECT;
    case simdjson::dom::element_type::INT64:
        return JSON_INTEGER;
    case simdjson::dom::element_type::UINT64:
    case simdjson::dom::element_type::DOUBLE:
        return JSON_REAL;
    case simdjson::dom::element_type::STRING:
        return JSON_STRING;
    case simdjson::dom::element_type::BOOL:
        return JSON_BOOL;
    default:
        return JSON_NULL;
    }
}

int json_string(struct json_value value, const char **text, size_t *length)
{
    std::string_view view;

    if (as<element>(value).get_string().get(view))
        return -1;
    *text = view.data();
    *length = view.size();
    return 0;
}

int json_integer(struct json_value value, int64_t *number)
{
    return as<element>(value).get_int64().get(*number) ? -1 : 0;
}

int json_real(struct json_value value, double *number)
{
    return as<element>(value).get_double().get(*number) ? -1 : 0;
}

int json_bool(struct json_value value, int *flag)
{
    bool truth;

    if (as<element>(value).get_bool().get(truth))
        return -1;
    *flag = truth;
    return 0;
}

int json_member(struct json_value value, const char *name, struct json_value *member)
{
    element found;

    if (as<element>(value)[name].get(found))
        return -1;
    *member = from(found);
    return 0;
}

size_t json_count(struct json_value value)
{
    struct json_iterator iterator;
    size_t count = 0;

    if (json_iterate(value, &iterator) == 0)
        while (json_next(&iterator, NULL, NULL, NULL))
            count++;
    return count;
}

int json_iterate(struct json_value value, struct json_iterator *iterator)
{
    simdjson::dom::array array;
    simdjson::dom::object object;

    if (!as<element>(value).get_array().get(array)) {
        iterator->at = from(array.begin());
        iterator->end = from(array.end());
        iterator->is_object = 0;
        return 0;
    }
    if (as<element>(value).get_object().get(object))
        return -1;
    iterator->at = from(object.begin());
    iterator->end = from(object.end());
    iterator->is_object = 1;
    return 0;
}

static int next_member(struct json_iterator *iterator, const char **name, size_t *name_length,
                       struct json_value *value)
{
    auto at = as<simdjson::dom::object::iterator>(iterator->at);
    auto end = as<simdjson::dom::object::iterator>(iterator->end);

    if (!(at != end))
        return 0;
    if (name) {
        std::string_view key = at.key();

        *name = key.data();
        *name_length = key.size();
    }
    if (value)
        *value = from(at.value());
    ++at;
    iterator->at = from(at);
    return 1;
}

int json_next(struct json_iterator *iterator, const char **name, size_t *name_length,
              struct json_value *value)
{
    if (iterator->is_object)
        return next_member(iterator, name, name_length, value);

    auto at = as<simdjson::dom::array::iterator>(iterator->at);
    auto end = as<simdjson::dom::array::iterator>(iterator->end);

    if (!(at != end))
        return 0;
    if (value)
        *value = from(*at);
    ++at;
    iterator->at = from(at);
    return 1;
}

#else

struct json *json_read(const char *text, size_t length, struct error *err)
{
    (void)text, (void)length;
    error_set(
        err,
        "cannot be read: this build has no JSON support; install libsimdjson-dev and build again");
    return NULL;
}

void json_destroy(struct json *json)
{
    (void)json;
}

/* No document ever exists, so nothing below is reached. */
struct json_value json_root(const struct json *json)
{
    (void)json;
    return {NULL, 0};
}

enum json_type json_type(struct json_value value)
{
    (void)value;
    return JSON_NULL;
}

int json_string(struct json_value value, const char **text, size_t *length)
{
    (void)value, (void)text, (void)length;
    return -1;
}

int json_integer(struct json_value value, int64_t *number)
{
    (void)value, (void)number;
    return -1;
}

int json_real(struct json_value value, double *number)
{
    (void)value, (void)number;
    return -1;
}

int json_bool(struct json_value value, int *flag)
{
    (void)value, (void)flag;
    return -1;
}

int json_member(struct json_value value, const char *name, struct json_value *member)
{
    (void)value, (void)name, (void)member;
    return -1;
}

size_t json_count(struct json_value value)
{
    (void)value;
    return 0;
}

int json_iterate(struct json_value value, struct json_iterator *iterator)
{
    (void)value, (void)iterator;
    return -1;
}

int json_next(struct json_iterator *iterator, const char **name, size_t *name_length,
              struct json_value *value)
{
    (void)iterator, (void)name, (void)name_length, (void)value;
    return 0;
}
#endif
