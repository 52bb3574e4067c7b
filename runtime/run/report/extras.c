/* SPDX-License-Identifier: Apache-2.0 */
#include "extras.h"
#include "members.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text of an array such as ["rdmap79s0", {"index":0}, 3]: its elements separated by spaces. */
static char *list_text(struct json_value root, const char *name)
{
    struct json_value list, item, index;
    struct json_iterator at;
    char text[1024] = "", number[32];
    const char *words;
    size_t length;
    int64_t whole;

    if (json_member(root, name, &list) < 0 || json_iterate(list, &at) < 0)
        return member_text(root, name);
    while (json_next(&at, NULL, NULL, &item)) {
        if (json_member(item, "index", &index) == 0)
            item = index;
        if (json_integer(item, &whole) == 0) {
            snprintf(number, sizeof(number), "%lld", (long long)whole);
            words = number;
        } else if (json_string(item, &words, &length) < 0) {
            continue;
        }
        if (strlen(text) + strlen(words) + 2 > sizeof(text))
            break;
        if (text[0])
            strcat(text, " ");
        strcat(text, words);
    }
    return xstrdup(text);
}

static void take_ranks(struct extras *e, struct json_value root)
{
    struct json_value hosts, times, host, time;
    struct json_iterator host_at, time_at;
    size_t rank = 0;
    double ms;

    if (json_member(root, "hosts", &hosts) < 0 || json_member(root, "ms", &times) < 0 ||
        json_iterate(hosts, &host_at) < 0 || json_iterate(times, &time_at) < 0 ||
        json_count(times) > MOST_RANKS)
        return;
    for (size_t count = json_count(times); e->ranks.count < count;)
        *list_add(&e->ranks) = (struct rank_time){0};
    for (; json_next(&host_at, NULL, NULL, &host) && json_next(&time_at, NULL, NULL, &time);
         rank++) {
        struct rank_time *r = &e->ranks.items[rank];
        const char *name;
        size_t length;

        if (json_string(host, &name, &length) < 0 || json_real(time, &ms) < 0)
            continue;
        free(r->host); /* after a restart, a rank may run elsewhere */
        r->host = xstrdup(name);
        r->total += ms;
        r->count++;
    }
}

static void three(struct json_value root, const char *name, float out[3])
{
    struct json_value list, item;
    struct json_iterator at;
    double number;

    out[0] = out[1] = out[2] = NAN;
    if (json_member(root, name, &list) < 0 || json_iterate(list, &at) < 0)
        return;
    for (int i = 0; i < 3 && json_next(&at, NULL, NULL, &item); i++)
        if (json_real(item, &number) == 0)
            out[i] = (float)number;
}

static void take_power(struct extras *e, struct json_value root)
{
    struct power *power;

    if (e->power.count >= MOST_POWER)
        return;
    power = list_add(&e->power);
    power->iteration = member_integer(root, "iteration", -1);
    three(root, "watts", power->watts);
    three(root, "mhz", power->mhz);
    three(root, "celsius", power->celsius);
}

static void clear_place(struct place *p)
{
    free(p->host), free(p->task), free(p->gpus), free(p->nics), free(p->cpus);
}

static bool same_place(const struct place *a, const struct place *b)
{
    if (a->rank >= 0 || b->rank >= 0)
        return a->rank == b->rank;
    return strcmp(a->task, b->task) == 0 && strcmp(a->host, b->host) == 0;
}

/* Where a task is in the list: after a restart, a rank may run elsewhere. Only tasks that a page
 * shows are looked for. */
static size_t find_place(const struct extras *e, const struct place *place)
{
    enum { SHOWN = 1024 };
    size_t i = 0;

    while (i < e->places.count && i < SHOWN && !same_place(&e->places.items[i], place))
        i++;
    return i < SHOWN ? i : e->places.count;
}

/* The last placement of each task counts. */
static void take_placement(struct extras *e, struct json_value root)
{
    struct json_value tasks, task;
    struct json_iterator at;

    if (json_member(root, "tasks", &tasks) < 0 || json_iterate(tasks, &at) < 0)
        return;
    while (json_next(&at, NULL, NULL, &task) && e->places.count < MOST_PLACES) {
        struct place place = {
            .host = member_text(root, "host"),
            .task = member_text(task, "task"),
            .gpus = list_text(task, "gpus"),
            .nics = list_text(task, "nics"),
            .cpus = member_text(task, "cpus"),
            .rank = member_integer(task, "rank", -1),
        };
        size_t index = find_place(e, &place);

        if (index < e->places.count)
            clear_place(&e->places.items[index]);
        else
            list_add(&e->places);
        e->places.items[index] = place;
    }
}

static void take_check(struct extras *e, struct json_value root)
{
    if (e->checks.count >= MOST_CHECKS)
        return;
    *list_add(&e->checks) = (struct check){
        .host = member_text(root, "host"),
        .name = member_text(root, "check"),
        .verdict = member_text(root, "verdict"),
        .value = member_text(root, "value"),
        .expected = member_text(root, "expected"),
        .advice = member_text(root, "advice"),
    };
}

static void take_plan(struct extras *e, struct json_value root)
{
    free(e->plan_layout);
    e->plan_layout = member_text(root, "layout");
    e->plan_step = member_real(root, "step_s");
    e->plan_tflops = member_real(root, "tflops");
    e->plan_tokens = member_real(root, "tokens_per_s");
    e->plan_memory = member_real(root, "memory_gib");
}

void extras_take(struct extras *e, const char *kind, struct json_value root)
{
    static const struct {
        const char *kind;
        void (*take)(struct extras *e, struct json_value root);
    } kinds[] = {
        {"ranks", take_ranks},     {"power", take_power}, {"placement", take_placement},
        {"preflight", take_check}, {"plan", take_plan},
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].kind, kind) == 0)
            kinds[i].take(e, root);
}

void extras_clear(struct extras *e)
{
    for (size_t i = 0; i < e->ranks.count; i++)
        free(e->ranks.items[i].host);
    for (size_t i = 0; i < e->places.count; i++)
        clear_place(&e->places.items[i]);
    for (size_t i = 0; i < e->checks.count; i++) {
        struct check *c = &e->checks.items[i];

        free(c->host), free(c->name), free(c->verdict);
        free(c->value), free(c->expected), free(c->advice);
    }
    list_free(&e->ranks);
    list_free(&e->power);
    list_free(&e->places);
    list_free(&e->checks);
    free(e->plan_layout);
    memset(e, 0, sizeof(*e));
}
