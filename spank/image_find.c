#include "image_find.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "settings.h"
#include "squashfs.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

enum { PATIENCE_SECONDS = 60 };

const char *image_enroot_path(const struct config *config)
{
    return config->enroot_path ? config->enroot_path : DEFAULT_PATH;
}

int image_cache_place(const char *const *environment, char *directory, size_t size,
                      struct error *err)
{
    return image_cache_default(environment_value(environment, "MEGATRON_IMAGE_CACHE"),
                               environment_value(environment, "XDG_CACHE_HOME"),
                               environment_value(environment, "HOME"), directory, size, err);
}

int image_work_open(struct image_work *work, const struct config *config,
                    const char *const *environment, struct error *err)
{
    char directory[1024];

    if (image_cache_place(environment, directory, sizeof(directory), err) < 0 ||
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

void image_work_fill(struct image_work *work, const struct image_settings *settings,
                     const struct config *config, const char *const *environment)
{
    work->request.reference = &settings->reference;
    work->request.environment = environment;
    work->request.path = image_enroot_path(config);
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
    const struct image_work *work = argument;

    if (work->node->say)
        work->node->say(work->node->argument, line);
}

static void on_beat(void *argument)
{
    struct image_work *work = argument;

    if (work->node->nodes > 1)
        announcement_beat(&work->announcement);
}

static int import_here(struct image_work *work, char key[IMAGE_KEY_SIZE], char *path, size_t size,
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
static int begin_import(struct image_work *work, struct error *err)
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
    struct image_work *work;
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

static int find_registry_image(const struct image_node *node, struct image_work *work,
                               char key[IMAGE_KEY_SIZE], char *path, size_t size, struct error *err)
{
    struct awaited awaited = {.work = work, .key = key, .path = path, .size = size};
    int begun, rc;
    const struct announcement_wait wait = {
        .nodes = node->nodes,
        .patience = PATIENCE_SECONDS,
        /* The node that imports gives up first, and says why. */
        .timeout = (double)node->settings->timeout + 30,
        .look = look_for_image,
        .say = on_wait_say,
        .argument = &awaited,
        .stop = node->stop,
    };

    image_work_fill(work, node->settings, node->config, node->environment);
    work->node = node;
    work->request.job = node->job;
    work->request.processors = node->processors;
    work->request.say = on_say;
    work->request.beat = on_beat;
    work->request.argument = work;
    work->request.stop = node->stop;
    if (image_work_open(work, node->config, node->environment, err) < 0)
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

int image_find(const struct image_node *node, char key[IMAGE_KEY_SIZE], char *path, size_t size,
               struct error *err)
{
    struct image_work *work;
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

int image_import_from_daemon(const struct image_settings *settings, const struct config *config,
                             const char *const *environment,
                             void (*say)(void *argument, const char *line), struct error *err)
{
    struct image_work *work = calloc(1, sizeof(*work));
    const char *const added[] = {ENROOT_ANY_RUNTIME, NULL};
    const char **complete = enroot_environment(environment, added);
    char key[IMAGE_KEY_SIZE], path[PATH_MAX];
    int rc;

    if (!work || !complete) {
        free(work);
        free(complete);
        return error_set(err, "out of memory");
    }
    image_work_fill(work, settings, config, complete);
    /* The daemon's client is where the user has it. */
    work->request.path = environment_value(environment, "PATH");
    work->request.processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    work->request.say = say;
    rc = image_work_open(work, config, environment, err);
    if (rc == 0)
        rc = image_resolve(&work->request, 1, key, err);
    if (rc == 0)
        rc = image_obtain(&work->request, key, path, sizeof(path), err);
    free(work);
    free(complete);
    return rc;
}
