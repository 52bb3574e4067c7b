/* What the parts of an import share. */
#ifndef MEGATRON_IMPORT_PRIVATE_H
#define MEGATRON_IMPORT_PRIVATE_H

#include "import.h"
#include "progress.h"

/* Tell the user, and show that the work goes on, where the request says how. */
#define image_say(request, ...) progress_say((request)->say, (request)->argument, __VA_ARGS__)
void image_beat(const struct image_request *request);

#endif
