/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "secret.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#ifdef HAVE_OPENSSL
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#endif

int secret_random(void *bytes, size_t size, struct error *err)
{
    char *at = bytes;

    while (size > 0) {
        ssize_t got = getrandom(at, size, 0);

        if (got < 0 && errno != EINTR)
            return error_set_errno(err, errno, "cannot get random numbers from the kernel");
        if (got > 0) {
            at += got;
            size -= (size_t)got;
        }
    }
    return 0;
}

#ifdef HAVE_OPENSSL

enum { MOST_DATA = 512 };

int secret_code(const struct secret_key *key, const char *purpose, const void *data, size_t size,
                unsigned char code[SECRET_BYTES])
{
    unsigned char text[MOST_DATA];
    size_t length = strlen(purpose) + 1; /* its zero byte separates it from the data */
    unsigned made = 0;

    if (length > sizeof(text) || size > sizeof(text) - length)
        return -1;
    memcpy(text, purpose, length);
    if (size > 0)
        memcpy(text + length, data, size);
    return HMAC(EVP_sha256(), key->bytes, SECRET_BYTES, text, length + size, code, &made) &&
                   made == SECRET_BYTES
               ? 0
               : -1;
}

int secret_derive(const char *text, struct secret_key *key, struct error *err)
{
    static const unsigned char purpose[] = "megatron: ranks of a step";
    unsigned made = 0;

    if (!text)
        text = "";
    *key = (struct secret_key){.known = text[0] == '\0'};
    if (!HMAC(EVP_sha256(), text, (int)strlen(text), purpose, sizeof(purpose), key->bytes, &made) ||
        made != SECRET_BYTES)
        return error_set(
            err,
            "OpenSSL cannot compute HMAC-SHA256; check its configuration (openssl.cnf, FIPS mode)");
    return 0;
}

int secret_equal(const unsigned char a[SECRET_BYTES], const unsigned char b[SECRET_BYTES])
{
    return CRYPTO_memcmp(a, b, SECRET_BYTES) == 0;
}

#else

int secret_code(const struct secret_key *key, const char *purpose, const void *data, size_t size,
                unsigned char code[SECRET_BYTES])
{
    (void)key, (void)purpose, (void)data, (void)size, (void)code;
    return -1;
}

int secret_derive(const char *text, struct secret_key *key, struct error *err)
{
    (void)text, (void)key;
    return error_set_code(err, ERROR_USAGE,
                          "this build has no OpenSSL, which ranks need to connect to each other; "
                          "install libssl-dev and build again");
}

int secret_equal(const unsigned char a[SECRET_BYTES], const unsigned char b[SECRET_BYTES])
{
    (void)a, (void)b;
    return 0;
}

#endif
