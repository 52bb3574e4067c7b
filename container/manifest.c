#include "manifest.h"
#include "enroot.h"
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

/* The sizes of the objects in the array that begins at 'at'. */
static int64_t sum_sizes(const char *at)
{
    int64_t sum = 0;
    int depth = 0, found = 0;

    while (*at) {
        if (*at == '"') {
            const char *value = depth == 2 ? member(at, "size") : NULL;
            char *end = NULL;
            long long size = value ? strtoll(value, &end, 10) : 0;

            if (value && (end == value || size < 0 || size > INT64_MAX / 4 - sum))
                return -1;
            sum += size;
            found += value != NULL;
            at = skip_string(at);
            continue;
        }
        depth += *at == '[' || *at == '{';
        depth -= *at == ']' || *at == '}';
        if (depth == 0)
            return found > 0 ? sum : -1;
        at++;
    }
    return -1;
}

int64_t manifest_sum(const char *text)
{
    int depth = 0;

    while (*text) {
        const char *value = *text == '"' && depth == 1 ? member(text, "layers") : NULL;

        if (value) {
            while (isspace((unsigned char)*value))
                value++;
            return *value == '[' ? sum_sizes(value) : -1;
        }
        depth += *text == '[' || *text == '{';
        depth -= *text == ']' || *text == '}';
        text = *text == '"' ? skip_string(text) : text + 1;
    }
    return -1;
}

static int64_t read_manifest(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat info;
    char *text = NULL;
    int64_t sum = -1;

    if (fd >= 0 && fstat(fd, &info) == 0 && info.st_size > 0 && info.st_size < MOST_TEXT)
        text = calloc(1, (size_t)info.st_size + 1);
    if (text && read(fd, text, (size_t)info.st_size) == info.st_size)
        sum = manifest_sum(text);
    free(text);
    if (fd >= 0)
        close(fd);
    return sum;
}

static int write_shim(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    ssize_t size = sizeof(shim) - 1;
    int good = fd >= 0 && write(fd, shim, sizeof(shim) - 1) == size;

    if (fd >= 0 && close(fd) < 0)
        good = 0;
    return good ? 0 : -1;
}

static int on_tick(void *argument, double elapsed)
{
    const struct image_request *request = argument;

    (void)elapsed;
    if (request->beat)
        request->beat(request->argument);
    return 0;
}

int64_t manifest_layers(const struct image_request *request, const char *directory)
{
    const char *const argv[] = {"enroot", "digest", request->reference->text, NULL};
    const char *searched = environment_value(request->environment, "PATH");
    char real[4096], curl[4200], file[2200], path[20000], program[4096 + 32];
    const char *settings[] = {curl, file, path, NULL};
    struct process_request process = {.argv = argv,
                                      .path = request->path,
                                      .timeout = TIMEOUT,
                                      .tick = on_tick,
                                      .argument = (void *)request};
    struct process_result *result;
    struct error ignored;
    int64_t sum = -1;

    searched = searched ? searched : request->path;
    if (request->reference->scheme != IMAGE_DOCKER || strlen(directory) > 2000 ||
        process_find("curl", searched, real, sizeof(real)) < 0)
        return -1;
    snprintf(program, sizeof(program), "%s/curl", directory);
    snprintf(curl, sizeof(curl), "MEGATRON_CURL=%s", real);
    snprintf(file, sizeof(file), "MEGATRON_MANIFEST=%s/manifest", directory);
    snprintf(path, sizeof(path), "PATH=%s:%.17000s", directory, searched);
    result = calloc(1, sizeof(*result));
    process.environment = enroot_environment(request->environment, settings);
    if (result && process.environment && write_shim(program) == 0 &&
        process_run(&process, result, &ignored) == 0)
        sum = read_manifest(strchr(file, '=') + 1);
    free((void *)process.environment);
    free(result);
    unlink(program);
    unlink(strchr(file, '=') + 1);
    return sum;
}
