/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"
#include "base/core/option_rows.h"

#include <stdlib.h>

struct target {
    int flag, dash, choice;
    int64_t number;
    double real;
    const char *text;
    struct option_list list;
};

#define AT(field) offsetof(struct target, field)
static const struct option table[] = {
    HEADING("Group"),
    FLAG("flag", flag, "a flag"),
    UNFLAG("no-dash", dash, "clear dash"),
    RANGE("number", number, 1, 100, "a number"),
    BYTES("bytes", number, "SIZE", 4, 1 << 20, "a size"),
    REAL("learning-rate", real, "a real"),
    TEXT("opt_param", text, "TEXT", "a text"),
    TEXT("save", text, "DIR", "a directory"),
    CHOICE("style", choice, "linear|cosine|constant", "a choice"),
    VALUES("data-path", list, "PATH...", "a list"),
    OPTION_ROW("layers", OPTION_LAYERS, AT(number), "N|LIST", "layers"),
    TEXTS("prompt", list, "TEXT", "one of several"),
    IGNORED("use-flash-attn", "kernels are chosen"),
    IGNORED("wandb-*", "logs are files"),
    SHORT("n", "number"),
    ALIAS("count", "number"),
    RENAMED("batch-size", "micro-batch-size"),
    {0},
};

/* Columns besides name, type and range. */
static const struct option rules[] = {
    FLAG("on", flag, "a flag with a default", .fallback = 1),
    UNFLAG("off", flag, "its opposite"),
    UNFLAG("no-dash", dash, "clear dash"),
    RANGE("number", number, 1, 100, "a size without a default", .needs = "save|style=cosine"),
    REAL("share", real, "a share", .fallback = 0.25, .range = REAL_BELOW_1,
         .refuses = "number|style=constant"),
    CHOICE("style", choice, "linear|cosine|constant", "a choice", .fallback = 1, .idle = "on"),
    TEXT("save", text, "DIR", "a directory", .otherwise = "none", .idle = "style=cosine"),
    {0},
};

static struct target target;
static struct options_result result;
static struct error err;

static int parse(const char *const *argv)
{
    int argc = 0;

    free(target.list.items);
    options_result_clear(&result);
    memset(&target, 0, sizeof(target));
    target.dash = 1;
    err = (struct error){.text = ""};
    while (argv[argc])
        argc++;
    return options_parse(table, &target, argc, argv, &result, &err);
}
#define PARSE(...) parse((const char *const[]){__VA_ARGS__, NULL})

static void test_layers(void)
{
    static const struct {
        const char *text, *chosen; /* of eight layers; NULL: an error */
    } rows[] = {
        {"4", "00010001"},
        {"1", "11111111"},
        {"([0]*3+[1])*2", "00010001"},
        {"[0, 1, 1, 0]", "01100110"},
        {"([0]*3+[1]*1)*3", "00010001"},
        {"[0]*8", "00000000"},
        {"[0]*7+[1]", "00000001"},
        {"[1]", "11111111"},
        {"((([0]+[1])*2)+[1,1])", "01011101"},
        {"0", NULL},
        {"-1", NULL},
        {"48", NULL},
        {"4x", NULL},
        {"[2]", NULL},
        {"[0,1", NULL},
        {"([0]", NULL},
        {"[0]*0", NULL},
        {"[0]*9999999", NULL},
        {"", NULL},
        {"[0]*50+[1]", NULL},
        {"[0]+", NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char chosen[9] = "";
        int rc = PARSE("--layers", rows[i].text);

        for (int layer = 0; layer < 8; layer++)
            chosen[layer] = option_has_layer(target.number, layer) ? '1' : '0';
        if (rows[i].chosen)
            is(rc == 0 ? chosen : err.text, rows[i].chosen, rows[i].text);
        else
            ok(rc < 0, rows[i].text[0] ? rows[i].text : "no layers");
    }
}

static void test_values(void)
{
    ok(PARSE("--flag", "--number", "7", "--learning-rate=1.5e-4", "--no-dash", "word") == 0,
       "parses");
    ok(target.flag == 1 && target.dash == 0 && target.number == 7, "flags and a number");
    ok(target.real == 1.5e-4, "a real number");
    ok(result.word_count == 1 && strcmp(result.words[0], "word") == 0, "a word");
    ok(options_given(&result, "number") && !options_given(&result, "style"), "what was given");
    ok(PARSE("--opt-param=a=b", "--style", "cosine") == 0, "dash for underscore");
    is(target.text, "a=b", "text keeps its equals sign");
    is_int(target.choice, 1, "choice");
    ok(PARSE("--opt-param", "") == 0 && target.text && !target.text[0], "a text may be empty");
    ok(PARSE("--bytes", "64k") == 0 && target.number == 65536, "a size");
    ok(PARSE("--number", "1", "--number", "2") == 0 && target.number == 2, "the last one wins");
    ok(PARSE("--data-path", "0.3", "a", "0.7", "b", "--flag") == 0, "list");
    ok(target.list.count == 4 && strcmp(target.list.items[3], "b") == 0 && target.flag,
       "a list ends at the next option");
    ok(PARSE("--prompt", "--a", "--flag", "--prompt=b") == 0 && target.list.count == 2 &&
           strcmp(target.list.items[0], "--a") == 0 && strcmp(target.list.items[1], "b") == 0,
       "one word each time");
    ok(PARSE("--use-flash-attn", "--number", "3") == 0 && result.ignored_count == 1, "ignored");
    ok(PARSE("--wandb-project", "x", "--wandb_entity=y", "--flag") == 0 &&
           result.ignored_count == 2 && target.flag,
       "all names that match a pattern are ignored, with _ for - too");
    ok(PARSE("-n", "3") == 0 && target.number == 3, "a short name");
    ok(PARSE("--count", "4") == 0 && target.number == 4 && options_given(&result, "number") &&
           options_given(&result, "count"),
       "an alias");
    ok(PARSE("--", "--flag") == 0 && result.word_count == 1 && !target.flag, "words after --");
    ok(PARSE("--help", "--nonsense") == 0 && result.help, "help ends the reading");
}

static void test_errors(void)
{
    static const struct {
        const char *argv[3], *text;
    } rows[] = {
        {{"--numbr", "1"}, "unknown option --numbr; did you mean --number?"},
        {{"--xyzzy"}, "unknown option --xyzzy; --help lists all"},
        {{"--number", "7x"}, "--number=7x is not a whole number; write digits only, as in 16"},
        {{"--number", "101"}, "--number=101 is out of range; use 1 to 100"},
        {{"--number", "99999999999999999999"},
         "--number=99999999999999999999 is out of range; use 1 to 100"},
        {{"--bytes", "2M"}, "--bytes=2M is out of range; use 4 to 1048576"},
        {{"--bytes", "2X"}, "--bytes=2X is not a size such as 500G, 1.5GB or 64MiB"},
        {{"--number"}, "--number needs a value; write it after the option"},
        {{"--learning-rate", "fast"},
         "--learning-rate=fast is not a number; write it like 0.1 or 1e-4"},
        {{"--learning-rate", "nan"},
         "--learning-rate=nan is not a number; write it like 0.1 or 1e-4"},
        {{"--style", "square"}, "--style=square is unknown; use linear|cosine|constant"},
        {{"--flag=1"}, "--flag takes no value; drop the = and what follows it"},
        {{"--data-path", "--flag"}, "--data-path needs a value; write it after the option"},
        {{"--batch-size", "4"}, "--batch-size was renamed; use --micro-batch-size"},
        {{"--save", ""}, "--save is empty; give a path, or drop it"},
        {{"--save="}, "--save is empty; give a path, or drop it"},
        {{"-m"}, "unknown option -m; options begin with two dashes"},
        {{"--n", "3"}, "unknown option --n; --help lists all"},
        {{"-n"}, "--number needs a value; write it after the option"},
        {{"--wandb"}, "unknown option --wandb; --help lists all"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ok(parse(rows[i].argv) == -1, "%s is rejected", rows[i].argv[0]);
        is(err.text, rows[i].text, "with the sentence");
        is_int(err.code, ERROR_USAGE, "as a usage error");
    }
}

/* Words that are passed on. */
static void test_words(void)
{
    static const struct {
        const char *word, *after;
    } rows[] = {
        {"--load-hf", ""},    {"--load_hf", ""}, {"--load_hf=a_b", "=a_b"}, {"--load-hf=", "="},
        {"--load-hfs", NULL}, {"--load", NULL},  {"__load_hf", NULL},       {"load-hf", NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *after = option_after(rows[i].word, "--load-hf");

        is(after ? after : "(another)", rows[i].after ? rows[i].after : "(another)", rows[i].word);
    }
}

static void test_defaults(void)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    memset(&target, 0, sizeof(target));
    options_default(rules, &target);
    is_int(target.flag, 1, "the first of two options for a value has the default");
    is_int(target.dash, 1, "a --no-... option is on by default");
    is_int(target.number, OPTION_NOT_GIVEN, "a size without a default is not given");
    ok(target.real == 0.25 && target.choice == 1, "numbers and choices");
    options_print(rules, &target, stream);
    fclose(stream);
    ok(strstr(text, "a share (default: 0.25)") && strstr(text, "a choice (default: cosine)") &&
           strstr(text, "a directory (default: none)") && strstr(text, "without a default\n"),
       "--help has the defaults");
    free(text);
}

/* Options that need or refuse others: "" if the command line is accepted. */
static void test_rules(void)
{
    static const struct {
        const char *argv[8], *text;
    } rows[] = {
        {{"--number", "3", "--save", "x"}, ""},
        {{"--number", "3"}, ""}, /* the default of --style is cosine */
        {{"--number", "3", "--off"}, "--number requires --save; add it, or drop --number"},
        {{"--number", "3", "--style", "linear"},
         "--number requires --save; add it, or drop --number"},
        {{"--share", "0"}, ""},
        {{"--share", "1"}, "--share=1 must be at least 0 and less than 1"},
        {{"--number", "1", "--share", "0"},
         "--share and --number cannot be used together; drop one"},
        {{"--style", "constant", "--share", "0"},
         "--share and --style constant cannot be used together; drop one"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int argc = 0, rc;

        while (rows[i].argv[argc])
            argc++;
        options_result_clear(&result);
        memset(&target, 0, sizeof(target));
        options_default(rules, &target);
        err.text[0] = '\0';
        rc = options_parse(rules, &target, argc, rows[i].argv, &result, &err);
        if (rc == 0)
            rc = options_check(&result, &target, &err);
        is(rc < 0 ? err.text : "", rows[i].text, rows[i].text[0] ? rows[i].text : "accepted");
    }
    ok(options_preset(&result, &target, "share=0.5|style=linear|off|number=7|save=a", &err) == 0,
       "a preset");
    ok(target.real == 0 && target.choice == 2, "given options keep their values");
    ok(target.flag == 0 && target.number == 7, "others get those of the preset");
    is(target.text, "a", "a text comes last");
}

int main(void)
{
    test_layers();
    test_values();
    test_words();
    test_errors();
    test_defaults();
    test_rules();
    free(target.list.items);
    options_result_clear(&result);
    return done_testing();
}
