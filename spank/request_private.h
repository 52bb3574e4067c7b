/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that parse a request. */
#ifndef MEGATRON_REQUEST_PRIVATE_H
#define MEGATRON_REQUEST_PRIVATE_H

#include "request.h"

/* Start the next component of a het job; the words that follow belong to it. */
void request_add_component(struct request *request);

/* Read options from 'position' up to 'limit' or the first word that is not an option. Returns the
 * position where it stopped. */
int request_options(struct request *request, int position, int limit, char *const *argv);

#endif
