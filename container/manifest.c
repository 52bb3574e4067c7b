#include "manifest.h"
#include "enroot.h"
#include "files.h"
#include "process.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TIMEOUT = 60, MOST_TEXT = 4 << 20 };

/* Enroot asks registries with curl, and knows how to ask each of them: tokens, helpers of cloud
 * providers, proxies. So `enroot digest` finds this in front of the real one: it does what is
 * asked, and where that is the head of a manifest, the whole of it is kept too. */
static const char shim[] =
    "#!/bin/sh\n"
    "\"$MEGATRON_CURL\" \"$@\"\n"
    "rc=$?\n"
    "case \" $* \" in *manifest.v2+json*' -I '*) ;; *) exit $rc ;; esac\n"
    "left=$#\n"
    "while [ $left -gt 0 ]; do\n"
    "    case $1 in\n"
    "    -o | -w) shift; left=$((left - 1)) ;;\n"
    "    -I) ;;\n"
    "    *) set -- \"$@\" \"$1\" ;;\n"
    "    esac\n"
    "    shift\n"
    "    left=$((left - 1))\n"
    "done\n"
    "\"$MEGATRON_CURL\" -f -o \"$MEGATRON_MANIFEST\" \"$@\" >/dev/null 2>&1\n"
    "exit $rc\n";

/* The end of the string that begins at 'at' with a quote. */
static const char *skip_string(const char *at)
{
    for (at++; *at && *at != '"'; at++)
        if (*at == '\\' && at[1])
            at++;
    return *at ? at + 1 : at;
}

/* Behind the colon of member 'name', where 'at' is at a string that is this name; else NULL. */
static const char *member(const char *at, const char *name)
{
    size_t length = strlen(name);
    const char *end;

    if (strncmp(at + 1, name, length) != 0 || at[length + 1] != '"')
        return NULL;
    end = at + length + 2;
    while (isspace((unsigned char)*end))
        end++;
    return *end == ':' ? end + 1 : NULL;
}

/* The 64 hex digits of a "sha256:..." that begins at 'at' with a quote; else nothing. */
static void read_digest(const char *at, char digest[LAYER_DIGEST_SIZE])
{
    static const char scheme[] = "\"sha256:";
    const char *digits;

    while (isspace((unsigned char)*at))
        at++;
    digits = at + sizeof(scheme) - 1;
    if (strncmp(at, scheme, sizeof(scheme) - 1) == 0 &&
        strspn(digits, "0123456789abcdef") == LAYER_DIGEST_SIZE - 1 &&
        digits[LAYER_DIGEST_SIZE - 1] == '"')
        snprintf(digest, LAYER_DIGEST_SIZE, "%.64s", digits);
}

static int read_member(const char *at, struct manifest_layer *layer)
{
    const char *value = member(at, "size");
    char *end;

    if (value) {
        layer->size = strtoll(value, &end, 10);
        return end == value || layer->size < 0 ? -1 : 0;
    }
    value = member(at, "digest");
    if (value)
        read_digest(value, layer->digest);
    return 0;
}

static int add_layer(const struct manifest_layer *layer, struct manifest *manifest)
{
    if (layer->size < 0)
        return 0;
    if (manifest->count == MANIFEST_LAYERS || layer->size > INT64_MAX / 4 - manifest->bytes)
        return -1;
    manifest->layers[manifest->count++] = *layer;
    manifest->bytes += layer->size;
    return 0;
}

/* The objects of the array that begins at 'at'. */
static int read_layers(const char *at, struct manifest *manifest)
{
    const struct manifest_layer none = {.size = -1};
    struct manifest_layer layer = none;
    int depth = 0;

    while (*at) {
        if (*at == '"') {
            if (depth == 2 && read_member(at, &layer) < 0)
                return -1;
            at = skip_string(at);
            continue;
        }
        depth += *at == '[' || *at == '{';
        depth -= *at == ']' || *at == '}';
        if (depth == 1 && *at == '}') {
            if (add_layer(&layer, manifest) < 0)
                return -1;
            layer = none;
        }
        if (depth == 0)
            return manifest->count > 0 ? 0 : -1;
        at++;
    }
    return -1;
}

static int find_layers(const char *text, struct manifest *manifest)
{
    int depth = 0;

    while (*text) {
        const char *value = *text == '"' && depth == 1 ? member(text, "layers") : NULL;

        if (value) {
            while (isspace((unsigned char)*value))
                value++;
            return *value == '[' ? read_layers(value, manifest) : -1;
        }
        depth += *text == '[' || *text == '{';
        depth -= *text == ']' || *text == '}';
        text = *text == '"' ? skip_string(text) : text + 1;
    }
    return -1;
}

int manifest_parse(const char *text, struct manifest *manifest)
{
    memset(manifest, 0, sizeof(*manifest));
    if (find_layers(text, manifest) == 0)
        return 0;
    memset(manifest, 0, sizeof(*manifest));
    return -1;
}

static int read_manifest(const char *path, struct manifest *manifest)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat info;
    char *text = NULL;
    int rc = -1;

    if (fd >= 0 && fstat(fd, &info) == 0 && info.st_size > 0 && info.st_size < MOST_TEXT)
        text = calloc(1, (size_t)info.st_size + 1);
    if (text && read(fd, text, (size_t)info.st_size) == info.st_size)
        rc = manifest_parse(text, manifest);
    free(text);
    if (fd >= 0)
        close(fd);
    return rc;
}

int manifest_ask(const struct image_request *request, const struct enroot_call *call,
                 const char *directory, struct manifest *manifest)
{
    const char *text = request->reference->text, *architecture = request->architecture;
    const char *const argv[] = {"enroot",     "digest", architecture ? "--arch" : text,
                                architecture, text,     NULL};
    const char *searched = environment_value(call->environment, "PATH");
    char real[4096], curl[4200], file[2200], path[20000], program[4096 + 32];
    const char *settings[] = {curl, file, path, NULL};
    struct process_request process = {.argv = argv,
                                      .path = call->path,
                                      .timeout = TIMEOUT,
                                      .tick = call->tick,
                                      .argument = call->argument,
                                      .stop = call->stop};
    struct process_result *result;
    struct error ignored;
    int rc = -1;

    memset(manifest, 0, sizeof(*manifest));
    searched = searched ? searched : call->path;
    if (request->reference->scheme != IMAGE_DOCKER || strlen(directory) > 2000 ||
        process_find("curl", searched, real, sizeof(real)) < 0)
        return -1;
    snprintf(program, sizeof(program), "%s/curl", directory);
    snprintf(curl, sizeof(curl), "MEGATRON_CURL=%s", real);
    snprintf(file, sizeof(file), "MEGATRON_MANIFEST=%s/manifest", directory);
    snprintf(path, sizeof(path), "PATH=%s:%.17000s", directory, searched);
    result = calloc(1, sizeof(*result));
    process.environment = enroot_environment(call->environment, settings);
    if (result && process.environment && small_program_write(program, shim) == 0 &&
        process_run(&process, result, &ignored) == 0)
        rc = read_manifest(strchr(file, '=') + 1, manifest);
    free((void *)process.environment);
    free(result);
    unlink(program);
    unlink(strchr(file, '=') + 1);
    return rc;
}
