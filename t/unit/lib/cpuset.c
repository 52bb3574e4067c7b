/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/cpuset.h"
#include "tap.h"

static const struct {
    const char *text;
    const char *expected; /* NULL: rejected */
    int count;
} lists[] = {
    {"", "", 0},
    {"0", "0", 1},
    {"0-3", "0-3", 4},
    {"0-11,96-107", "0-11,96-107", 24},
    {"3,1,2", "1-3", 3},
    {"0-10:2", "0,2,4,6,8,10", 6},
    {"5-5", "5", 1},
    {"63,64,65", "63-65", 3},
    {"8191", "8191", 1},
    {"1,1,1", "1", 1},
    {"8192", NULL, 0},
    {"0-8192", NULL, 0},
    {"3-1", NULL, 0},
    {"-1", NULL, 0},
    {"1-", NULL, 0},
    {"1,", NULL, 0},
    {",1", NULL, 0},
    {"1,,2", NULL, 0},
    {"1 2", NULL, 0},
    {" 1", NULL, 0},
    {"a", NULL, 0},
    {"0x3", NULL, 0},
    {"0-4:0", NULL, 0},
    {"0-4:", NULL, 0},
    {"99999999999999999999", NULL, 0},
};

static void test_lists(void)
{
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct cpuset set;
        struct error err = {.text = ""};
        char text[64];
        int rc = cpuset_parse("--cpus", lists[i].text, &set, &err);

        if (!lists[i].expected) {
            ok(rc < 0 && strstr(err.text, "--cpus="), "\"%s\" is rejected", lists[i].text);
            continue;
        }
        cpuset_format(&set, text, sizeof(text));
        ok(rc == 0 && strcmp(text, lists[i].expected) == 0, "\"%s\" is \"%s\"", lists[i].text,
           lists[i].expected);
        is_int(cpuset_count(&set), lists[i].count, "and has as many CPUs");
    }
}

static void test_sets(void)
{
    struct cpuset a, b, c;
    char text[8];

    cpuset_parse("a", "0-7", &a, NULL);
    cpuset_parse("b", "4-11,200", &b, NULL);
    c = a;
    cpuset_unite(&c, &b);
    is_int(cpuset_count(&c), 13, "unite");
    ok(cpuset_within(&a, &c) && cpuset_within(&b, &c) && !cpuset_within(&c, &a), "within");
    c = a;
    cpuset_intersect(&c, &b);
    is_int(cpuset_count(&c), 4, "intersect");
    ok(cpuset_overlap(&a, &b), "overlap");
    cpuset_subtract(&c, &b);
    ok(cpuset_is_empty(&c) && !cpuset_overlap(&a, &c), "subtract to nothing");
    is_int(cpuset_next(&b, 11), 200, "next over a gap");
    is_int(cpuset_next(&b, 200), -1, "next behind the last");
    is_int(cpuset_next(&b, 8191), -1, "next behind all");
    is_int((long long)cpuset_format(&b, text, sizeof(text)), 8, "the length of a list that is cut");
    is(text, "4-11,20", "a list that is cut");
    cpuset_add(&c, -1);
    cpuset_add(&c, CPUSET_MAX);
    ok(cpuset_is_empty(&c) && !cpuset_has(&c, -1) && !cpuset_has(&c, CPUSET_MAX),
       "numbers that no CPU has");
}

static void test_thread(void)
{
    struct cpuset before, one, after, none;
    struct error err = {.text = ""};

    ok(cpuset_of_thread(&before, &err) == 0 && !cpuset_is_empty(&before), "affinity is read");
    cpuset_clear(&one);
    cpuset_add(&one, cpuset_next(&before, -1));
    ok(cpuset_bind_thread(&one, &err) == 0 && cpuset_of_thread(&after, &err) == 0 &&
           cpuset_equal(&one, &after),
       "affinity is set");
    ok(cpuset_bind_thread(&before, &err) == 0, "and set back");
    cpuset_clear(&none);
    ok(cpuset_bind_thread(&none, &err) < 0 && strstr(err.text, "cannot bind"), "not to nothing");
}

int main(void)
{
    test_lists();
    test_sets();
    test_thread();
    return done_testing();
}
