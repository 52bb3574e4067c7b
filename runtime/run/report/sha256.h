/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 in base64, as a content security policy names a script. Not OpenSSL's (comm/secret.h),
 * which is optional: a report must not depend on it for one hash. */
#ifndef MEGATRON_SHA256_H
#define MEGATRON_SHA256_H

#include <stddef.h>

/* Write the 44 characters and a NUL. 'length' is below 2^60. */
void sha256_base64(const char *bytes, size_t length, char out[45]);

#endif
