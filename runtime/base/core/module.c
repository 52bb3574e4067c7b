/* SPDX-License-Identifier: Apache-2.0 */
#include "module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The directory ../lib/megatron relative to the running program, or nothing. */
static void beside_program(char *path, size_t size)
{
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    char *slash;

    path[0] = '\0';
    if (length <= 0)
        return;
    program[length] = '\0';
    for (int up = 0; up < 2; up++) {
        slash = strrchr(program, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
    if (snprintf(path, size, "%s/lib/megatron", program) >= (int)size)
        path[0] = '\0';
}

static int find_module(const char *file, char *path, size_t size)
{
    char beside[PATH_MAX];
    const char *places[3];

    beside_program(beside, sizeof(beside));
    places[0] = getenv("MEGATRON_LIBRARY_DIR");
    places[1] = beside;
    places[2] = PKGLIBDIR;
    for (int i = 0; i < 3; i++) {
        if (!places[i] || !places[i][0])
            continue;
        if (snprintf(path, size, "%s/%s", places[i], file) < (int)size && access(path, R_OK) == 0)
            return 0;
    }
    return -1;
}

/* The remedy for the loader's error 'why'. */
static const char *remedy(const char *why)
{
    if (strstr(why, "cannot open shared object file"))
        return "; install that library, or name its directory in LD_LIBRARY_PATH";
    if (strstr(why, "undefined symbol") || strstr(why, "version `"))
        return "; that library is not of the version that this program was built with: reinstall "
               "megatron, or build it on this system";
    return "; reinstall megatron";
}

void *module_symbol(const char *file, const char *symbol, const char *what, struct error *err)
{
    char path[PATH_MAX + 64];
    void *handle, *address;

    if (find_module(file, path, sizeof(path)) < 0) {
        error_set(err,
                  "%s needs %s, which is not installed here (looked in " PKGLIBDIR "); this "
                  "build may have been made without it: see `megatron version`",
                  what, file);
        return NULL;
    }
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *why = dlerror();

        error_set(err, "%s: cannot open %s: %s%s", what, path, why, remedy(why));
        return NULL;
    }
    address = dlsym(handle, symbol);
    if (!address)
        error_set(err,
                  "%s: %s has no %s; it belongs to another version of megatron: reinstall megatron",
                  what, path, symbol);
    return address;
}
