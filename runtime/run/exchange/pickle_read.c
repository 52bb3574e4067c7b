/* SPDX-License-Identifier: Apache-2.0 */
#include "pickle_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- The stack ------------------------------------------------------------------------------- */

static int fail(struct machine *m, const char *what)
{
    error_set(m->err, "byte %zu of the pickle: %s", m->at, what);
    return -1;
}

/* Push a value. Returns 1, the result of an operation that is known. */
static int push(struct machine *m, struct pickle_value *value)
{
    *list_add(&m->stack) = value;
    return 1;
}

/* Only values above the newest mark may be popped. */
static size_t floor_of(const struct machine *m)
{
    return m->marks.count ? m->marks.items[m->marks.count - 1] : 0;
}

static struct pickle_value *pop(struct machine *m)
{
    if (m->stack.count <= floor_of(m)) {
        fail(m, "a value is missing");
        return NULL;
    }
    return m->stack.items[--m->stack.count];
}

static struct pickle_value *top(struct machine *m)
{
    struct pickle_value *value = pop(m);

    m->stack.count += value != NULL;
    return value;
}

/* Remove the newest mark; 'first' is the first value above it. */
static int pop_mark(struct machine *m, size_t *first)
{
    if (m->marks.count == 0)
        return fail(m, "corrupt pickle (no MARK on the stack); copy the file again");
    *first = m->marks.items[--m->marks.count];
    return 0;
}

/* --- Bytes ----------------------------------------------------------------------------------- */

static int take(struct machine *m, uint64_t count, const unsigned char **bytes)
{
    if (count > m->size - m->at)
        return fail(m, "it ends too early");
    *bytes = m->bytes + m->at;
    m->at += (size_t)count;
    return 0;
}

/* A little-endian number of up to 8 bytes. */
static int take_number(struct machine *m, int size, uint64_t *number)
{
    const unsigned char *bytes;

    if (take(m, (uint64_t)size, &bytes) < 0)
        return -1;
    *number = 0;
    for (int i = 0; i < size; i++)
        *number |= (uint64_t)bytes[i] << (8 * i);
    return 0;
}

/* Read up to the end of the line. */
static int take_line(struct machine *m, struct pickle_text *text)
{
    const unsigned char *begin = m->bytes + m->at, *end = memchr(begin, '\n', m->size - m->at);

    if (!end)
        return fail(m, "unterminated line");
    *text = (struct pickle_text){(const char *)begin, (size_t)(end - begin)};
    m->at += text->length + 1;
    return 0;
}

/* --- Operations: each returns 1, or -1 for an error ------------------------------------------ */

static int push_integer(struct machine *m, enum pickle_type type, int64_t number)
{
    struct pickle_value *value = pickle_new(m->pickle, type);

    value->integer = number;
    return push(m, value);
}

/* Two's complement of 'size' bytes. */
static int push_long(struct machine *m, uint64_t size)
{
    const unsigned char *bytes;
    struct pickle_value *value;
    uint64_t number = 0;

    if (take(m, size, &bytes) < 0)
        return -1;
    if (size <= 8) {
        for (uint64_t i = 0; i < 8; i++)
            number |= (uint64_t)(i < size                        ? bytes[i]
                                 : size && bytes[size - 1] > 127 ? 255
                                                                 : 0)
                      << (8 * i);
        return push_integer(m, PICKLE_INTEGER, (int64_t)number);
    }
    value = pickle_new(m->pickle, PICKLE_BIG);
    value->text = (struct pickle_text){(const char *)bytes, (size_t)size};
    return push(m, value);
}

/* Python 2 writes an integer of more than 32 bits as a line of text. */
static int push_text_integer(struct machine *m)
{
    struct pickle_text line;
    char text[64], *end;
    long long number;

    if (take_line(m, &line) < 0)
        return -1;
    snprintf(text, sizeof(text), "%.*s", (int)(line.length < 64 ? line.length : 63), line.at);
    errno = 0;
    number = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno == ERANGE)
        return fail(m, "invalid number");
    return push_integer(m, PICKLE_INTEGER, number);
}

static int push_binary_real(struct machine *m)
{
    struct pickle_value *value = pickle_new(m->pickle, PICKLE_REAL);
    const unsigned char *bytes;
    uint64_t bits = 0;

    if (take(m, 8, &bytes) < 0)
        return -1;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | bytes[i];
    memcpy(&value->real, &bits, sizeof(bits));
    return push(m, value);
}

static int push_string(struct machine *m, uint64_t length)
{
    struct pickle_value *value;
    const unsigned char *bytes;

    if (take(m, length, &bytes) < 0)
        return -1;
    value = pickle_new(m->pickle, PICKLE_STRING);
    value->text = (struct pickle_text){(const char *)bytes, (size_t)length};
    return push(m, value);
}

/* Append 'count' values from stack position 'first' on to a list or dict, and pop them. An object's
 * own items are ignored. */
static int extend(struct machine *m, struct pickle_value *value, size_t first)
{
    size_t count = m->stack.count - first;

    if (value->type == PICKLE_DICT && count % 2 != 0)
        return fail(m, "a key has no value");
    if (value->type == PICKLE_LIST || value->type == PICKLE_DICT) {
        /* Most are small and complete: no more room than they need. */
        if (value->room == 0 && count > 0) {
            value->items = xrealloc(NULL, count, sizeof(*value->items));
            value->room = count;
        }
        list_reserve(value, count);
        if (count > 0)
            memcpy(value->items + value->count, m->stack.items + first,
                   count * sizeof(*value->items));
        value->count += count;
    } else if (value->type != PICKLE_OBJECT) {
        return fail(m, "items are added to something that is not a container");
    }
    m->stack.count = first;
    return 1;
}

/* Create a list or dict of the values from stack position 'first' on. */
static int collect(struct machine *m, enum pickle_type type, size_t first)
{
    struct pickle_value *value = pickle_new(m->pickle, type);

    return extend(m, value, first) < 0 ? -1 : push(m, value);
}

static int collect_marked(struct machine *m, enum pickle_type type)
{
    size_t first;

    return pop_mark(m, &first) < 0 ? -1 : collect(m, type, first);
}

static int collect_few(struct machine *m, size_t count)
{
    if (m->stack.count - floor_of(m) < count)
        return fail(m, "a value is missing");
    return collect(m, PICKLE_LIST, m->stack.count - count);
}

/* Add the newest 'count' values, or without a count all above the mark, to the value below. */
static int add_items(struct machine *m, size_t count)
{
    size_t first = m->stack.count - count;

    if (count == 0 && pop_mark(m, &first) < 0)
        return -1;
    if (first < floor_of(m) + 1 || first > m->stack.count)
        return fail(m, "a value is missing");
    return extend(m, m->stack.items[first - 1], first);
}

static int remember(struct machine *m, uint64_t number)
{
    struct pickle_value *value = top(m);
    size_t n = (size_t)number;

    /* Memo indices count the values of a pickle, each of which takes at least a byte. */
    if (!value || number > m->at)
        return value ? fail(m, "a memo number is too large") : -1;
    if (n >= m->memo.count) {
        list_reserve(&m->memo, n + 1 - m->memo.count);
        memset(m->memo.items + m->memo.count, 0, (n + 1 - m->memo.count) * sizeof(*m->memo.items));
        m->memo.count = n + 1;
    }
    m->memo.items[n] = value;
    return 1;
}

static int recall(struct machine *m, uint64_t number)
{
    if (number >= m->memo.count || !m->memo.items[number])
        return fail(m, "the memo contains no such value");
    return push(m, m->memo.items[number]);
}

static int push_global(struct machine *m, struct pickle_text module, struct pickle_text name)
{
    struct pickle_value *value = pickle_new(m->pickle, PICKLE_GLOBAL);

    value->text = module;
    value->name = name;
    return push(m, value);
}

static int push_stack_global(struct machine *m)
{
    const struct pickle_value *name = pop(m), *module = name ? pop(m) : NULL;

    if (!module)
        return -1;
    if (name->type != PICKLE_STRING || module->type != PICKLE_STRING)
        return fail(m, "a name is not a string");
    return push_global(m, module->text, name->text);
}

/* collections.OrderedDict, of nothing or of a list of pairs, is a dict. */
static struct pickle_value *ordered_dict(struct machine *m, const struct pickle_value *arguments)
{
    struct pickle_value *value = pickle_new(m->pickle, PICKLE_DICT);
    const struct pickle_value *pairs = pickle_item(arguments, 0);

    for (size_t i = 0; pickle_item(pairs, i); i++) {
        const struct pickle_value *pair = pairs->items[i];

        if (pair->type != PICKLE_LIST || pair->count != 2)
            continue;
        /* Repeated creation from one list would outgrow the pickle. */
        if (++m->copied > m->size) {
            fail(m, "too many OrderedDicts of the same pairs");
            return NULL;
        }
        list_append(value, pair->items, 2);
    }
    return value;
}

static int push_object(struct machine *m, const struct pickle_value *callable,
                       const struct pickle_value *arguments)
{
    struct pickle_value *value;

    if (!callable || !arguments)
        return -1;
    if (pickle_is_global(callable, "collections", "OrderedDict")) {
        value = ordered_dict(m, arguments);
        return value ? push(m, value) : -1;
    }
    value = pickle_new(m->pickle, PICKLE_OBJECT);
    value->callable = callable;
    value->arguments = arguments;
    return push(m, value);
}

static int push_persistent(struct machine *m, const struct pickle_value *identity)
{
    struct pickle_value *value;

    if (!identity)
        return -1;
    value = pickle_new(m->pickle, PICKLE_PERSISTENT);
    value->arguments = identity;
    *list_add(&m->pickle->persistent) = value;
    return push(m, value);
}

static int set_state(struct machine *m)
{
    const struct pickle_value *state = pop(m);
    struct pickle_value *value = state ? top(m) : NULL;

    if (!value)
        return -1;
    /* Attributes of containers other than their items are ignored. */
    if (value->type == PICKLE_OBJECT)
        value->state = state;
    return 1;
}

static int push_named_global(struct machine *m)
{
    struct pickle_text module, name;

    return take_line(m, &module) < 0 || take_line(m, &name) < 0 ? -1 : push_global(m, module, name);
}

static int push_call(struct machine *m)
{
    const struct pickle_value *arguments = pop(m);

    return arguments ? push_object(m, pop(m), arguments) : -1;
}

static int push_again(struct machine *m)
{
    struct pickle_value *value = top(m);

    return value ? push(m, value) : -1;
}

static int drop_marked(struct machine *m)
{
    size_t first;

    if (pop_mark(m, &first) < 0)
        return -1;
    m->stack.count = first;
    return 1;
}

/* Bytes of the number that follows an operation. */
static const unsigned char operands[256] = {
    ['J'] = 4, ['K'] = 1, ['M'] = 2, [0x8a] = 1, [0x8b] = 4, ['T'] = 4,  ['U'] = 1,
    ['X'] = 4, ['B'] = 4, ['C'] = 1, [0x8c] = 1, [0x8d] = 8, [0x8e] = 8, [0x96] = 8,
    ['q'] = 1, ['r'] = 4, ['h'] = 1, ['j'] = 4,  [0x80] = 1, [0x95] = 8,
};

/* Execute 'op': 0 if it is unknown, 1, or -1 on error. */
static int step(struct machine *m, int op)
{
    uint64_t n;

    if (take_number(m, operands[op], &n) < 0)
        return -1;
    switch (op) {
    /* Numbers */
    case 'N':
        return push(m, pickle_new(m->pickle, PICKLE_NONE));
    case 0x88:
    case 0x89:
        return push_integer(m, PICKLE_BOOL, op == 0x88);
    case 'J':
        return push_integer(m, PICKLE_INTEGER, (int32_t)n);
    case 'K':
    case 'M':
        return push_integer(m, PICKLE_INTEGER, (int64_t)n);
    case 0x8a:
    case 0x8b:
        return push_long(m, n);
    case 'G':
        return push_binary_real(m);
    case 'I':
        return push_text_integer(m);
    /* Strings and bytes */
    case 'T':
    case 'U':
    case 'X':
    case 'B':
    case 'C':
    case 0x8c:
    case 0x8d:
    case 0x8e:
    case 0x96:
        return push_string(m, n);
    /* Containers */
    case ')':
    case ']':
    case 0x8f:
        return collect(m, PICKLE_LIST, m->stack.count);
    case '}':
        return collect(m, PICKLE_DICT, m->stack.count);
    case 't':
    case 'l':
    case 0x91:
        return collect_marked(m, PICKLE_LIST);
    case 'd':
        return collect_marked(m, PICKLE_DICT);
    case 0x85:
    case 0x86:
    case 0x87:
        return collect_few(m, (size_t)(op - 0x84));
    case 'a':
        return add_items(m, 1);
    case 's':
        return add_items(m, 2);
    case 'e':
    case 'u':
    case 0x90:
        return add_items(m, 0);
    /* The memo */
    case 0x94:
        return remember(m, m->memo.count);
    case 'q':
    case 'r':
        return remember(m, n);
    case 'h':
    case 'j':
        return recall(m, n);
    /* Objects */
    case 'c':
        return push_named_global(m);
    case 0x93:
        return push_stack_global(m);
    case 0x92:
        if (!pop(m)) /* keyword arguments */
            return -1;
        /* fall through */
    case 'R':
    case 0x81:
        return push_call(m);
    case 'b':
        return set_state(m);
    case 'Q':
        return push_persistent(m, pop(m));
    /* The stack */
    case '(':
        *list_add(&m->marks) = m->stack.count;
        return 1;
    case '0':
        return pop(m) ? 1 : -1;
    case '1':
        return drop_marked(m);
    case '2':
        return push_again(m);
    /* The protocol, and the length of a frame */
    case 0x80:
        return n <= 5 ? 1
                      : fail(m, "its pickle protocol is newer than 5; save the file again with "
                                "torch.save");
    case 0x95:
        return 1;
    default:
        return 0;
    }
}

/* --- A pickle ---------------------------------------------------------------------------- */

static int run(struct machine *m)
{
    while (m->at < m->size) {
        int op = m->bytes[m->at++], done;

        if (op == '.') {
            m->pickle->root = pop(m);
            return m->pickle->root ? 0 : -1;
        }
        done = step(m, op);
        if (done < 0)
            return -1;
        if (done == 0)
            return error_set(m->err,
                             "byte %zu of the pickle: operation 0x%02x is not supported; save the "
                             "file with torch.save again",
                             m->at - 1, op);
    }
    return fail(m, "it ends too early");
}

struct pickle *pickle_read(const void *bytes, size_t size, size_t *used, struct error *err)
{
    struct machine m = {.bytes = bytes, .size = size, .err = err};
    int rc;

    m.pickle = xcalloc(1, sizeof(*m.pickle));
    rc = run(&m);
    list_free(&m.stack);
    list_free(&m.memo);
    list_free(&m.marks);
    if (rc < 0) {
        pickle_destroy(m.pickle);
        return NULL;
    }
    *used = m.at;
    return m.pickle;
}
