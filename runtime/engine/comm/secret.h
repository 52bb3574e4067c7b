/* SPDX-License-Identifier: Apache-2.0 */
/* The secret that the ranks of a step share: it proves to each of them that the other end of a
 * connection belongs to the step. Message authentication is OpenSSL's HMAC-SHA256. */
#ifndef MEGATRON_COMM_SECRET_H
#define MEGATRON_COMM_SECRET_H

#include <stddef.h>

#include "lib/error.h"

enum { SECRET_BYTES = 32 };

/* Plain bytes that can be sent to the other ranks. */
struct secret_key {
    unsigned char bytes[SECRET_BYTES];
    unsigned char known; /* nothing secret: only peers of peer.h are ranks */
};

/* The text of MEGATRON_SECRET by which a user allows ranks of any host to connect without one. */
#define SECRET_NONE "none"

/* Fill 'bytes' with random numbers that nobody can predict. */
int secret_random(void *bytes, size_t size, struct error *err);

/* Derive the key of this step from the text of MEGATRON_SECRET. Without a secret (NULL, "" or
 * SECRET_NONE) all worlds have the same key, and any process that can connect could claim to be a
 * rank; except with SECRET_NONE, the key is marked as known. */
int secret_derive(const char *text, struct secret_key *key, struct error *err);

/* The authentication code of 'size' bytes. 'purpose' separates uses of the same key. */
int secret_code(const struct secret_key *key, const char *purpose, const void *data, size_t size,
                unsigned char code[SECRET_BYTES]);

/* Are two codes equal? Takes the same time wherever they differ. */
int secret_equal(const unsigned char a[SECRET_BYTES], const unsigned char b[SECRET_BYTES]);

#endif
