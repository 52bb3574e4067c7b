/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns in Oniguruma's (Ruby's) syntax become a tree. */
#include "property.h"
#include "regex.h"

#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

#define LAST_POINT 0x10FFFF
#define MOST_TIMES 64

struct parser {
    struct regex_tree *tree;
    const uint8_t *at, *end;
    int fold; /* within (?i:..) */
    int own;  /* the pattern is one of this folder */
    int depth;
    struct error *err;
};

static int refuse(struct parser *parser, const char *what)
{
    error_set_code(parser->err, ERROR_USAGE, "%s", what);
    return -1;
}

static int add_node(struct parser *parser, struct regex_node node)
{
    struct regex_tree *tree = parser->tree;

    if (tree->node_count == REGEX_NODES)
        return refuse(parser, "a pattern of this size");
    tree->nodes[tree->node_count] = node;
    return (int)tree->node_count++;
}

static int add_item(struct parser *parser, struct regex_item item)
{
    struct regex_tree *tree = parser->tree;

    if (tree->item_count == REGEX_ITEMS)
        return refuse(parser, "so many classes");
    tree->items[tree->item_count++] = item;
    return 0;
}

static int same_items(const struct regex_tree *tree, const struct regex_set *a,
                      const struct regex_set *b)
{
    return a->negated == b->negated && a->count == b->count &&
           memcmp(tree->items + a->first, tree->items + b->first,
                  a->count * sizeof(*tree->items)) == 0;
}

/* A set of the items from 'first' on. Returns its number; the same set twice has one number. */
static int add_set(struct parser *parser, unsigned first, int negated)
{
    struct regex_tree *tree = parser->tree;
    struct regex_set set = {negated, first, tree->item_count - first};

    for (unsigned i = 0; i < tree->set_count; i++)
        if (same_items(tree, &tree->sets[i], &set))
            return (int)i;
    if (tree->set_count == REGEX_SETS)
        return refuse(parser, "so many classes");
    tree->sets[tree->set_count] = set;
    return (int)tree->set_count++;
}

static struct regex_item range(uint32_t low, uint32_t high)
{
    struct regex_item item;

    memset(&item, 0, sizeof(item)); /* sets are compared with memcmp */
    item.kind = ITEM_RANGE;
    item.low = low;
    item.high = high;
    return item;
}

static int is_letter(uint32_t point)
{
    return (point | 0x20) >= 'a' && (point | 0x20) <= 'z';
}

/* A character, in both cases where case is folded. */
static int add_character(struct parser *parser, uint32_t point)
{
    uint32_t other = is_letter(point) ? point ^ 0x20 : point;

    if (add_item(parser, range(point, point)) < 0)
        return -1;
    if (!parser->fold)
        return 0;
    if (point >= 0x80)
        return refuse(parser, "(?i:..) with characters beyond ASCII");
    if (other != point && add_item(parser, range(other, other)) < 0)
        return -1;
    if ((point | 0x20) == 's')
        return add_item(parser, range(0x17F, 0x17F));
    return (point | 0x20) == 'k' ? add_item(parser, range(0x212A, 0x212A)) : 0;
}

static const char *const category_names[CATEGORY_COUNT] = {
    "Cn", "Cc", "Cf", "Co", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl", "No",
    "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs",
};

/* The categories of a name such as L or Lu as bits; 0 if there is none. */
static uint32_t categories(const char *name, size_t length)
{
    uint32_t bits = 0;

    for (unsigned i = 0; i < CATEGORY_COUNT; i++)
        if ((length == 1 || length == 2) && memcmp(category_names[i], name, length) == 0)
            bits |= UINT32_C(1) << i;
    return bits;
}

/* Names that only patterns of this folder contain. */
static uint32_t own_flags(const char *name, size_t length)
{
    if (length == 15 && memcmp(name, "BertPunctuation", length) == 0)
        return PROPERTY_PUNCTUATION;
    return length == 9 && memcmp(name, "RustDigit", length) == 0 ? PROPERTY_DIGIT : 0;
}

/* \p{L}, \P{L}, \p{^L}; 'at' is after the p. */
static int parse_property(struct parser *parser, int negated)
{
    struct regex_item item;
    const uint8_t *close;

    memset(&item, 0, sizeof(item));
    if (parser->at == parser->end || *parser->at != '{')
        return refuse(parser, "\\p without braces");
    close = memchr(parser->at, '}', (size_t)(parser->end - parser->at));
    if (!close)
        return refuse(parser, "\\p without braces");
    parser->at++;
    if (*parser->at == '^') {
        negated = !negated;
        parser->at++;
    }
    item.kind = ITEM_CATEGORIES;
    item.negated = negated;
    item.low = categories((const char *)parser->at, (size_t)(close - parser->at));
    if (!item.low && parser->own) {
        item.kind = ITEM_FLAGS;
        item.low = own_flags((const char *)parser->at, (size_t)(close - parser->at));
    }
    if (!item.low)
        return error_set_code(parser->err, ERROR_USAGE, "\\p{%.*s}", (int)(close - parser->at),
                              (const char *)parser->at);
    parser->at = close + 1;
    return add_item(parser, item);
}

static int hexadecimal(uint8_t digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit |= 0x20;
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* The number in \xHH, \x{H..} or \uHHHH; 'at' is after the letter. */
static int parse_number(struct parser *parser, uint8_t letter, uint32_t *point)
{
    int braces = parser->at < parser->end && *parser->at == '{', digits = 0;
    int most = braces ? 8 : letter == 'x' ? 2 : 4;

    *point = 0;
    parser->at += braces;
    for (; digits < most && parser->at < parser->end && hexadecimal(*parser->at) >= 0; digits++)
        *point = *point << 4 | (uint32_t)hexadecimal(*parser->at++);
    if (braces && (parser->at == parser->end || *parser->at++ != '}'))
        digits = 0;
    if (digits == 0 || *point > LAST_POINT || (letter == 'u' && digits != 4))
        return refuse(parser, "a broken \\x or \\u");
    return 0;
}

/* An escape that stands for one character. Returns 1, 0 if it does not, or -1. */
static int parse_plain_escape(struct parser *parser, uint8_t letter, uint32_t *point)
{
    static const char from[] = "rntfvae", to[] = "\r\n\t\f\v\a\x1B";
    const char *found = letter ? strchr(from, letter) : NULL;

    if (letter == 'x' || letter == 'u')
        return parse_number(parser, letter, point) < 0 ? -1 : 1;
    if (!found && (is_letter(letter) || (letter >= '0' && letter <= '9') || letter >= 0x80))
        return 0;
    *point = found ? (uint8_t)to[found - from] : letter;
    return 1;
}

/* Parse what follows a backslash into items. '*point' is the character if it is one, else
 * UNICODE_INVALID. */
static int parse_escape(struct parser *parser, uint32_t *point)
{
    struct regex_item item;
    uint8_t letter;
    int plain;

    memset(&item, 0, sizeof(item));
    if (parser->at == parser->end)
        return refuse(parser, "a pattern that ends with a backslash");
    letter = *parser->at++;
    plain = parse_plain_escape(parser, letter, point);
    if (plain != 0)
        return plain < 0 ? -1 : add_character(parser, *point);
    *point = UNICODE_INVALID;
    item.negated = letter < 'a';
    switch (letter | 0x20) {
    case 'p':
        return parse_property(parser, letter == 'P');
    case 's':
        item.kind = ITEM_FLAGS;
        item.low = PROPERTY_SPACE;
        return add_item(parser, item);
    case 'd':
        item.kind = ITEM_CATEGORIES;
        item.low = UINT32_C(1) << CATEGORY_ND;
        return add_item(parser, item);
    default:
        return error_set_code(parser->err, ERROR_USAGE, "\\%c", letter < 0x80 ? letter : '?');
    }
}

static int next_point(struct parser *parser, uint32_t *point)
{
    parser->at += utf8_decode(parser->at, parser->end, point);
    return *point == UNICODE_INVALID ? refuse(parser, "a pattern that is not UTF-8") : 0;
}

static int parse_class(struct parser *parser);

/* Parse one member of a class, which is a nested class, an escape or a character, into items.
 * '*point' is the character if it is one, else UNICODE_INVALID. */
static int parse_member(struct parser *parser, uint32_t *point)
{
    *point = UNICODE_INVALID;
    if (*parser->at == '[') {
        struct regex_item item;
        int set;

        parser->at++;
        if (parser->at < parser->end && *parser->at == ':')
            return refuse(parser, "[[:..:]]");
        set = parse_class(parser);
        memset(&item, 0, sizeof(item));
        item.kind = ITEM_SET;
        item.low = (uint32_t)set;
        return set < 0 ? -1 : add_item(parser, item);
    }
    if (*parser->at == '&' && parser->end - parser->at > 1 && parser->at[1] == '&')
        return refuse(parser, "&& in a class");
    if (*parser->at == '\\') {
        parser->at++;
        return parse_escape(parser, point);
    }
    return next_point(parser, point) < 0 ? -1 : add_character(parser, *point);
}

/* The upper end of a range whose lower end is the last item; there is none if a class follows. */
static int parse_range_end(struct parser *parser, uint32_t low)
{
    unsigned before = parser->tree->item_count;
    uint32_t high;

    if (parser->fold)
        return refuse(parser, "(?i:..) with a range");
    parser->at++;
    if (parse_member(parser, &high) < 0)
        return -1;
    if (high == UNICODE_INVALID || high < low)
        return refuse(parser, "a broken range");
    parser->tree->item_count = before;
    parser->tree->items[before - 1] = range(low, high);
    return 0;
}

/* A class; 'at' is after its bracket. Nested classes come first, so that the items of a set are
 * contiguous. Returns the number of the set. */
static int parse_class(struct parser *parser)
{
    struct regex_item own[REGEX_ITEMS / 4];
    unsigned first = parser->tree->item_count, count = 0;
    int negated = parser->at < parser->end && *parser->at == '^';

    parser->at += negated;
    if (++parser->depth > 16)
        return refuse(parser, "a class nested so deep");
    for (int begin = 1;; begin = 0) {
        uint32_t point;
        unsigned made, before = parser->tree->item_count;

        if (parser->at >= parser->end)
            return refuse(parser, "a class without its end");
        if (*parser->at == ']' && !begin)
            break;
        if (*parser->at == ']')
            return refuse(parser, "an empty class");
        if (parse_member(parser, &point) < 0)
            return -1;
        if (point != UNICODE_INVALID && parser->end - parser->at > 1 && *parser->at == '-' &&
            parser->at[1] != ']' && parse_range_end(parser, point) < 0)
            return -1;
        /* The items of a nested class stay where they are; the last item refers to them. */
        made = parser->tree->item_count - before;
        if (parser->tree->items[parser->tree->item_count - 1].kind == ITEM_SET)
            made = 1;
        if (count + made > sizeof(own) / sizeof(own[0]))
            return refuse(parser, "a class of this size");
        memcpy(own + count, parser->tree->items + parser->tree->item_count - made,
               made * sizeof(own[0]));
        count += made;
        parser->tree->item_count -= made;
    }
    parser->at++;
    parser->depth--;
    first = parser->tree->item_count;
    for (unsigned i = 0; i < count; i++)
        if (add_item(parser, own[i]) < 0)
            return -1;
    return add_set(parser, first, negated);
}

static int add_set_node(struct parser *parser, int set)
{
    return set < 0 ? -1
                   : add_node(parser, (struct regex_node){.kind = NODE_SET, .set = (unsigned)set});
}

static int parse_alternatives(struct parser *parser);

/* (?=X) and (?!X) where X is one character. */
static int parse_look(struct parser *parser, int negated)
{
    int node = parse_alternatives(parser);

    if (node < 0)
        return -1;
    if (parser->tree->nodes[node].kind != NODE_SET)
        return refuse(parser, "a look-ahead for more than one character");
    return add_node(parser, (struct regex_node){.kind = NODE_LOOK,
                                                .set = parser->tree->nodes[node].set,
                                                .negated = negated,
                                                .at_end = negated});
}

/* A group; 'at' is after its parenthesis. */
static int parse_group(struct parser *parser)
{
    const uint8_t *at = parser->at;
    size_t left = (size_t)(parser->end - at);
    int node, fold = parser->fold;

    if (++parser->depth > 64)
        return refuse(parser, "groups nested so deep");
    if (left >= 2 && (memcmp(at, "?=", 2) == 0 || memcmp(at, "?!", 2) == 0)) {
        parser->at += 2;
        node = parse_look(parser, at[1] == '!');
    } else if (left >= 2 && memcmp(at, "?:", 2) == 0) {
        parser->at += 2;
        node = parse_alternatives(parser);
    } else if (left >= 3 && memcmp(at, "?i:", 3) == 0) {
        parser->at += 3;
        parser->fold = 1;
        node = parse_alternatives(parser);
    } else if (left >= 1 && *at == '?') {
        return error_set_code(parser->err, ERROR_USAGE, "(%.*s", (int)(left < 4 ? left : 4),
                              (const char *)at);
    } else {
        node = parse_alternatives(parser);
    }
    parser->fold = fold;
    if (node < 0)
        return -1;
    if (parser->at == parser->end || *parser->at++ != ')')
        return refuse(parser, "a group without its end");
    parser->depth--;
    return node;
}

static int parse_atom(struct parser *parser)
{
    unsigned first = parser->tree->item_count;
    uint32_t point;

    switch (*parser->at) {
    case '(':
        parser->at++;
        return parse_group(parser);
    case '[':
        parser->at++;
        return add_set_node(parser, parse_class(parser));
    case '\\':
        parser->at++;
        if (parse_escape(parser, &point) < 0)
            return -1;
        return add_set_node(parser, add_set(parser, first, 0));
    case '.':
        parser->at++;
        if (add_item(parser, range('\n', '\n')) < 0)
            return -1;
        return add_set_node(parser, add_set(parser, first, 1));
    case '$': /* at the end, or before a line feed */
        parser->at++;
        if (add_item(parser, range('\n', '\n')) < 0)
            return -1;
        return add_node(parser, (struct regex_node){.kind = NODE_LOOK,
                                                    .set = (unsigned)add_set(parser, first, 0),
                                                    .at_end = 1});
    case '^':
        return refuse(parser, "^");
    case '*':
    case '+':
    case '?':
        return refuse(parser, "a quantifier without anything before it");
    default:
        if (next_point(parser, &point) < 0 || add_character(parser, point) < 0)
            return -1;
        return add_set_node(parser, add_set(parser, first, 0));
    }
}

/* {n}, {n,}, {,m}, {n,m}. Returns 1, 0 if the brace is a plain character, or -1. */
static int parse_braces(struct parser *parser, int *minimum, int *maximum)
{
    const uint8_t *at = parser->at + 1;
    int numbers[2] = {-1, -1}, comma = 0;

    for (; at < parser->end && (*at == ',' || (*at >= '0' && *at <= '9')); at++) {
        if (*at == ',' && comma++)
            return 0;
        if (*at == ',')
            continue;
        if (numbers[comma] < 0)
            numbers[comma] = 0;
        numbers[comma] = numbers[comma] * 10 + (*at - '0');
        if (numbers[comma] > MOST_TIMES)
            return refuse(parser, "a repetition of so many times");
    }
    if (at == parser->end || *at != '}' || (numbers[0] < 0 && numbers[1] < 0))
        return 0;
    *minimum = numbers[0] < 0 ? 0 : numbers[0];
    *maximum = comma ? numbers[1] : numbers[0];
    if (*maximum >= 0 && *maximum < *minimum)
        return refuse(parser, "a repetition with its limits in the wrong order");
    parser->at = at + 1;
    return 1;
}

static int parse_repeat(struct parser *parser)
{
    int node = parse_atom(parser), braces = 0;

    while (node >= 0 && parser->at < parser->end) {
        struct regex_node repeat = {.kind = NODE_REPEAT, .left = node, .maximum = -1};

        if (*parser->at == '{') {
            braces = parse_braces(parser, &repeat.minimum, &repeat.maximum);
            if (braces <= 0)
                return braces < 0 ? -1 : node;
        } else if (*parser->at == '*' || *parser->at == '+' || *parser->at == '?') {
            repeat.minimum = *parser->at == '+';
            repeat.maximum = *parser->at == '?' ? 1 : -1;
            parser->at++;
        } else {
            return node;
        }
        if (parser->tree->nodes[node].kind == NODE_LOOK)
            return refuse(parser, "a repeated look-ahead");
        if (parser->at < parser->end && *parser->at == '+')
            return refuse(parser, "a possessive quantifier");
        if (parser->at < parser->end && *parser->at == '?') {
            if (braces)
                return refuse(parser, "{..}?");
            repeat.lazy = 1;
            parser->at++;
        }
        node = add_node(parser, repeat);
    }
    return node;
}

static int parse_concatenation(struct parser *parser)
{
    int node = -1;

    while (parser->at < parser->end && *parser->at != '|' && *parser->at != ')') {
        int next = parse_repeat(parser);

        if (next < 0)
            return -1;
        node = node < 0
                   ? next
                   : add_node(parser, (struct regex_node){
                                          .kind = NODE_CONCATENATION, .left = node, .right = next});
        if (node < 0)
            return -1;
    }
    return node < 0 ? add_node(parser, (struct regex_node){.kind = NODE_EMPTY}) : node;
}

static int parse_alternatives(struct parser *parser)
{
    int node = parse_concatenation(parser);

    while (node >= 0 && parser->at < parser->end && *parser->at == '|') {
        int next;

        parser->at++;
        next = parse_concatenation(parser);
        if (next < 0)
            return -1;
        node = add_node(
            parser, (struct regex_node){.kind = NODE_ALTERNATIVES, .left = node, .right = next});
    }
    return node;
}

char *regex_escape(const char *text, size_t length, size_t *escaped)
{
    char *pattern = xmalloc(2 * length + 1);
    size_t made = 0;

    for (size_t i = 0; i < length; i++) {
        if (text[i] && strchr("\\.+*?()|[]{}^$", text[i]))
            pattern[made++] = '\\';
        pattern[made++] = text[i];
    }
    *escaped = made;
    return pattern;
}

int regex_parse(struct regex_tree *tree, const char *pattern, size_t length, int own,
                struct error *err)
{
    struct parser parser = {.tree = tree,
                            .own = own,
                            .at = (const uint8_t *)pattern,
                            .end = (const uint8_t *)pattern + length,
                            .err = err};

    tree->root = parse_alternatives(&parser);
    if (tree->root < 0)
        return -1;
    return parser.at < parser.end ? refuse(&parser, "a parenthesis without its start") : 0;
}

static int item_contains(const struct regex_tree *tree, const struct regex_item *item,
                         uint32_t point)
{
    switch (item->kind) {
    case ITEM_RANGE:
        return point >= item->low && point <= item->high;
    case ITEM_CATEGORIES:
        return (int)(item->low >> property_of(point).category & 1) != item->negated;
    case ITEM_FLAGS:
        return ((property_of(point).flags & item->low) != 0) != item->negated;
    default:
        return regex_contains(tree, item->low, point);
    }
}

int regex_contains(const struct regex_tree *tree, unsigned set, uint32_t point)
{
    const struct regex_item *item = tree->items + tree->sets[set].first;

    for (unsigned i = 0; i < tree->sets[set].count; i++)
        if (item_contains(tree, item + i, point))
            return !tree->sets[set].negated;
    return tree->sets[set].negated;
}
