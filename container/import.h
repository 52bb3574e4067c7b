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
    const char *job;                  /* a name no other job has; NULL: outside of one */
    const char *path;                 /* where enroot, docker and podman are looked for */
    const char *temporary;            /* node-local directory for unfinished work */
    double timeout;                   /* seconds for the whole import; 0: none */
    const char *timeout_option;       /* where the user sets it */
    double patience;                  /* seconds without a sign of life of another importer */
    int processors;
    void (*say)(void *argument, const char *line); /* progress; may be NULL */
    void (*beat)(void *argument); /* called about once a second while it works; may be NULL */
    void *argument;
    const stop_flag *stop; /* may be NULL */
};

/* Which image the reference stands for now on the architecture: its key in the cache. For a pinned
 * reference the registry is asked once: its digest may be that of a list of images. Where the
 * registry cannot be asked, the answer it last gave to this user, or to the publisher, is taken and
 * said, if that image is in a cache. dockerd:// and podman:// ask the daemon if 'ask_daemon'; else,
 * and where it cannot be asked, they stand for what was last imported from it. Within a job it is
 * asked once, whatever the number of steps and nodes. Returns 0 or -1. */
int image_resolve(const struct image_request *request, int ask_daemon, char key[IMAGE_KEY_SIZE],
                  struct error *err);

/* The same without asking: what image_resolve, perhaps on another node, found for this job. Returns
 * 0, or -1 where that is not known yet. */
int image_resolved(const struct image_request *request, char key[IMAGE_KEY_SIZE]);

/* What the reference stood for when it was last asked for, in any job. Returns 0 or -1. */
int image_recalled(const struct image_request *request, char key[IMAGE_KEY_SIZE]);

/* Let the next step of the job ask anew. */
void image_forget(const struct image_request *request);

/* The path of image 'key', from the administrator's cache, the user's, or imported now; while
 * somebody else imports it, wait. Returns 0 or -1. */
int image_obtain(const struct image_request *request, const char *key, char *path, size_t size,
                 struct error *err);

#endif
