/* SPDX-License-Identifier: Apache-2.0 */
#include "locate.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LEVELS 6

static int there(char *path, size_t size, const char *directory, const char *below,
                 const char *name)
{
    int length = snprintf(path, size, "%s%s/%s", directory, below, name);

    return length > 0 && (size_t)length < size && access(path, R_OK) == 0;
}

int locate_data(const char *name, char *path, size_t size, struct error *err)
{
    char directory[4096];
    ssize_t length = readlink("/proc/self/exe", directory, sizeof(directory) - 1);
    char *slash;

    directory[length > 0 ? length : 0] = '\0';
    for (int level = 0; level < LEVELS && (slash = strrchr(directory, '/')); level++) {
        *slash = '\0';
        if (there(path, size, directory, "/share/megatron", name) ||
            there(path, size, directory, "/runtime/data/tokenizer", name))
            return 0;
    }
    if (there(path, size, PKGDATADIR, "", name))
        return 0;
    return error_set(err, "%s is neither next to the program nor in %s; reinstall megatron", name,
                     PKGDATADIR);
}
