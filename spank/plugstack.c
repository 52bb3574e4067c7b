/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's arguments in plugstack.conf: one table, and one function for each kind of value. */
#include "settings.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/nearest.h"
#include "lib/parse.h"

static const struct {
    const char *name;
    unsigned part;
} part_table[] = {
    {"bind", PART_BIND},     {"memory", PART_MEMORY},         {"nics", PART_NICS},
    {"checks", PART_CHECKS}, {"rendezvous", PART_RENDEZVOUS}, {"discovery", PART_DISCOVERY},
    {"all", PART_ALL},
};

/* An argument as given: the whole text, and its value or NULL. */
struct given {
    const char *text, *value;
};

/* Only the first error is reported. */
static void reject(struct config *config, const struct given *given, const char *why)
{
    if (config->bad)
        return;
    config->bad = true;
    error_set(&config->error, "plugstack.conf: argument '%.100s' %s", given->text, why);
}

/* --- kinds of values. 'target' is the field of struct config ---------------------------------- */

static void read_text(struct config *config, const struct given *given, void *target)
{
    char **text = target;

    if (!given->value) {
        reject(config, given, "needs a value: use NAME=VALUE");
        return;
    }
    free(*text);
    *text = strdup(given->value);
}

static void read_path(struct config *config, const struct given *given, void *target)
{
    if (given->value && given->value[0] == '/')
        read_text(config, given, target);
    else
        reject(config, given, "needs an absolute path; begin it with /");
}

static void read_device(struct config *config, const struct given *given, void *target)
{
    if (given->value && (given->value[0] == '/' || strcmp(given->value, "none") == 0))
        read_text(config, given, target);
    else
        reject(config, given, "is not the path of a device; use one such as /dev/fuse, or none");
}

static void read_switch(struct config *config, const struct given *given, void *target)
{
    if (settings_switch(given->value, target))
        reject(config, given, "is invalid; use yes or no");
}

static void read_user(struct config *config, const struct given *given, void *target)
{
    const struct passwd *user = given->value ? getpwnam(given->value) : NULL;
    uid_t *uid = target;
    int64_t number;

    if (user)
        *uid = user->pw_uid;
    else if (given->value && parse_int64("", given->value, 0, UINT32_MAX - 1, &number, NULL) == 0)
        *uid = (uid_t)number;
    else
        reject(config, given,
               "names a user that does not exist on this host; use a user name or a number");
}

/* "500G", "1.5T" */
static void read_size(struct config *config, const struct given *given, void *target)
{
    if (!given->value || parse_size("", given->value, 1000, 1, INT64_MAX, target, NULL))
        reject(config, given, "is not a size such as 500G or 1.5T");
}

static void read_off(struct config *config, const struct given *given, void *target)
{
    char copy[256], *word, *rest = copy;
    unsigned *off = target;

    if (!given->value) {
        *off |= PART_ALL;
        return;
    }
    if (snprintf(copy, sizeof(copy), "%s", given->value) >= (int)sizeof(copy)) {
        reject(config, given, "is too long; use off=all to switch all parts off");
        return;
    }
    while ((word = strsep(&rest, ","))) {
        size_t i = 0, count = sizeof(part_table) / sizeof(part_table[0]);

        while (i < count && strcmp(part_table[i].name, word) != 0)
            i++;
        if (i < count)
            *off |= part_table[i].part;
        else
            reject(config, given,
                   "is not a part of the plugin; use "
                   "off=bind,memory,nics,rendezvous,checks,discovery or all");
    }
}

static void read_ports(struct config *config, const struct given *given, void *target)
{
    const char *dash = given->value ? strchr(given->value, '-') : NULL;
    struct port_range *ports = target;
    int64_t low, high;
    char first[16];

    if (!dash || (size_t)(dash - given->value) >= sizeof(first)) {
        reject(config, given, "is not a range of ports; use ports=LOW-HIGH");
        return;
    }
    snprintf(first, sizeof(first), "%.*s", (int)(dash - given->value), given->value);
    if (parse_int64("", first, 1024, 65535, &low, NULL) ||
        parse_int64("", dash + 1, 1024, 65535, &high, NULL) || high - low < 63) {
        reject(config, given,
               "is not a range of 64 or more ports between 1024 and 65535; use ports=LOW-HIGH");
        return;
    }
    ports->low = low;
    ports->high = high;
}

static void read_preflight_failure(struct config *config, const struct given *given, void *target)
{
    enum preflight_failure *failure = target;

    if (given->value && strcmp(given->value, "report") == 0)
        *failure = PREFLIGHT_REPORT;
    else if (given->value && strcmp(given->value, "fail") == 0)
        *failure = PREFLIGHT_FAIL;
    else
        reject(config, given, "is invalid; use report or fail");
}

/* --- the table ------------------------------------------------------------------------------- */

/* All arguments other than the defaults of options, whose names are in option_table. Test hooks are
 * never suggested for a misspelled name. */
#define AT(field) offsetof(struct config, field)
static const struct {
    const char *name;
    void (*read)(struct config *config, const struct given *given, void *target);
    size_t offset;
    bool is_text; /* allocated; config_clear frees it */
    bool is_test_hook;
} argument_table[] = {
    {"off", read_off, AT(off), false, false},
    {"always", read_switch, AT(always), false, false},
    {"node_kind", read_text, AT(node_kind), true, false},
    {"preflight_failure", read_preflight_failure, AT(preflight_failure), false, false},
    {"topology", read_path, AT(topology), true, false},
    {"run", read_path, AT(rundir), true, false},
    {"ports", read_ports, AT(ports), false, false},
    {"image_cache", read_path, AT(image_cache), true, false},
    {"image_publisher", read_user, AT(image_publisher), false, false},
    {"image_stage", read_path, AT(image_stage), true, false},
    {"image_stage_max", read_size, AT(image_stage_max), false, false},
    {"image_min_free", read_size, AT(image_min_free), false, false},
    {"image_fuse", read_device, AT(image_fuse), true, false},
    {"importer", read_path, AT(importer), true, false},
    {"enroot_path", read_path, AT(enroot_path), true, false},
    {"sysroot", read_path, AT(sysroot), true, true},
    {"fail", read_text, AT(fail), true, true},
    {"client-version", read_text, AT(client_version), true, true},
};
#undef AT

enum { ARGUMENT_COUNT = sizeof(argument_table) / sizeof(argument_table[0]) };

static void reject_unknown(struct config *config, const struct given *given, const char *name)
{
    const char *names[OPTION_COUNT + ARGUMENT_COUNT];
    char why[128], near[64];
    size_t count = 0;

    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (option_table[i].in_plugstack)
            names[count++] = option_table[i].name;
    for (size_t i = 0; i < ARGUMENT_COUNT; i++)
        if (!argument_table[i].is_test_hook)
            names[count++] = argument_table[i].name;
    if (nearest_names(name, names, count, near, sizeof(near)) > 0)
        snprintf(why, sizeof(why), "is unknown; did you mean %s?", near);
    else
        snprintf(why, sizeof(why), "is unknown; see spank_megatron(8)");
    reject(config, given, why);
}

static void read_argument(struct config *config, const char *text)
{
    size_t length = strcspn(text, "=");
    const struct given given = {text, text[length] == '=' ? text + length + 1 : NULL};
    char name[32];

    snprintf(name, sizeof(name), "%.*s", (int)length, text);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (!option_table[i].in_plugstack || strcmp(option_table[i].name, name) != 0)
            continue;
        if (!given.value && option_table[i].kind != OPTION_KIND_SWITCH)
            reject(config, &given, "needs a value: use NAME=VALUE");
        free(config->defaults[i]);
        config->defaults[i] = strdup(given.value ? given.value : "yes");
        return;
    }
    for (size_t i = 0; i < ARGUMENT_COUNT; i++)
        if (strcmp(argument_table[i].name, name) == 0) {
            argument_table[i].read(config, &given, (char *)config + argument_table[i].offset);
            return;
        }
    reject_unknown(config, &given, name);
}

void config_parse(struct config *config, int argc, char *const *argv)
{
    memset(config, 0, sizeof(*config));
    /* Below Linux's ephemeral ports (32768) and above the ports that services usually use. */
    config->ports.low = 20480;
    config->ports.high = 30719;
    for (int i = 0; i < argc; i++)
        read_argument(config, argv[i]);
    if (!config->bad)
        config->bad = settings_check_defaults(config, &config->error) < 0;
}

void config_clear(struct config *config)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        free(config->defaults[i]);
    for (size_t i = 0; i < ARGUMENT_COUNT; i++)
        if (argument_table[i].is_text)
            free(*(char **)((char *)config + argument_table[i].offset));
    memset(config, 0, sizeof(*config));
}
