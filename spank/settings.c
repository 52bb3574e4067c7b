/* SPDX-License-Identifier: Apache-2.0 */
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/parse.h"
#include "lib/placement.h"

#define PREFIX "--megatron-"

const struct option_row option_table[OPTION_COUNT] = {
    [OPTION_TP] = {"tp", "N", "tensor-parallel size (1)", OPTION_KIND_NUMBER, true},
    [OPTION_PP] = {"pp", "N", "pipeline-parallel size (1)", OPTION_KIND_NUMBER, true},
    [OPTION_CP] = {"cp", "N", "context-parallel size (1)", OPTION_KIND_NUMBER, true},
    [OPTION_MODEL] = {"model", "NAME", "model preset to check and pass on; 'list' prints all",
                      OPTION_KIND_TEXT, true},
    [OPTION_BIND] = {"bind", "POLICY", "auto, none, gpu, numa, core, CPUs, or CPUs/CPUs/... (auto)",
                     OPTION_KIND_TEXT, true},
    [OPTION_NICS] = {"nics", "POLICY", "auto, none, all, or a list of NICs (auto)",
                     OPTION_KIND_TEXT, true},
    [OPTION_IMAGE] = {"image", "IMAGE", "run in docker://, dockerd://, podman:// or a .sqsh file",
                      OPTION_KIND_TEXT, true},
    [OPTION_MOUNTS] = {"mounts", "LIST", "SRC:DST[:ro|rw|FLAGS],... to mount in the container",
                       OPTION_KIND_TEXT, true},
    [OPTION_WORKDIR] = {"workdir", "DIR", "working directory in the container (the image's)",
                        OPTION_KIND_TEXT, true},
    [OPTION_CONTAINER_ENV] = {"container-env", "LIST",
                              "variables that keep the job's value, not the image's",
                              OPTION_KIND_TEXT, true},
    [OPTION_CONTAINER_NAME] = {"container-name", "NAME",
                               "keep a writable container of this name between steps and jobs",
                               OPTION_KIND_TEXT, false},
    [OPTION_MOUNT_HOME] = {"mount-home", "yes|no", "mount the home directory in the container",
                           OPTION_KIND_SWITCH, true},
    [OPTION_ENTRYPOINT] = {"entrypoint", "yes|no", "run the image's entry point first",
                           OPTION_KIND_SWITCH, true},
    [OPTION_READONLY] = {"readonly", "yes|no", "mount the image read-only", OPTION_KIND_SWITCH,
                         true},
    [OPTION_REMAP_ROOT] = {"remap-root", "yes|no", "be root in the container", OPTION_KIND_SWITCH,
                           true},
    [OPTION_IMPORT_TIMEOUT] = {"import-timeout", "SECONDS", "time limit of an image import (3600)",
                               OPTION_KIND_TEXT, true},
    [OPTION_PREFLIGHT] = {"preflight", "quick|full|no", "test the nodes before the tasks start",
                          OPTION_KIND_FORM, true},
    [OPTION_SHOW] = {"show", "yes|no", "print the placement of every task before it starts",
                     OPTION_KIND_SWITCH, true},
    [OPTION_CHECK] = {"check", "yes|no", "print what would run, submit nothing", OPTION_KIND_SWITCH,
                      false},
    [OPTION_OFF] = {"off", "yes|no", "do not use the plugin for this step", OPTION_KIND_SWITCH,
                    false},
    [OPTION_VERBOSE] = {"verbose", "yes|no", "print decisions, and what was left unchanged",
                        OPTION_KIND_SWITCH, true},
};

int settings_switch(const char *text, bool *value)
{
    if (!text || strcasecmp(text, "yes") == 0) {
        *value = true;
        return 0;
    }
    if (strcasecmp(text, "no") == 0) {
        *value = false;
        return 0;
    }
    return -1;
}

/* A flag without a value arrives as NULL; from srun on a node as an empty string, and from a batch
 * script as printf's rendering of NULL. */
static const char *value_text(enum option_id id, const char *value)
{
    if (!value || (option_may_be_alone(id) && (value[0] == '\0' || strcmp(value, "(null)") == 0)))
        return "yes";
    return value;
}

bool settings_has(const struct settings *settings, enum option_id id, const char *value)
{
    return settings->given[id] &&
           strncmp(settings->given[id], value_text(id, value), OPTION_VALUE_MAX) == 0;
}

void settings_give(struct settings *settings, enum option_id id, const char *value)
{
    const char *text = value_text(id, value);

    free(settings->given[id]);
    settings->too_long[id] = strlen(text) > OPTION_VALUE_MAX;
    settings->given[id] = strndup(text, OPTION_VALUE_MAX);
}

bool settings_any(const struct settings *settings)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (settings->given[i])
            return true;
    return false;
}

bool settings_used(const struct settings *settings, const struct config *config)
{
    const char *off = settings->given[OPTION_OFF];

    if (config->off & PART_ALL)
        return false;
    /* A value that is neither yes nor no is rejected later, so it does not disable the plugin. */
    if (off && strcasecmp(off, "yes") == 0)
        return false;
    return config->always || settings_any(settings);
}

const char *settings_word(const struct settings *settings, const struct config *config,
                          enum option_id id)
{
    return settings->given[id] ? settings->given[id] : config->defaults[id];
}

const char *settings_name(const struct settings *settings, enum option_id id, char name[64])
{
    snprintf(name, 64, "%s%s",
             settings->given[id] ? PREFIX : "plugstack.conf: ", option_table[id].name);
    return name;
}

static int resolve_number(const struct settings *settings, const struct config *config,
                          enum option_id id, int64_t *value, struct error *err)
{
    const char *text = settings_word(settings, config, id);
    char name[64];

    *value = 1;
    return text ? parse_int64(settings_name(settings, id, name), text, 1, OPTION_NUMBER_MAX, value,
                              err)
                : 0;
}

int settings_resolve_switch(const struct settings *settings, const struct config *config,
                            enum option_id id, bool *value, struct error *err)
{
    const char *text = settings_word(settings, config, id);
    char name[64];

    *value = false;
    if (!text || settings_switch(text, value) == 0)
        return 0;
    return error_set(err, "%s=%.100s: use yes or no", settings_name(settings, id, name), text);
}

static int resolve_preflight(struct settings *settings, const struct config *config,
                             struct error *err)
{
    const char *text = settings_word(settings, config, OPTION_PREFLIGHT);
    char name[64];

    settings->preflight = PREFLIGHT_NONE;
    if (!text || strcasecmp(text, "no") == 0)
        return 0;
    if (strcasecmp(text, "yes") == 0 || strcasecmp(text, "quick") == 0)
        settings->preflight = PREFLIGHT_QUICK;
    else if (strcasecmp(text, "full") == 0)
        settings->preflight = PREFLIGHT_FULL;
    else
        return error_set(err, "%s=%.100s: use quick, full or no",
                         settings_name(settings, OPTION_PREFLIGHT, name), text);
    return 0;
}

/* Values end up in one-line messages and in variables: no control characters. */
static int check_text(const struct settings *settings, struct error *err)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const char *text = settings->given[i];

        if (!text)
            continue;
        if (settings->too_long[i])
            return error_set(err, PREFIX "%s: the value is longer than %d bytes; shorten it",
                             option_table[i].name, OPTION_VALUE_MAX);
        for (; *text; text++)
            if ((unsigned char)*text < ' ' || *text == 127)
                return error_set(
                    err, PREFIX "%s: the value contains a control character (code %d); remove it",
                    option_table[i].name, (unsigned char)*text);
    }
    return 0;
}

static int resolve_policies(struct settings *settings, const struct config *config,
                            struct error *err)
{
    const char *bind = settings_word(settings, config, OPTION_BIND);
    const char *nics = settings_word(settings, config, OPTION_NICS);
    char name[64];

    settings->bind = bind ? bind : "auto";
    settings->nics = nics ? nics : "auto";
    if (placement_check_bind(settings_name(settings, OPTION_BIND, name), settings->bind, 0, err))
        return -1;
    return placement_check_nics(settings_name(settings, OPTION_NICS, name), settings->nics, 0, err);
}

static int resolve(struct settings *settings, const struct config *config, struct error *err)
{
    const char *model = settings_word(settings, config, OPTION_MODEL);
    char name[64];

    memset(&settings->layout, 0, sizeof(settings->layout));
    if (check_text(settings, err) ||
        resolve_number(settings, config, OPTION_TP, &settings->layout.tp, err) ||
        resolve_number(settings, config, OPTION_PP, &settings->layout.pp, err) ||
        resolve_number(settings, config, OPTION_CP, &settings->layout.cp, err) ||
        settings_resolve_switch(settings, config, OPTION_SHOW, &settings->show, err) ||
        settings_resolve_switch(settings, config, OPTION_CHECK, &settings->check, err) ||
        settings_resolve_switch(settings, config, OPTION_OFF, &settings->off, err) ||
        settings_resolve_switch(settings, config, OPTION_VERBOSE, &settings->verbose, err) ||
        resolve_preflight(settings, config, err) || resolve_policies(settings, config, err) ||
        image_settings_resolve(&settings->image, settings, config, err))
        return -1;
    settings->model = NULL;
    if (model) {
        settings->model = preset_find(settings_name(settings, OPTION_MODEL, name), model, err);
        if (!settings->model)
            return -1;
    }
    return 0;
}

int settings_check_defaults(const struct config *config, struct error *err)
{
    struct settings none = {0};
    int rc = resolve(&none, config, err) || image_settings_check_defaults(config, err) ? -1 : 0;

    settings_clear(&none);
    return rc;
}

int settings_resolve(struct settings *settings, const struct config *config, struct error *err)
{
    if (config->bad)
        return error_set(err, "%s", config->error.text);
    return resolve(settings, config, err);
}

bool settings_shares_gpus(const struct settings *settings)
{
    return strcmp(settings->bind, "auto") != 0 && strcmp(settings->bind, "gpu") != 0;
}

void settings_clear(struct settings *settings)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        free(settings->given[i]);
    image_settings_clear(&settings->image);
    memset(settings, 0, sizeof(*settings));
}
