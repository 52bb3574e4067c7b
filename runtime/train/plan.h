/* From arguments to what the layers below want, and what is said about it before the first step. */
#ifndef MEGATRON_PLAN_H
#define MEGATRON_PLAN_H

#include "arguments.h"

#include <stdio.h>

struct engine_config plan_engine(const struct arguments *arguments);

/* Points into 'arguments'. */
void plan_dataset(const struct arguments *arguments, struct dataset_config *config);

/* Print the plan (on the rank that 'speaks') and check that every arena fits the device. */
int plan_print(const struct arguments *arguments, const struct world *world, struct device *device,
               const struct parallel *parallel, int speaks, struct error *err);

/* Add to 'err', which says that memory lacks, how the run would take less of it. Returns -1. */
int plan_advise(const struct arguments *arguments, struct error *err);

#endif
