/* SPDX-License-Identifier: Apache-2.0 */
#include "space.h"
#include "base/core/storage.h"
#include "progress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLACES = 3, SIZE_TEXT = 32 };

/* The free space of 'directory', or of the directory that it will be created in; -1: unknown. */
static int64_t free_space(const char *directory)
{
    char path[2100];
    char *slash;

    snprintf(path, sizeof(path), "%s", directory);
    while (access(path, F_OK) < 0 && errno == ENOENT && (slash = strrchr(path, '/')) &&
           slash != path)
        *slash = '\0';
    return file_free_space(path);
}

/* The size of the largest cached image of this name, 0 if there is none. */
static int64_t last_size(const struct image_request *request)
{
    struct image_entry *entries;
    struct error ignored;
    int64_t size = 0;
    size_t count;

    if (image_cache_list(request->cache, &entries, &count, &ignored) < 0)
        return 0;
    for (size_t i = 0; i < count; i++)
        if (strcmp(entries[i].origin, request->reference->text) == 0 && entries[i].size > size)
            size = entries[i].size;
    free(entries);
    return size;
}

int import_check_space(const struct image_request *request, const struct import_places *places,
                       struct error *err)
{
    int64_t last = last_size(request), least = request->min_free;
    const struct {
        const char *what, *directory, *remedy;
        int64_t need;
    } rows[PLACES] = {
        {"temporary directory", places->temporary,
         "set ENROOT_TEMP_PATH or TMPDIR to another directory", least},
        {"layer cache of Enroot", places->layers, "set ENROOT_CACHE_PATH to another directory",
         least},
        {"image cache", request->cache->directory,
         "run `megatron image prune`, or set MEGATRON_IMAGE_CACHE to another directory",
         last > least ? last : least},
    };

    for (int i = 0; i < PLACES; i++) {
        int64_t room = rows[i].directory ? free_space(rows[i].directory) : -1;
        char need_text[SIZE_TEXT], room_text[SIZE_TEXT];

        if (room < 0 || room >= rows[i].need)
            continue;
        format_size((double)rows[i].need, need_text, sizeof(need_text));
        format_size((double)room, room_text, sizeof(room_text));
        return error_set(err,
                         "the import of %.300s needs at least %s in the %s, but %.300s has %s "
                         "free; %s",
                         request->reference->text, need_text, rows[i].what, rows[i].directory,
                         room_text, rows[i].remedy);
    }
    return 0;
}

void import_explain_space(const struct image_request *request, const struct import_places *places,
                          const char *errors, double unpacked, struct error *err)
{
    const char *const directories[PLACES] = {request->cache->directory, places->temporary,
                                             places->layers};
    int full = strstr(errors, "No space left") != NULL;
    struct error said = *err;
    char room[SIZE_TEXT];

    if (!full && !strstr(errors, "Disk quota exceeded"))
        return;
    error_set(err, "%.550s (%s:", said.text, full ? "no space left" : "quota exceeded");
    for (int i = 0; i < PLACES && directories[i]; i++) {
        int64_t bytes = free_space(directories[i]);

        snprintf(room, sizeof(room), "?");
        if (bytes >= 0)
            format_size((double)bytes, room, sizeof(room));
        error_append(err, "%s %s free in %.90s", i > 0 ? "," : "", room, directories[i]);
    }
    if (unpacked > 0) {
        format_size(unpacked, room, sizeof(room));
        error_append(err, "; unpacked, the image needs %s", room);
    }
    error_append(err, full ? ")" : "; see `quota -s` for your share of it)");
}
