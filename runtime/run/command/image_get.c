/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron image get` and `release`, the importer that the plugin runs: megatron-importer(7). */
#include "run/image/get.h"
#include "image.h"
#include "container/enroot.h"
#include "base/core/storage.h"
#include "base/core/log.h"
#include "lib/parse.h"
#include "container/scratch.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

static int read_publisher(const char *text, uid_t *publisher, struct error *err)
{
    const struct passwd *user = text ? getpwnam(text) : NULL;
    int64_t number = 0;

    if (text && !user && parse_int64("--publisher", text, 0, UINT32_MAX - 1, &number, NULL) < 0)
        return error_set_code(err, ERROR_USAGE,
                              "--publisher=%.100s is not a user; use a user name or a number",
                              text);
    *publisher = user ? user->pw_uid : (uid_t)number;
    return 0;
}

/* An administrator's cache that cannot be trusted is skipped with a warning. */
static int open_shared(const struct image_options *given, struct image_cache *shared,
                       struct image_request *request, struct error *err)
{
    uid_t publisher = 0;

    if (read_publisher(given->publisher, &publisher, err) < 0)
        return -1;
    if (!given->shared_cache)
        return 0;
    if (image_cache_open_shared(shared, given->shared_cache, publisher, err) == 0)
        request->shared = shared;
    else
        log_warning("%s", err->text);
    return 0;
}

static int check_step(const struct image_options *given, struct error *err)
{
    if ((given->nodes > 1 || given->wait) && (!given->job || !given->step))
        return error_set_code(err, ERROR_USAGE,
                              "--nodes and --wait need --job and --step; add both");
    if (given->wait && given->nodes <= 1)
        return error_set_code(err, ERROR_USAGE,
                              "--wait needs --nodes of 2 or more; add it, or drop --wait");
    return 0;
}

static int run_get(const struct image_options *given, struct image_get *get, struct error *err)
{
    struct image_cache shared = {.at = -1};
    char answer[4096];
    int rc = open_shared(given, &shared, &get->request, err);

    if (rc == 0)
        rc = image_get(get, answer, sizeof(answer), err);
    if (rc == 0)
        printf("%s\n", answer);
    image_cache_close(&shared);
    return rc;
}

int image_run_get(const struct image_options *given, const char *uri, struct error *err)
{
    struct image_reference reference;
    struct image_cache cache;
    struct image_get get = {
        .step = given->step,
        .nodes = (int)given->nodes,
        .waits = given->wait,
        .stage = given->stage,
        .container = given->container,
        .importer = given->importer,
    };
    int rc;

    if (check_step(given, err) < 0 ||
        (given->stage_max &&
         parse_size("--stage-max", given->stage_max, 1000, 1, INT64_MAX, &get.stage_max, err) < 0))
        return -1;
    /* Slurm and the plugin may both send SIGTERM: a second one must not cut the clean-up short. */
    get.request.stop = image_catch_signals(0);
    if (image_open_cache(given, &cache, err) < 0 ||
        image_prepare(given, uri, &cache, &reference, &get.request, err) < 0)
        return -1;
    get.request.job = given->job;
    if (given->job)
        get.request.timeout_remedy = "raise --megatron-import-timeout, or import the image "
                                     "beforehand with `megatron image import`";
    errno = 0;
    rc = run_get(given, &get, err);
    if (rc < 0 && reference.scheme == IMAGE_FILE)
        file_path_error(err);
    free((void *)get.request.environment);
    image_cache_close(&cache);
    return rc;
}

int image_run_release(const struct image_options *given, struct error *err)
{
    struct image_cache cache;

    if (image_open_cache(given, &cache, err) < 0)
        return -1;
    image_cache_sweep_unfinished(&cache);
    image_cache_close(&cache);
    scratch_sweep(enroot_temporary((const char *const *)environ));
    return 0;
}
