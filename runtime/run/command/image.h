/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `megatron image` share: its options, and its actions. */
#ifndef MEGATRON_COMMAND_IMAGE_H
#define MEGATRON_COMMAND_IMAGE_H

#include <stdint.h>
#include "run/image/cache.h"
#include "lib/error.h"
#include "run/image/import.h"
#include "container/stop.h"

struct image_options {
    const char *output, *cache, *arch, *max_size;
    const char *shared_cache, *publisher, *stage, *stage_max, *min_free;
    const char *job, *step, *container, *importer;
    int64_t keep_days, timeout, nodes, processors;
    int wait;
};

/* Open the user's cache. Returns 0 or -1. */
int image_open_cache(const struct image_options *given, struct image_cache *cache,
                     struct error *err);

/* Read 'uri' and the options that every import takes into 'request'. The caller frees
 * request->environment. Returns 0 or -1. */
int image_prepare(const struct image_options *given, const char *uri,
                  const struct image_cache *cache, struct image_reference *reference,
                  struct image_request *request, struct error *err);

/* Set by SIGINT, SIGTERM and SIGHUP from now on: the import is undone, and fails. With 'once' the
 * second signal ends the process. */
const stop_flag *image_catch_signals(int once);

/* The actions that the plugin runs on each node. Return 0 or -1. */
int image_run_get(const struct image_options *given, const char *uri, struct error *err);
int image_run_release(const struct image_options *given, struct error *err);

#endif
