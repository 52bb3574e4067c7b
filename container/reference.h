/* SPDX-License-Identifier: Apache-2.0 */
/* An image as the user names it: a registry reference or the path of a squashfs file. */
#ifndef MEGATRON_REFERENCE_H
#define MEGATRON_REFERENCE_H

#include "lib/error.h"

enum image_scheme { IMAGE_FILE, IMAGE_DOCKER, IMAGE_DOCKERD, IMAGE_PODMAN };

enum { IMAGE_TEXT_SIZE = 1024, IMAGE_KEY_SIZE = 80 };

struct image_reference {
    enum image_scheme scheme;
    char text[IMAGE_TEXT_SIZE];  /* as the user wrote it; for IMAGE_FILE the path */
    char pinned[IMAGE_KEY_SIZE]; /* cache key if the reference ends with @sha256:..., else "" */
};

/* Parse an image's name. Rejects text that Enroot, or the shell inside it, would not treat as plain
 * data: quotes, `$`, backslashes, control characters; and names without a scheme that are not
 * paths. The registry user may be `$oauthtoken`, as NVIDIA's registry requires. 'what' names the
 * option in the error. Returns 0 or -1. */
int image_reference_parse(const char *what, const char *text, struct image_reference *reference,
                          struct error *err);

/* Return the name that Enroot and uname(1) use for an architecture, which may also be given as
 * registries spell it: "aarch64" for "arm64". NULL if Enroot does not support it. */
const char *image_architecture(const char *text);

/* Convert the output of `enroot digest` or a daemon's image id ("sha256:<64 hex digits>", with
 * optional white space around it) to a cache key, "sha256-<64 hex digits>". Returns 0 or -1. */
int image_key_from_digest(const char *digest, char key[IMAGE_KEY_SIZE], struct error *err);

#endif
