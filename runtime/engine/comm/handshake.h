/* SPDX-License-Identifier: Apache-2.0 */
/* The messages by which two ranks prove to each other that they have the key of their world. The
 * connecting rank sends a hello, the listening rank answers with a welcome, and the connecting rank
 * ends with a proof. Each code covers the random numbers that were sent before, so that recorded
 * messages are worthless. Only for rendezvous.c and rendezvous_accept.c. */
#ifndef MEGATRON_COMM_HANDSHAKE_H
#define MEGATRON_COMM_HANDSHAKE_H

#include <stdint.h>

#include "secret.h"

enum { HANDSHAKE_VERSION = 2 };

struct handshake_hello {
    char name[8]; /* "megatron" */
    int32_t version, size, from, to;
    unsigned char number[SECRET_BYTES]; /* random */
    char host[64];
    unsigned char code[SECRET_BYTES];
};

struct handshake_welcome {
    unsigned char number[SECRET_BYTES]; /* random */
    unsigned char code[SECRET_BYTES];
};

struct handshake_proof {
    unsigned char code[SECRET_BYTES];
};

/* Fill in the message (its number must be set) or check it. All return 0 or -1. */
int handshake_sign_hello(const struct secret_key *key, struct handshake_hello *hello);
int handshake_check_hello(const struct secret_key *key, const struct handshake_hello *hello);
int handshake_sign_welcome(const struct secret_key *key, const struct handshake_hello *hello,
                           struct handshake_welcome *welcome);
int handshake_check_welcome(const struct secret_key *key, const struct handshake_hello *hello,
                            const struct handshake_welcome *welcome);
int handshake_sign_proof(const struct secret_key *key, const struct handshake_welcome *welcome,
                         struct handshake_proof *proof);
int handshake_check_proof(const struct secret_key *key, const struct handshake_welcome *welcome,
                          const struct handshake_proof *proof);

/* rendezvous.c: set what every connection between ranks needs. */
void rendezvous_prepare(int fd);

#endif
