/* SPDX-License-Identifier: Apache-2.0 */
/* What the user requests with --megatron-* options and the administrator configures in
 * plugstack.conf: one table of options (settings.c), one of arguments (plugstack.c), and the
 * resulting values. Does not depend on Slurm. */
#ifndef MEGATRON_SETTINGS_H
#define MEGATRON_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/error.h"
#include "image_settings.h"
#include "lib/layout.h"
#include "lib/preset.h"

enum option_id {
    OPTION_TP,
    OPTION_PP,
    OPTION_CP,
    OPTION_MODEL,
    OPTION_BIND,
    OPTION_NICS,
    OPTION_IMAGE,
    OPTION_MOUNTS,
    OPTION_WORKDIR,
    OPTION_CONTAINER_ENV,
    OPTION_CONTAINER_NAME,
    OPTION_MOUNT_HOME,
    OPTION_ENTRYPOINT,
    OPTION_READONLY,
    OPTION_REMAP_ROOT,
    OPTION_IMPORT_TIMEOUT,
    OPTION_PREFLIGHT,
    OPTION_SHOW,
    OPTION_CHECK,
    OPTION_OFF,
    OPTION_VERBOSE,
    OPTION_COUNT
};

enum option_kind {
    OPTION_KIND_NUMBER, /* 1 to OPTION_NUMBER_MAX */
    OPTION_KIND_SWITCH, /* alone, or with yes or no */
    OPTION_KIND_FORM,   /* alone, or with a word; alone is "yes" */
    OPTION_KIND_TEXT
};

enum { OPTION_NUMBER_MAX = 1048576, OPTION_VALUE_MAX = 4095 };

struct option_row {
    const char *name;     /* without "--megatron-"; also the argument's name in plugstack.conf */
    const char *argument; /* for --help: "N" */
    const char *usage;
    enum option_kind kind;
    bool in_plugstack; /* the administrator may set a default */
};

extern const struct option_row option_table[OPTION_COUNT];

/* May the option be given without a value? */
static inline bool option_may_be_alone(enum option_id id)
{
    return option_table[id].kind == OPTION_KIND_SWITCH || option_table[id].kind == OPTION_KIND_FORM;
}

/* Parts that an administrator can disable with off=PART,... in plugstack.conf. */
enum part {
    PART_BIND = 1,
    PART_MEMORY = 2,
    PART_NICS = 4,
    PART_RENDEZVOUS = 8,
    PART_CHECKS = 16,
    PART_DISCOVERY = 32,
    PART_ALL = 64,
};

/* How thoroughly the nodes are tested before a step. */
enum preflight_form { PREFLIGHT_NONE, PREFLIGHT_QUICK, PREFLIGHT_FULL };

/* What happens if a node fails that test. */
enum preflight_failure { PREFLIGHT_REPORT, PREFLIGHT_FAIL };

/* The range for MASTER_PORT, inclusive. */
struct port_range {
    int64_t low, high;
};

/* The arguments of plugstack.conf. */
struct config {
    char *defaults[OPTION_COUNT]; /* NULL: none */
    char *topology, *rundir;
    char *importer; /* a program other than `megatron image` */
    char *image_cache, *image_stage, *enroot_path;
    char *image_fuse;        /* the FUSE device, or "none" */
    uid_t image_publisher;   /* owner of the shared cache besides root */
    int64_t image_stage_max; /* bytes; 0: no limit */
    int64_t image_min_free;  /* bytes; 0: the importer's default */
    struct port_range ports;
    unsigned off; /* enum part */
    bool always;
    char *node_kind; /* kind of the nodes, for `megatron plan` */
    enum preflight_failure preflight_failure;
    /* test hooks */
    char *sysroot;
    char *client_version; /* the version that a client claims to have */
    char *fail;           /* CONTEXT:CALLBACK, of the callback that fails */

    bool bad; /* an argument is invalid, see 'error' */
    struct error error;
};

/* Parse the arguments. Never fails: the first error is kept in config->error for the jobs that use
 * the plugin. The caller frees the result with config_clear. */
void config_parse(struct config *config, int argc, char *const *argv);
void config_clear(struct config *config);

/* The last value given for each option, and the resulting settings. */
struct settings {
    char *given[OPTION_COUNT]; /* NULL: not given */
    bool too_long[OPTION_COUNT];

    /* set by settings_resolve */
    struct layout layout; /* dp is 0 until the number of tasks is known */
    const struct model_shape *model;
    const char *bind, *nics;
    bool show, check, off, verbose;
    enum preflight_form preflight;
    struct image_settings image;
};

/* Record 'value' (NULL: a flag without one) of option 'id'; the last one counts. */
void settings_give(struct settings *settings, enum option_id id, const char *value);

/* Is this the current value of option 'id'? */
bool settings_has(const struct settings *settings, enum option_id id, const char *value);

/* Is the plugin in use: an option was given (or always=yes), and it is not disabled by
 * --megatron-off or off=all? Works before settings_resolve. */
bool settings_used(const struct settings *settings, const struct config *config);

/* The user's value of an option, else the administrator's, else NULL; and what it is called in an
 * error: the option, or the argument of plugstack.conf. */
const char *settings_word(const struct settings *settings, const struct config *config,
                          enum option_id id);
const char *settings_name(const struct settings *settings, enum option_id id, char name[64]);

/* The value of a switch; false if nobody gave one. Returns 0 or -1. */
int settings_resolve_switch(const struct settings *settings, const struct config *config,
                            enum option_id id, bool *value, struct error *err);

/* Parse "yes", "no" or NULL (yes). Returns 0 or -1. */
int settings_switch(const char *text, bool *value);

/* Was any option given, even --megatron-off? */
bool settings_any(const struct settings *settings);

/* Compute the settings: the user's value, else the administrator's, else the built-in default.
 * Returns 0 or -1. Strings remain owned by settings and config. */
int settings_resolve(struct settings *settings, const struct config *config, struct error *err);

/* Check the administrator's defaults alone: also those that a user overrides, or that nothing uses
 * yet. Returns 0 or -1. */
int settings_check_defaults(const struct config *config, struct error *err);

/* Does the policy allow more tasks on a node than it has GPUs? */
bool settings_shares_gpus(const struct settings *settings);

void settings_clear(struct settings *settings);

#endif
