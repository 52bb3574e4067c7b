/* SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { HEX_DIGITS = 64 };

static const struct {
    const char *prefix;
    enum image_scheme scheme;
} schemes[] = {
    {"docker://", IMAGE_DOCKER},
    {"dockerd://", IMAGE_DOCKERD},
    {"podman://", IMAGE_PODMAN},
};

const char *image_architecture(const char *text)
{
    static const char *const names[][2] = {
        {"x86_64", "amd64"}, {"aarch64", "arm64"}, {"ppc64le", "ppc64le"}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(text, names[i][0]) == 0 || strcmp(text, names[i][1]) == 0)
            return names[i][0];
    return NULL;
}

/* The length of the prefix with NVIDIA's registry user, whose "$" is allowed; 0: not there. */
static size_t skip_token_user(const char *text)
{
    static const char user[] = "docker://$oauthtoken@";

    return strncmp(text, user, sizeof(user) - 1) == 0 ? sizeof(user) - 1 : 0;
}

/* Enroot passes an image's path through a shell, so reject everything that a shell would expand. */
static int check_characters(const char *what, const char *text, struct error *err)
{
    for (const char *c = text + skip_token_user(text); *c; c++) {
        if (strchr("'\"`$\\", *c))
            return error_set_code(
                err, ERROR_USAGE,
                "%s: the character %c in the name of an image is not supported, since Enroot would "
                "evaluate it%s",
                what, *c,
                strstr(text, "://") ? "; choose another name or tag"
                                    : "; rename the file or make a symbolic link");
        if (iscntrl((unsigned char)*c))
            return error_set_code(
                err, ERROR_USAGE,
                "%s: the name of the image contains a control character; remove it", what);
    }
    return 0;
}

static int parse_digest(const char *text, char key[IMAGE_KEY_SIZE])
{
    if (strncmp(text, "sha256:", 7) != 0)
        return -1;
    for (int i = 0; i < HEX_DIGITS; i++)
        if (!isxdigit((unsigned char)text[7 + i]) || isupper((unsigned char)text[7 + i]))
            return -1;
    snprintf(key, IMAGE_KEY_SIZE, "sha256-%.*s", HEX_DIGITS, text + 7);
    return 7 + HEX_DIGITS;
}

int image_key_from_digest(const char *digest, char key[IMAGE_KEY_SIZE], struct error *err)
{
    int length;

    while (isspace((unsigned char)*digest))
        digest++;
    length = parse_digest(digest, key);
    if (length < 0 || (digest[length] != '\0' && !isspace((unsigned char)digest[length])))
        return error_set_code(
            err, ERROR_USAGE,
            "\"%.80s\" is not a digest; it must have the form sha256:<64 hex digits>", digest);
    return 0;
}

static int parse_registry(const char *what, const char *rest, struct image_reference *reference,
                          struct error *err)
{
    const char *at = strstr(rest, "@sha256:");
    int length;

    for (const char *c = rest; *c; c++)
        if (isspace((unsigned char)*c))
            return error_set_code(
                err, ERROR_USAGE,
                "%s=%.200s: a registry reference must not contain spaces; remove them", what,
                reference->text);
    if (rest[0] == '\0' || rest[0] == '/')
        return error_set_code(err, ERROR_USAGE,
                              "%s=%.200s has no image name; write docker://[REGISTRY#]IMAGE[:TAG]",
                              what, reference->text);
    if (!at)
        return 0;
    length = parse_digest(at + 1, reference->pinned);
    if (length < 0 || at[1 + length] != '\0')
        return error_set_code(err, ERROR_USAGE,
                              "%s=%.200s: its digest is invalid; write @sha256:<64 hex digits>",
                              what, reference->text);
    return 0;
}

int image_reference_parse(const char *what, const char *text, struct image_reference *reference,
                          struct error *err)
{
    memset(reference, 0, sizeof(*reference));
    if (text[0] == '\0')
        return error_set_code(err, ERROR_USAGE,
                              "%s needs an image: docker://IMAGE[:TAG] or /path/image.sqsh", what);
    if (strlen(text) >= sizeof(reference->text))
        return error_set_code(
            err, ERROR_USAGE,
            "%s: the name of the image is longer than %zu characters; use a shorter one", what,
            sizeof(reference->text) - 1);
    if (check_characters(what, text, err) < 0)
        return -1;
    snprintf(reference->text, sizeof(reference->text), "%s", text);
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t length = strlen(schemes[i].prefix);

        if (strncmp(text, schemes[i].prefix, length) == 0) {
            reference->scheme = schemes[i].scheme;
            return parse_registry(what, text + length, reference, err);
        }
    }
    if (strstr(text, "://"))
        return error_set_code(
            err, ERROR_USAGE,
            "%s=%.200s: unknown scheme; use docker://, dockerd://, podman:// or a path", what,
            text);
    reference->scheme = IMAGE_FILE;
    if (text[0] == '/' || strncmp(text, "./", 2) == 0 || strncmp(text, "../", 3) == 0)
        return 0;
    return error_set_code(
        err, ERROR_USAGE,
        "%s=%.200s is neither a path nor a registry reference; write docker://%.200s or "
        "./%.200s",
        what, text, text, text);
}
