/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of an import. */
#ifndef MEGATRON_IMPORT_PRIVATE_H
#define MEGATRON_IMPORT_PRIVATE_H

#include "import.h"
#include "progress.h"

/* Report progress to the user, and send a heartbeat, if the request has callbacks for them. */
#define image_say(request, ...) progress_say((request)->say, (request)->argument, __VA_ARGS__)
void image_beat(const struct image_request *request);

#endif
