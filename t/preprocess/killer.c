/* Preloaded into `megatron preprocess`: at call number KILL_AT among those that change the file
 * system, the process dies (KILL_HOW=kill: before the call, after: behind it) or the call fails
 * (KILL_HOW=full: with ENOSPC, if it is one that may). So every state that a crash or a full disk
 * can leave is reached, one after the other. KILL_HOW=slow: nothing fails, but it takes long to
 * remove a file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static _Atomic long calls;

/* Returns 1 if the call is to fail. 'after' is set if the process is to die behind it. */
static int due(int *after, int fallible)
{
    const char *at = getenv("KILL_AT"), *how = getenv("KILL_HOW");

    *after = 0;
    if (how && !fallible && strcmp(how, "slow") == 0)
        nanosleep(&(struct timespec){0, 100000000}, NULL);
    if (!at || !how || ++calls != atol(at))
        return 0;
    if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    *after = strcmp(how, "after") == 0;
    return strcmp(how, "full") == 0;
}

static void die_if(int after)
{
    if (after)
        raise(SIGKILL);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define HOOK(type, name, fallible, parameters, arguments) \
    type name parameters                                  \
    {                                                     \
        int after, fails = due(&after, fallible);         \
        type result;                                      \
                                                          \
        if (fails && fallible) {                          \
            errno = ENOSPC;                               \
            return -1;                                    \
        }                                                 \
        result = NEXT(name) arguments;                    \
        die_if(after);                                    \
        return result;                                    \
    }

HOOK(ssize_t, writev, 1, (int fd, const struct iovec *parts, int count), (fd, parts, count))
HOOK(ssize_t, pwrite, 1, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
HOOK(ssize_t, pwrite64, 1, (int fd, const void *data, size_t size, off64_t at),
     (fd, data, size, at))
HOOK(int, rename, 1, (const char *from, const char *to), (from, to))
HOOK(int, link, 1, (const char *from, const char *to), (from, to))
HOOK(int, unlink, 0, (const char *path), (path))
HOOK(int, rmdir, 0, (const char *path), (path))
HOOK(int, mkdir, 1, (const char *path, mode_t mode), (path, mode))
HOOK(int, fsync, 1, (int fd), (fd))
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
        if (flags & O_CREAT)                    \
            fails = due(&after, 1);             \
        if (fails) {                            \
            errno = ENOSPC;                     \
            return -1;                          \
        }                                       \
        result = NEXT(name)(path, flags, mode); \
        die_if(after);                          \
        return result;                          \
    }
OPEN_HOOK(open)
OPEN_HOOK(open64)
