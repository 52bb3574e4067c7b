/* What the user asks for by --megatron-* options and the administrator by plugstack.conf: one table
 * of options, one of arguments, and the values they come to. No Slurm in here. */
#ifndef MEGATRON_SETTINGS_H
#define MEGATRON_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"
#include "image_settings.h"
#include "layout.h"
#include "preset.h"

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
    OPTION_SHOW,
    OPTION_CHECK,
    OPTION_OFF,
    OPTION_VERBOSE,
    OPTION_COUNT
};

enum option_kind {
    OPTION_KIND_NUMBER, /* 1 to OPTION_NUMBER_MAX */
    OPTION_KIND_SWITCH, /* alone, or with yes or no */
    OPTION_KIND_TEXT
};

enum { OPTION_NUMBER_MAX = 1048576, OPTION_VALUE_MAX = 4095 };

struct option_row {
    const char *name;     /* without "--megatron-"; also the argument's name in plugstack.conf */
    const char *argument; /* for --help: "N" */
    const char *usage;
    enum option_kind kind;
    bool in_plugstack; /* may the administrator set a default */
};

extern const struct option_row option_table[OPTION_COUNT];

/* Parts an administrator can switch off with off=PART,... in plugstack.conf. */
enum part {
    PART_BIND = 1,
    PART_MEMORY = 2,
    PART_NICS = 4,
    PART_RENDEZVOUS = 8,
    PART_CHECKS = 16,
    PART_DISCOVERY = 32,
    PART_ALL = 64,
};

/* Which callback a test wants to fail: fail=CONTEXT:CALLBACK. */
struct failure {
    char context[16], callback[32];
};

/* The administrator's words. */
struct config {
    char *defaults[OPTION_COUNT]; /* NULL: none */
    char *topology, *sysroot, *rundir;
    char *image_cache, *image_stage, *enroot_path;
    char *image_fuse;        /* the device that starting needs; "none" */
    uid_t image_publisher;   /* besides root, who may own images of the cache */
    int64_t image_stage_max; /* bytes; 0: no limit */
    char *client_version;    /* for tests: the version a client claims to be */
    int64_t port_low, port_high;
    unsigned off;
    bool always;
    struct failure fail;
    bool bad; /* some argument was not understood, 'error' says which */
    struct error error;
};

/* Read plugstack.conf arguments. Never fails: what cannot be understood is kept in config->error,
 * for the jobs that use the plugin. config_clear frees. */
void config_parse(struct config *config, int argc, char *const *argv);
void config_clear(struct config *config);

/* The user's words as given, the last one of each option; and what they mean. */
struct settings {
    char *given[OPTION_COUNT]; /* NULL: not given */
    bool too_long[OPTION_COUNT];

    /* set by settings_resolve */
    struct layout layout; /* dp is 0 until the number of tasks is known */
    const struct model_shape *model;
    const char *bind, *nics;
    bool show, check, off, verbose;
    struct image_settings image;
};

/* Keep 'value' (NULL: a switch alone) as the last word on option 'id'. */
void settings_give(struct settings *settings, enum option_id id, const char *value);

/* Is the plugin asked for: an option given (or always=yes), and not switched off by --megatron-off
 * or off=all? Needs no settings_resolve. */
bool settings_used(const struct settings *settings, const struct config *config);

/* Read "yes", "no" or NULL (yes). Returns 0 or -1. */
int settings_switch(const char *text, bool *value);

/* Was any option given, be it --megatron-off? */
bool settings_any(const struct settings *settings);

/* Make values of words: the user's, else the administrator's, else the built-in ones. Returns 0, or
 * -1 with a sentence in 'err'. The texts stay owned by settings and config. */
int settings_resolve(struct settings *settings, const struct config *config, struct error *err);

/* Does the policy allow more tasks on a node than it has GPUs? */
bool settings_shares_gpus(const struct settings *settings);

void settings_clear(struct settings *settings);

#endif
