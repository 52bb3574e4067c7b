/* SPDX-License-Identifier: Apache-2.0 */
#include "extras.h"
#include "members.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int no_memory(struct error *err)
{
    return error_set(err, "out of memory");
}

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
    return strdup(text);
}

static int take_ranks(struct extras *e, struct json_value root, struct error *err)
{
    struct json_value hosts, times, host, time;
    struct json_iterator host_at, time_at;
    struct rank_time *ranks;
    size_t count, rank = 0;
    double ms;

    if (json_member(root, "hosts", &hosts) < 0 || json_member(root, "ms", &times) < 0 ||
        json_iterate(hosts, &host_at) < 0 || json_iterate(times, &time_at) < 0)
        return 1;
    count = json_count(times);
    if (count > MOST_RANKS)
        return 1;
    if (count > e->rank_count) {
        ranks = reallocarray(e->ranks, count, sizeof(*ranks));
        if (!ranks)
            return no_memory(err);
        memset(ranks + e->rank_count, 0, (count - e->rank_count) * sizeof(*ranks));
        e->ranks = ranks;
        e->rank_count = count;
    }
    for (; json_next(&host_at, NULL, NULL, &host) && json_next(&time_at, NULL, NULL, &time);
         rank++) {
        const char *name;
        size_t length;

        if (json_string(host, &name, &length) < 0 || json_real(time, &ms) < 0)
            continue;
        free(e->ranks[rank].host); /* after a restart, a rank may run elsewhere */
        e->ranks[rank].host = strdup(name);
        if (!e->ranks[rank].host)
            return no_memory(err);
        e->ranks[rank].total += ms;
        e->ranks[rank].count++;
    }
    return 1;
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

/* Room for one more element; it doubles whenever the count is a power of two. */
static void *room(void *items, size_t count, size_t size)
{
    return (count & (count - 1)) == 0 ? reallocarray(items, count ? 2 * count : 1, size) : items;
}

static int take_power(struct extras *e, struct json_value root, struct error *err)
{
    struct power *power;

    if (e->power_count >= MOST_POWER)
        return 1;
    power = room(e->power, e->power_count, sizeof(*power));
    if (!power)
        return no_memory(err);
    e->power = power;
    power += e->power_count++;
    power->iteration = member_integer(root, "iteration", -1);
    three(root, "watts", power->watts);
    three(root, "mhz", power->mhz);
    three(root, "celsius", power->celsius);
    return 1;
}

static void clear_place(struct place *p)
{
    free(p->host), free(p->task), free(p->gpus), free(p->nics), free(p->cpus);
}

static int same_place(const struct place *a, const struct place *b)
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

    while (i < e->place_count && i < SHOWN && !same_place(&e->places[i], place))
        i++;
    return i < SHOWN ? i : e->place_count;
}

/* The last placement of each task counts. */
static int add_place(struct extras *e, const struct place *place, struct error *err)
{
    struct place *places;
    size_t at;

    if (!place->task || !place->host)
        return no_memory(err);
    at = find_place(e, place);
    if (at < e->place_count) {
        clear_place(&e->places[at]);
        e->places[at] = *place;
        return 0;
    }
    places = room(e->places, e->place_count, sizeof(*places));
    if (!places)
        return no_memory(err);
    e->places = places;
    e->places[e->place_count++] = *place;
    return 0;
}

static int take_placement(struct extras *e, struct json_value root, struct error *err)
{
    struct json_value tasks, task;
    struct json_iterator at;

    if (json_member(root, "tasks", &tasks) < 0 || json_iterate(tasks, &at) < 0)
        return 1;
    while (json_next(&at, NULL, NULL, &task) && e->place_count < MOST_PLACES) {
        struct place place = {
            .host = member_text(root, "host"),
            .task = member_text(task, "task"),
            .gpus = list_text(task, "gpus"),
            .nics = list_text(task, "nics"),
            .cpus = member_text(task, "cpus"),
            .rank = member_integer(task, "rank", -1),
        };

        if (add_place(e, &place, err) < 0) {
            clear_place(&place);
            return -1;
        }
    }
    return 1;
}

static int take_check(struct extras *e, struct json_value root, struct error *err)
{
    struct check *checks;

    if (e->check_count >= MOST_CHECKS)
        return 1;
    checks = room(e->checks, e->check_count, sizeof(*checks));
    if (!checks)
        return no_memory(err);
    e->checks = checks;
    e->checks[e->check_count++] = (struct check){
        .host = member_text(root, "host"),
        .name = member_text(root, "check"),
        .verdict = member_text(root, "verdict"),
        .value = member_text(root, "value"),
        .expected = member_text(root, "expected"),
        .advice = member_text(root, "advice"),
    };
    return 1;
}

static int take_plan(struct extras *e, struct json_value root, struct error *err)
{
    free(e->plan_layout);
    e->plan_layout = member_text(root, "layout");
    if (!e->plan_layout)
        return no_memory(err);
    e->plan_step = member_real(root, "step_s");
    e->plan_tflops = member_real(root, "tflops");
    e->plan_tokens = member_real(root, "tokens_per_s");
    e->plan_memory = member_real(root, "memory_gib");
    return 1;
}

int extras_take(struct extras *e, const char *kind, struct json_value root, struct error *err)
{
    static const struct {
        const char *kind;
        int (*take)(struct extras *e, struct json_value root, struct error *err);
    } kinds[] = {
        {"ranks", take_ranks},     {"power", take_power}, {"placement", take_placement},
        {"preflight", take_check}, {"plan", take_plan},
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].kind, kind) == 0)
            return kinds[i].take(e, root, err);
    return 0;
}

void extras_clear(struct extras *e)
{
    for (size_t i = 0; i < e->rank_count; i++)
        free(e->ranks[i].host);
    for (size_t i = 0; i < e->place_count; i++)
        clear_place(&e->places[i]);
    for (size_t i = 0; i < e->check_count; i++) {
        struct check *c = &e->checks[i];

        free(c->host), free(c->name), free(c->verdict);
        free(c->value), free(c->expected), free(c->advice);
    }
    free(e->ranks);
    free(e->power);
    free(e->places);
    free(e->checks);
    free(e->plan_layout);
    memset(e, 0, sizeof(*e));
}
