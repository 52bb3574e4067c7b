/* Get an image into the cache, once. */
#ifndef MEGATRON_IMPORT_H
#define MEGATRON_IMPORT_H

#include "cache.h"
#include "error.h"
#include "reference.h"
#include "stop.h"

struct image_request {
    const struct image_reference *reference;
    const struct image_cache *cache;  /* the user's own */
    const struct image_cache *shared; /* the administrator's, or NULL */
    const char *const *environment;   /* what Enroot sees: credentials, proxies, ENROOT_* */
    const char *architecture;         /* as uname(1) has it; NULL: this machine's */
    const char *job;                  /* a name that no other job has; NULL: not in a job */
    const char *path;                 /* directories with enroot, docker and podman */
    const char *temporary;            /* node-local directory for unfinished work */
    int64_t min_free;                 /* bytes that must be free before an import */
    double timeout;                   /* seconds for the whole import; 0: none */
    const char *timeout_option;       /* how the user raises it, for the error */
    double patience;                  /* seconds without a heartbeat of another importer */
    int processors;
    void (*say)(void *argument, const char *line); /* progress; may be NULL */
    void (*beat)(void *argument); /* called about once a second while it works; may be NULL */
    void *argument;
    const stop_flag *stop; /* may be NULL */
};

/* Find out which image the reference means now on the architecture: its key in the cache. For a
 * pinned reference the registry is asked once, since the digest may be that of a list of images. If
 * the registry does not answer, its last answer to this user or to the publisher is used, with a
 * note, provided that image is in a cache. dockerd:// and podman:// ask the daemon if 'ask_daemon';
 * otherwise, and if the daemon does not answer, they mean what was last imported from it. A job
 * asks once, for all its steps and nodes. Returns 0 or -1. */
int image_resolve(const struct image_request *request, int ask_daemon, char key[IMAGE_KEY_SIZE],
                  struct error *err);

/* The same without asking: what image_resolve, perhaps on another node, found for this job. Returns
 * 0, or -1 if there is no answer yet. */
int image_resolved(const struct image_request *request, char key[IMAGE_KEY_SIZE]);

/* What the reference meant when it was last asked for, in any job. Returns 0 or -1. */
int image_recalled(const struct image_request *request, char key[IMAGE_KEY_SIZE]);

/* Let the next step of the job ask again. */
void image_forget(const struct image_request *request);

/* The path of image 'key': from the administrator's cache, from the user's, or imported now. If
 * another process imports it, wait. Returns 0 or -1. */
int image_obtain(const struct image_request *request, const char *key, char *path, size_t size,
                 struct error *err);

#endif
