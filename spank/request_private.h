/* Between the files that read a request. */
#ifndef MEGATRON_REQUEST_PRIVATE_H
#define MEGATRON_REQUEST_PRIVATE_H

#include "request.h"

/* The next component of a het job; words are read for it from now on. */
void request_add_component(struct request *request);

/* Words of options from 'position' up to 'limit' or the first word that is not an option. Returns
 * where it stopped. */
int request_options(struct request *request, int position, int limit, char *const *argv);

#endif
