#include "announce.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { DAY = 86400 };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void remove_old(const char *directory)
{
    DIR *work = opendir(directory);
    struct dirent *item;
    struct stat info;
    char path[4096];

    while (work && (item = readdir(work))) {
        if (strncmp(item->d_name, "step-", 5) != 0 ||
            snprintf(path, sizeof(path), "%s/%s", directory, item->d_name) >= (int)sizeof(path))
            continue;
        if (lstat(path, &info) == 0 && time(NULL) - info.st_mtime > DAY)
            unlink(path);
    }
    if (work)
        closedir(work);
}

int announcement_open(struct announcement *announcement, const struct image_cache *cache,
                      const char *step, struct error *err)
{
    char directory[2100];

    snprintf(directory, sizeof(directory), "%s/work", cache->directory);
    remove_old(directory);
    if (strchr(step, '/') || snprintf(announcement->path, sizeof(announcement->path), "%s/step-%s",
                                      directory, step) >= 3000)
        return error_set(err, "the step's name %.100s cannot be a file's name", step);
    return 0;
}

int announcement_begin(struct announcement *announcement, struct error *err)
{
    struct lease_watch watch = {0};
    char path[4096 + 8];
    int taken;

    snprintf(path, sizeof(path), "%.3100s.lease", announcement->path);
    taken = lease_take(&announcement->lease, path, 0, &watch, err);
    if (taken < 0)
        return -1;
    return taken ? 0 : error_set(err, "another node of this step imports its image already");
}

void announcement_beat(struct announcement *announcement)
{
    (void)lease_beat(&announcement->lease);
}

int announcement_end(struct announcement *announcement, const char *key,
                     const struct error *failure, struct error *err)
{
    char draft[4096], text[1200];
    int length = key ? snprintf(text, sizeof(text), "image %s\n", key)
                     : snprintf(text, sizeof(text), "failed %s\n", failure->text);
    int fd, rc;

    snprintf(draft, sizeof(draft), "%.3100s.XXXXXX", announcement->path);
    fd = mkostemp(draft, O_CLOEXEC);
    rc = fd >= 0 && write(fd, text, (size_t)length) == length && fsync(fd) == 0 ? 0 : -1;
    if (fd >= 0 && close(fd) < 0)
        rc = -1;
    if (rc == 0)
        rc = rename(draft, announcement->path);
    if (rc < 0) {
        error_set_errno(err, errno, "cannot write %.300s", announcement->path);
        if (fd >= 0)
            unlink(draft);
    }
    lease_release(&announcement->lease);
    return rc;
}

/* Returns 1 when there is word, 0 when there is none yet, -1 when the word is a failure. */
static int read_word(const struct announcement *announcement, char key[IMAGE_KEY_SIZE],
                     struct error *err)
{
    int fd = open(announcement->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char text[1200];
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    if (got <= 0)
        return 0;
    text[got] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (strncmp(text, "image ", 6) == 0 && strlen(text + 6) < IMAGE_KEY_SIZE) {
        strcpy(key, text + 6);
        return 1;
    }
    return error_set(err, "%s", "");
}

/* A sign of life: the lease file's contents, or that of the directory being listed afresh, which
 * also makes network file systems forget that the file was not there. */
static void read_sign(const struct announcement *announcement, char *sign, size_t size)
{
    char path[4096 + 8];
    char *slash;
    DIR *listed;
    int fd;
    ssize_t got;

    snprintf(path, sizeof(path), "%.3100s.lease", announcement->path);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    got = fd < 0 ? -1 : read(fd, sign, size - 1);
    if (fd >= 0)
        close(fd);
    sign[got > 0 ? got : 0] = '\0';
    slash = strrchr(path, '/');
    *slash = '\0';
    listed = opendir(path);
    while (listed && readdir(listed)) {
    }
    if (listed)
        closedir(listed);
}

int announcement_wait(struct announcement *announcement, double patience, double timeout,
                      char key[IMAGE_KEY_SIZE], struct error *err)
{
    char seen[512] = "", sign[512];
    double begun = now(), changed = begun;
    double pause = 0.02;
    int word;

    while ((word = read_word(announcement, key, err)) == 0) {
        read_sign(announcement, sign, sizeof(sign));
        if (strcmp(sign, seen) != 0) {
            strcpy(seen, sign);
            changed = now();
        }
        if (now() - changed > patience)
            return error_set(err,
                             "the node that imports the image has shown no sign of life for %.0f "
                             "seconds; is %.300s on a file system that all nodes share?",
                             patience, announcement->path);
        if (timeout > 0 && now() - begun > timeout)
            return error_set(err, "the image was not imported within %.0f seconds by another node",
                             timeout);
        nanosleep(&(struct timespec){(time_t)pause, (long)(pause * 1e9) % 1000000000}, NULL);
        pause = pause < 0.5 ? pause * 1.5 : 0.5;
    }
    return word < 0 ? -1 : 0;
}
