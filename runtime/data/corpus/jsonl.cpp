/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lines with simdjson. Its on-demand parser checks UTF-8 and strings of the whole line at
 * once; the walk below checks the rest, including members that are not needed, because Python's
 * json does, and a broken line must not become half a document. */
#include "config.h"
#include "jsonl.h"
#include "unescape.h"

#include <simdjson.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

using simdjson::ondemand::document;
using simdjson::ondemand::object;
using simdjson::ondemand::value;

/* The parser is created for lines up to this size; a longer line gets a temporary parser. */
static constexpr size_t usual_line = 1 << 20;

struct wanted {
    std::string key;
    std::vector<jsonl_text> texts;
    document_fault fault;
    int depth;      /* length of the match; a literal name wins over a path */
    uint64_t route; /* of the match: which dots of the key were descended */
};

/* The buffer for the texts of a line. */
struct text_room {
    std::unique_ptr<char[]> data;
    size_t size;
    char *at; /* end of the last text */
};

struct jsonl {
    simdjson::ondemand::parser usual;
    simdjson::ondemand::parser large;
    simdjson::ondemand::parser *parser; /* of the current line */
    text_room usual_room, large_room, *room;
    std::vector<wanted> keys;
    size_t fault_key;
};

/* A key during the descent: the rest of its path. */
struct path {
    size_t key;
    const char *rest;
    size_t size;
    uint64_t route;
};

/* Get a member name. simdjson 3.6 (Ubuntu 24.04) needs an argument that older releases lack. */
template <typename member> static auto name_of(member &m, int) -> decltype(m.unescaped_key(false))
{
    return m.unescaped_key(false);
}

template <typename member> static auto name_of(member &m, long) -> decltype(m.unescaped_key())
{
    return m.unescaped_key();
}

static document_fault fault_of(simdjson::error_code code)
{
    switch (code) {
    case simdjson::SUCCESS:
        return FAULT_NONE;
    case simdjson::UTF8_ERROR:
        return FAULT_UTF8;
    case simdjson::DEPTH_ERROR:
        return FAULT_DEPTH;
    default:
        return FAULT_JSON;
    }
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f');
}

/* 'raw' begins with a quote and extends to the next token. */
static bool escapes_are_valid(std::string_view raw)
{
    size_t at = raw.find('\\');

    while (at != std::string_view::npos && at + 1 < raw.size()) {
        char c = raw[at + 1];

        if (c == 'u') {
            if (at + 6 > raw.size() || !is_hex(raw[at + 2]) || !is_hex(raw[at + 3]) ||
                !is_hex(raw[at + 4]) || !is_hex(raw[at + 5]))
                return false;
        } else if (c == '\0' || !strchr("\"\\/bfnrt", c)) {
            return false;
        }
        at = raw.find('\\', at + 2);
    }
    return true;
}

static bool is_digit(std::string_view text, size_t at)
{
    return at < text.size() && text[at] >= '0' && text[at] <= '9';
}

static bool is_number(std::string_view text)
{
    size_t at = 0;

    if (at < text.size() && text[at] == '-')
        at++;
    if (!is_digit(text, at))
        return false;
    if (text[at++] != '0')
        while (is_digit(text, at))
            at++;
    if (at < text.size() && text[at] == '.') {
        if (!is_digit(text, ++at))
            return false;
        while (is_digit(text, at))
            at++;
    }
    if (at < text.size() && (text[at] | 32) == 'e') {
        at++;
        if (at < text.size() && (text[at] == '+' || text[at] == '-'))
            at++;
        if (!is_digit(text, at))
            return false;
        while (is_digit(text, at))
            at++;
    }
    return at == text.size();
}

/* A scalar token other than a string, including the white space after it. */
static bool scalar_is_valid(std::string_view token)
{
    while (!token.empty() && strchr(" \t\r\n", token.back()) && token.back() != '\0')
        token.remove_suffix(1);
    return token == "null" || token == "true" || token == "false" || token == "NaN" ||
           token == "Infinity" || token == "-Infinity" || is_number(token);
}

/* Does a line that is not an object begin like another JSON value? */
static bool is_other_value(std::string_view line)
{
    size_t first = line.find_first_not_of(" \t\r\n");

    line.remove_prefix(first == std::string_view::npos ? line.size() : first);
    return !line.empty() && (line[0] == '[' || line[0] == '"' || scalar_is_valid(line));
}

/* simdjson writes a lone low surrogate as three bytes that are not UTF-8. */
static bool has_surrogate(std::string_view text)
{
    const char *at = text.data(), *end = at + text.size();

    while (at < end && (at = (const char *)memchr(at, 0xed, (size_t)(end - at)))) {
        if (at + 1 < end && (unsigned char)at[1] >= 0xa0)
            return true;
        at++;
    }
    return false;
}

/* Get the text of a string: simple strings are copied, others are left to the library. Half a
 * surrogate pair is valid JSON, but not text: a fault of the key, not of the line. */
static document_fault take_string(jsonl &state, value &from, wanted &to)
{
    std::string_view raw = from.raw_json_token(), rest;
    char *text = state.room->at;
    size_t end = raw.size() - 1, taken;
    uint8_t *out;

    if (from.get_raw_json_string().error())
        return FAULT_JSON;
    /* White space may follow the quote at the end. */
    while (end > 0 && raw[end] != '"')
        end--;
    if (end == 0)
        return FAULT_JSON;
    state.room->at += unescape(raw.data() + 1, end - 1, text, &taken);
    if (taken < end - 1) {
        out = (uint8_t *)state.room->at;
        if (state.parser->unescape((const uint8_t *)raw.data() + 1 + taken, out).get(rest)) {
            if (!escapes_are_valid(raw))
                return FAULT_JSON;
            to.fault = FAULT_SURROGATE;
            return FAULT_NONE;
        }
        if (has_surrogate(rest)) {
            to.fault = FAULT_SURROGATE;
            return FAULT_NONE;
        }
        state.room->at = (char *)out;
    }
    to.texts.push_back({text, (size_t)(state.room->at - text), raw.data(), end + 1});
    return FAULT_NONE;
}

static document_fault walk_object(jsonl &state, object &from, const std::vector<path> &paths,
                                  int depth);
static document_fault walk_value(jsonl &state, value &from, const std::vector<path> &paths,
                                 int depth);

static document_fault walk_array(jsonl &state, value &from, wanted *to, int depth)
{
    static const std::vector<path> none;
    simdjson::ondemand::array array;
    auto code = from.get_array().get(array);

    if (code)
        return fault_of(code);
    for (auto item : array) {
        value element;
        document_fault fault;

        code = std::move(item).get(element);
        if (code)
            return fault_of(code);
        if (to && element.raw_json_token()[0] == '"') {
            fault = take_string(state, element, *to);
        } else {
            if (to)
                to->fault = FAULT_TYPE;
            fault = walk_value(state, element, none, depth + 1);
        }
        if (fault)
            return fault;
    }
    return FAULT_NONE;
}

/* Validate a value that is not wanted itself; 'paths' may lead into it. */
static document_fault walk_value(jsonl &state, value &from, const std::vector<path> &paths,
                                 int depth)
{
    std::string_view token = from.raw_json_token();

    if (depth > JSONL_DEPTH)
        return FAULT_DEPTH;
    switch (token[0]) {
    case '"':
        /* An unread string would be skipped together with the colon after it. */
        if (from.get_raw_json_string().error())
            return FAULT_JSON;
        return escapes_are_valid(token) ? FAULT_NONE : FAULT_JSON;
    case '[':
        return walk_array(state, from, nullptr, depth);
    case '{': {
        object inner;
        auto code = from.get_object().get(inner);

        return code ? fault_of(code) : walk_object(state, inner, paths, depth);
    }
    default:
        return scalar_is_valid(token) ? FAULT_NONE : FAULT_JSON;
    }
}

/* Take the value of a wanted key. */
static document_fault take_value(jsonl &state, value &from, const path &way, int depth)
{
    static const std::vector<path> none;
    wanted &to = state.keys[way.key];

    to.texts.clear();
    to.fault = FAULT_NONE;
    to.depth = depth;
    to.route = way.route;
    switch (from.raw_json_token()[0]) {
    case '"':
        return take_string(state, from, to);
    case '[':
        return walk_array(state, from, &to, depth + 1);
    default:
        to.fault = FAULT_TYPE;
        return walk_value(state, from, none, depth + 1);
    }
}

static void forget(wanted &key)
{
    key.texts.clear();
    key.fault = FAULT_KEY;
    key.depth = JSONL_DEPTH;
    key.route = 0;
}

/* Find the path within a member whose name is its next 'size' bytes. Of equal names the last one
 * counts: earlier results are discarded. */
static path step_into(wanted &key, const path &from, size_t size, int depth)
{
    path to = {from.key, from.rest + size + 1, from.size - size - 1, from.route};
    int dots = 0;

    for (const char *at = key.key.data(); at < to.rest - 1; at++)
        dots += *at == '.';
    if (dots > 63)
        return to;
    to.route |= UINT64_C(1) << dots;
    if (key.fault != FAULT_KEY && key.depth > depth &&
        (key.route & ((UINT64_C(2) << dots) - 1)) == to.route)
        forget(key);
    return to;
}

static document_fault walk_member(jsonl &state, std::string_view name, value &from,
                                  const std::vector<path> &paths, int depth)
{
    std::vector<path> inner;

    for (const path &p : paths) {
        wanted &key = state.keys[p.key];

        if (name.size() == p.size && memcmp(name.data(), p.rest, p.size) == 0 && depth <= key.depth)
            return take_value(state, from, p, depth);
        if (name.size() + 1 < p.size && p.rest[name.size()] == '.' &&
            memcmp(name.data(), p.rest, name.size()) == 0)
            inner.push_back(step_into(key, p, name.size(), depth));
    }
    return walk_value(state, from, inner, depth + 1);
}

static document_fault walk_object(jsonl &state, object &from, const std::vector<path> &paths,
                                  int depth)
{
    for (auto item : from) {
        simdjson::ondemand::field field;
        std::string_view name;
        document_fault fault;
        auto code = std::move(item).get(field);

        if (code)
            return fault_of(code);
        code = name_of(field, 0).get(name);
        if (code)
            return fault_of(code);
        fault = walk_member(state, name, field.value(), paths, depth);
        if (fault)
            return fault;
    }
    return FAULT_NONE;
}

/* Every text is followed by padding for overlong copies. */
static bool make_room(text_room &room, size_t size)
{
    size_t wanted = size + UNESCAPE_PADDING + simdjson::SIMDJSON_PADDING;

    if (room.size < wanted) {
        room.data.reset(new (std::nothrow) char[wanted]);
        room.size = room.data ? wanted : 0;
    }
    room.at = room.data.get();
    return room.size > 0;
}

static document_fault parse_line(jsonl &state, const char *data, size_t size)
{
    document line;
    object root;
    std::vector<path> paths;
    document_fault fault;

    /* Newer releases of simdjson skip a byte order mark; the reader has removed that of the
     * file. */
    if (size >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0)
        return FAULT_JSON;
    auto code = state.parser->iterate(data, size, size + JSONL_PADDING).get(line);

    if (code)
        return fault_of(code);
    code = line.get_object().get(root);
    if (code == simdjson::INCORRECT_TYPE)
        return is_other_value({data, size}) ? FAULT_OBJECT : FAULT_JSON;
    if (code)
        return fault_of(code);
    for (size_t i = 0; i < state.keys.size(); i++) {
        wanted &key = state.keys[i];

        forget(key);
        paths.push_back({i, key.key.data(), key.key.size(), 0});
    }
    fault = walk_object(state, root, paths, 1);
    if (fault)
        return fault;
    if (!line.current_location().error())
        return FAULT_JSON;
    for (size_t i = 0; i < state.keys.size(); i++)
        if (state.keys[i].fault) {
            state.fault_key = i;
            return state.keys[i].fault;
        }
    return FAULT_NONE;
}

struct jsonl *jsonl_create(const char *const *keys, size_t count, struct error *err)
{
    jsonl *state = new (std::nothrow) jsonl();

    if (!state || state->usual.allocate(usual_line, JSONL_DEPTH + 2) ||
        !make_room(state->usual_room, usual_line)) {
        delete state;
        error_set(err, "JSON: out of memory");
        return nullptr;
    }
    for (size_t i = 0; i < count; i++)
        state->keys.push_back({keys[i], {}, FAULT_KEY, 0, 0});
    return state;
}

void jsonl_destroy(struct jsonl *jsonl)
{
    delete jsonl;
}

enum document_fault jsonl_parse(struct jsonl *jsonl, const char *data, size_t size)
{
    bool usual = size <= usual_line;

    jsonl->parser = usual ? &jsonl->usual : &jsonl->large;
    jsonl->room = usual ? &jsonl->usual_room : &jsonl->large_room;
    if ((!usual && jsonl->large.allocate(size, JSONL_DEPTH + 2)) || !make_room(*jsonl->room, size))
        return FAULT_LENGTH;
    return parse_line(*jsonl, data, size);
}

void jsonl_trim(struct jsonl *jsonl)
{
    if (jsonl->large.capacity() > 0)
        jsonl->large = simdjson::ondemand::parser();
    jsonl->large_room = text_room();
}

const struct jsonl_text *jsonl_texts(const struct jsonl *jsonl, size_t key, size_t *count)
{
    *count = jsonl->keys[key].texts.size();
    return jsonl->keys[key].texts.data();
}

size_t jsonl_fault_key(const struct jsonl *jsonl)
{
    return jsonl->fault_key;
}

void jsonl_names(struct jsonl *jsonl, const char *data, size_t size, char *buffer, size_t room)
{
    document line;
    object root;
    size_t used = 0;

    buffer[0] = '\0';
    if (size > usual_line || jsonl->usual.iterate(data, size, size + JSONL_PADDING).get(line) ||
        line.get_object().get(root))
        return;
    for (auto item : root) {
        std::string_view name;
        int length;

        if (name_of(item, 0).get(name) || used + name.size() + 3 > room)
            return;
        length = snprintf(buffer + used, room - used, "%s%.*s", used ? ", " : "", (int)name.size(),
                          name.data());
        used += (size_t)length;
    }
}
