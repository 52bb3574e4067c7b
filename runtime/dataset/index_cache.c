/* Who builds a file of the index cache, and how the others wait for it. */
#include "config.h"
#include "index_private.h"
#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH_SIZE = 4096, NAME_SIZE = 256, RECORD_SIZE = 512, LONGEST_DESCRIPTION = 7900 };
static const double RENEW_SECONDS = 2, STALE_SECONDS = 30;

/* The places of one file in one directory. */
struct place {
    char directory[PATH_SIZE], path[PATH_SIZE + NAME_SIZE], lock[PATH_SIZE + NAME_SIZE + 8];
    char temporary[NAME_SIZE]; /* a name within 'directory', another one for every attempt */
};

/* This process, as it signs its locks. A process number means something within its namespace only:
 * containers on one host have several. */
struct signature {
    char host[128], space[64];
    long pid;
};

struct holder {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    int fd, running, stop;
    char record[RECORD_SIZE];
};

static void pause_for(double seconds)
{
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

    nanosleep(&time, NULL);
}

static void sign(struct signature *me)
{
    ssize_t size = readlink("/proc/self/ns/pid", me->space, sizeof(me->space) - 1);

    me->space[size > 0 ? size : 0] = '\0';
    if (size <= 0)
        strcpy(me->space, "-");
    if (gethostname(me->host, sizeof(me->host)) != 0 || me->host[0] == '\0')
        strcpy(me->host, "-");
    me->host[sizeof(me->host) - 1] = '\0';
    me->pid = (long)getpid();
}

/* 128 bits of FNV-1a. */
static void hash_text(const char *text, char hex[33])
{
    const unsigned __int128 prime = ((unsigned __int128)1 << 88) + 0x13b;
    unsigned __int128 hash = ((unsigned __int128)0x6c62272e07bb0142u << 64) + 0x62b821756295c58du;

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * prime;
    snprintf(hex, 33, "%016" PRIx64 "%016" PRIx64, (uint64_t)(hash >> 64), (uint64_t)hash);
}

static int find_place(const struct index_request *request, const char *directory,
                      struct place *place, struct error *err)
{
    char hash[33], name[NAME_SIZE - 64];

    hash_text(request->description, hash);
    if (snprintf(place->directory, PATH_SIZE, "%s", directory) >= PATH_SIZE - 1)
        return error_set(err, "%.64s...: the path of the index cache is too long", directory);
    snprintf(name, sizeof(name), "%s-%.80s.index", hash, request->kind);
    snprintf(place->path, sizeof(place->path), "%s/%s", place->directory, name);
    snprintf(place->lock, sizeof(place->lock), "%s.lock", place->path);
    return 0;
}

static int make_directories(const char *path)
{
    char part[PATH_SIZE];
    size_t length = strlen(path);

    memcpy(part, path, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        part[i] = '\0';
        if (mkdir(part, 0777) < 0 && errno != EEXIST && errno != EISDIR) {
            struct stat status;
            int number = errno;

            /* A directory above that is there but closed to us is none of our business. */
            if (stat(part, &status) < 0) {
                errno = number;
                return -1;
            }
        }
        part[i] = path[i];
    }
    return 0;
}

/* NFS clients remember that a name was not there; opening the directory makes them ask again. */
static void refresh_directory(const struct place *place)
{
    int fd = open(place->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0)
        close(fd);
}

static void *renew(void *arg)
{
    struct holder *holder = arg;
    unsigned beat = 0;

    pthread_mutex_lock(&holder->mutex);
    while (!holder->stop) {
        struct timespec until;
        char text[16];

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += (time_t)RENEW_SECONDS;
        pthread_cond_timedwait(&holder->wake, &holder->mutex, &until);
        if (holder->stop)
            break;
        pthread_mutex_unlock(&holder->mutex);
        snprintf(text, sizeof(text), "%010u\n", ++beat);
        /* A lock that cannot be renewed is taken over at worst; the file stays right. */
        if (pwrite(holder->fd, text, strlen(text), (off_t)strlen(holder->record)) > 0)
            (void)!fdatasync(holder->fd);
        pthread_mutex_lock(&holder->mutex);
    }
    pthread_mutex_unlock(&holder->mutex);
    return NULL;
}

/* Try to become the builder. Returns 0, or -1 with errno: EEXIST where another process is. */
static int take_lock(struct holder *holder, struct place *place, const struct signature *me)
{
    unsigned now = (unsigned)(uint64_t)(clock_now() * 1e6);

    memset(holder, 0, sizeof(*holder));
    holder->fd = open(place->lock, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (holder->fd < 0)
        return -1;
    snprintf(place->temporary, NAME_SIZE, "%.190s.%.32s.%ld.%08x", strrchr(place->path, '/') + 1,
             me->host, me->pid, now);
    snprintf(holder->record, sizeof(holder->record), "%s %s %ld %s\n", me->host, me->space, me->pid,
             place->temporary);
    if (write(holder->fd, holder->record, strlen(holder->record)) > 0)
        (void)!fdatasync(holder->fd);
    pthread_mutex_init(&holder->mutex, NULL);
    pthread_cond_init(&holder->wake, NULL);
    holder->running = pthread_create(&holder->thread, NULL, renew, holder) == 0;
    return 0;
}

/* Returns 0, or -1 with errno and an empty record. */
static int read_lock(const char *path, char record[RECORD_SIZE])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, record, RECORD_SIZE - 1) : 0;

    record[size > 0 ? size : 0] = '\0';
    if (fd < 0)
        return -1;
    close(fd);
    return 0;
}

/* Returns 1 where others had taken this process for dead and its lock away. */
static int release_lock(struct holder *holder, const struct place *place)
{
    char record[RECORD_SIZE];

    pthread_mutex_lock(&holder->mutex);
    holder->stop = 1;
    pthread_cond_signal(&holder->wake);
    pthread_mutex_unlock(&holder->mutex);
    if (holder->running)
        pthread_join(holder->thread, NULL);
    pthread_cond_destroy(&holder->wake);
    pthread_mutex_destroy(&holder->mutex);
    close(holder->fd);
    if (read_lock(place->lock, record) < 0)
        return errno == ENOENT;
    if (strncmp(record, holder->record, strlen(holder->record)) == 0) {
        unlink(place->lock);
        return 0;
    }
    /* A lock that could not be written, on a full disk, is no other's. */
    return record[0] != '\0';
}

/* Remove the lock 'record' of a process that is gone, and the file it had begun. */
static void break_lock(const struct place *place, const char *record, const struct signature *me)
{
    char again[RECORD_SIZE], aside[sizeof(place->lock) + 64];
    char temporary[NAME_SIZE], path[sizeof(place->path)];

    read_lock(place->lock, again);
    if (strcmp(again, record) != 0)
        return;
    /* By a rename, so that of several who find the lock stale one removes it. */
    snprintf(aside, sizeof(aside), "%s.%ld.stale", place->lock, me->pid);
    if (rename(place->lock, aside) < 0)
        return;
    unlink(aside);
    if (sscanf(record, "%*s %*s %*d %255s", temporary) == 1 && !strchr(temporary, '/')) {
        snprintf(path, sizeof(path), "%s/%s", place->directory, temporary);
        unlink(path);
    }
}

static int has_ended(const char *record, const struct signature *me)
{
    char host[128], space[64];
    long pid;

    return sscanf(record, "%127s %63s %ld", host, space, &pid) == 3 &&
           strcmp(host, me->host) == 0 && strcmp(space, me->space) == 0 && pid > 0 &&
           kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

/* Write the file under its temporary name and give it its own. */
static int build(const struct index_request *request, const struct place *place, struct error *err)
{
    char path[sizeof(place->path)];
    struct index_writer *writer;
    int status = -1, directory;

    snprintf(path, sizeof(path), "%s/%s", place->directory, place->temporary);
    writer = index_writer_create(path, request->description, err);
    if (!writer)
        return -1;
    if (request->build(request->arg, writer, err) < 0 || index_writer_finish(writer, err) < 0)
        goto done;
    if (rename(path, place->path) < 0) {
        error_set_errno(err, errno, "%s: cannot rename to %s", path, place->path);
        goto done;
    }
    directory = open(place->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0) {
        fsync(directory);
        close(directory);
    }
    status = 0;
done:
    index_writer_destroy(writer);
    if (status < 0)
        unlink(path);
    return status;
}

/* What was last seen of the lock, and since when it looks like that. */
struct watch {
    char record[RECORD_SIZE];
    double since, began, pause;
};

/* Another process builds: wait a little. Returns -1 when the deadline has passed. */
static int wait_turn(const struct index_request *request, const struct place *place,
                     const struct signature *me, struct watch *watch, struct error *err)
{
    char record[RECORD_SIZE];

    read_lock(place->lock, record);
    if (strcmp(record, watch->record) != 0) {
        strcpy(watch->record, record);
        watch->since = clock_now();
    }
    if (clock_now() - watch->since > STALE_SECONDS || has_ended(record, me)) {
        break_lock(place, record, me);
        watch->since = clock_now();
        return 0;
    }
    if (clock_now() - watch->began > request->deadline) {
        record[strcspn(record, "\n")] = '\0';
        return error_set(err,
                         "%s was not there within %.0f s; it is being built by (host, namespace, "
                         "process, file) %s",
                         place->path, request->deadline, record[0] ? record : "an unknown process");
    }
    /* Not all of a thousand ranks at the same moment. */
    pause_for(watch->pause * (0.75 + (double)(me->pid % 64) / 128));
    watch->pause = watch->pause < 0.5 ? watch->pause * 2 : 1;
    refresh_directory(place);
    return 0;
}

/* Is 'number' the kind of failure that another directory may not have? */
static int is_closed(int number)
{
    return number == EACCES || number == EPERM || number == EROFS || number == ENOENT ||
           number == ENOTDIR;
}

/* With the lock: open the file, which the builder before us may have finished between our look and
 * our lock, or make it. */
static struct index_file *build_and_open(const struct index_request *request,
                                         const struct place *place, struct error *err)
{
    struct index_file *file = NULL;

    if (index_file_open(place->path, request->description, &file, err) == 0 && !file &&
        build(request, place, err) == 0 &&
        index_file_open(place->path, request->description, &file, err) == 0 && !file)
        error_set(err, "%s was written and is not whole; does another program write there?",
                  place->path);
    return file;
}

/* Get the file in one directory. '*closed' is set where nothing can be written there. */
static struct index_file *get_in(const struct index_request *request, struct place *place,
                                 const struct signature *me, int *closed, struct error *err)
{
    struct watch watch = {.began = clock_now(), .since = clock_now(), .pause = 0.02};
    struct index_file *file = NULL;
    struct holder holder;

    *closed = make_directories(place->directory) < 0;
    if (*closed) {
        error_set_errno(err, errno, "%s: cannot create the directory", place->directory);
        return NULL;
    }
    for (;;) {
        if (index_file_open(place->path, request->description, &file, err) < 0 || file)
            return file;
        if (take_lock(&holder, place, me) == 0) {
            file = build_and_open(request, place, err);
            /* Who was stopped for long finds its file removed: another one builds it. */
            if (!release_lock(&holder, place) || file)
                return file;
            continue;
        }
        if (errno != EEXIST) {
            *closed = is_closed(errno);
            error_set_errno(err, errno, "%s: cannot create", place->lock);
            return NULL;
        }
        if (wait_turn(request, place, me, &watch, err) < 0)
            return NULL;
    }
}

struct index_file *index_file_get(const struct index_request *request, struct error *err)
{
    struct place *place = calloc(1, sizeof(*place));
    struct index_file *file = NULL;
    struct signature me;
    int closed = 1;

    sign(&me);
    if (!place || strlen(request->description) > LONGEST_DESCRIPTION) {
        error_set(err, "%s: %s", request->kind,
                  place ? "the path of the data is too long" : "out of memory");
        goto done;
    }
    for (int i = 0; i < request->directory_count && !file; i++) {
        struct error ignored;

        if (find_place(request, request->directories[i], place, err) < 0)
            goto done;
        index_file_open(place->path, request->description, &file, &ignored);
    }
    for (int i = 0; i < request->directory_count && !file && closed; i++) {
        if (find_place(request, request->directories[i], place, err) < 0)
            goto done;
        file = get_in(request, place, &me, &closed, err);
    }
    if (!file && closed)
        error_prefix(err, "no place for the index of the data (name one with --data-cache-path)");
done:
    free(place);
    return file;
}
