/* SPDX-License-Identifier: Apache-2.0 */
/* From the time of a step to what people pay for: rates, days, money, faults and saves. */
#ifndef MEGATRON_OUTLOOK_H
#define MEGATRON_OUTLOOK_H

#include "search.h"

/* What the user says about the run; 0: not said. */
struct outlook_request {
    double tokens;          /* of the whole run */
    double price;           /* dollars per node and hour */
    double restart_seconds; /* from a fault to the first new step */
};

struct outlook {
    double low, high;                /* seconds of a step, 9 of 10 times */
    double tflops, mfu;              /* per GPU and second; of the peak */
    double tokens_per_second;        /* of the whole job */
    double bubble, exposed;          /* shares of a step */
    double checkpoint, save_seconds; /* bytes, and the time to write them */
    double fault_hours;              /* mean time between faults of the job */
    double interval;                 /* seconds between saves that lose the least */
    int64_t interval_steps;
    double lost;          /* share of the time lost to faults, restarts and saves */
    double days, dollars; /* to the end, with that; 0: tokens or price are not known */
};

struct outlook outlook_of(const struct candidate *candidate, const struct search_request *search,
                          const struct outlook_request *request);

#endif
