/* SPDX-License-Identifier: Apache-2.0 */
/* Get an image into the cache, once.
 *
 *     struct image_request request = {.reference = &reference, .cache = &cache, ...};
 *     char key[IMAGE_KEY_SIZE], path[4096];
 *
 *     if (image_resolve(&request, 1, key, err) == 0 &&
 *         image_obtain(&request, key, path, sizeof(path), err) == 0)
 *         puts(path);
 */
#ifndef MEGATRON_IMPORT_H
#define MEGATRON_IMPORT_H

#include "cache.h"
#include "lib/error.h"
#include "container/reference.h"
#include "container/stop.h"

struct image_request {
    const struct image_reference *reference;
    const struct image_cache *cache;  /* the user's own */
    const struct image_cache *shared; /* the administrator's, or NULL */
    const char *const *environment;   /* Enroot's environment: credentials, proxies, ENROOT_* */
    const char *architecture;         /* as reported by uname(1); NULL: this machine's */
    const char *job;                  /* a name unique to this job; NULL: not in a job */
    const char *path;                 /* directories to search for enroot, docker and podman */
    const char *temporary;            /* node-local directory for temporary files */
    int64_t min_free;                 /* bytes that must be free before an import */
    double timeout;                   /* seconds for the whole import; 0: none */
    const char *timeout_remedy;       /* if that is too short: "raise --option" */
    double patience;                  /* seconds without a heartbeat of another importer */
    int processors;
    void (*say)(void *argument, const char *line); /* progress; may be NULL */
    void (*beat)(void *argument); /* called about once a second during the work; may be NULL */
    void *argument;
    const stop_flag *stop; /* may be NULL */
};

/* Determine which image the reference currently means on the architecture: its key in the cache.
 * For a pinned reference the registry is asked once, since the digest may be that of a manifest
 * list. If the registry does not answer, its last answer to this user or to the publisher is used,
 * with a note, provided that image is cached. For dockerd:// and podman:// the daemon is asked if
 * 'ask_daemon'; otherwise, and if the daemon does not answer, they mean the last import from it. A
 * job asks once, for all its steps and nodes. Returns 0 or -1. */
int image_resolve(const struct image_request *request, int ask_daemon, char key[IMAGE_KEY_SIZE],
                  struct error *err);

/* The same without asking: the result of image_resolve, perhaps on another node, for this job.
 * Returns 0, or -1 if there is no answer yet. */
int image_resolved(const struct image_request *request, char key[IMAGE_KEY_SIZE]);

/* The last known meaning of the reference, in any job. Returns 0 or -1. */
int image_recalled(const struct image_request *request, char key[IMAGE_KEY_SIZE]);

/* Make the next step of the job ask again. */
void image_forget(const struct image_request *request);

/* Find the path of image 'key': in the administrator's cache, in the user's, or by importing it
 * now. If another process is importing it, wait. Returns 0 or -1. */
int image_obtain(const struct image_request *request, const char *key, char *path, size_t size,
                 struct error *err);

#endif
