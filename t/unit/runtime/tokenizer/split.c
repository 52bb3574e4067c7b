/* Cutting texts into words: every engine against a plain reading of the regular expression,
 * character by character, on random texts of the classes that matter. */
#include "tap.h"
#include "split.h"
#include "unicode.h"

#include <stdlib.h>

static uint64_t state = 88172645463325252u;

static unsigned draw(unsigned limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % limit;
}

static enum unicode_class class_at(const uint8_t *text, size_t length, size_t at, size_t *size)
{
    uint32_t point;

    *size = utf8_decode(text + at, text + length, &point);
    return point == UNICODE_INVALID ? UNICODE_OTHER : unicode_class(point);
}

/* The end of the word that begins at 'at', by GPT-2's alternatives in their order. */
static size_t gpt2_word(const uint8_t *text, size_t length, size_t at)
{
    static const char *const contractions[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    size_t size, begin = at, last = at;
    enum unicode_class class;

    for (size_t i = 0; i < sizeof(contractions) / sizeof(contractions[0]); i++) {
        size = strlen(contractions[i]);
        if (length - at >= size && memcmp(text + at, contractions[i], size) == 0)
            return at + size;
    }
    if (text[at] == ' ' && at + 1 < length &&
        class_at(text, length, at + 1, &size) != UNICODE_SPACE)
        at++;
    class = class_at(text, length, at, &size);
    while (at < length && class_at(text, length, at, &size) == class) {
        last = at;
        at += size;
    }
    if (class == UNICODE_SPACE && at < length && last > begin)
        return last;
    return at;
}

static size_t draw_text(uint8_t *text, size_t most)
{
    static const char *const parts[] = {
        " ",
        "  ",
        "\n",
        "\t",
        "'",
        "'s",
        "'re",
        "'ll",
        "'t",
        "a",
        "bc",
        "Z",
        "0",
        "19",
        ".",
        ",",
        "-",
        "\xC2\xA0",
        "\xE3\x80\x80",
        "\xE2\x80\xA8",
        "\xC3\xA9",
        "\xE4\xBD\xA0",
        "\xD9\xA1",
        "\xF0\x9F\x98\x80",
        "\xCC\x81",
        "\xFF",
        "\xE2\x80",
        "\x80",
        "\xC2\x85",
        "    ",
        "abcdefghijklmnopqrstuvwxyz",
        "\xD0\xB4\xD0\xB0",
    };
    size_t length = 0, wanted = 1 + draw((unsigned)most - 40);
    unsigned first = draw(28), kinds = 1 + draw(sizeof(parts) / sizeof(parts[0]) - first);

    while (length < wanted) {
        const char *part = parts[first + draw(kinds)];

        memcpy(text + length, part, strlen(part));
        length += strlen(part);
    }
    return length;
}

static int agrees(struct splitter *splitter, const uint8_t *text, size_t length)
{
    size_t begin = 0;

    split_begin(splitter, text, length);
    while (split_next(splitter))
        for (size_t i = 0; i < splitter->count; i++) {
            size_t expected = gpt2_word(text, length, begin);

            if (splitter->base + splitter->ends[i] != expected) {
                diag("the word at %zu of %zu ends at %zu, not at %zu", begin, length, expected,
                     splitter->base + splitter->ends[i]);
                return 0;
            }
            begin = expected;
        }
    return begin == length;
}

static void test_gpt2(const struct split_engine *engine)
{
    static struct splitter splitter;
    int good = 1;

    memset(&splitter, 0, sizeof(splitter));
    splitter.engine = engine;
    splitter.options.rule = SPLIT_GPT2;
    for (int i = 0; i < 4000 && good; i++) {
        size_t most = draw(20) == 0 ? 20000 : draw(2) ? 300 : 60, length;
        uint8_t *text = malloc(most);
        uint8_t *exact;

        length = draw_text(text, most);
        /* On the heap and of the exact size, so that a sanitizer sees a step too far. */
        exact = malloc(length);
        memcpy(exact, text, length);
        good = agrees(&splitter, exact, length);
        free(exact);
        free(text);
    }
    ok(good, "GPT-2's words by %s", engine->name);
}

/* Cuts: the ends are where the table says. */
static void test_cuts(void)
{
    static struct splitter splitter;
    static uint8_t cuts[65536];
    int good = 1;

    memset(&splitter, 0, sizeof(splitter));
    for (size_t i = 0; i < sizeof(cuts); i++)
        cuts[i] = draw(4) == 0 ? SPLIT_HERE : draw(4) == 0 ? SPLIT_SPACES : 0;
    splitter.options.rule = SPLIT_CUTS;
    splitter.cuts = cuts;
    for (int i = 0; i < 300; i++) {
        size_t length = 1 + draw(9000), at = 0;
        uint8_t *text = malloc(length);

        for (size_t k = 0; k < length; k++)
            text[k] = (uint8_t)draw(256);
        split_begin(&splitter, text, length);
        while (split_next(&splitter))
            for (size_t k = 0; k < splitter.count; k++) {
                uint16_t pair = 0;

                for (at++; at < length; at++) {
                    uint16_t behind = 0;

                    pair = (uint16_t)(text[at - 1] | text[at] << 8);
                    if (at + 1 < length)
                        behind = (uint16_t)(text[at] | text[at + 1] << 8);
                    if (cuts[pair] == SPLIT_HERE ||
                        (cuts[pair] == SPLIT_SPACES && at + 1 < length && cuts[behind] == 0))
                        break;
                }
                good &= splitter.base + splitter.ends[k] == at;
            }
        good &= at == length;
        free(text);
    }
    ok(good, "cuts by pairs of bytes");
}

int main(void)
{
    test_gpt2(&split_plain);
    test_gpt2(split_best_engine());
    test_cuts();
    return done_testing();
}
