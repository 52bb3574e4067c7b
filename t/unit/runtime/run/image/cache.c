/* SPDX-License-Identifier: Apache-2.0 */
/* The image cache, its records, and copies on the node's local disk. */
#include "unit/container/container.h"
#include "run/image/cache.h"
#include "lib/checksum.h"
#include "lib/file.h"
#include "run/image/get.h"
#include "run/image/shared_file.h"
#include "container/squashfs.h"
#include "run/image/stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

/* All digits of a key but one. */
#define SAME_63 "23456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0"

/* Replaces the C library's function: an automounter does not create anything at its mount points.
 */
static const char *automounted;

int mkdir(const char *path, mode_t mode)
{
    if (automounted && strcmp(path, automounted) == 0) {
        errno = EACCES;
        return -1;
    }
    return mkdirat(AT_FDCWD, path, mode);
}

/* Replace the C library's functions: with 'stale' open files cannot be examined, and files whose
 * path contains 'kept' cannot be removed. */
static int stale;
static const char *kept;

int fstat(int fd, struct stat *info)
{
    if (stale) {
        errno = ESTALE;
        return -1;
    }
    return fstatat(fd, "", info, AT_EMPTY_PATH);
}

int unlinkat(int at, const char *path, int flags)
{
    if (kept && strstr(path, kept)) {
        errno = EROFS;
        return -1;
    }
    return (int)syscall(SYS_unlinkat, at, path, flags);
}

static void test_directories(void)
{
    char home[64], missing[64], path[128];
    struct stat status;

    snprintf(home, sizeof(home), "%s/home", directory);
    snprintf(missing, sizeof(missing), "%s/missing", directory);
    snprintf(path, sizeof(path), "%s/a/b", home);
    mkdir(home, 0755);
    automounted = home;
    is_int(shared_directory_create(path, "PLACE", &err), 0,
           "directories in a home that is mounted");
    ok(stat(path, &status) == 0 && S_ISDIR(status.st_mode), "are there");
    automounted = missing;
    is_int(shared_directory_create(missing, "PLACE", &err), -1, "in one that is not");
    ok(strstr(err.text, missing) && strstr(err.text, "set PLACE to"), "sentence");
    automounted = NULL;
}

/* Another process removes a few drafts of records. */
struct thief {
    const char *work;
    int taken;
};

static void *steal(void *argument)
{
    struct thief *thief = argument;

    while (thief->taken < 3) {
        DIR *listed = opendir(thief->work);
        struct dirent *item;

        while (thief->taken < 3 && (item = readdir(listed)))
            if (item->d_name[0] != '.' && unlinkat(dirfd(listed), item->d_name, 0) == 0)
                __atomic_add_fetch(&thief->taken, 1, __ATOMIC_SEQ_CST);
        closedir(listed);
    }
    return NULL;
}

/* A month of a busy user's jobs: the directories that waiting nodes list stay small, and old
 * records are removed. */
static void test_many_jobs(const struct image_cache *cache)
{
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    char jobs[2100], path[4096], name[32];
    struct dirent *item;
    DIR *listed;
    int most = 0, old = 0;

    snprintf(jobs, sizeof(jobs), "%s/jobs", cache->directory);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 500; i++) {
            snprintf(name, sizeof(name), "job-%d-%d", round, i);
            image_cache_remember_job(cache, name, "docker://x", "sha256-" HEX, &err);
        }
    listed = opendir(jobs);
    while (listed && (item = readdir(listed))) {
        DIR *part;
        int count = 0;

        snprintf(path, sizeof(path), "%s/%s", jobs, item->d_name);
        part = item->d_name[0] == '.' ? NULL : opendir(path);
        while (part && (item = readdir(part)))
            count +=
                item->d_name[0] != '.' && utimensat(dirfd(part), item->d_name, long_ago, 0) == 0;
        if (part)
            closedir(part);
        most = count > most ? count : most;
    }
    if (listed)
        closedir(listed);
    ok(most > 0 && most < 40, "1000 jobs: at most %d records together", most);
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof(name), "job-2-%d", i);
        image_cache_remember_job(cache, name, "docker://x", "sha256-" HEX, &err);
    }
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof(name), "job-0-%d", i);
        old += image_cache_recall_job(cache, name, "docker://x", (char[IMAGE_KEY_SIZE]){""}) == 0;
    }
    ok(old < 400, "later jobs take records of long ago away: %d of 500 are left", old);
}

static void test_records(void)
{
    char place[128], work[160], key[IMAGE_KEY_SIZE];
    struct thief thief = {.work = work};
    struct image_cache cache;
    pthread_t thread;
    int written = 0, failed = 0;

    snprintf(place, sizeof(place), "%s/records", directory);
    ok(image_cache_open(&cache, place, &err) == 0, "a cache for records");
    snprintf(work, sizeof(work), "%s/work", place);
    pthread_create(&thread, NULL, steal, &thief);
    while (__atomic_load_n(&thief.taken, __ATOMIC_SEQ_CST) < 3) {
        written++;
        failed += image_cache_remember(&cache, "docker://x", "sha256-" HEX, &err) < 0;
    }
    pthread_join(thread, NULL);
    if (!is_int(failed, 0, "records are written though drafts are taken for a dead process's"))
        diag("%d of %d: %s", failed, written, err.text);
    ok(image_cache_remember_job(&cache, "job-1", "docker://x", "sha256-" HEX, &err) == 0 &&
           image_cache_recall_job(&cache, "job-1", "docker://x", key) == 0 &&
           strcmp(key, "sha256-" HEX) == 0,
       "a job has its own");
    ok(image_cache_recall_job(&cache, "job-2", "docker://x", key) < 0, "and another does not");
    image_cache_forget_job(&cache, "job-1", "docker://x");
    ok(image_cache_recall_job(&cache, "job-1", "docker://x", key) < 0, "it is forgotten");
    test_many_jobs(&cache);
}

/* What a directory contains, and whether it may become a cache. Nothing of it ever goes unless a
 * run has left it. */
static void test_foreign(void)
{
    static const struct {
        const char *files[3];
        const char *name;
        int is_own;
    } rows[] = {
        {{NULL}, "an empty directory", 1},
        {{"names/0123456789abcdef", "jobs/01/0123456789abcdef", "sha256-" HEX ".sqsh"},
         "a cache without a mark",
         1},
        {{"work/lock", "work/sha256-" HEX "@n1,1,0123456789abcdef,0123456789abcdef.draft",
          "work/step-c-1-0-0-5.lease"},
         "one with leftovers",
         1},
        {{"lost+found/x", ".nfs0001", ".snapshots/x"}, "what a file system makes", 1},
        {{"work/report.txt"}, "a user's work/", 0},
        {{"work/jobs.new"}, "one with a name that is nearly ours", 0},
        {{"work/a@b.draft"}, "one with an address", 0},
        {{"jobs/01/important"}, "a user's jobs/", 0},
        {{"jobs/important/0123456789abcdef"}, "with other directories", 0},
        {{"names/important"}, "a user's names/", 0},
        {{"names/0123456789abcdef/x"}, "a directory in place of a file", 0},
        {{"sha256-" HEX ".sqsh", "thesis.tex"}, "a file beside images", 0},
        {{".megatron-images"}, "a file like the mark", 0},
        {{"src/main.c"}, "any other directory", 0},
    };
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    char place[128], path[512];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct image_cache cache;
        int rc, there = 1;

        snprintf(place, sizeof(place), "%s/foreign-%zu", directory, i);
        mkdir(place, 0700);
        for (int j = 0; j < 3 && rows[i].files[j]; j++) {
            snprintf(path, sizeof(path), "%s/%s", place, rows[i].files[j]);
            *strrchr(path, '/') = '\0';
            shared_directory_create(path, "PLACE", &err);
            path[strlen(path)] = '/';
            write_file(path, "x", 1);
            utimensat(AT_FDCWD, path, long_ago, 0);
        }
        for (int again = 0; again < 2; again++) {
            errno = ENOENT;
            rc = image_cache_open(&cache, place, &err);
            is_int(rc, rows[i].is_own ? 0 : -1, rows[i].name);
            if (rc < 0) {
                ok(strstr(err.text, "which megatron did not create") && errno == 0,
                   "is rejected for good: %s", err.text);
                continue;
            }
            image_cache_close(&cache);
        }
        for (int j = 0; j < 3 && rows[i].files[j]; j++) {
            snprintf(path, sizeof(path), "%s/%s", place, rows[i].files[j]);
            there = there && access(path, F_OK) == 0;
        }
        ok(there, "and everything is still there");
    }
}

/* A user put files into a cache: sweeps leave them alone. */
static void test_guests(void)
{
    static const struct {
        const char *name;
        int stays;
    } rows[] = {
        {"work/notes", 1},
        {"work/notes.new", 1},
        {"work/mail@example.org.new", 1},
        {"work/sha256-x@n1,1,0123456789abcdef,0123456789abcdef.draft", 1},
        {"work/step-mine.lease", 1}, /* no lease by its content */
        {"work/record@n1,1,0123456789abcdef,0123456789abcdef.new", 0},
        {"work/sha256-" HEX "@n1,1,0123456789abcdef,0123456789abcdef.draft", 0},
        {"sha256-" HEX ".info", 0},
        {"sha256-" HEX ".info.txt", 1},
        {"sha256-list.info", 1},
        {"jobs/%s/notes", 1},
        {"jobs/%s/0123456789abcdef", 0},
    };
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    char place[128], part[8] = "", path[512], paths[sizeof(rows) / sizeof(rows[0])][512];
    struct image_cache cache;
    struct dirent *item;
    DIR *jobs;

    snprintf(place, sizeof(place), "%s/guests", directory);
    image_cache_open(&cache, place, &err);
    image_cache_remember_job(&cache, "1", "docker://x", "sha256-" HEX, &err);
    snprintf(path, sizeof(path), "%s/jobs", place);
    jobs = opendir(path);
    while (jobs && (item = readdir(jobs)))
        if (item->d_name[0] != '.')
            snprintf(part, sizeof(part), "%.7s", item->d_name);
    if (jobs)
        closedir(jobs);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *mark = strstr(rows[i].name, "%s");

        snprintf(paths[i], sizeof(paths[i]), "%s/%.*s%s%s", place,
                 mark ? (int)(mark - rows[i].name) : 400, rows[i].name, mark ? part : "",
                 mark ? mark + 2 : "");
        write_file(paths[i], "mine", 4);
        utimensat(AT_FDCWD, paths[i], long_ago, 0);
    }
    image_cache_sweep(&cache);
    image_cache_remember_job(&cache, "1", "docker://x", "sha256-" HEX, &err);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ok((access(paths[i], F_OK) == 0) == rows[i].stays, "%s %s", rows[i].name,
           rows[i].stays ? "stays" : "goes");
    image_cache_close(&cache);
    is_int(image_cache_open(&cache, place, &err), 0, "and the cache remains one");
    image_cache_close(&cache);
}

static void test_cache(void)
{
    unsigned char image[IMAGE_BYTES];
    char cache_directory[128], draft[256], path[4096], key[IMAGE_KEY_SIZE];
    struct image_cache cache;
    struct image_entry *entries;
    size_t count;

    memcpy(image, small_image, sizeof(image));
    snprintf(cache_directory, sizeof(cache_directory), "%s/a/b/images", directory);
    ok(image_cache_open(&cache, cache_directory, &err) == 0, "a cache is made");
    /* An automounter mounts what is opened to be read, but not for O_PATH. */
    ok(fcntl(cache.at, F_GETFL) >= 0 && !(fcntl(cache.at, F_GETFL) & O_PATH),
       "and opened where an automounter notices");
    is_int(image_cache_find(&cache, "sha256-" HEX, path, sizeof(path), &err), 0, "it is empty");
    image_cache_unfinished(&cache, "x.draft", draft, sizeof(draft));
    write_file(draft, image, sizeof(image));
    ok(image_cache_publish(&cache, "sha256-" HEX, "x.draft", "docker://x", NULL, path, sizeof(path),
                           &err) == 0,
       "an image is published");
    ok(access(draft, F_OK) < 0, "the draft is gone");
    is_int(image_cache_find(&cache, "sha256-" HEX, path, sizeof(path), &err), 1, "and found");
    stale = 1;
    is_int(image_cache_find(&cache, "sha256-" HEX, path, sizeof(path), &err), -1,
           "one that the file server lost");
    stale = 0;
    ok(strstr(err.text, ".sqsh: Stale file handle") != NULL, "is reported: %s", err.text);
    ok(image_cache_list(&cache, &entries, &count, &err) == 0 && count == 1, "listed");
    is(entries[0].origin, "docker://x", "with its origin");
    free(entries);
    for (int i = 0; i < 2; i++) {
        /* Access, modification. */
        const struct timespec times[2] = {{.tv_sec = i ? 2000 : 1000}, {.tv_sec = i ? 1000 : 2000}};

        utimensat(AT_FDCWD, path, times, 0);
        ok(image_cache_list(&cache, &entries, &count, &err) == 0 && entries[0].used == 2000,
           "used when it was last %s", i ? "read" : "written");
        if (i == 0)
            free(entries);
    }
    ok(image_entry_verify(&cache, &entries[0], &err) == 0, "it is whole");
    image[2000] ^= 1;
    write_file(path, image, sizeof(image));
    ok(image_entry_verify(&cache, &entries[0], &err) < 0, "a flipped bit is noticed");
    write_file(path, image, 3000);
    ok(image_cache_find(&cache, "sha256-" HEX, path, sizeof(path), &err) < 0, "so is a lost end");
    ok(strstr(err.text, "is truncated: 3000 of 4000 bytes") != NULL, "with the sizes");
    ok(image_entry_remove(&cache, &entries[0], &err) == 0 && access(path, F_OK) < 0, "removed");
    free(entries);

    write_file(draft, "no squashfs", 11);
    ok(image_cache_publish(&cache, "sha256-" HEX, "x.draft", "x", NULL, path, sizeof(path), &err) <
               0 &&
           access(path, F_OK) < 0 && access(draft, F_OK) < 0,
       "a file that is not an image is not published");
    ok(image_cache_recall(&cache, "docker://n", key) < 0, "a name never seen");
    ok(image_cache_remember(&cache, "docker://n", "sha256-" HEX, &err) == 0 &&
           image_cache_recall(&cache, "docker://n", key) == 0 && strcmp(key, "sha256-" HEX) == 0,
       "a name remembered");
    ok(image_cache_recall_job(&cache, "c-1", "docker://n", key) < 0, "but not for a job");
    ok(image_cache_remember_job(&cache, "c-1", "docker://n", "sha256-" HEX, &err) == 0 &&
           image_cache_recall_job(&cache, "c-1", "docker://n", key) == 0 &&
           strcmp(key, "sha256-" HEX) == 0,
       "a name remembered for a job");
    ok(image_cache_recall_job(&cache, "c-2", "docker://n", key) < 0, "for this one alone");
    image_cache_forget_job(&cache, "c-1", "docker://n");
    ok(image_cache_recall_job(&cache, "c-1", "docker://n", key) < 0, "until it is forgotten");
    chmod(cache_directory, 0777);
    ok(image_cache_open(&cache, cache_directory, &err) < 0,
       "a cache others may write to is rejected");
    chmod(cache_directory, 0755);
    /* Root may own every cache, so when running as root another user must own this one. */
    if (geteuid() == 0)
        ok(image_cache_open_shared(&cache, cache_directory, 12345, &err) == 0 &&
               chown(cache_directory, 23456, (gid_t)-1) == 0,
           "a shared cache that root owns is accepted");
    ok(image_cache_open_shared(&cache, cache_directory, 12345, &err) < 0 &&
           strstr(err.text, "belongs to user"),
       "a shared cache that neither its publisher nor root owns is rejected");
    ok(chown(cache_directory, geteuid(), (gid_t)-1) == 0, "the owner is restored");
}

static void test_stage(void)
{
    char place[128], image[128], draft[256], guest[256], path[4096];
    struct stage_request request = {
        .directory = place, .key = "sha256-" HEX, .image = image, .timeout = 60};
    struct image_cache stage;
    struct image_entry *entries = NULL;
    size_t count = 0;
    int other;

    snprintf(place, sizeof(place), "%s/stage", directory);
    write_file(place, "", 0);
    ok(image_stage(&request, path, sizeof(path), &err) < 0 && strstr(err.text, "not a directory"),
       "a file in place of the directory for copies");
    unlink(place);
    mkdir(place, 0700);
    snprintf(image, sizeof(image), "%s/staged.sqsh", directory);
    write_file(image, small_image, sizeof(small_image));
    request.timeout = 1e-9;
    ok(image_stage(&request, path, sizeof(path), &err) < 0, "a copy that takes too long");
    ok(strstr(err.text, "took longer than") != NULL, "is given up");
    snprintf(draft, sizeof(draft), "%s/%u/%s/sha256-" HEX ".draft", place, (unsigned)geteuid(),
             "work");
    ok(access(draft, F_OK) < 0, "and leaves nothing");
    request.timeout = 0;
    *strrchr(draft, '/') = '\0';
    strcat(draft, "/sha256-1" SAME_63 ".draft");
    write_file(draft, small_image, sizeof(small_image));
    snprintf(guest, sizeof(guest), "%s/%u/work/guest", place, (unsigned)geteuid());
    write_file(guest, "", 0);
    if (!ok(image_stage(&request, path, sizeof(path), &err) == 0, "a copy without a timeout"))
        diag("%s", err.text);
    ok(access(draft, F_OK) < 0, "leftovers of a killed copy are gone");
    ok(access(guest, F_OK) == 0, "and another file is not");
    snprintf(draft, sizeof(draft), "%s/%u", place, (unsigned)geteuid());
    ok(image_cache_open(&stage, draft, &err) == 0 &&
           image_cache_list(&stage, &entries, &count, &err) == 0 && count == 1 &&
           image_entry_verify(&stage, &entries[0], &err) == 0,
       "is whole, by the checksum taken on the way");
    free(entries);
    unlink(image);
    ok(image_stage(&request, path, sizeof(path), &err) == 0, "and found again");
    /* Another job of this user copies: its descriptor has the lock. */
    strcat(draft, "/work/lock");
    other = open(draft, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    is_int(file_lock(other, 0), 0, "another job has the lock");
    request.timeout = 1e-9;
    ok(image_stage(&request, path, sizeof(path), &err) < 0 && strstr(err.text, "took longer than"),
       "and is waited for");
    close(other);
    request.timeout = 60;
    ok(image_stage(&request, path, sizeof(path), &err) == 0, "until it ends");
}

/* An old copy that cannot be removed is the reason why there is no space for a new one. */
static void test_stage_full(void)
{
    char place[128], image[128], path[4096];
    struct stage_request request = {
        .directory = place, .limit = 6000, .key = "sha256-" HEX, .image = image, .timeout = 60};

    snprintf(place, sizeof(place), "%s/full-stage", directory);
    mkdir(place, 0700);
    snprintf(image, sizeof(image), "%s/staged.sqsh", directory);
    write_file(image, small_image, sizeof(small_image));
    is_int(image_stage(&request, path, sizeof(path), &err), 0, "a first copy");
    request.key = "sha256-1" SAME_63;
    kept = HEX ".sqsh";
    is_int(image_stage(&request, path, sizeof(path), &err), -1, "one that must make room");
    kept = NULL;
    ok(strncmp(err.text, "cannot remove ", 14) == 0, "fails with the reason: %s", err.text);
    if (!is_int(image_stage(&request, path, sizeof(path), &err), 0, "and succeeds afterwards"))
        diag("%s", err.text);
}

static void test_time_left(void)
{
    static const struct {
        double timeout, elapsed;
        int left;
        const char *name;
    } cases[] = {
        {0, 0, 0, "no timeout"},
        {0, 1000, 0, "no timeout, after a long import"},
        {100, 0, 100, "all of it is left"},
        {100, 60, 40, "the rest"},
        {100, 90, 30, "at least half a minute"},
        {1, 50, 30, "even if the import used it all up"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        is_int((int)image_time_left(cases[i].timeout, cases[i].elapsed), cases[i].left,
               cases[i].name);
}

static void test_checksum(void)
{
    unsigned char bytes[1000];
    uint64_t whole;
    int same = 1, different = 1;

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(i * 7);
    whole = checksum_of(bytes, sizeof(bytes));
    for (size_t cut = 0; cut <= sizeof(bytes); cut++) {
        struct checksum sum;

        checksum_begin(&sum);
        checksum_add(&sum, bytes, cut);
        checksum_add(&sum, bytes + cut, sizeof(bytes) - cut);
        same = same && checksum_end(&sum) == whole;
    }
    for (size_t bit = 0; bit < sizeof(bytes) * 8; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        different = different && checksum_of(bytes, sizeof(bytes)) != whole;
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    ok(same, "a checksum does not depend on how bytes are cut");
    ok(different, "every flipped bit shows");
    ok(checksum_of(bytes, 0) != checksum_of("\0", 1), "so does a zero more");
}

int main(void)
{
    if (!mkdtemp(directory))
        return 1;
    test_directories();
    test_records();
    test_foreign();
    test_guests();
    test_cache();
    test_stage();
    test_stage_full();
    test_time_left();
    test_checksum();
    return finish();
}
