/* What a registry says of an image before it is imported. */
#ifndef MEGATRON_MANIFEST_H
#define MEGATRON_MANIFEST_H

#include <stddef.h>
#include <stdint.h>
#include "enroot.h"
#include "import.h"

/* Docker allows 127. */
enum { MANIFEST_LAYERS = 512, LAYER_DIGEST_SIZE = 65 };

struct manifest_layer {
    char digest[LAYER_DIGEST_SIZE]; /* its hex digits; "" where it is not a sha256 */
    int64_t size;                   /* compressed, as the registry has it */
};

struct manifest {
    struct manifest_layer layers[MANIFEST_LAYERS];
    size_t count;
    int64_t bytes; /* of all layers */
};

/* Ask the registry for the image's manifest. Returns 0, or -1 where it cannot be had, which is no
 * error: it is then empty. 'directory' is for files needed meanwhile. */
int manifest_ask(const struct image_request *request, const struct enroot_call *call,
                 const char *directory, struct manifest *manifest);

/* Read the text of a manifest. Returns 0 or -1. */
int manifest_parse(const char *text, struct manifest *manifest);

#endif
