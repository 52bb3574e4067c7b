#include "settings.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "nearest.h"
#include "parse.h"
#include "placement.h"

#define PREFIX "--megatron-"

const struct option_row option_table[OPTION_COUNT] = {
    [OPTION_TP] = {"tp", "N", "tensor-parallel size (1)", OPTION_KIND_NUMBER, true},
    [OPTION_PP] = {"pp", "N", "pipeline-parallel size (1)", OPTION_KIND_NUMBER, true},
    [OPTION_CP] = {"cp", "N", "context-parallel size (1)", OPTION_KIND_NUMBER, true},
    [OPTION_MODEL] = {"model", "NAME", "model preset to check and pass on; 'list' prints them",
                      OPTION_KIND_TEXT, true},
    [OPTION_BIND] = {"bind", "POLICY", "auto, none, gpu, numa, core, CPUs, or CPUs/CPUs/... (auto)",
                     OPTION_KIND_TEXT, true},
    [OPTION_NICS] = {"nics", "POLICY", "auto, none, all, or a list of NICs (auto)",
                     OPTION_KIND_TEXT, true},
    [OPTION_IMAGE] = {"image", "IMAGE", "run in docker://, dockerd://, podman:// or a .sqsh file",
                      OPTION_KIND_TEXT, true},
    [OPTION_MOUNTS] = {"mounts", "LIST", "SRC:DST[:ro|rw|FLAGS],... seen in the image",
                       OPTION_KIND_TEXT, true},
    [OPTION_WORKDIR] = {"workdir", "DIR", "working directory in the image (the image's own)",
                        OPTION_KIND_TEXT, true},
    [OPTION_CONTAINER_ENV] = {"container-env", "LIST",
                              "variables that keep the job's value against the image's",
                              OPTION_KIND_TEXT, true},
    [OPTION_CONTAINER_NAME] = {"container-name", "NAME",
                               "keep a writable container of this name between steps and jobs",
                               OPTION_KIND_TEXT, false},
    [OPTION_MOUNT_HOME] = {"mount-home", "yes|no", "see the home directory in the image",
                           OPTION_KIND_SWITCH, true},
    [OPTION_ENTRYPOINT] = {"entrypoint", "yes|no", "run the image's entry point first",
                           OPTION_KIND_SWITCH, true},
    [OPTION_READONLY] = {"readonly", "yes|no", "do not let tasks write to the image's files",
                         OPTION_KIND_SWITCH, true},
    [OPTION_REMAP_ROOT] = {"remap-root", "yes|no", "be root inside the image", OPTION_KIND_SWITCH,
                           true},
    [OPTION_IMPORT_TIMEOUT] = {"import-timeout", "SECONDS",
                               "give up an import after so long (3600)", OPTION_KIND_TEXT, true},
    [OPTION_SHOW] = {"show", "yes|no", "print the placement of every task before it starts",
                     OPTION_KIND_SWITCH, true},
    [OPTION_CHECK] = {"check", "yes|no", "print what would run, submit nothing", OPTION_KIND_SWITCH,
                      false},
    [OPTION_OFF] = {"off", "yes|no", "leave this step alone, whatever the job says",
                    OPTION_KIND_SWITCH, false},
    [OPTION_VERBOSE] = {"verbose", "yes|no", "say what was decided, and what was left alone",
                        OPTION_KIND_SWITCH, true},
};

/* --- plugstack.conf ------------------------------------------------------------------------- */

static const struct {
    const char *name;
    unsigned part;
} part_table[] = {
    {"bind", PART_BIND},     {"memory", PART_MEMORY},         {"nics", PART_NICS},
    {"checks", PART_CHECKS}, {"rendezvous", PART_RENDEZVOUS}, {"discovery", PART_DISCOVERY},
    {"all", PART_ALL},
};

static const char *const argument_names[] = {"tp",
                                             "pp",
                                             "cp",
                                             "model",
                                             "bind",
                                             "nics",
                                             "image",
                                             "mounts",
                                             "workdir",
                                             "container-env",
                                             "mount-home",
                                             "entrypoint",
                                             "readonly",
                                             "remap-root",
                                             "import-timeout",
                                             "show",
                                             "verbose",
                                             "off",
                                             "always",
                                             "topology",
                                             "sysroot",
                                             "run",
                                             "ports",
                                             "image_cache",
                                             "image_publisher",
                                             "image_stage",
                                             "image_stage_max",
                                             "image_fuse",
                                             "enroot_path",
                                             "fail",
                                             "client-version"};

static void config_bad(struct config *config, const char *argument, const char *why)
{
    if (config->bad)
        return; /* the first one is said */
    config->bad = true;
    error_set(&config->error, "plugstack.conf: argument '%.100s' %s", argument, why);
}

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

static void config_off(struct config *config, const char *argument, const char *list)
{
    char copy[256], *word, *rest = copy;

    if (!list) {
        config->off |= PART_ALL;
        return;
    }
    if (snprintf(copy, sizeof(copy), "%s", list) >= (int)sizeof(copy)) {
        config_bad(config, argument, "is too long");
        return;
    }
    while ((word = strsep(&rest, ","))) {
        size_t i = 0, count = sizeof(part_table) / sizeof(part_table[0]);

        while (i < count && strcmp(part_table[i].name, word) != 0)
            i++;
        if (i < count)
            config->off |= part_table[i].part;
        else
            config_bad(
                config, argument,
                "names no part; use off=bind,memory,nics,rendezvous,checks,discovery or all");
    }
}

static void config_ports(struct config *config, const char *argument, const char *value)
{
    char low[16];
    const char *dash = value ? strchr(value, '-') : NULL;
    int64_t a, b;

    if (!dash || (size_t)(dash - value) >= sizeof(low)) {
        config_bad(config, argument, "is no range of ports; use ports=LOW-HIGH");
        return;
    }
    memcpy(low, value, (size_t)(dash - value));
    low[dash - value] = '\0';
    if (parse_int64("ports", low, 1024, 65535, &a, NULL) ||
        parse_int64("ports", dash + 1, 1024, 65535, &b, NULL) || b - a < 63) {
        config_bad(config, argument,
                   "is no range of 64 or more ports between 1024 and 65535; use ports=LOW-HIGH");
        return;
    }
    config->port_low = a;
    config->port_high = b;
}

static void config_fail(struct config *config, const char *argument, const char *value)
{
    const char *colon = value ? strchr(value, ':') : NULL;
    size_t length = colon ? (size_t)(colon - value) : 0;

    if (!colon || length >= sizeof(config->fail.context) ||
        strlen(colon + 1) >= sizeof(config->fail.callback)) {
        config_bad(config, argument, "is not fail=CONTEXT:CALLBACK");
        return;
    }
    memcpy(config->fail.context, value, length);
    config->fail.context[length] = '\0';
    strcpy(config->fail.callback, colon + 1);
}

static void config_path(struct config *config, char **target, const char *argument,
                        const char *value)
{
    if (!value || value[0] != '/') {
        config_bad(config, argument, "needs an absolute path");
        return;
    }
    free(*target);
    *target = strdup(value);
}

static void config_publisher(struct config *config, const char *argument, const char *value)
{
    struct passwd *user = value ? getpwnam(value) : NULL;
    int64_t number;

    if (user)
        config->image_publisher = user->pw_uid;
    else if (value && parse_int64("image_publisher", value, 0, UINT32_MAX - 1, &number, NULL) == 0)
        config->image_publisher = (uid_t)number;
    else
        config_bad(config, argument, "names no user");
}

/* "500G" */
static void config_stage_max(struct config *config, const char *argument, const char *value)
{
    static const char units[] = "kMGT";
    char number[32] = "";
    size_t length = value ? strcspn(value, units) : 0;
    int64_t size = 0;

    if (length > 0 && length < sizeof(number))
        memcpy(number, value, length);
    if (parse_int64("image_stage_max", number, 1, 1000000, &size, NULL) || value[length] == '\0' ||
        value[length + 1] != '\0') {
        config_bad(config, argument, "is no size such as 500G");
        return;
    }
    for (const char *unit = strchr(units, value[length]); unit >= units; unit--)
        size *= 1000;
    config->image_stage_max = size;
}

static void config_argument(struct config *config, const char *argument)
{
    size_t length = strcspn(argument, "=");
    const char *value = argument[length] == '=' ? argument + length + 1 : NULL;
    char name[32] = "", why[128], near[64];

    if (length < sizeof(name))
        memcpy(name, argument, length);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (!option_table[i].in_plugstack || strcmp(option_table[i].name, name) != 0)
            continue;
        if (!value && option_table[i].kind != OPTION_KIND_SWITCH)
            config_bad(config, argument, "needs a value");
        free(config->defaults[i]);
        config->defaults[i] = strdup(value ? value : "yes");
        return;
    }
    if (strcmp(name, "off") == 0)
        config_off(config, argument, value);
    else if (strcmp(name, "always") == 0) {
        if (settings_switch(value, &config->always))
            config_bad(config, argument, "is neither always=yes nor always=no");
    } else if (strcmp(name, "topology") == 0)
        config_path(config, &config->topology, argument, value);
    else if (strcmp(name, "sysroot") == 0)
        config_path(config, &config->sysroot, argument, value);
    else if (strcmp(name, "run") == 0)
        config_path(config, &config->rundir, argument, value);
    else if (strcmp(name, "image_cache") == 0)
        config_path(config, &config->image_cache, argument, value);
    else if (strcmp(name, "image_stage") == 0)
        config_path(config, &config->image_stage, argument, value);
    else if (strcmp(name, "enroot_path") == 0)
        config_path(config, &config->enroot_path, argument, value);
    else if (strcmp(name, "image_fuse") == 0) {
        if (!value || (value[0] != '/' && strcmp(value, "none") != 0))
            config_bad(config, argument, "is neither a device nor none");
        else {
            free(config->image_fuse);
            config->image_fuse = strdup(value);
        }
    } else if (strcmp(name, "image_publisher") == 0)
        config_publisher(config, argument, value);
    else if (strcmp(name, "image_stage_max") == 0)
        config_stage_max(config, argument, value);
    else if (strcmp(name, "ports") == 0)
        config_ports(config, argument, value);
    else if (strcmp(name, "fail") == 0)
        config_fail(config, argument, value);
    else if (strcmp(name, "client-version") == 0 && value) {
        free(config->client_version);
        config->client_version = strdup(value);
    } else {
        if (nearest_names(name, argument_names, sizeof(argument_names) / sizeof(argument_names[0]),
                          near, sizeof(near)) > 0)
            snprintf(why, sizeof(why), "is unknown; did you mean %s?", near);
        else
            snprintf(why, sizeof(why), "is unknown; see spank_megatron(8)");
        config_bad(config, argument, why);
    }
}

void config_parse(struct config *config, int argc, char *const *argv)
{
    memset(config, 0, sizeof(*config));
    /* Below Linux's ephemeral ports (32768) and above those that services usually take. */
    config->port_low = 20480;
    config->port_high = 30719;
    for (int i = 0; i < argc; i++)
        config_argument(config, argv[i]);
}

void config_clear(struct config *config)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        free(config->defaults[i]);
    free(config->topology);
    free(config->sysroot);
    free(config->rundir);
    free(config->image_cache);
    free(config->image_fuse);
    free(config->image_stage);
    free(config->enroot_path);
    free(config->client_version);
    memset(config, 0, sizeof(*config));
}

/* --- the user's options --------------------------------------------------------------------- */

void settings_give(struct settings *settings, enum option_id id, const char *value)
{
    const char *text = value;

    /* A switch alone comes as nothing; over srun to a node as an empty word, and out of a batch
     * script as what printf makes of nothing. */
    if (!text || (option_table[id].kind == OPTION_KIND_SWITCH &&
                  (text[0] == '\0' || strcmp(text, "(null)") == 0)))
        text = "yes";
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
    /* A word that is neither yes nor no must be refused, so it does not switch off. */
    if (off && strcasecmp(off, "yes") == 0)
        return false;
    return config->always || settings_any(settings);
}

static int resolve_number(const struct settings *settings, const struct config *config,
                          enum option_id id, int64_t *value, struct error *err)
{
    const char *text = settings->given[id] ? settings->given[id] : config->defaults[id];
    char what[64];

    *value = 1;
    if (!text)
        return 0;
    snprintf(what, sizeof(what), "%s%s",
             settings->given[id] ? PREFIX : "plugstack.conf: ", option_table[id].name);
    return parse_int64(what, text, 1, OPTION_NUMBER_MAX, value, err);
}

static int resolve_switch(const struct settings *settings, const struct config *config,
                          enum option_id id, bool *value, struct error *err)
{
    const char *text = settings->given[id] ? settings->given[id] : config->defaults[id];

    *value = false;
    if (!text || settings_switch(text, value) == 0)
        return 0;
    return error_set(err, "%s%s=%.100s is neither yes nor no",
                     settings->given[id] ? PREFIX : "plugstack.conf: ", option_table[id].name,
                     text);
}

/* Control characters in a value would end up in one-line messages and in variables. */
static int check_text(const struct settings *settings, struct error *err)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const char *text = settings->given[i];

        if (!text)
            continue;
        if (settings->too_long[i])
            return error_set(err, PREFIX "%s: the value is longer than %d bytes",
                             option_table[i].name, OPTION_VALUE_MAX);
        for (; *text; text++)
            if ((unsigned char)*text < ' ' || *text == 127)
                return error_set(err, PREFIX "%s: the value holds a control character (code %d)",
                                 option_table[i].name, (unsigned char)*text);
    }
    return 0;
}

static int resolve_policies(struct settings *settings, const struct config *config,
                            struct error *err)
{
    bool own_bind = settings->given[OPTION_BIND], own_nics = settings->given[OPTION_NICS];

    settings->bind = settings->given[OPTION_BIND]    ? settings->given[OPTION_BIND]
                     : config->defaults[OPTION_BIND] ? config->defaults[OPTION_BIND]
                                                     : "auto";
    settings->nics = settings->given[OPTION_NICS]    ? settings->given[OPTION_NICS]
                     : config->defaults[OPTION_NICS] ? config->defaults[OPTION_NICS]
                                                     : "auto";
    if (placement_check_bind(own_bind ? PREFIX "bind" : "plugstack.conf: bind", settings->bind, 0,
                             err))
        return -1;
    return placement_check_nics(own_nics ? PREFIX "nics" : "plugstack.conf: nics", settings->nics,
                                0, err);
}

int settings_resolve(struct settings *settings, const struct config *config, struct error *err)
{
    const char *model = settings->given[OPTION_MODEL] ? settings->given[OPTION_MODEL]
                                                      : config->defaults[OPTION_MODEL];

    if (config->bad)
        return error_set(err, "%s", config->error.text);
    memset(&settings->layout, 0, sizeof(settings->layout));
    if (check_text(settings, err) ||
        resolve_number(settings, config, OPTION_TP, &settings->layout.tp, err) ||
        resolve_number(settings, config, OPTION_PP, &settings->layout.pp, err) ||
        resolve_number(settings, config, OPTION_CP, &settings->layout.cp, err) ||
        resolve_switch(settings, config, OPTION_SHOW, &settings->show, err) ||
        resolve_switch(settings, config, OPTION_CHECK, &settings->check, err) ||
        resolve_switch(settings, config, OPTION_OFF, &settings->off, err) ||
        resolve_switch(settings, config, OPTION_VERBOSE, &settings->verbose, err) ||
        resolve_policies(settings, config, err) ||
        image_settings_resolve(&settings->image, settings, config, err))
        return -1;
    settings->model = NULL;
    if (model) {
        settings->model = preset_find(
            settings->given[OPTION_MODEL] ? PREFIX "model" : "plugstack.conf: model", model, err);
        if (!settings->model)
            return -1;
    }
    return 0;
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
