/* SPDX-License-Identifier: Apache-2.0 */
#include "handshake.h"

#include <stddef.h>
#include <string.h>

static const char program[8] = {'m', 'e', 'g', 'a', 't', 'r', 'o', 'n'};

static int hello_code(const struct secret_key *key, const struct handshake_hello *hello,
                      unsigned char code[SECRET_BYTES])
{
    return secret_code(key, "hello", hello, offsetof(struct handshake_hello, code), code);
}

int handshake_sign_hello(const struct secret_key *key, struct handshake_hello *hello)
{
    memcpy(hello->name, program, sizeof(program));
    hello->version = HANDSHAKE_VERSION;
    return hello_code(key, hello, hello->code);
}

int handshake_check_hello(const struct secret_key *key, const struct handshake_hello *hello)
{
    unsigned char code[SECRET_BYTES];

    if (memcmp(hello->name, program, sizeof(program)) != 0 || hello->version != HANDSHAKE_VERSION ||
        hello_code(key, hello, code) < 0)
        return -1;
    return secret_equal(code, hello->code) ? 0 : -1;
}

/* The hello's code covers all of the hello. */
static int welcome_code(const struct secret_key *key, const struct handshake_hello *hello,
                        const struct handshake_welcome *welcome, unsigned char code[SECRET_BYTES])
{
    unsigned char both[2 * SECRET_BYTES];

    memcpy(both, hello->code, SECRET_BYTES);
    memcpy(both + SECRET_BYTES, welcome->number, SECRET_BYTES);
    return secret_code(key, "welcome", both, sizeof(both), code);
}

int handshake_sign_welcome(const struct secret_key *key, const struct handshake_hello *hello,
                           struct handshake_welcome *welcome)
{
    return welcome_code(key, hello, welcome, welcome->code);
}

int handshake_check_welcome(const struct secret_key *key, const struct handshake_hello *hello,
                            const struct handshake_welcome *welcome)
{
    unsigned char code[SECRET_BYTES];

    if (welcome_code(key, hello, welcome, code) < 0)
        return -1;
    return secret_equal(code, welcome->code) ? 0 : -1;
}

int handshake_sign_proof(const struct secret_key *key, const struct handshake_welcome *welcome,
                         struct handshake_proof *proof)
{
    return secret_code(key, "proof", welcome, sizeof(*welcome), proof->code);
}

int handshake_check_proof(const struct secret_key *key, const struct handshake_welcome *welcome,
                          const struct handshake_proof *proof)
{
    unsigned char code[SECRET_BYTES];

    if (secret_code(key, "proof", welcome, sizeof(*welcome), code) < 0)
        return -1;
    return secret_equal(code, proof->code) ? 0 : -1;
}
