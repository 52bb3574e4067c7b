#include "files.h"
#include "owner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Read what is open, and close it. */
static int read_open(int fd, char *text, size_t size)
{
    ssize_t got = fd < 0 ? -1 : read(fd, text, size - 1);

    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got < 0 ? -1 : 0;
}

int small_file_read(const char *path, char *text, size_t size)
{
    return read_open(open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), text, size);
}

int small_file_read_of(const char *path, uid_t owner, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat info;

    if (fd >= 0 && (fstat(fd, &info) < 0 || (info.st_uid != owner && info.st_uid != 0))) {
        close(fd);
        fd = -1;
    }
    return read_open(fd, text, size);
}

int small_program_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    ssize_t size = (ssize_t)strlen(text);
    int good = fd >= 0 && write(fd, text, (size_t)size) == size;

    if (fd >= 0 && close(fd) < 0)
        good = 0;
    return good ? 0 : -1;
}

/* Returns 0 or -1 (errno). */
static int write_new(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc = -1;

    if (fd < 0)
        return -1;
    if (write(fd, text, strlen(text)) == (ssize_t)strlen(text) && fsync(fd) == 0)
        rc = 0;
    if (close(fd) < 0)
        rc = -1;
    return rc;
}

int small_file_replace(const char *path, const char *work, const char *text, struct error *err)
{
    char draft[4096], owner[OWNER_SIZE];
    int rc = -1;

    for (int tries = 0; rc < 0 && tries < 8; tries++) {
        owner_name(owner);
        if (snprintf(draft, sizeof(draft), "%s/record@%s.new", work, owner) >= (int)sizeof(draft))
            return error_set(err, "the path %.100s... is too long", work);
        rc = write_new(draft, text);
        if (rc == 0)
            rc = rename(draft, path);
        if (rc < 0) {
            error_set_errno(err, errno, "cannot write %.300s", path);
            /* One that is gone was taken for that of a dead process. */
            if (unlink(draft) == 0 || errno != ENOENT)
                return -1;
        }
    }
    return rc;
}

int bytes_write(int to, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t put = write(to, bytes, count);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -1;
        bytes += put;
        count -= (size_t)put;
    }
    return 0;
}

void directory_refresh(const char *path)
{
    DIR *listed = opendir(path);

    while (listed && readdir(listed)) {
    }
    if (listed)
        closedir(listed);
}

double seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void seconds_sleep(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

    nanosleep(&t, NULL);
}

void seconds_sleep_about(double seconds)
{
    unsigned char chance = 128;

    (void)!getrandom(&chance, sizeof(chance), 0);
    seconds_sleep(seconds * (0.75 + chance / 510.0));
}
