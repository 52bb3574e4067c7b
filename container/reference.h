/* What a user calls an image: a registry reference or the path of a squashfs file. */
#ifndef MEGATRON_REFERENCE_H
#define MEGATRON_REFERENCE_H

#include "error.h"

enum image_scheme { IMAGE_FILE, IMAGE_DOCKER, IMAGE_DOCKERD, IMAGE_PODMAN };

enum { IMAGE_TEXT_SIZE = 1024, IMAGE_KEY_SIZE = 80 };

struct image_reference {
    enum image_scheme scheme;
    char text[IMAGE_TEXT_SIZE];  /* as the user wrote it; for IMAGE_FILE the path */
    char pinned[IMAGE_KEY_SIZE]; /* key of a text that ends with @sha256:..., else "" */
};

/* Read an image's name. Refused are texts that neither Enroot nor a shell inside it would take as
 * data: quotes, `$`, backslashes, control characters; and names without a scheme that are no path.
 * The user of a registry may be `$oauthtoken`, as NVIDIA's wants it.
 * 'what' names the option in the error. Returns 0 or -1. */
int image_reference_parse(const char *what, const char *text, struct image_reference *reference,
                          struct error *err);

/* The name that Enroot and uname(1) have for an architecture, which may be written as registries
 * do: "aarch64" for "arm64". NULL if Enroot does not know the name. */
const char *image_architecture(const char *text);

/* Turn what `enroot digest` or a daemon's image id prints ("sha256:<64 hex digits>", white space
 * around it) into the key of a cache entry, "sha256-<64 hex digits>". Returns 0 or -1. */
int image_key_from_digest(const char *digest, char key[IMAGE_KEY_SIZE], struct error *err);

#endif
