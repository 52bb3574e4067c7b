/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks agree on, and what one of them says. */
#include "checkpoint_private.h"
#include "base/core/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int checkpoint_arrays_of(const struct checkpoint *c)
{
    return c->config.save_optimizer ? ARRAYS : 1;
}

void checkpoint_say(const struct checkpoint *c, const char *format, ...)
{
    char text[1500];
    va_list args;

    if (!c->leads || !c->config.say)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    c->config.say(text);
}

void checkpoint_warn(const struct checkpoint *c, const char *format, ...)
{
    char text[1536];
    va_list args;

    if (!c->leads)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    log_warning("%s", text);
}

int checkpoint_agree(struct checkpoint *c, int rc, struct error *err)
{
    int rank = c->parallel->comm->rank;
    int64_t worst = rc < 0 ? -rc : 0, first;
    struct error failure;

    if (comm_host_max(c->parallel->comm, &worst, 1, err) < 0)
        return -1;
    if (worst == 0)
        return 0;
    first = worst == -rc ? -rank : INT64_MIN;
    if (comm_host_max(c->parallel->comm, &first, 1, err) < 0)
        return -1;
    memset(&failure, 0, sizeof(failure));
    if (rank == -first)
        failure = *err;
    if (comm_host_broadcast(c->parallel->comm, &failure, sizeof(failure), (int)-first, err) < 0)
        return -1;
    *err = failure;
    return (int)-worst;
}

int checkpoint_from_leader(struct checkpoint *c, int64_t *number, struct error *err)
{
    struct comm *comm = c->parallel->comm;

    return comm_host_broadcast(comm, number, sizeof(*number), comm->size - 1, err);
}
