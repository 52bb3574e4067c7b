/* What a registry says of an image before it is imported. */
#ifndef MEGATRON_MANIFEST_H
#define MEGATRON_MANIFEST_H

#include <stdint.h>
#include "import.h"

/* Bytes of all layers of the image, compressed as the registry has them; -1 where that cannot be
 * found out, which is no error. 'directory' is for files needed meanwhile. */
int64_t manifest_layers(const struct image_request *request, const char *directory);

/* The same from the text of a manifest. */
int64_t manifest_sum(const char *text);

#endif
