/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEGATRON_JUDGE_PRIVATE_H
#define MEGATRON_JUDGE_PRIVATE_H

#include <stdbool.h>

#include "judge.h"

/* Does rank 'r' take part until the end? */
static inline bool judged(const struct job *job, int r)
{
    return job->states[r] == HUB_ALIVE;
}

/* Add a verdict about a rank's node; 'value' is a format. */
__attribute__((format(printf, 7, 8))) void judge_say(struct findings *findings, const char *host,
                                                     const char *check, enum verdict verdict,
                                                     const char *expected, const char *advice,
                                                     const char *value, ...);

/* How bad a value is by two limits, of which 0 is none. */
static inline enum verdict judge_grade(double value, double warn, double fail)
{
    return fail > 0 && value > fail   ? VERDICT_FAIL
           : warn > 0 && value > warn ? VERDICT_WARN
                                      : VERDICT_OK;
}

/* The value that half of the numbers are not above; the upper one of the two in the middle. Sorts
 * them. */
double judge_median(double *numbers, size_t count);

/* The parts of judge(). */
void judge_nodes(const struct job *job, struct findings *findings);
void judge_gpus(const struct job *job, struct findings *findings);
void judge_speed(const struct job *job, struct findings *findings);
void judge_network(const struct job *job, struct findings *findings);

#endif
