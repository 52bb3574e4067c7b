/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a network's properties, and what follows from it. */
#include "network.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TYPE_OF(member)                            \
    _Generic(((struct network *)0)->member, double \
             : PROPERTY_REAL, int64_t              \
             : PROPERTY_SIZE, default              \
             : PROPERTY_INT)
#define PART(member_, name_, ...)                 \
    {.name = (name_),                             \
     .type = TYPE_OF(member_),                    \
     .offset = offsetof(struct network, member_), \
     __VA_ARGS__},
#define PROPERTY(type_, member_, ...) PART(member_, __VA_ARGS__)

const struct network_property network_properties[] = {
#include "network_fields.def"
    {0},
};

double network_value(const struct network *network, const struct network_property *p)
{
    const char *at = (const char *)network + p->offset;

    return p->type == PROPERTY_REAL   ? *(const double *)at
           : p->type == PROPERTY_SIZE ? (double)*(const int64_t *)at
                                      : *(const int *)at;
}

void network_set(struct network *network, const struct network_property *p, double value)
{
    char *at = (char *)network + p->offset;

    if (p->type == PROPERTY_REAL)
        *(double *)at = value;
    else if (p->type == PROPERTY_SIZE)
        *(int64_t *)at = (int64_t)value;
    else
        *(int *)at = (int)value;
}

void network_default(struct network *network)
{
    memset(network, 0, sizeof(*network));
    for (const struct network_property *p = network_properties; p->name; p++)
        network_set(network, p, p->fallback);
}

const char *network_option(const struct network_property *p)
{
    return p->option ? p->option : p->name;
}

static int is_set(const struct network *network, const struct network_property *p)
{
    return network_value(network, p) != p->fallback;
}

/* The first property in 'names', separated by |, that is set (or not); NULL: none. */
static const struct network_property *find(const struct network *network, const char *names,
                                           int set)
{
    for (size_t length; *names; names += length + (names[length] == '|')) {
        length = strcspn(names, "|");
        for (const struct network_property *p = network_properties; p->name; p++)
            if (strncmp(p->name, names, length) == 0 && p->name[length] == '\0' &&
                is_set(network, p) == set)
                return p;
    }
    return NULL;
}

static int check_range(const struct network *network, const struct network_property *p,
                       struct error *err)
{
    double most = p->most > 0                ? p->most
                  : p->type == PROPERTY_REAL ? INFINITY
                  : p->type == PROPERTY_SIZE ? INT32_MAX
                                             : 1;
    double value = network_value(network, p);

    if (value >= 0 && value <= most && !isinf(value))
        return 0;
    if (value < 0)
        return error_set(err, "--%s=%g must not be negative", network_option(p), value);
    return error_set(err, "--%s=%g is out of range; use at most %g", network_option(p), value,
                     most);
}

int network_check(const struct network *network, struct error *err)
{
    const struct network_property *other;

    for (const struct network_property *p = network_properties; p->name; p++) {
        if (check_range(network, p, err) < 0)
            return -1;
        if (!is_set(network, p))
            continue;
        if (p->needs && (other = find(network, p->needs, 0)))
            return error_set(err, "--%s requires --%s; add it", network_option(p),
                             network_option(other));
        if (p->refuses && (other = find(network, p->refuses, 1)))
            return error_set(err, "--%s and --%s cannot be used together; drop one",
                             network_option(p), network_option(other));
    }
    return 0;
}

int network_describe(const struct network *network, const struct network_property *p, char *text,
                     size_t size)
{
    double value = network_value(network, p);
    const char *words = p->words;

    if (!words || !is_set(network, p))
        return 0;
    if (strchr(words, '|')) { /* one for each value */
        for (int i = 0; i < (int)value && *words; i++)
            words += strcspn(words, "|") + (words[strcspn(words, "|")] == '|');
        snprintf(text, size, "%.*s", (int)strcspn(words, "|"), words);
    } else if (p->type == PROPERTY_SIZE) {
        snprintf(text, size, words, (long long)value);
    } else {
        snprintf(text, size, words, value);
    }
    return text[0] != '\0';
}
