#include "image.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "announce.h"
#include "cache.h"
#include "enroot.h"
#include "files.h"
#include "host.h"
#include "import.h"
#include "named.h"
#include "scratch.h"
#include "settings.h"
#include "share.h"
#include "squashfs.h"
#include "stage.h"
#include "start.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

/* An importer shows every second that it lives; one that is only slow is not to be taken for dead.
 */
enum { START_SECONDS = 120, PATIENCE_SECONDS = 60, LEASE_SECONDS = 20, STAGE_SECONDS = 30 };

/* Everything needed to ask for and import an image, in one place. */
struct work {
    struct image_cache own, shared;
    struct announcement announcement;
    struct image_request request;
    const struct image_node *node;
};

static const char *value(const char *const *environment, const char *name)
{
    return environment_value(environment, name);
}

static const char *enroot_path(const struct config *config)
{
    return config->enroot_path ? config->enroot_path : DEFAULT_PATH;
}

/* --- Where the image is ----------------------------------------------------------------------- */

static int open_caches(struct work *work, const struct config *config,
                       const char *const *environment, struct error *err)
{
    char directory[1024];

    if (image_cache_default(value(environment, "MEGATRON_IMAGE_CACHE"),
                            value(environment, "XDG_CACHE_HOME"), value(environment, "HOME"),
                            directory, sizeof(directory), err) < 0 ||
        image_cache_open(&work->own, directory, err) < 0)
        return -1;
    work->request.cache = &work->own;
    if (!config->image_cache)
        return 0;
    /* An administrator's cache that cannot be trusted is passed over, not a reason to fail. */
    if (image_cache_open_shared(&work->shared, config->image_cache, config->image_publisher, err) ==
        0)
        work->request.shared = &work->shared;
    else if (work->request.say)
        work->request.say(work->request.argument, err->text);
    return 0;
}

static void fill_request(struct work *work, const struct image_settings *settings,
                         const struct config *config, const char *const *environment)
{
    work->request.reference = &settings->reference;
    work->request.environment = environment;
    work->request.path = enroot_path(config);
    work->request.temporary = enroot_temporary(environment);
    work->request.timeout = (double)settings->timeout;
    work->request.timeout_option =
        "--megatron-import-timeout, or import it beforehand with `megatron image import`";
    work->request.patience = LEASE_SECONDS;
}

static int find_file(const struct image_settings *settings, char *path, size_t size,
                     struct error *err)
{
    char resolved[PATH_MAX];
    int fd, rc;

    if (!realpath(settings->reference.text, resolved))
        return error_set_errno(err, errno, "--megatron-image: cannot open %.300s",
                               settings->reference.text);
    /* The real path is what Enroot gets, and it may hold what the user's did not. */
    for (const char *c = resolved; *c; c++)
        if (strchr("'\"`$\\\n", *c))
            return error_set(err,
                             "--megatron-image: the path %.300s holds a character that Enroot "
                             "would evaluate",
                             resolved);
    fd = open(resolved, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(err, errno, "--megatron-image: cannot open %.300s", resolved);
    rc = squashfs_check(fd, resolved, NULL, err);
    close(fd);
    if (rc < 0)
        return error_prefix(err, "--megatron-image");
    snprintf(path, size, "%s", resolved);
    return 0;
}

static void on_say(void *argument, const char *line)
{
    const struct work *work = argument;

    if (work->node->say)
        work->node->say(work->node->argument, line);
}

static void on_beat(void *argument)
{
    struct work *work = argument;

    if (work->node->nodes > 1)
        announcement_beat(&work->announcement);
}

static int import_here(struct work *work, char key[IMAGE_KEY_SIZE], char *path, size_t size,
                       struct error *err)
{
    if (image_resolve(&work->request, 0, key, err) < 0)
        return -1;
    if (image_obtain(&work->request, key, path, size, err) == 0)
        return 0;
    /* The next step asks anew. */
    image_forget(&work->request);
    return -1;
}

/* Does this node ask and import, while the other nodes of the step wait? That of rank 0 does; where
 * containers are kept, any that has none yet, and then the first of them. Returns 1, 0 or -1. */
static int begin_import(struct work *work, struct error *err)
{
    int any = work->node->settings->container != NULL, begun;

    if (!work->node->imports && !any)
        return 0;
    begun = announcement_begin(&work->announcement, !any, err);
    if (begun == 0 && !any)
        return error_set(err, "another node of this step imports its image already");
    return begun;
}

/* An image that another node gets. */
struct awaited {
    struct work *work;
    char *key, *path;
    size_t size;
};

static int look_for_image(void *argument)
{
    struct awaited *awaited = argument;
    const struct image_request *request = &awaited->work->request;

    if (image_resolved(request, awaited->key) < 0)
        return 0;
    directory_refresh(request->cache->directory);
    return (request->shared && image_cache_find(request->shared, awaited->key, awaited->path,
                                                awaited->size, NULL) == 1) ||
           image_cache_find(request->cache, awaited->key, awaited->path, awaited->size, NULL) == 1;
}

static void on_wait_say(void *argument, const char *line)
{
    const struct awaited *awaited = argument;

    on_say(awaited->work, line);
}

static int find_registry_image(const struct image_node *node, struct work *work,
                               char key[IMAGE_KEY_SIZE], char *path, size_t size, struct error *err)
{
    struct awaited awaited = {.work = work, .key = key, .path = path, .size = size};
    int begun, rc;
    const struct announcement_wait wait = {
        .patience = PATIENCE_SECONDS,
        /* The node that imports gives up first, and says why. */
        .timeout = (double)node->settings->timeout + 30,
        .look = look_for_image,
        .say = on_wait_say,
        .argument = &awaited,
        .stop = node->stop,
    };

    fill_request(work, node->settings, node->config, node->environment);
    work->node = node;
    work->request.job = node->job;
    work->request.processors = node->processors;
    work->request.say = on_say;
    work->request.beat = on_beat;
    work->request.argument = work;
    work->request.stop = node->stop;
    if (open_caches(work, node->config, node->environment, err) < 0)
        return -1;
    if (node->nodes == 1)
        return import_here(work, key, path, size, err);
    if (announcement_open(&work->announcement, &work->own, node->step, err) < 0)
        return -1;
    begun = begin_import(work, err);
    if (begun < 0)
        return -1;
    if (begun == 0)
        return announcement_wait(&work->announcement, &wait, err);
    rc = import_here(work, key, path, size, err);
    announcement_end(&work->announcement);
    return rc;
}

/* --- The container ---------------------------------------------------------------------------- */

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
        .path = enroot_path(node->config),
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

static int check_host(const struct image_node *node, struct error *err)
{
    const char *fuse = node->config->image_fuse ? node->config->image_fuse : "/dev/fuse";

    /* A container that is kept is extracted, not mounted. */
    return host_check(enroot_path(node->config),
                      node->settings->container || strcmp(fuse, "none") == 0 ? NULL : fuse, err);
}

/* Say it where the container is of another image than the step asks for: 'origin' is a key and a
 * name. Nobody is asked for what the name stands for now; the last answer will do. One node says it
 * for all. */
static void compare_origin(const struct image_node *node, struct work *work, const char *origin)
{
    const char *wanted = node->settings->reference.text, *name = strchr(origin, ' ');
    char line[2048], key[IMAGE_KEY_SIZE] = "";
    struct error ignored;

    if (!name || !node->imports || !node->say)
        return;
    if (node->settings->reference.scheme != IMAGE_FILE &&
        open_caches(work, node->config, node->environment, &ignored) == 0) {
        fill_request(work, node->settings, node->config, node->environment);
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
                          char *name, size_t size, struct error *err)
{
    struct work *work = calloc(1, sizeof(*work));
    char wanted[NAMED_ORIGIN_SIZE], origin[NAMED_ORIGIN_SIZE];
    struct named_request request = {
        .name = node->settings->container,
        .image = image,
        .origin = wanted,
        .path = enroot_path(node->config),
        .environment = node->environment,
        .timeout = (double)node->settings->timeout,
        .patience = LEASE_SECONDS,
        .stop = node->stop,
    };
    int rc;

    if (!work)
        return error_set(err, "out of memory");
    snprintf(wanted, sizeof(wanted), "%s %s", key[0] ? key : "-", node->settings->reference.text);
    request.cache = &work->own;
    rc = container_kept(&request, name, size, origin, err);
    if (rc == 1 && !image)
        compare_origin(node, work, origin);
    if (rc == 0 && image) {
        rc = open_caches(work, node->config, node->environment, err);
        if (rc == 0)
            rc = container_keep(&request, name, size, err) < 0 ? -1 : 1;
    }
    free(work);
    return rc;
}

static int find_image(const struct image_node *node, char key[IMAGE_KEY_SIZE], char *path,
                      size_t size, struct error *err)
{
    struct work *work;
    int rc;

    if (node->settings->reference.scheme == IMAGE_FILE)
        return find_file(node->settings, path, size, err);
    work = calloc(1, sizeof(*work));
    if (!work)
        return error_set(err, "out of memory");
    rc = find_registry_image(node, work, key, path, size, err);
    free(work);
    return rc;
}

/* A copy on the node's own disk. All nodes copy at once: one says how far it is. */
static int stage_image(const struct image_node *node, const char *key, const char *image,
                       double begun, char *staged, size_t size)
{
    double left = (double)node->settings->timeout - (seconds_now() - begun);
    const struct stage_request request = {
        .directory = node->config->image_stage,
        .limit = node->config->image_stage_max,
        .key = key,
        .image = image,
        .timeout = left > STAGE_SECONDS ? left : STAGE_SECONDS,
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
        kept = keep_container(node, NULL, "", name, sizeof(name), err);
    if (kept < 0 || (kept == 0 && find_image(node, key, path, sizeof(path), err) < 0))
        return -1;
    if (kept == 0 && key[0] && node->config->image_stage &&
        stage_image(node, key, path, begun, staged, sizeof(staged)) == 0)
        image = staged;
    if (!settings->container)
        return start_container(node, image, holder, err);
    if (kept == 0 && keep_container(node, image, key, name, sizeof(name), err) < 0)
        return -1;
    return start_container(node, name, holder, err);
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
        image_cache_default(value(node->environment, "MEGATRON_IMAGE_CACHE"),
                            value(node->environment, "XDG_CACHE_HOME"),
                            value(node->environment, "HOME"), places->cache, sizeof(places->cache),
                            &ignored) < 0)
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
    char path[16384];
    const char *const settings[] = {path, ENROOT_ANY_RUNTIME, NULL};
    const char **environment;
    int rc;

    /* Enroot's own programs are found where the administrator says; what gets a user's credentials
     * may be the user's. */
    snprintf(path, sizeof(path), "PATH=%.4096s%s%.12000s", enroot_path(node->config),
             users && users[0] ? ":" : "", users ? users : "");
    environment = enroot_environment(node->environment, settings);
    if (!environment)
        return error_set(err, "out of memory");
    own.environment = environment;
    note_places(&own);
    rc = start_image(&own, holder, err);
    free(environment);
    return rc;
}

int image_import_from_daemon(const struct image_settings *settings, const struct config *config,
                             const char *const *environment,
                             void (*say)(void *argument, const char *line), struct error *err)
{
    struct work *work = calloc(1, sizeof(*work));
    const char *const added[] = {ENROOT_ANY_RUNTIME, NULL};
    const char **complete = enroot_environment(environment, added);
    char key[IMAGE_KEY_SIZE], path[PATH_MAX];
    int rc;

    if (!work || !complete) {
        free(work);
        free(complete);
        return error_set(err, "out of memory");
    }
    fill_request(work, settings, config, complete);
    /* The daemon's client is where the user has it. */
    work->request.path = value(environment, "PATH");
    work->request.processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    work->request.say = say;
    rc = open_caches(work, config, environment, err);
    if (rc == 0)
        rc = image_resolve(&work->request, 1, key, err);
    if (rc == 0)
        rc = image_obtain(&work->request, key, path, sizeof(path), err);
    free(work);
    free(complete);
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
