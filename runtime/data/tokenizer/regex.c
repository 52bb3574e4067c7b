/* SPDX-License-Identifier: Apache-2.0 */
/* From the tree of a pattern to its DFA. A state is a list of positions in the pattern in order of
 * priority. When a match is possible, positions of lower priority are dropped; so the last match
 * seen when no transition is left is the one that a backtracking engine would find. Matches and
 * look-aheads are decided when the next character is known. */
#include "regex.h"
#include "tokenizer_private.h"
#include "property.h"

#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

#define POSITIONS  20000
#define STATES     4000
#define LIST       512      /* positions in a state */
#define WORK       20000000 /* steps of the compiler; known patterns need less than 100,000 */
#define SHOWN      60
#define LAST_POINT 0x10FFFF
#define PAGES      ((LAST_POINT + 1) >> 8)

enum position_kind { POSITION_SET, POSITION_LOOK, POSITION_SPLIT, POSITION_MATCH };

struct position {
    enum position_kind kind;
    unsigned set;
    int negated, at_end;
    int next, other; /* other: of POSITION_SPLIT, with less priority */
};

struct list {
    unsigned count;
    int positions[LIST];
};

struct compiler {
    struct regex *regex;
    struct regex_tree tree;
    struct position *positions;
    int position_count;
    uint64_t *members; /* by class: the sets that contain it */
    unsigned class_count;
    uint32_t highest;      /* end of the last range in the pattern */
    int16_t known[0x4000]; /* by properties: class + 1 */
    struct list **states;
    uint32_t *marks, mark; /* by position: was it added to the list that is being made? */
    uint64_t work;
    const char *refused;
};

/* Repetitions within repetitions, look-aheads after look-aheads and long lists of states multiply:
 * count what has been done, whatever it was for. Returns whether the pattern is refused. */
static int spend(struct compiler *compiler, uint64_t steps)
{
    compiler->work += steps;
    if (compiler->work > WORK && !compiler->refused)
        compiler->refused = "so many parts";
    return compiler->refused != NULL;
}

static int add_position(struct compiler *compiler, struct position position)
{
    if (compiler->position_count == POSITIONS) {
        compiler->refused = "so many parts";
        return -1;
    }
    compiler->positions[compiler->position_count] = position;
    return compiler->position_count++;
}

static int is_nullable(struct compiler *compiler, int at)
{
    const struct regex_node *node = &compiler->tree.nodes[at];

    spend(compiler, 1);
    switch (node->kind) {
    case NODE_SET:
        return 0;
    case NODE_CONCATENATION:
        return is_nullable(compiler, node->left) && is_nullable(compiler, node->right);
    case NODE_ALTERNATIVES:
        return is_nullable(compiler, node->left) || is_nullable(compiler, node->right);
    case NODE_REPEAT:
        return node->minimum == 0 || is_nullable(compiler, node->left);
    default:
        return 1;
    }
}

static int compile_node(struct compiler *compiler, int at, int next);

static int compile_split(struct compiler *compiler, int lazy, int body, int next)
{
    if (body < 0)
        return -1;
    return add_position(compiler, (struct position){.kind = POSITION_SPLIT,
                                                    .next = lazy ? next : body,
                                                    .other = lazy ? body : next});
}

static int compile_repeat(struct compiler *compiler, const struct regex_node *node, int next)
{
    int start = next;

    if (node->maximum < 0) {
        int loop = add_position(compiler, (struct position){.kind = POSITION_SPLIT}), body;

        if (is_nullable(compiler, node->left))
            compiler->refused = "a repetition of something that may be empty";
        if (loop < 0 || compiler->refused)
            return -1;
        body = compile_node(compiler, node->left, loop);
        compiler->positions[loop].next = node->lazy ? next : body;
        compiler->positions[loop].other = node->lazy ? body : next;
        start = body < 0 ? -1 : loop;
    }
    for (int i = node->minimum; i < node->maximum && start >= 0; i++)
        start =
            compile_split(compiler, node->lazy, compile_node(compiler, node->left, start), next);
    for (int i = 0; i < node->minimum && start >= 0; i++)
        start = compile_node(compiler, node->left, start);
    return start;
}

/* The positions of a node before the position 'next'. Returns the first one, or -1. */
static int compile_node(struct compiler *compiler, int at, int next)
{
    const struct regex_node *node = &compiler->tree.nodes[at];
    int right;

    if (spend(compiler, 1))
        return -1;
    switch (node->kind) {
    case NODE_SET:
        return add_position(
            compiler, (struct position){.kind = POSITION_SET, .set = node->set, .next = next});
    case NODE_LOOK:
        return add_position(compiler, (struct position){.kind = POSITION_LOOK,
                                                        .set = node->set,
                                                        .negated = node->negated,
                                                        .at_end = node->at_end,
                                                        .next = next});
    case NODE_CONCATENATION:
        right = compile_node(compiler, node->right, next);
        return right < 0 ? -1 : compile_node(compiler, node->left, right);
    case NODE_ALTERNATIVES:
        right = compile_node(compiler, node->right, next);
        return right < 0
                   ? -1
                   : compile_split(compiler, 0, compile_node(compiler, node->left, next), right);
    case NODE_REPEAT:
        return compile_repeat(compiler, node, next);
    default:
        return next;
    }
}

/* Add a position, or those that a split leads to, in the order of their priority. */
static void add_to_list(struct compiler *compiler, struct list *list, int at)
{
    const struct position *position = &compiler->positions[at];

    if (spend(compiler, 1) || compiler->marks[at] == compiler->mark)
        return;
    compiler->marks[at] = compiler->mark;
    if (position->kind == POSITION_SPLIT) {
        add_to_list(compiler, list, position->next);
        add_to_list(compiler, list, position->other);
    } else if (list->count == LIST) {
        compiler->refused = "so many parts";
    } else {
        list->positions[list->count++] = at;
    }
}

/* Can this position be left by a character of the class (the last class is the end of the text)? */
static int fits(const struct compiler *compiler, const struct position *position, unsigned class)
{
    int inside =
        class < compiler->class_count && (compiler->members[class] >> position->set & 1) != 0;

    if (position->kind == POSITION_SET)
        return inside;
    return class == compiler->class_count ? position->at_end : inside != position->negated;
}

/* Follow 'from' over a class into 'to'. Returns whether a match ends before the character. */
static int follow(struct compiler *compiler, const struct list *from, unsigned class,
                  struct list *to, int depth)
{
    for (unsigned i = 0; i < from->count; i++) {
        const struct position *position = &compiler->positions[from->positions[i]];

        if (position->kind == POSITION_MATCH)
            return 1;
        spend(compiler, 1);
        if (!fits(compiler, position, class))
            continue;
        if (position->kind == POSITION_SET) {
            add_to_list(compiler, to, position->next);
        } else {
            struct list *here = xcalloc(1, sizeof(*here));
            uint32_t *marks = compiler->marks, mark = compiler->mark;
            int matched = 0;

            compiler->marks = xcalloc(POSITIONS, sizeof(*marks));
            compiler->mark = 1;
            spend(compiler, POSITIONS / 8);
            if (depth > 8)
                compiler->refused = "so many look-aheads";
            else
                add_to_list(compiler, here, position->next);
            free(compiler->marks);
            compiler->marks = marks;
            compiler->mark = mark;
            if (!compiler->refused)
                matched = follow(compiler, here, class, to, depth + 1);
            free(here);
            if (matched)
                return 1;
        }
    }
    return 0;
}

/* The number of the state with these positions; created if needed. */
static int find_state(struct compiler *compiler, const struct list *list)
{
    struct regex *regex = compiler->regex;
    size_t size = offsetof(struct list, positions) + list->count * sizeof(list->positions[0]);

    spend(compiler, regex->state_count);
    for (unsigned i = 0; i < regex->state_count; i++)
        if (compiler->states[i]->count == list->count &&
            memcmp(compiler->states[i], list, size) == 0)
            return (int)i;
    if (regex->state_count == STATES) {
        compiler->refused = "so many states";
        return -1;
    }
    compiler->states[regex->state_count] = xmalloc(size);
    memcpy(compiler->states[regex->state_count], list, size);
    return (int)regex->state_count++;
}

static int make_states(struct compiler *compiler, int start)
{
    struct regex *regex = compiler->regex;
    struct list list = {0};

    if (find_state(compiler, &list) < 0)
        return -1;
    compiler->mark++;
    add_to_list(compiler, &list, start);
    if (find_state(compiler, &list) < 0)
        return -1;
    for (unsigned state = 0; state < regex->state_count; state++) {
        if ((state & (state - 1)) == 0) /* the table is full */
            regex->table = xrealloc(regex->table, (size_t)(state ? state * 2 : 1) * regex->width,
                                    sizeof(*regex->table));
        for (unsigned class = 0; class < regex->width; class ++) {
            int matched, next;

            list.count = 0;
            compiler->mark++;
            matched = follow(compiler, compiler->states[state], class, &list, 0);
            next = class == compiler->class_count ? REGEX_DEAD : find_state(compiler, &list);
            if (compiler->refused || next < 0)
                return -1;
            if (matched && state == REGEX_START) {
                compiler->refused = "an empty match";
                return -1;
            }
            regex->table[state * regex->width + class] =
                (uint16_t)(next | (matched ? REGEX_MATCH : 0));
        }
    }
    return 0;
}

/* The class of the code points that are in exactly these sets. */
static int find_class(struct compiler *compiler, uint64_t sets)
{
    for (unsigned i = 0; i < compiler->class_count; i++)
        if (compiler->members[i] == sets)
            return (int)i;
    if (compiler->class_count == 254) {
        compiler->refused = "so many classes";
        return -1;
    }
    compiler->members[compiler->class_count] = sets;
    return (int)compiler->class_count++;
}

static uint64_t sets_of(const struct compiler *compiler, uint32_t point)
{
    uint64_t sets = 0;

    for (unsigned set = 0; set < compiler->tree.set_count; set++)
        sets |= (uint64_t)regex_contains(&compiler->tree, set, point) << set;
    return sets;
}

/* Enter a page of classes; pages that are equal are one. */
static void enter_page(struct regex *regex, size_t page, const uint8_t classes[256])
{
    for (size_t i = regex->page_count; i-- > 0;)
        if (memcmp(regex->classes[i], classes, 256) == 0) {
            regex->pages[page] = (uint16_t)i;
            return;
        }
    regex->classes = xrealloc(regex->classes, regex->page_count + 1, sizeof(*regex->classes));
    memcpy(regex->classes[regex->page_count], classes, 256);
    regex->pages[page] = (uint16_t)regex->page_count++;
}

/* Are the classes of a page those of the one before? Nearly all of Unicode is uniform. */
static int is_repeated(const struct compiler *compiler, uint32_t page)
{
    uint32_t low = (page - 1) << 8, high = page << 8 | 255;

    if (page == 0 || property_page(page) != property_page(page - 1))
        return 0;
    for (unsigned i = 0; i < compiler->tree.item_count; i++) {
        const struct regex_item *item = &compiler->tree.items[i];

        if (item->kind == ITEM_RANGE &&
            ((item->low > low && item->low <= high) || (item->high >= low && item->high < high)))
            return 0;
    }
    return 1;
}

/* The class of a code point. Beyond all ranges of the pattern it follows from the properties, of
 * which there are few. */
static int class_for(struct compiler *compiler, uint32_t point)
{
    int16_t *known = &compiler->known[unicode_entry(point) & 0x3FFF];
    int class;

    if (point > compiler->highest && *known > 0)
        return *known - 1;
    class = find_class(compiler, sets_of(compiler, point));
    if (point > compiler->highest)
        *known = (int16_t)(class + 1);
    return class;
}

static int make_classes(struct compiler *compiler)
{
    struct regex *regex = compiler->regex;

    for (uint32_t page = 0; page < PAGES; page++) {
        uint8_t classes[256];

        if (is_repeated(compiler, page)) {
            regex->pages[page] = regex->pages[page - 1];
            continue;
        }
        for (uint32_t low = 0; low < 256; low++) {
            int class = class_for(compiler, page << 8 | low);

            if (class < 0)
                return -1;
            classes[low] = (uint8_t) class;
        }
        enter_page(regex, page, classes);
    }
    return 0;
}

static uint8_t class_of(const struct regex *regex, uint32_t point)
{
    return regex->classes[regex->pages[point >> 8]][point & 255];
}

/* Tables by byte. */
static void make_bytes(struct regex *regex)
{
    const uint16_t *start = regex->table + REGEX_START * regex->width;

    regex->invalid = class_of(regex, UNICODE_REPLACEMENT);
    for (unsigned byte = 0; byte < 256; byte++) {
        regex->bytes[byte] = class_of(regex, byte < 0x80 ? byte : UNICODE_REPLACEMENT);
        regex->level[byte] = class_of(regex, byte_level_character((uint8_t)byte));
        regex->starts[byte] = byte >= 0x80 || start[regex->bytes[byte]] != REGEX_DEAD;
    }
}

static int compile(struct compiler *compiler)
{
    int match = add_position(compiler, (struct position){.kind = POSITION_MATCH});
    int start = compile_node(compiler, compiler->tree.root, match);

    for (unsigned i = 0; i < compiler->tree.item_count; i++)
        if (compiler->tree.items[i].kind == ITEM_RANGE &&
            compiler->tree.items[i].high > compiler->highest)
            compiler->highest = compiler->tree.items[i].high;
    if (start < 0 || make_classes(compiler) < 0)
        return -1;
    compiler->regex->width = compiler->class_count + 1;
    if (make_states(compiler, start) < 0)
        return -1;
    make_bytes(compiler->regex);
    return 0;
}

/* Report the unsupported feature; if the pattern is too large, show its beginning. */
static int refuse(const struct compiler *compiler, const char *pattern, size_t length,
                  struct error *err)
{
    const char *what = compiler->refused ? compiler->refused : "so many parts";
    size_t shown = length < SHOWN ? length : SHOWN;

    if (strncmp(what, "so many ", 8) != 0)
        return error_set_code(err, ERROR_USAGE, "%s", what);
    while (shown < length && shown > 0 && ((unsigned char)pattern[shown] & 0xC0) == 0x80)
        shown--;
    return error_set_code(err, ERROR_USAGE, "%s (%.*s%s)", what, (int)shown, pattern,
                          shown < length ? "..." : "");
}

int regex_compile(struct regex *regex, const char *pattern, size_t length, int own,
                  struct error *err)
{
    struct compiler *compiler = xcalloc(1, sizeof(*compiler));
    int rc;

    memset(regex, 0, sizeof(*regex));
    compiler->regex = regex;
    compiler->positions = xcalloc(POSITIONS, sizeof(*compiler->positions));
    compiler->marks = xcalloc(POSITIONS, sizeof(*compiler->marks));
    compiler->members = xcalloc(256, sizeof(*compiler->members));
    compiler->states = xcalloc(STATES, sizeof(*compiler->states));
    regex->pages = xcalloc(PAGES, sizeof(*regex->pages));
    rc = regex_parse(&compiler->tree, pattern, length, own, err);
    if (rc == 0 && compile(compiler) < 0)
        rc = refuse(compiler, pattern, length, err);
    for (unsigned i = 0; i < regex->state_count; i++)
        free(compiler->states[i]);
    free(compiler->positions);
    free(compiler->marks);
    free(compiler->members);
    free(compiler->states);
    free(compiler);
    if (rc < 0)
        regex_clear(regex);
    return rc;
}

void regex_clear(struct regex *regex)
{
    free(regex->pages);
    free(regex->classes);
    free(regex->table);
    memset(regex, 0, sizeof(*regex));
}
