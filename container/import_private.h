/* What the parts of an import share. */
#ifndef MEGATRON_IMPORT_PRIVATE_H
#define MEGATRON_IMPORT_PRIVATE_H

#include "import.h"

/* Tell the user, and show that the work goes on, where the request says how. */
void image_say(const struct image_request *request, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void image_beat(const struct image_request *request);

#endif
