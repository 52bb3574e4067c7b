/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_root.h"
#include "lib/file.h"
#include "sweep.h"
#include "lib/trusted.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int image_cache_default(const char *named, const char *cache_home, const char *home,
                        char *directory, size_t size, struct error *err)
{
    int length;

    if (named && named[0])
        length = snprintf(directory, size, "%s", named);
    else if (cache_home && cache_home[0] == '/')
        length = snprintf(directory, size, "%s/megatron/images", cache_home);
    else if (home && home[0] == '/')
        length = snprintf(directory, size, "%s/.cache/megatron/images", home);
    else
        return error_set(err, "cannot choose an image cache: none of MEGATRON_IMAGE_CACHE, "
                              "XDG_CACHE_HOME and HOME is an absolute path; set one of them");
    if (length < 0 || (size_t)length >= size || directory[0] != '/')
        return error_set(
            err,
            "the path of the image cache, %.100s, must be absolute and shorter than 2,000 "
            "characters; name another directory, for example with MEGATRON_IMAGE_CACHE",
            directory);
    return 0;
}

bool cache_is_marked(int at, uid_t owner)
{
    int fd = openat(at, CACHE_MARKER, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    char text[sizeof(CACHE_MARKER_TEXT) + 1];
    struct stat info;

    if (fd >= 0 && (fstat(fd, &info) < 0 || (info.st_uid != owner && info.st_uid != 0))) {
        close(fd);
        fd = -1;
    }
    return file_read_text_fd(fd, text, sizeof(text)) >= 0 && strcmp(text, CACHE_MARKER_TEXT) == 0;
}

void cache_sweep_unfinished(int at)
{
    static const char *const leases[] = {"%k.lease", "%n.lease", "step-%w.lease", NULL};
    int work = openat(at, "work", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (work < 0)
        return;
    sweep_unfinished(work, leases);
    close(work);
}

void cache_release(const char *directory)
{
    int at = trusted_parents(directory, NULL) < 0
                 ? -1
                 : trusted_directory_open(AT_FDCWD, directory, TRUSTED_PRIVATE, NULL);

    if (at < 0)
        return;
    if (cache_is_marked(at, geteuid()))
        cache_sweep_unfinished(at);
    close(at);
}
