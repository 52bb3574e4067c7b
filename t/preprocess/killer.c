/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into `megatron preprocess` and other tools of the job engine. KILL_HOW says what
 * happens:
 *     kill, after   the process dies before, or after, call number KILL_AT of those that change the
 *                   file system
 *     full          that call fails with ENOSPC, if it may fail. So every state that a crash or a
 *                   full disk can leave is reached, one after the other.
 *     lazy          every such call takes 10 ms
 *     slow          removing a file takes 100 ms
 *     link          the file system has no hard links
 *     both          output files cannot be opened for reading and writing at once
 *     parts         opening a part takes 30 ms, and each creation of an output file is logged
 *     sync          syncing an output file takes 300 ms, and each copy job that is taken over is
 *                   logged
 *     blind         the message that ends the launch is never visible
 *     stale         it is not visible before the process has listed the directory; and the first
 *                   process that begins a chunk waits until the others have finished without it
 *     wait, chunk   the first process that syncs an output file, or begins a chunk, does so
 *     open          the first process that opens an output file to write to it waits until another
 *                   one has renamed the file, which takes that one a second */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static _Atomic long calls;

/* Returns 1 if the call is to fail. 'after' is set if the process is to die after the call. */
static int due(int *after, int fallible)
{
    const char *at = getenv("KILL_AT"), *how = getenv("KILL_HOW");

    *after = 0;
    if (how && !fallible && strcmp(how, "slow") == 0)
        nanosleep(&(struct timespec){0, 100000000}, NULL);
    if (how && strcmp(how, "lazy") == 0)
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    if (!at || !how || ++calls != atol(at))
        return 0;
    if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    *after = strcmp(how, "after") == 0;
    return strcmp(how, "full") == 0;
}

static int refuses_link(void)
{
    const char *how = getenv("KILL_HOW");

    return how && strcmp(how, "link") == 0 ? EPERM : 0;
}

/* Is the file not visible yet, as on NFS, where clients cache that a name does not exist? */
static int hides(const char *path, int flags)
{
    static _Atomic int fresh;
    const char *how = getenv("KILL_HOW");
    int stale = how && strcmp(how, "stale") == 0;

    fresh |= stale && (flags & O_DIRECTORY) && strstr(path, ".work");
    return how && (strcmp(how, "blind") == 0 || (stale && !fresh)) && strstr(path, "/end-") &&
           !(flags & O_CREAT);
}

/* The first caller: wait until the run that the file belongs to is finished. */
static void wait_until_gone(const char *file)
{
    char path[4096] = "", *run;

    strncpy(path, file, sizeof(path) - 1);
    run = strstr(path, ".work/");
    if (!run || mkdir("waits", 0700) < 0)
        return;
    run += strlen(".work/");
    run[strcspn(run, "/")] = '\0';
    for (int i = 0; i < 6000 && access(path, F_OK) == 0; i++)
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    strcpy(run, "finished");
    for (int i = 0; i < 6000 && access(path, F_OK) == 0; i++)
        nanosleep(&(struct timespec){0, 10000000}, NULL);
}

static void wait_until_renamed(const char *path)
{
    if (mkdir("waits", 0700) == 0)
        for (int i = 0; i < 6000 && access(path, F_OK) == 0; i++)
            nanosleep(&(struct timespec){0, 10000000}, NULL);
}

/* For an output file. Never refuses. */
static int wait_before_rename(const char *from)
{
    const char *how = getenv("KILL_HOW");

    if (how && strcmp(how, "open") == 0 && strstr(from, "/out-") && access(from, F_OK) == 0)
        nanosleep(&(struct timespec){1, 0}, NULL);
    return 0;
}

/* For an output file. Never refuses. */
static int wait_for_others(int fd)
{
    const char *how = getenv("KILL_HOW");
    char link[64], path[4096] = "";

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (how && strcmp(how, "wait") == 0 && readlink(link, path, sizeof(path) - 1) > 0 &&
        strstr(path, "/out-"))
        wait_until_gone(path);
    if (how && strcmp(how, "sync") == 0 && readlink(link, path, sizeof(path) - 1) > 0 &&
        strstr(path, "/out-"))
        nanosleep(&(struct timespec){0, 300000000}, NULL);
    return 0;
}

/* Is it an output file, opened for reading and writing? */
static int refuses_both(const char *path, int flags)
{
    const char *how = getenv("KILL_HOW");

    return how && strcmp(how, "both") == 0 && strstr(path, "/out-") &&
           (flags & O_ACCMODE) == O_RDWR;
}

static void look_at(const char *path, int flags)
{
    const char *how = getenv("KILL_HOW");

    if (how && (strcmp(how, "chunk") == 0 || strcmp(how, "stale") == 0) && strstr(path, "/draft-"))
        wait_until_gone(path);
    if (how && strcmp(how, "open") == 0 && strstr(path, "/out-") && !(flags & O_CREAT))
        wait_until_renamed(path);
    if (how && strcmp(how, "sync") == 0 && strstr(path, "/copy/claim-") &&
        strcmp(path + strlen(path) - 4, "-0-1") == 0 && (flags & O_CREAT))
        dprintf(2, "taken over %s\n", path);
    if (!how || strcmp(how, "parts") != 0)
        return;
    if (strstr(path, "/part-") && !(flags & O_CREAT))
        nanosleep(&(struct timespec){0, 30000000}, NULL);
    if (strstr(path, "/out-") && (flags & O_CREAT))
        dprintf(2, "created %s\n", path);
}

static void die_if(int after)
{
    if (after)
        raise(SIGKILL);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define HOOK_UNLESS(refusal, type, name, fallible, parameters, arguments) \
    type name parameters                                                  \
    {                                                                     \
        int after, fails = due(&after, fallible), refused = refusal;      \
        type result;                                                      \
                                                                          \
        if (refused || (fails && fallible)) {                             \
            errno = refused ? refused : ENOSPC;                           \
            return -1;                                                    \
        }                                                                 \
        result = NEXT(name) arguments;                                    \
        die_if(after);                                                    \
        return result;                                                    \
    }
#define HOOK(type, name, fallible, parameters, arguments) \
    HOOK_UNLESS(0, type, name, fallible, parameters, arguments)

HOOK(ssize_t, writev, 1, (int fd, const struct iovec *parts, int count), (fd, parts, count))
HOOK(ssize_t, pwrite, 1, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
HOOK(ssize_t, pwrite64, 1, (int fd, const void *data, size_t size, off64_t at),
     (fd, data, size, at))
HOOK_UNLESS(wait_before_rename(from), int, rename, 1, (const char *from, const char *to),
            (from, to))
HOOK_UNLESS(refuses_link(), int, link, 1, (const char *from, const char *to), (from, to))
HOOK(int, unlink, 0, (const char *path), (path))
HOOK(int, rmdir, 0, (const char *path), (path))
HOOK(int, mkdir, 1, (const char *path, mode_t mode), (path, mode))
HOOK_UNLESS(wait_for_others(fd), int, fsync, 1, (int fd), (fd))
HOOK(int, ftruncate, 1, (int fd, off_t size), (fd, size))
HOOK(int, ftruncate64, 1, (int fd, off64_t size), (fd, size))

#define OPEN_HOOK(name)                         \
    int name(const char *path, int flags, ...)  \
    {                                           \
        int after = 0, fails = 0, result;       \
        mode_t mode;                            \
        va_list rest;                           \
                                                \
        va_start(rest, flags);                  \
        mode = va_arg(rest, mode_t);            \
        va_end(rest);                           \
        look_at(path, flags);                   \
        if (flags & O_CREAT)                    \
            fails = due(&after, 1);             \
        if (fails || hides(path, flags)) {      \
            errno = fails ? ENOSPC : ENOENT;    \
            return -1;                          \
        }                                       \
        if (refuses_both(path, flags)) {        \
            errno = EINVAL;                     \
            return -1;                          \
        }                                       \
        result = NEXT(name)(path, flags, mode); \
        die_if(after);                          \
        return result;                          \
    }
OPEN_HOOK(open)
OPEN_HOOK(open64)
