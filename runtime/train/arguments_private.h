/* The parts of arguments_derive. */
#ifndef MEGATRON_ARGUMENTS_PRIVATE_H
#define MEGATRON_ARGUMENTS_PRIVATE_H

#include "arguments.h"

/* Steps of the run, from samples where these are given. */
int arguments_length(struct arguments *arguments, struct error *err);

/* The rules of a step: learning rate, weight decay, loss scale. */
int arguments_schedule(struct arguments *arguments, struct error *err);

#endif
