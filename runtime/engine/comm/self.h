/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in backend; comm.c opens it. */
#ifndef MEGATRON_SELF_H
#define MEGATRON_SELF_H

#include "comm.h"

struct comm *self_comm_open(const struct comm_options *options, struct error *err);

#endif
