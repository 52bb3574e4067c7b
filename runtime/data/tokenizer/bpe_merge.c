/* SPDX-License-Identifier: Apache-2.0 */
#define BPE_ENGINE bpe_engine_base
#include "bpe_merge.h"
