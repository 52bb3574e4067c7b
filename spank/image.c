/* SPDX-License-Identifier: Apache-2.0 */
#include "image.h"
#include "lib/clock.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "container/cache_root.h"
#include "container/enroot.h"
#include "container/host.h"
#include "container/importer.h"
#include "container/scratch.h"
#include "settings.h"
#include "share.h"
#include "container/squashfs.h"
#include "container/start.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

enum { START_SECONDS = 120, LOCK_TRIES = 20, RELEASE_TRIES = 6 };

/* The directories to search for enroot and the programs that it calls. */
static const char *enroot_path(const struct config *config)
{
    return config->enroot_path ? config->enroot_path : DEFAULT_PATH;
}

static const char *value(const char *const *environment, const char *name)
{
    return environment_value(environment, name);
}

/* The container must see the directory with the sockets of this node's PMIx server. */
static int add_pmix(const struct image_node *node, struct container_mounts *mounts)
{
    static const char *const names[] = {"PMIX_SERVER_TMPDIR", "SLURM_PMIXP_TMPDIR"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *directory = value(node->environment, names[i]);

        if (!directory || directory[0] != '/' || access(directory, F_OK) < 0)
            continue;
        for (size_t k = 0; k < mounts->count; k++)
            if (strcmp(mounts->items[k].target, directory) == 0)
                directory = NULL;
        if (directory && mounts_add(mounts, directory, directory, "x-create=dir,rbind") < 0)
            return -1;
    }
    return 0;
}

static int start_container(const struct image_node *node, const char *image, pid_t *holder,
                           struct error *err)
{
    const struct image_settings *settings = node->settings;
    const char *capabilities = value(node->environment, "NVIDIA_DRIVER_CAPABILITIES");
    const char *choice = value(node->environment, "MEGATRON_EFA");
    char visible[SHARE_LIST + 32], drivers[256], efa[64];
    const char *variables[4] = {NULL};
    size_t count = 0;
    struct container_mounts mounts = {0};
    struct container_request request = {
        .image = image,
        .mounts = &mounts,
        .settings = variables,
        .environment = node->environment,
        .path = enroot_path(node->config),
        .temporary = enroot_temporary(node->environment),
        .writable = !settings->readonly,
        .remap_root = settings->remap_root,
        .mount_home = settings->mount_home,
        .entrypoint = settings->entrypoint,
        .entrypoint_remedy = "omit --megatron-entrypoint",
        .timeout = START_SECONDS,
        .stop = node->stop,
    };
    int rc;

    snprintf(visible, sizeof(visible), "NVIDIA_VISIBLE_DEVICES=%s", node->gpus);
    snprintf(drivers, sizeof(drivers), "NVIDIA_DRIVER_CAPABILITIES=%.200s",
             capabilities ? capabilities : "compute,utility");
    snprintf(efa, sizeof(efa), "MEGATRON_EFA=%.40s", choice ? choice : "");
    if (node->gpus[0]) {
        variables[count++] = visible;
        variables[count++] = drivers;
    } else if (access("/proc/driver/nvidia/version", F_OK) < 0) {
        /* CUDA images ask for all GPUs, and Enroot's hook fails without a driver. */
        variables[count++] = "NVIDIA_VISIBLE_DEVICES=void";
    }
    if (choice)
        variables[count++] = efa;
    if (mounts_copy(&mounts, &settings->mounts) < 0 || add_pmix(node, &mounts) < 0)
        rc = error_set(err, "out of memory");
    else
        rc = container_start(&request, node->lifetime, holder, err);
    mounts_clear(&mounts);
    return rc;
}

/* Nodes that share a container configure it one after another. Enroot gives up after waiting for 30
 * seconds, but a hundred nodes take longer. On a file system without locks it fails at once, every
 * time. */
static int start_kept(const struct image_node *node, const char *name, pid_t *holder,
                      struct error *err)
{
    double end = clock_now() + (double)node->settings->timeout;
    int rc = start_container(node, name, holder, err);

    for (int tries = 1;
         rc < 0 && tries < LOCK_TRIES && err->code == ERROR_BUSY && clock_now() < end; tries++) {
        clock_sleep(0.2);
        rc = start_container(node, name, holder, err);
    }
    return rc;
}

static int check_host(const struct image_node *node, struct error *err)
{
    const char *fuse = node->config->image_fuse ? node->config->image_fuse : "/dev/fuse";

    /* A kept container is extracted, not mounted. */
    return host_check(enroot_path(node->config),
                      node->settings->container || strcmp(fuse, "none") == 0 ? NULL : fuse, err);
}

/* What the plugin tells the importer, derived from settings and configuration alone. */
static struct importer importer_of(const struct image_settings *settings,
                                   const struct config *config, const char *const *environment)
{
    return (struct importer){
        .program = config->importer,
        .environment = environment,
        .uri = settings->reference.text,
        .shared_cache = config->image_cache,
        .publisher = config->image_publisher,
        .min_free = config->image_min_free,
        .timeout = settings->timeout,
        .timeout_remedy = "raise --megatron-import-timeout",
    };
}

/* Run the importer: 'path' gets the squashfs file, or the container is created. */
static int get_image(const struct image_node *node, char *path, size_t size, struct error *err)
{
    struct importer importer = importer_of(node->settings, node->config, node->environment);
    char printed[PATH_MAX] = "";

    importer.stage = node->config->image_stage;
    importer.stage_max = node->config->image_stage_max;
    importer.job = node->job;
    importer.step = node->step;
    importer.nodes = node->nodes;
    importer.processors = node->processors;
    importer.imports = node->imports || node->nodes == 1;
    importer.container = node->settings->container;
    importer.say = node->say;
    importer.argument = node->argument;
    importer.stop = node->stop;
    if (importer_get(&importer, printed, sizeof(printed), err) < 0)
        return -1;
    if (!node->settings->container)
        return squashfs_find(printed, path, size, err);
    snprintf(path, size, "megatron_%s", node->settings->container);
    return 0;
}

static int start_image(const struct image_node *node, pid_t *holder, struct error *err)
{
    const struct image_settings *settings = node->settings;
    char image[PATH_MAX];

    /* Report user errors before anything is imported. */
    if (mounts_check_sources("--megatron-mounts", &settings->mounts, err) < 0 ||
        check_host(node, err) < 0)
        return -1;
    if (settings->reference.scheme == IMAGE_FILE && !settings->container) {
        if (squashfs_find(settings->reference.text, image, sizeof(image), err) < 0)
            return error_prefix(err, "--megatron-image");
    } else if (get_image(node, image, sizeof(image), err) < 0) {
        return -1;
    }
    return settings->container ? start_kept(node, image, holder, err)
                               : start_container(node, image, holder, err);
}

/* --- after the step ------------------------------------------------------------------------- */

/* The variables that `release` and the sweep of the cache need; slurmstepd, which runs them, does
 * not have them. PATH is the administrator's. */
static const char *const release_names[] = {
    "HOME",         "USER",          "TMPDIR",        "XDG_CACHE_HOME",  "MEGATRON_IMAGE_CACHE",
    "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_JOB_UID", "SLURMD_NODENAME", "ENROOT_TEMP_PATH"};

enum { RELEASE_NAMES = sizeof(release_names) / sizeof(release_names[0]) };

static void record_environment(const struct image_node *node)
{
    char *list = node->leftovers->environment;
    size_t used = 0, size = sizeof(node->leftovers->environment);

    for (size_t i = 0; i < RELEASE_NAMES; i++) {
        const char *text = value(node->environment, release_names[i]);
        int length = text ? snprintf(list + used, size - used, "%s=%s", release_names[i], text) : 0;

        /* The list ends with an empty string; strings that do not fit are dropped. */
        if (length > 0 && used + (size_t)length + 2 <= size)
            used += (size_t)length + 1;
        list[used] = '\0';
    }
}

/* If all nodes of a step are killed, they need not all list the shared directory: only nodes that
 * import run `release`. A third-party importer is called on every node. */
static void record_leftovers(const struct image_node *node)
{
    const struct image_settings *settings = node->settings;
    bool gets = settings->reference.scheme != IMAGE_FILE || settings->container;
    bool imports = node->imports || node->nodes == 1 || settings->container;

    snprintf(node->leftovers->temporary, sizeof(node->leftovers->temporary), "%s",
             enroot_temporary(node->environment));
    if (gets && (imports || node->config->importer))
        record_environment(node);
}

/* A copy of the recorded variables. The user's processes can write to the shared memory at any
 * time, so only the first variable of each expected name is taken: no LD_PRELOAD, no BASH_ENV. */
struct release_environment {
    char text[sizeof(((struct image_leftovers *)0)->environment) + 1], path[16384];
    const char *list[RELEASE_NAMES + 2]; /* PATH, and the end */
};

static void read_environment(const struct image_leftovers *leftovers, const struct config *config,
                             struct release_environment *environment)
{
    size_t count = 0;

    memcpy(environment->text, leftovers->environment, sizeof(leftovers->environment));
    environment->text[sizeof(environment->text) - 1] = '\0';
    snprintf(environment->path, sizeof(environment->path), "PATH=%s", enroot_path(config));
    environment->list[count++] = environment->path;
    for (size_t i = 0; i < RELEASE_NAMES; i++) {
        size_t length = strlen(release_names[i]);

        for (const char *at = environment->text; *at; at += strlen(at) + 1)
            if (strncmp(at, release_names[i], length) == 0 && at[length] == '=') {
                environment->list[count++] = at;
                break;
            }
    }
    environment->list[count] = NULL;
}

bool image_needs_release(const struct image_leftovers *leftovers, const struct config *config)
{
    return leftovers->temporary[0] && config->importer && leftovers->environment[0];
}

void image_release(const struct image_leftovers *leftovers, const struct config *config)
{
    const char *const words[] = {config->importer, "release", NULL};
    struct release_environment environment;

    read_environment(leftovers, config, &environment);
    execve(config->importer, (char *const *)words, (char *const *)environment.list);
}

bool image_needs_clean_up(const struct image_leftovers *leftovers, bool killed)
{
    return leftovers->temporary[0] && killed;
}

void image_clean_up(const struct image_leftovers *leftovers, const struct config *config)
{
    char temporary[sizeof(leftovers->temporary)], cache[2048] = "";
    struct release_environment environment;

    snprintf(temporary, sizeof(temporary), "%.*s", (int)sizeof(temporary) - 1,
             leftovers->temporary);
    read_environment(leftovers, config, &environment);
    if (config->importer || !leftovers->environment[0] ||
        image_cache_default(value(environment.list, "MEGATRON_IMAGE_CACHE"),
                            value(environment.list, "XDG_CACHE_HOME"),
                            value(environment.list, "HOME"), cache, sizeof(cache), NULL) < 0)
        cache[0] = '\0';
    /* Try more than once: files held by a dying process of the step can be removed only later. */
    for (unsigned i = 0; i < RELEASE_TRIES; i++) {
        if (cache[0])
            cache_release(cache);
        scratch_sweep(temporary);
        if (i + 1 < RELEASE_TRIES)
            clock_sleep(1U << i);
    }
}

/* --- on the node and on the submit host ------------------------------------------------------ */

int image_start(const struct image_node *node, pid_t *holder, struct error *err)
{
    struct image_node own = *node;
    const char *users = value(node->environment, "PATH");
    char path[16384], home[300];
    const char *settings[] = {path, ENROOT_ANY_RUNTIME, NULL, NULL};
    const char **environment;
    int rc;

    /* The administrator's Enroot directory comes first; credential helpers may be the user's. */
    snprintf(path, sizeof(path), "PATH=%.4096s%s%.12000s", enroot_path(node->config),
             users && users[0] ? ":" : "", users ? users : "");
    snprintf(home, sizeof(home), "HOME=%s", node->home);
    if (node->home[0] && !value(node->environment, "HOME"))
        settings[2] = home;
    environment = enroot_environment(node->environment, settings);
    if (!environment)
        return error_set(err, "out of memory");
    own.environment = environment;
    record_leftovers(&own);
    rc = start_image(&own, holder, err);
    free(environment);
    return rc;
}

int image_import_from_daemon(const struct image_settings *settings, const struct config *config,
                             const char *const *environment,
                             void (*say)(void *argument, const char *line), struct error *err)
{
    struct importer importer = importer_of(settings, config, environment);
    char path[PATH_MAX];

    importer.say = say;
    return importer_get(&importer, path, sizeof(path), err);
}

bool image_hides_variable(const struct image_settings *settings, const char *name)
{
    static const char *const own[] = {
        "SHELL", "PWD",      "OLDPWD",  "SHLVL",       "_",           "HOSTNAME",
        "TERM",  "USER",     "LOGNAME", "MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES",
        "LANG",  "LANGUAGE", "LC_ALL"};
    static const char *const prefixes[] = {"SLURM_", "SLURMD_",   "SPANK_",  "PMI_", "PMIX_",
                                           "PMI2_",  "MEGATRON_", "ENROOT_", "OMPI_"};

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (strcmp(own[i], name) == 0)
            return true;
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
        if (strncmp(prefixes[i], name, strlen(prefixes[i])) == 0)
            return true;
    return image_settings_keeps(settings, name);
}
