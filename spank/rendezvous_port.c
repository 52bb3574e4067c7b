/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous_port.h"
#include "hash.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS_IN_A_ROW = 8, SPREAD = 16 };

int64_t rendezvous_port(const struct rendezvous_step *step, unsigned attempt)
{
    uint64_t size = (uint64_t)(step->high - step->low + 1);
    /* 16 ports for each job: 8 for its steps, and 8 after a requeue. */
    uint64_t place = hash_text(HASH_BEGIN, step->cluster) % size +
                     (uint64_t)step->job % size * SPREAD + step->step % STEPS_IN_A_ROW +
                     step->restarts % 2 * STEPS_IN_A_ROW;

    /* Later attempts are far away from the ports of jobs that run at the same time. */
    place += attempt * (size / 3 + 1) + attempt * SPREAD * 7;
    return step->low + (int64_t)(place % size);
}

int64_t rendezvous_reserved(const char *text)
{
    char *end;
    long port = strtol(text, &end, 10);

    if (end == text || (*end != '\0' && *end != '-' && *end != ',') || port < 1 || port > 65535)
        return 0;
    return port;
}
