/* SPDX-License-Identifier: Apache-2.0 */
/* Determine which image a name refers to. */
#include "container/enroot.h"
#include "lib/clock.h"
#include "progress.h"
#include "lib/lease.h"
#include "base/core/log.h"
#include "container/process.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

enum { DIGEST_TIMEOUT = 60, RECORD_SIZE = IMAGE_TEXT_SIZE + 80 };

/* The name of a reference in the cache's records. A registry name refers to a different image on
 * each architecture; a daemon has one image per name. */
static void name_record(const struct image_request *request, char name[RECORD_SIZE])
{
    const struct image_reference *reference = request->reference;
    struct utsname host;

    uname(&host);
    snprintf(name, RECORD_SIZE, "%s%s%s", reference->text,
             reference->scheme == IMAGE_DOCKER ? " " : "",
             reference->scheme != IMAGE_DOCKER ? ""
             : request->architecture           ? request->architecture
                                               : host.machine);
}

/* A query to the registry or daemon; other steps of the job may wait for the answer. */
struct question {
    const struct image_request *request;
    struct lease *lease; /* NULL if no other process waits */
};

void image_beat(const struct image_request *request)
{
    if (request->beat)
        request->beat(request->argument);
}

static int on_tick(void *argument, double elapsed)
{
    const struct question *question = argument;

    (void)elapsed;
    image_beat(question->request);
    /* A lost lease only means that two processes ask. */
    if (question->lease)
        (void)lease_beat(question->lease);
    return 0;
}

static int ask(const struct question *question, const char *const *argv, const char *prefix,
               char key[IMAGE_KEY_SIZE], struct error *err)
{
    const struct image_request *request = question->request;
    struct process_request process = {.argv = argv,
                                      .environment = request->environment,
                                      .path = request->path,
                                      .timeout = DIGEST_TIMEOUT,
                                      .tick = on_tick,
                                      .argument = (void *)question,
                                      .stop = request->stop};
    struct process_result result;
    char what[IMAGE_TEXT_SIZE + 64], digest[sizeof(result.output) + 16];

    if (process_run(&process, &result, err) < 0)
        return -1;
    snprintf(what, sizeof(what), "looking up %.300s", request->reference->text);
    if (is_stopped(request->stop))
        return error_set(err, STOPPED);
    if (result.timed_out)
        return error_set(err, "%s: no answer within %d seconds; check %s", what, DIGEST_TIMEOUT,
                         request->reference->scheme == IMAGE_DOCKER
                             ? "the registry's name, the network and the proxy (https_proxy)"
                             : "that docker or podman responds on this host");
    if (result.status != 0)
        return enroot_explain(what, result.status, result.errors, err);
    snprintf(digest, sizeof(digest), "%s%s",
             strncmp(result.output, "sha256:", 7) == 0 ? "" : prefix, result.output);
    if (image_key_from_digest(digest, key, err) < 0)
        return error_prefix(err, "%s: output of `%s %s`", what, argv[0], argv[1]);
    return 0;
}

static int is_cached(const struct image_request *request, const char *key)
{
    char path[4096];

    return (request->shared &&
            image_cache_find(request->shared, key, path, sizeof(path), NULL) == 1) ||
           image_cache_find(request->cache, key, path, sizeof(path), NULL) == 1;
}

int image_recalled(const struct image_request *request, char key[IMAGE_KEY_SIZE])
{
    char name[RECORD_SIZE];

    name_record(request, name);
    if (image_cache_recall(request->cache, name, key) == 0)
        return 0;
    return request->shared ? image_cache_recall(request->shared, name, key) : -1;
}

/* No answer: use the last one, if that image is still cached. */
static int use_last(const struct image_request *request, char key[IMAGE_KEY_SIZE],
                    const struct error *why)
{
    if (image_recalled(request, key) < 0 || !is_cached(request, key))
        return -1;
    log_warning("%s; using the image that the name referred to last time, %.20s...", why->text,
                key);
    return 0;
}

static int ask_registry(const struct question *question, char key[IMAGE_KEY_SIZE],
                        struct error *err)
{
    const struct image_request *request = question->request;
    const char *text = request->reference->text, *architecture = request->architecture;
    const char *const argv[] = {"enroot",     "digest", architecture ? "--arch" : text,
                                architecture, text,     NULL};
    const struct enroot_call call = {.path = request->path,
                                     .environment = request->environment,
                                     .tick = on_tick,
                                     .argument = (void *)question,
                                     .stop = request->stop};
    char name[RECORD_SIZE];
    struct error trouble;

    name_record(request, name);
    if (ask(question, argv, "", key, err) == 0)
        return image_cache_remember(request->cache, name, key, err);
    if (is_stopped(request->stop))
        return -1;
    if (use_last(request, key, err) == 0)
        return 0;
    /* A missing or outdated Enroot is the better explanation. */
    return enroot_check(&call, &trouble) < 0 ? error_set(err, "%s", trouble.text) : -1;
}

/* A digest always refers to the same image. It may be the digest of the image, or of a manifest
 * list for several architectures, which is never the key of an image. */
static int resolve_pinned(const struct question *question, char key[IMAGE_KEY_SIZE],
                          struct error *err)
{
    const struct image_request *request = question->request;

    if (image_recalled(request, key) == 0)
        return 0;
    if (!is_cached(request, request->reference->pinned))
        return ask_registry(question, key, err);
    snprintf(key, IMAGE_KEY_SIZE, "%s", request->reference->pinned);
    return 0;
}

static int resolve_daemon(const struct question *question, int ask_daemon, char key[IMAGE_KEY_SIZE],
                          struct error *err)
{
    const struct image_request *request = question->request;
    const struct image_reference *reference = request->reference;
    int docker = reference->scheme == IMAGE_DOCKERD;
    const char *name = strstr(reference->text, "://") + 3;
    const char *const argv[] = {
        docker ? "docker" : "podman", "image", "inspect", "--format", "{{.Id}}", name, NULL};

    if (ask_daemon && ask(question, argv, "sha256:", key, err) == 0)
        return image_cache_remember(request->cache, reference->text, key, err);
    /* In a batch job srun runs on a node without the daemon; sbatch imported the image on the
     * submit host. */
    if (ask_daemon)
        return use_last(request, key, err);
    if (image_recalled(request, key) < 0)
        return error_set(err,
                         "%.300s was never imported; run `megatron image import %.300s` on the "
                         "host whose %s has the image",
                         reference->text, reference->text, docker ? "Docker" : "Podman");
    return 0;
}

static int resolve_now(const struct question *question, int ask_daemon, char key[IMAGE_KEY_SIZE],
                       struct error *err)
{
    const struct image_reference *reference = question->request->reference;

    if (reference->scheme != IMAGE_DOCKER)
        return resolve_daemon(question, ask_daemon, key, err);
    return reference->pinned[0] ? resolve_pinned(question, key, err)
                                : ask_registry(question, key, err);
}

/* Steps of a job may start at the same time: one of them asks. One that has waited too long asks,
 * too. */
static int resolve_for_job(const struct image_request *request, int ask_daemon,
                           char key[IMAGE_KEY_SIZE], struct error *err)
{
    struct lease lease;
    struct lease_watch watch = {0};
    struct question question = {.request = request, .lease = &lease};
    char path[64], name[RECORD_SIZE];
    double begun = clock_now();
    int taken = 0, rc;

    name_record(request, name);
    image_cache_lease_job(request->job, name, path, sizeof(path));
    while (image_cache_recall_job(request->cache, request->job, name, key) < 0 && taken == 0 &&
           clock_now() - begun < DIGEST_TIMEOUT && !is_stopped(request->stop)) {
        taken = image_cache_lease(request->cache, &lease, path, request->patience, &watch, err);
        if (taken == 0) {
            image_beat(request);
            lease_pause(clock_now() - begun);
        }
    }
    if (taken < 0)
        return -1;
    if (!taken && is_stopped(request->stop))
        return error_set(err, STOPPED);
    rc = image_cache_recall_job(request->cache, request->job, name, key);
    if (rc < 0) {
        question.lease = taken ? &lease : NULL;
        rc = resolve_now(&question, ask_daemon, key, err);
        if (rc == 0)
            rc = image_cache_remember_job(request->cache, request->job, name, key, err);
    }
    if (taken)
        lease_release(&lease);
    return rc;
}

int image_resolve(const struct image_request *request, int ask_daemon, char key[IMAGE_KEY_SIZE],
                  struct error *err)
{
    const struct question question = {.request = request};

    return request->job ? resolve_for_job(request, ask_daemon, key, err)
                        : resolve_now(&question, ask_daemon, key, err);
}

int image_resolved(const struct image_request *request, char key[IMAGE_KEY_SIZE])
{
    char name[RECORD_SIZE];

    name_record(request, name);
    image_cache_refresh_job(request->cache, request->job, name);
    return image_cache_recall_job(request->cache, request->job, name, key);
}

void image_forget(const struct image_request *request)
{
    char name[RECORD_SIZE];

    name_record(request, name);
    image_cache_forget_job(request->cache, request->job, name);
}
