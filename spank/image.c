#include "image.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "host.h"
#include "image_find.h"
#include "named.h"
#include "scratch.h"
#include "settings.h"
#include "share.h"
#include "stage.h"
#include "start.h"

enum { START_SECONDS = 120, LEAST_SECONDS = 30, LOCK_TRIES = 20 };

/* What is left of the user's time, which began for all parts of the work at once: the node's other
 * tasks wait little longer than that. Each part gets a little in any case. */
static double time_left(const struct image_node *node, double begun)
{
    double left = (double)node->settings->timeout - (seconds_now() - begun);

    return left > LEAST_SECONDS ? left : LEAST_SECONDS;
}

static const char *value(const char *const *environment, const char *name)
{
    return environment_value(environment, name);
}

/* The directory where PMIx's server of this node has its sockets must be seen inside. */
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
    const char *wish = value(node->environment, "MEGATRON_EFA");
    char visible[SHARE_LIST + 32], drivers[256], efa[64];
    const char *variables[4] = {NULL};
    size_t count = 0;
    struct container_mounts mounts = {0};
    struct container_request request = {
        .image = image,
        .mounts = &mounts,
        .settings = variables,
        .environment = node->environment,
        .path = image_enroot_path(node->config),
        .temporary = enroot_temporary(node->environment),
        .writable = !settings->readonly,
        .remap_root = settings->remap_root,
        .mount_home = settings->mount_home,
        .entrypoint = settings->entrypoint,
        .timeout = START_SECONDS,
        .stop = node->stop,
    };
    int rc;

    snprintf(visible, sizeof(visible), "NVIDIA_VISIBLE_DEVICES=%s", node->gpus);
    snprintf(drivers, sizeof(drivers), "NVIDIA_DRIVER_CAPABILITIES=%.200s",
             capabilities ? capabilities : "compute,utility");
    snprintf(efa, sizeof(efa), "MEGATRON_EFA=%.40s", wish ? wish : "");
    if (node->gpus[0]) {
        variables[count++] = visible;
        variables[count++] = drivers;
    } else if (access("/proc/driver/nvidia/version", F_OK) < 0) {
        /* Images of CUDA ask for all GPUs, and Enroot's hook fails where there is no driver. */
        variables[count++] = "NVIDIA_VISIBLE_DEVICES=void";
    }
    if (wish)
        variables[count++] = efa;
    if (mounts_copy(&mounts, &settings->mounts) < 0 || add_pmix(node, &mounts) < 0)
        rc = error_set(err, "out of memory");
    else
        rc = container_start(&request, node->lifetime, holder, err);
    mounts_clear(&mounts);
    return rc;
}

/* Enroot configures a container on one node at a time where nodes share it, and gives up after 30
 * seconds of waiting: a hundred nodes take longer. Where the file system has no locks it fails at
 * once, and always. */
static int start_kept(const struct image_node *node, const char *name, double begun, pid_t *holder,
                      struct error *err)
{
    double end = seconds_now() + time_left(node, begun);
    int rc = start_container(node, name, holder, err);

    for (int tries = 1;
         rc < 0 && tries < LOCK_TRIES && strstr(err->text, ENROOT_LOCKED) && seconds_now() < end;
         tries++) {
        seconds_sleep(0.2);
        rc = start_container(node, name, holder, err);
    }
    return rc;
}

static int check_host(const struct image_node *node, struct error *err)
{
    const char *fuse = node->config->image_fuse ? node->config->image_fuse : "/dev/fuse";

    /* A container that is kept is extracted, not mounted. */
    return host_check(image_enroot_path(node->config),
                      node->settings->container || strcmp(fuse, "none") == 0 ? NULL : fuse, err);
}

/* Say it where the container is of another image than the step asks for: 'origin' is a key and a
 * name. Nobody is asked for what the name stands for now; the last answer will do. One node says it
 * for all. */
static void compare_origin(const struct image_node *node, struct image_work *work,
                           const char *origin)
{
    const char *wanted = node->settings->reference.text, *name = strchr(origin, ' ');
    char line[2048], key[IMAGE_KEY_SIZE] = "";
    struct error ignored;

    if (!name || !node->imports || !node->say)
        return;
    if (node->settings->reference.scheme != IMAGE_FILE &&
        image_work_open(work, node->config, node->environment, &ignored) == 0) {
        image_work_fill(work, node->settings, node->config, node->environment);
        if (image_recalled(&work->request, key) < 0)
            key[0] = '\0';
    }
    if (strcmp(name + 1, wanted) == 0 && (!key[0] || strncmp(origin, key, strlen(key)) == 0))
        return;
    snprintf(line, sizeof(line),
             "the container %s was made from %s%.600s, and stays so; `enroot remove megatron_%s` "
             "for one of %.600s",
             node->settings->container, strcmp(name + 1, wanted) == 0 ? "an older " : "", name + 1,
             node->settings->container, wanted);
    node->say(node->argument, line);
}

/* The container that is kept under a name. With 'image' it is made unless it is there; without, it
 * may be missing. Returns 1 where it is there, 0 or -1. */
static int keep_container(const struct image_node *node, const char *image, const char *key,
                          double begun, char *name, size_t size, struct error *err)
{
    struct image_work *work = calloc(1, sizeof(*work));
    char wanted[NAMED_ORIGIN_SIZE], origin[NAMED_ORIGIN_SIZE];
    struct named_request request = {
        .name = node->settings->container,
        .image = image,
        .origin = wanted,
        .path = image_enroot_path(node->config),
        .environment = node->environment,
        .timeout = time_left(node, begun),
        .patience = LEASE_SECONDS,
        .stop = node->stop,
    };
    int rc;

    if (!work)
        return error_set(err, "out of memory");
    snprintf(wanted, sizeof(wanted), "%s %s", key[0] ? key : "-", node->settings->reference.text);
    rc = container_kept(&request, name, size, origin, err);
    if (rc == 1 && !image)
        compare_origin(node, work, origin);
    if (rc == 0 && image)
        rc = container_keep(&request, name, size, err) < 0 ? -1 : 1;
    free(work);
    return rc;
}

/* A copy on the node's own disk. All nodes copy at once: one says how far it is. */
static int stage_image(const struct image_node *node, const char *key, const char *image,
                       double begun, char *staged, size_t size)
{
    const struct stage_request request = {
        .directory = node->config->image_stage,
        .limit = node->config->image_stage_max,
        .key = key,
        .image = image,
        .timeout = time_left(node, begun),
        .say = node->imports ? node->say : NULL,
        .argument = node->argument,
        .stop = node->stop,
    };
    struct error err;

    if (image_stage(&request, staged, size, &err) == 0)
        return 0;
    if (node->say && !is_stopped(node->stop))
        node->say(node->argument, err.text);
    return -1;
}

static int start_image(const struct image_node *node, pid_t *holder, struct error *err)
{
    const struct image_settings *settings = node->settings;
    char key[IMAGE_KEY_SIZE] = "", path[PATH_MAX], staged[PATH_MAX], name[128];
    const char *image = path;
    double begun = seconds_now();
    int kept = 0;

    /* What can be wrong with the user's words is found before anything is imported. */
    if (mounts_check_sources("--megatron-mounts", &settings->mounts, err) < 0 ||
        check_host(node, err) < 0)
        return -1;
    /* A container that is there needs no image. */
    if (settings->container)
        kept = keep_container(node, NULL, "", begun, name, sizeof(name), err);
    if (kept < 0 || (kept == 0 && image_find(node, key, path, sizeof(path), err) < 0))
        return -1;
    if (kept == 0 && key[0] && node->config->image_stage &&
        stage_image(node, key, path, begun, staged, sizeof(staged)) == 0)
        image = staged;
    if (!settings->container)
        return start_container(node, image, holder, err);
    if (kept == 0 && keep_container(node, image, key, begun, name, sizeof(name), err) < 0)
        return -1;
    return start_kept(node, name, begun, holder, err);
}

/* Where all nodes of a step were killed, not all of them are to list what they share. */
static void note_places(const struct image_node *node)
{
    struct image_places *places = node->places;
    const struct image_settings *settings = node->settings;
    bool imports = settings->reference.scheme != IMAGE_FILE && (node->imports || node->nodes == 1);
    struct error ignored;

    snprintf(places->temporary, sizeof(places->temporary), "%s",
             enroot_temporary(node->environment));
    if ((!imports && !settings->container) ||
        image_cache_place(node->environment, places->cache, sizeof(places->cache), &ignored) < 0)
        places->cache[0] = '\0';
}

void image_sweep(const struct image_places *places)
{
    struct image_cache cache = {.writable = 1};

    if (places->cache[0]) {
        snprintf(cache.directory, sizeof(cache.directory), "%s", places->cache);
        image_cache_sweep_unfinished(&cache);
    }
    if (places->temporary[0])
        scratch_sweep(places->temporary);
}

int image_start(const struct image_node *node, pid_t *holder, struct error *err)
{
    struct image_node own = *node;
    const char *users = value(node->environment, "PATH");
    char path[16384], home[300];
    const char *settings[] = {path, ENROOT_ANY_RUNTIME, NULL, NULL};
    const char **environment;
    int rc;

    /* Enroot's own programs are found where the administrator says; what gets a user's credentials
     * may be the user's. */
    snprintf(path, sizeof(path), "PATH=%.4096s%s%.12000s", image_enroot_path(node->config),
             users && users[0] ? ":" : "", users ? users : "");
    snprintf(home, sizeof(home), "HOME=%s", node->home);
    if (node->home[0] && !value(node->environment, "HOME"))
        settings[2] = home;
    environment = enroot_environment(node->environment, settings);
    if (!environment)
        return error_set(err, "out of memory");
    own.environment = environment;
    note_places(&own);
    rc = start_image(&own, holder, err);
    free(environment);
    return rc;
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
