/* SPDX-License-Identifier: Apache-2.0 */
#include "get.h"
#include "base/core/storage.h"
#include "lib/clock.h"
#include "announce.h"
#include "container/importer.h"
#include "base/core/log.h"
#include "named.h"
#include "progress.h"
#include "shared_file.h"
#include "container/squashfs.h"
#include "stage.h"
#include "base/core/xmalloc.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Seconds without a heartbeat of the importing node; and how much longer than that node the others
 * wait: it gives up first, and reports why. Each part of the work gets LEAST_SECONDS even if the
 * others have used up the user's time. */
enum { PATIENCE_SECONDS = 60, WAIT_MARGIN_SECONDS = 30, LEAST_SECONDS = 30 };

/* One call of image_get. */
struct getting {
    struct image_get *get;
    struct announcement announcement;
    double begun;
    char key[IMAGE_KEY_SIZE]; /* "" for the user's own file, or one from a third-party importer */
    char path[PATH_MAX];
    struct error unusable; /* why this node could not use the image when it last looked, or "" */
};

double image_time_left(double timeout, double elapsed)
{
    if (timeout <= 0)
        return 0;
    return timeout - elapsed > LEAST_SECONDS ? timeout - elapsed : LEAST_SECONDS;
}

static double time_left(const struct getting *getting)
{
    return image_time_left(getting->get->request.timeout, clock_now() - getting->begun);
}

/* --- the image ------------------------------------------------------------------------------- */

static void on_beat(void *argument)
{
    struct getting *getting = argument;

    if (getting->get->nodes > 1)
        announcement_beat(&getting->announcement);
}

static void on_say(void *argument, const char *line)
{
    const struct getting *getting = argument;

    progress_say(getting->get->request.say, getting->get->request.argument, "%s", line);
}

/* The request with callbacks that also keep the step's announcement alive. */
static struct image_request own_request(struct getting *getting)
{
    struct image_request request = getting->get->request;

    request.say = on_say;
    request.beat = on_beat;
    request.argument = getting;
    return request;
}

static int import_here(struct getting *getting, struct error *err)
{
    const struct image_request request = own_request(getting);

    if (image_resolve(&request, request.job == NULL, getting->key, err) < 0)
        return -1;
    if (image_obtain(&request, getting->key, getting->path, sizeof(getting->path), err) == 0)
        return 0;
    /* The next step asks the registry again. */
    if (request.job)
        image_forget(&request);
    return -1;
}

/* Does this node import while the other nodes of the step wait? The node of rank 0 does; if
 * containers are kept, the first node that has none yet. Returns 1, 0 or -1. */
static int begin_import(struct getting *getting, struct error *err)
{
    int any = getting->get->container != NULL, begun;

    if (getting->get->waits && !any)
        return 0;
    begun = announcement_begin(&getting->announcement, !any, err);
    if (begun == 0 && !any) {
        error_set(err, "another node is already importing the image for step %.100s",
                  getting->get->step);
        return error_append(err, "; pass --wait to `megatron image get` on all nodes but one");
    }
    return begun;
}

static int find_in(struct getting *getting, const struct image_cache *cache)
{
    return image_cache_find(cache, getting->key, getting->path, sizeof(getting->path),
                            &getting->unusable) == 1;
}

static int look_for_image(void *argument)
{
    struct getting *getting = argument;
    const struct image_request *request = &getting->get->request;

    if (image_resolved(request, getting->key) < 0)
        return 0;
    file_refresh_directory(request->cache->directory);
    getting->unusable.text[0] = '\0';
    return (request->shared && find_in(getting, request->shared)) ||
           find_in(getting, request->cache);
}

/* An image that this node cannot read, or that is damaged, may yet be replaced: it explains only
 * why waiting for it failed. */
static int wait_for_image(struct getting *getting, const struct announcement_wait *wait,
                          struct error *err)
{
    if (announcement_wait(&getting->announcement, wait, err) == 0)
        return 0;
    if (!getting->unusable.text[0] || is_stopped(wait->stop))
        return -1;
    return error_set(err, "this node cannot use the image that another node imported: %.900s",
                     getting->unusable.text);
}

static int import_or_wait(struct getting *getting, struct error *err)
{
    const struct image_get *get = getting->get;
    const struct announcement_wait wait = {
        .nodes = get->nodes,
        .patience = PATIENCE_SECONDS,
        .timeout = get->request.timeout > 0 ? get->request.timeout + WAIT_MARGIN_SECONDS : 0,
        .timeout_remedy = get->request.timeout_remedy,
        .look = look_for_image,
        .say = on_say,
        .argument = getting,
        .stop = get->request.stop,
    };
    int rc;

    if (get->nodes <= 1)
        return import_here(getting, err);
    if (announcement_open(&getting->announcement, get->request.cache, get->step, err) < 0)
        return -1;
    rc = begin_import(getting, err);
    if (rc < 0)
        return -1;
    if (rc == 0)
        return wait_for_image(getting, &wait, err);
    rc = import_here(getting, err);
    announcement_end(&getting->announcement);
    return rc;
}

static int ask_importer(struct getting *getting, struct error *err)
{
    const struct image_request *request = &getting->get->request;
    const struct importer importer = {
        .program = getting->get->importer,
        .environment = request->environment,
        .uri = request->reference->text,
        .timeout = (int64_t)request->timeout,
        .timeout_remedy = request->timeout_remedy,
        .say = request->say,
        .argument = request->argument,
        .stop = request->stop,
    };

    return importer_get(&importer, getting->path, sizeof(getting->path), err);
}

static int find_image(struct getting *getting, struct error *err)
{
    const struct image_reference *reference = getting->get->request.reference;

    if (reference->scheme == IMAGE_FILE)
        return squashfs_find(reference->text, getting->path, sizeof(getting->path), err);
    return getting->get->importer ? ask_importer(getting, err) : import_or_wait(getting, err);
}

/* Prefer a copy on the node's local disk. All nodes copy at once, so only one reports progress. If
 * copying fails, the image is started from its original path. */
static void stage_image(struct getting *getting)
{
    const struct image_get *get = getting->get;
    const struct stage_request request = {
        .directory = get->stage,
        .limit = get->stage_max,
        .key = getting->key,
        .image = getting->path,
        .timeout = time_left(getting),
        .say = get->waits ? NULL : get->request.say,
        .argument = get->request.argument,
        .stop = get->request.stop,
    };
    char staged[PATH_MAX];
    struct error err;

    if (!get->stage || !getting->key[0])
        return;
    if (image_stage(&request, staged, sizeof(staged), &err) == 0)
        snprintf(getting->path, sizeof(getting->path), "%s", staged);
    else if (!is_stopped(get->request.stop))
        log_warning("%s; the image is started from the cache", err.text);
}

/* --- the container --------------------------------------------------------------------------- */

/* Warn if the container was created from another image than the step requests; 'origin' is a key
 * and a name. The registry is not asked again: its last answer is good enough. One node warns for
 * all. */
static void compare_origin(const struct getting *getting, const char *origin)
{
    const struct image_get *get = getting->get;
    const char *wanted = get->request.reference->text, *name = strchr(origin, ' ');
    char key[IMAGE_KEY_SIZE] = "";

    if (!name || get->waits)
        return;
    if (get->request.reference->scheme != IMAGE_FILE && image_recalled(&get->request, key) < 0)
        key[0] = '\0';
    if (strcmp(name + 1, wanted) == 0 && (!key[0] || strncmp(origin, key, strlen(key)) == 0))
        return;
    log_warning("using the existing container %s, created from %s%.400s; to create it from %.400s, "
                "run `enroot remove megatron_%s` first",
                get->container, strcmp(name + 1, wanted) == 0 ? "an older " : "", name + 1, wanted,
                get->container);
}

static int get_container(struct getting *getting, char *answer, size_t size, struct error *err)
{
    const struct image_get *get = getting->get;
    char wanted[NAMED_ORIGIN_SIZE], origin[NAMED_ORIGIN_SIZE];
    struct named_request request = {
        .name = get->container,
        .origin = wanted,
        .path = get->request.path,
        .environment = get->request.environment,
        .timeout_remedy = get->request.timeout_remedy,
        .patience = LEASE_SECONDS,
        .stop = get->request.stop,
    };
    int rc = container_kept(&request, answer, size, origin, err);

    if (rc == 1)
        compare_origin(getting, origin);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    if (find_image(getting, err) < 0)
        return -1;
    stage_image(getting);
    snprintf(wanted, sizeof(wanted), "%s %s", getting->key[0] ? getting->key : "-",
             get->request.reference->text);
    request.image = getting->path;
    request.timeout = time_left(getting);
    return container_keep(&request, answer, size, err);
}

int image_get(struct image_get *get, char *answer, size_t size, struct error *err)
{
    struct getting *getting = xcalloc(1, sizeof(*getting));
    int rc;

    getting->get = get;
    getting->begun = clock_now();
    if (get->container)
        rc = get_container(getting, answer, size, err);
    else
        rc = find_image(getting, err);
    if (rc == 0 && !get->container) {
        stage_image(getting);
        snprintf(answer, size, "%s", getting->path);
    }
    free(getting);
    return rc;
}
