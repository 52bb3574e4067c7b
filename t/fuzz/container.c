/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what the container library reads from users, images, and files of its cache. The
 * first byte selects the reader; the rest is its input. */
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/image/announce.h"
#include "run/image/cache.h"
#include "lib/checksum.h"
#include "container/enroot.h"
#include "fuzz.h"
#include "lib/lease.h"
#include "container/mounts.h"
#include "container/process.h"
#include "container/reference.h"
#include "container/squashfs.h"

enum { READERS = 7 };

static char directory[] = "/tmp/megatron-fuzz-XXXXXX";
static struct image_cache cache;

static void remove_files(void)
{
    char command[sizeof(directory) + 16];

    snprintf(command, sizeof(command), "rm -rf %s", directory);
    (void)!system(command);
}

static void prepare(void)
{
    struct error err;

    if (cache.directory[0])
        return;
    if (!mkdtemp(directory) || image_cache_open(&cache, directory, &err) < 0)
        abort();
    atexit(remove_files);
}

static void write_file(const char *name, const void *data, size_t size)
{
    char place[sizeof(directory) + 1];

    snprintf(place, sizeof(place), "%s/", directory);
    fuzz_put(place, name, data, size);
}

static void read_mounts(const char *text)
{
    struct container_mounts mounts;
    struct error err;
    char line[8200];

    if (mounts_parse("m", text, &mounts, &err) == 0)
        for (size_t i = 0; i < mounts.count; i++) {
            if (mounts.items[i].target[0] != '/')
                abort();
            /* One line of four fields, whatever the paths contain. */
            if (mount_format(&mounts.items[i], line, sizeof(line)) == 0) {
                int spaces = 0;

                for (const char *c = line; *c; c++)
                    spaces += *c == ' ';
                if (spaces != 3 || strchr(line, '\n'))
                    abort();
            }
        }
    mounts_clear(&mounts);
}

static void read_reference(const char *text)
{
    struct image_reference reference;
    struct error err;
    char key[IMAGE_KEY_SIZE];

    if (image_reference_parse("i", text, &reference, &err) == 0 &&
        strpbrk(reference.text, "'\"`$\\\n"))
        abort();
    if (image_key_from_digest(text, key, &err) == 0 && strlen(key) != IMAGE_KEY_SIZE - 1)
        abort();
}

static void read_superblock(const uint8_t *data, size_t size)
{
    struct error err;
    int64_t bytes;
    int fd = memfd_create("image", 0);

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    if (squashfs_check(fd, "x", &bytes, &err) == 0 && bytes != (int64_t)size)
        abort();
    close(fd);
}

static void read_entry(const uint8_t *data, size_t size)
{
    static const char key[] =
        "sha256-0000000000000000000000000000000000000000000000000000000000000000";
    char name[128];
    struct image_entry *entries;
    struct error err;
    size_t count;

    snprintf(name, sizeof(name), "%s.info", key);
    write_file(name, data, size);
    snprintf(name, sizeof(name), "%s.sqsh", key);
    write_file(name, data, size);
    if (image_cache_list(&cache, &entries, &count, &err) < 0 || count != 1)
        abort();
    image_entry_verify(&cache, &entries[0], &err);
    free(entries);
}

static void read_name(const uint8_t *data, size_t size)
{
    char key[IMAGE_KEY_SIZE], path[128];

    snprintf(path, sizeof(path), "names/%016" PRIx64, checksum_of("docker://a", 10));
    write_file(path, data, size);
    image_cache_recall(&cache, "docker://a", key);
}

static int look(void *argument)
{
    (void)argument;
    return 0;
}

static void read_announcement(const uint8_t *data, size_t size)
{
    /* Negative patience: look at the lease once. */
    const struct announcement_wait wait = {.patience = -1, .look = look};
    struct announcement announcement;
    struct lease_watch watch = {0};
    struct lease lease;
    struct error err;
    char path[4096];

    write_file("work/step-a.lease", data, size);
    if (announcement_open(&announcement, &cache, "a", &err) < 0)
        abort();
    announcement_wait(&announcement, &wait, &err);
    snprintf(path, sizeof(path), "%s/work/step-a.lease", directory);
    if (lease_take(&lease, AT_FDCWD, path, 1000, &watch, &err) == 1)
        lease_release(&lease);
}

static void read_complaint(const char *text)
{
    char line[100];
    struct error err;

    process_complaint(text, line, sizeof(line));
    enroot_explain("x", 1, text, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text;

    if (size < 1)
        return 0;
    prepare();
    text = strndup((const char *)data + 1, size - 1);
    switch (data[0] % READERS) {
    case 0:
        read_mounts(text);
        break;
    case 1:
        read_reference(text);
        break;
    case 2:
        read_superblock(data + 1, size - 1);
        break;
    case 3:
        read_entry(data + 1, size - 1);
        break;
    case 4:
        read_name(data + 1, size - 1);
        break;
    case 5:
        read_announcement(data + 1, size - 1);
        break;
    case 6:
        read_complaint(text);
        break;
    }
    free(text);
    return 0;
}
