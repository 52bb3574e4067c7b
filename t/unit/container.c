#include "tap.h"
#include "cache.h"
#include "checksum.h"
#include "enroot.h"
#include "import.h"
#include "lease.h"
#include "manifest.h"
#include "mounts.h"
#include "owner.h"
#include "process.h"
#include "reference.h"
#include "progress.h"
#include "scratch.h"
#include "squashfs.h"
#include "stage.h"
#include "start.h"
#include "sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

#define SAME_63 "000000000000000000000000000000000000000000000000000000000000000"

static struct error err;
static char directory[] = "/tmp/megatron-test-XXXXXX";

static void test_references(void)
{
    static const struct {
        const char *text;
        enum image_scheme scheme;
        const char *pinned, *error;
    } rows[] = {
        {"docker://ubuntu:22.04", IMAGE_DOCKER, "", NULL},
        {"docker://$oauthtoken@nvcr.io#nvidia/pytorch:25.01-py3", IMAGE_DOCKER, "", NULL},
        {"docker://$HOME@nvcr.io#nvidia/pytorch:25.01-py3", 0, NULL,
         "image: the character $ in an image's name is not supported, since Enroot would evaluate "
         "it"},
        {"docker://$oauthtoken@nvcr.io#$(id)", 0, NULL,
         "image: the character $ in an image's name is not supported, since Enroot would evaluate "
         "it"},
        {"docker://me@nvcr.io#nvidia/pytorch:25.01-py3", IMAGE_DOCKER, "", NULL},
        {"docker://a/b@sha256:" HEX, IMAGE_DOCKER, "sha256-" HEX, NULL},
        {"docker://a/b@sha256:12", 0, NULL,
         "image=docker://a/b@sha256:12: a digest is @sha256: and 64 hex digits"},
        {"dockerd://mine", IMAGE_DOCKERD, "", NULL},
        {"podman://mine:1", IMAGE_PODMAN, "", NULL},
        {"/images/a b,c.sqsh", IMAGE_FILE, "", NULL},
        {"./x.sqsh", IMAGE_FILE, "", NULL},
        {"/images/$(touch x).sqsh", 0, NULL,
         "image: the character $ in an image's name is not supported, since Enroot would evaluate "
         "it; "
         "rename the file or make a link"},
        {"/images/a'b.sqsh", 0, NULL,
         "image: the character ' in an image's name is not supported, since Enroot would evaluate "
         "it; "
         "rename the file or make a link"},
        {"/images/a\nb.sqsh", 0, NULL, "image: an image's name holds a control character"},
        {"ubuntu:22.04", 0, NULL,
         "image=ubuntu:22.04 is neither a path nor a registry reference; write "
         "docker://ubuntu:22.04 or "
         "./ubuntu:22.04"},
        {"http://x/y", 0, NULL,
         "image=http://x/y: unknown scheme; use docker://, dockerd://, podman:// or a path"},
        {"docker://", 0, NULL,
         "image=docker:// names no image; write docker://[REGISTRY#]IMAGE[:TAG]"},
        {"docker://a b", 0, NULL, "image=docker://a b: a registry reference holds no spaces"},
        {"", 0, NULL, "image needs an image: docker://IMAGE[:TAG] or /path/image.sqsh"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct image_reference reference;
        int rc = image_reference_parse("image", rows[i].text, &reference, &err);

        is_int(rc, rows[i].error ? -1 : 0, rows[i].error ? "refused" : rows[i].text);
        if (rows[i].error)
            is(err.text, rows[i].error, "sentence");
        else
            ok(reference.scheme == rows[i].scheme && strcmp(reference.pinned, rows[i].pinned) == 0,
               "scheme and digest");
    }
}

static void test_mounts(void)
{
    static const struct {
        const char *text, *lines, *error;
    } rows[] = {
        {"/a:/b", "/a /b none x-create=auto,rbind\n", NULL},
        {"/a", "/a /a none x-create=auto,rbind\n", NULL},
        {"/a:/b:ro,/c/:/d/:rw+nosuid",
         "/a /b none x-create=auto,rbind,ro\n/c /d none x-create=auto,rbind,rw,nosuid\n", NULL},
        {"/with space:/a\\,b\\:c", "/with\\040space /a,b:c none x-create=auto,rbind\n", NULL},
        {"/back\\\\slash:/$(id)", "/back\\134slash /$(id) none x-create=auto,rbind\n", NULL},
        {"a:/b", NULL, "m: the source \"a\" is not an absolute path"},
        {"/a:b", NULL, "m: the target \"b\" is not an absolute path"},
        {"/a:/b,/c:/b/", NULL, "m: the target /b is given twice"},
        {"/a:/b/c,/c:/b/./c", NULL, "m: the target /b/c is given twice"},
        {"/a:/b,/c://b", NULL, "m: the target /b is given twice"},
        {"/a:/b,/c:/b/.", NULL, "m: the target /b is given twice"},
        {"/a:/b/../c", NULL, "m: the target /b/../c must not hold .."},
        {"/a:/./", NULL, "m: nothing can be mounted over / of the image"},
        {"/a:/", NULL, "m: nothing can be mounted over / of the image"},
        {"/a:/b:fast", NULL,
         "m: unknown mount flag \"fast\"; use ro, rw, nosuid, nodev, noexec, private, slave or "
         "x-create=dir|file, joined by +"},
        {"/a:/b:ro:x", NULL,
         "m: more than SRC:DST:FLAGS before \"x\"; write \\: for a colon in a path"},
        {"/a:/b,", NULL, "m ends with a comma"},
        {"/a\n:/b", NULL, "m: the source holds a control character"},
        {"", NULL, "m needs SRC:DST[:FLAGS]"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct container_mounts mounts;
        char lines[1024] = "", line[512];
        int rc = mounts_parse("m", rows[i].text, &mounts, &err);

        is_int(rc, rows[i].error ? -1 : 0, rows[i].error ? "refused" : rows[i].text);
        if (rows[i].error) {
            is(err.text, rows[i].error, "sentence");
        } else {
            for (size_t k = 0; k < mounts.count; k++) {
                ok(mount_format(&mounts.items[k], line, sizeof(line)) == 0, "format");
                strncat(lines, line, sizeof(lines) - strlen(lines) - 1);
                strncat(lines, "\n", sizeof(lines) - strlen(lines) - 1);
            }
            is(lines, rows[i].lines, "lines of fstab");
        }
        mounts_clear(&mounts);
    }
}

static void test_processes(void)
{
    static const struct {
        const char *argv[4];
        double timeout;
        int rc, status, timed_out;
        const char *output, *complaint;
    } rows[] = {
        {{"sh", "-c", "echo out; echo '[INFO] x' >&2; echo '[ERROR] bad' >&2; echo y >&2; exit 3",
          NULL},
         0,
         0,
         3,
         0,
         "out\n",
         "bad"},
        {{"sh", "-c", "echo last >&2", NULL}, 0, 0, 0, 0, "", "last"},
        {{"sh", "-c", "kill -9 $$", NULL}, 0, 0, 137, 0, "", ""},
        {{"sh", "-c", "sleep 60 & wait", NULL}, 0.3, 0, 143, 1, "", ""},
        {{"no-such-program", NULL, NULL, NULL}, 0, -1, 0, 0, "", ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct process_request request = {
            .argv = rows[i].argv, .path = "/usr/bin:/bin", .timeout = rows[i].timeout};
        struct process_result result;
        char line[128];

        is_int(process_run(&request, &result, &err), rows[i].rc, rows[i].argv[0]);
        if (rows[i].rc < 0) {
            is(err.text, "the program no-such-program was not found in /usr/bin:/bin", "sentence");
            continue;
        }
        is_int(result.status, rows[i].status, "status");
        is_int(result.timed_out, rows[i].timed_out, "timed out");
        is(result.output, rows[i].output, "output");
        process_complaint(result.errors, line, sizeof(line));
        is(line, rows[i].complaint, "complaint");
    }
}

/* A process that takes the lease and is killed. */
static void die_with_lease(const char *path)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        struct lease lease;
        struct lease_watch watch = {0};

        lease_take(&lease, path, 60, &watch, &err);
        kill(getpid(), SIGKILL);
    }
    waitpid(child, &status, 0);
}

static void test_leases(void)
{
    struct lease mine, other;
    struct lease_watch watch = {0};
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/lease", directory);
    is_int(lease_take(&mine, path, 60, &watch, &err), 1, "a lease is taken");
    is_int(lease_take(&other, path, 60, &watch, &err), 0, "and is not taken twice");
    ok(lease_beat(&mine) == 0, "it is held");
    lease_release(&other);
    ok(lease_beat(&mine) == 0, "only its holder gives it back");
    lease_release(&mine);
    is_int(lease_take(&other, path, 60, &watch, &err), 1, "it is free again");
    ok(lease_beat(&mine) < 0, "the one before notices");
    lease_release(&other);

    die_with_lease(path);
    memset(&watch, 0, sizeof(watch));
    is_int(lease_take(&mine, path, 60, &watch, &err), 1, "a dead neighbour loses it at once");
    lease_release(&mine);

    file = fopen(path, "w");
    fprintf(file, "elsewhere,1,%016x,%016x 7\n", 1, 2);
    fclose(file);
    memset(&watch, 0, sizeof(watch));
    is_int(lease_take(&mine, path, 0.2, &watch, &err), 0, "a holder elsewhere gets time");
    nanosleep(&(struct timespec){0, 300000000}, NULL);
    is_int(lease_take(&mine, path, 0.2, &watch, &err), 1,
           "and loses it when the file stands still");
    lease_release(&mine);
    ok(access(path, F_OK) < 0, "nothing is left");
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    if (write(fd, bytes, size) != (ssize_t)size)
        ok(0, "cannot write %s", path);
    close(fd);
}

/* The name of a process that has ended. */
static void name_of_dead(char owner[OWNER_SIZE])
{
    int ends[2], status;
    pid_t child;

    if (pipe(ends) < 0)
        return;
    child = fork();
    if (child == 0) {
        owner_name(owner);
        _exit(write(ends[1], owner, OWNER_SIZE) != OWNER_SIZE);
    }
    if (read(ends[0], owner, OWNER_SIZE) != OWNER_SIZE)
        owner[0] = '\0';
    waitpid(child, &status, 0);
    close(ends[0]);
    close(ends[1]);
}

/* A container that has ended is no reason to run the program outside. */
static void test_join_ended(void)
{
    struct error err = {""};
    pid_t child = fork();
    int entered = 1;

    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    is_int(container_join(child, 0, "/", &entered, &err), -1, "an ended container is not joined");
    ok(strstr(err.text, "mnt namespace") != NULL, "which is said: %s", err.text);
    is_int(entered, 0, "and nothing was entered");
}

/* Whose it is, what it is, for how many seconds it has stood still, and whether it stays. */
static void test_sweep(void)
{
    enum { DEAD, LIVING, EARLIER, OTHER, NOBODY };
    static const char *const whose[] = {"the dead", "the living", "an earlier boot", "another host",
                                        "nobody"};
    static const struct {
        int owner;
        const char *name; /* with the owner in it, or a lease that holds the owner */
        int still, stays;
    } rows[] = {
        {DEAD, "record@%s.new", 0, 0},          {DEAD, "sha256-x@%s.draft", 0, 0},
        {DEAD, "step-1.lease", 0, 0},           {LIVING, "record@%s.new", 5, 1},
        {LIVING, "sha256-x@%s.draft", 500, 1},  {LIVING, "step-1.lease", 500, 1},
        {EARLIER, "record@%s.new", 50, 1},      {EARLIER, "record@%s.new", 70, 0},
        {EARLIER, "sha256-x@%s.draft", 500, 1}, {EARLIER, "step-1.lease", 500, 1},
        {EARLIER, "step-1.lease", 700, 0},      {OTHER, "lease@%s.new", 50, 1},
        {OTHER, "lease@%s.new", 70, 0},         {OTHER, "sha256-x@%s.draft", 500, 1},
        {OTHER, "sha256-x@%s.draft", 700, 0},   {OTHER, "step-1.lease", 500, 1},
        {OTHER, "step-1.lease", 700, 0},        {NOBODY, "new.abcdef", 80000, 1},
        {NOBODY, "new.abcdef", 90000, 0},
    };
    char owners[5][OWNER_SIZE] = {""}, work[128], name[256], path[512], text[OWNER_SIZE + 8];

    snprintf(work, sizeof(work), "%s/unfinished", directory);
    mkdir(work, 0700);
    name_of_dead(owners[DEAD]);
    owner_name(owners[LIVING]);
    snprintf(owners[EARLIER], OWNER_SIZE, "%.*s,1,%016x,%016x", (int)strcspn(owners[LIVING], ","),
             owners[LIVING], 7, 8);
    snprintf(owners[OTHER], OWNER_SIZE, "elsewhere,1,%016x,%016x", 7, 8);
    is_int(owner_fate(owners[DEAD]), OWNER_GONE, "an owner that has ended");
    is_int(owner_fate(owners[LIVING]), OWNER_LIVES, "one that lives");
    is_int(owner_fate(owners[EARLIER]), OWNER_BEFORE, "one of before the boot");
    is_int(owner_fate(owners[OTHER]), OWNER_ELSEWHERE, "one elsewhere");
    snprintf(text, sizeof(text), "elsewhere%s", strchr(owners[DEAD], ','));
    is_int(owner_fate(text), OWNER_ELSEWHERE, "one elsewhere, of a place that looks like this");
    snprintf(text, sizeof(text), "%.*s,%d,%016x,%016x", (int)strcspn(owners[DEAD], ","),
             owners[DEAD], 0x7ffffffe, 0, 8);
    is_int(owner_fate(text), OWNER_BEFORE, "one of a place that could not be told");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *owner = owners[rows[i].owner], *mark = strstr(rows[i].name, "%s");
        struct timespec times[2] = {{.tv_sec = time(NULL) - rows[i].still}};

        times[1] = times[0];
        snprintf(name, sizeof(name), "%.*s%s%s",
                 mark ? (int)(mark - rows[i].name) : (int)strlen(rows[i].name), rows[i].name,
                 mark ? owner : "", mark ? mark + 2 : "");
        snprintf(path, sizeof(path), "%s/%s", work, name);
        snprintf(text, sizeof(text), "%s 3\n", mark ? "" : owner);
        write_file(path, text, strlen(text));
        utimensat(AT_FDCWD, path, times, 0);
        sweep_unfinished(work);
        ok((access(path, F_OK) == 0) == rows[i].stays, "%.*s of %s %s after %d s",
           (int)strcspn(rows[i].name, "@"), rows[i].name, whose[rows[i].owner],
           rows[i].stays ? "stays" : "goes", rows[i].still);
        sweep_all_but(work, "-");
    }
}

/* Somebody takes a few drafts of records away. */
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

/* A month of a busy user's jobs: what nodes list while they wait stays short, and goes in time. */
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

static void test_cache(void)
{
    unsigned char image[4096] = "hsqs";
    char cache_directory[128], draft[256], path[4096], key[IMAGE_KEY_SIZE];
    struct image_cache cache;
    struct image_entry *entries;
    size_t count;

    image[28] = 4;    /* version 4.0 */
    image[40] = 0xA0; /* of 4000 bytes */
    image[41] = 0x0F;
    snprintf(cache_directory, sizeof(cache_directory), "%s/a/b/images", directory);
    ok(image_cache_open(&cache, cache_directory, &err) == 0, "a cache is made");
    is_int(image_cache_find(&cache, "sha256-" HEX, path, sizeof(path), &err), 0, "it is empty");
    snprintf(draft, sizeof(draft), "%s/work/x.draft", cache_directory);
    write_file(draft, image, sizeof(image));
    ok(image_cache_publish(&cache, "sha256-" HEX, draft, "docker://x", path, sizeof(path), &err) ==
           0,
       "an image is published");
    ok(access(draft, F_OK) < 0, "the draft is gone");
    is_int(image_cache_find(&cache, "sha256-" HEX, path, sizeof(path), &err), 1, "and found");
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
    ok(image_entry_verify(&entries[0], &err) == 0, "it is whole");
    image[2000] ^= 1;
    write_file(path, image, sizeof(image));
    ok(image_entry_verify(&entries[0], &err) < 0, "a flipped bit is noticed");
    write_file(path, image, 3000);
    ok(image_cache_find(&cache, "sha256-" HEX, path, sizeof(path), &err) < 0, "so is a lost end");
    ok(strstr(err.text, "is truncated: 3000 of 4000 bytes") != NULL, "with the sizes");
    ok(image_entry_remove(&cache, &entries[0], &err) == 0 && access(path, F_OK) < 0, "removed");
    free(entries);

    write_file(draft, "no squashfs", 11);
    ok(image_cache_publish(&cache, "sha256-" HEX, draft, "x", path, sizeof(path), &err) < 0 &&
           access(path, F_OK) < 0 && access(draft, F_OK) < 0,
       "what is no image is not published");
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
       "a cache others may write to is refused");
    chmod(cache_directory, 0755);
    ok(image_cache_open_shared(&cache, cache_directory, geteuid() + 1, &err) < 0 || geteuid() == 0,
       "a shared cache of somebody else is refused");
}

/* Layers in Enroot's cache: one whole, one half, what an import of yesterday left of a third. */
static void test_download(void)
{
    static struct manifest manifest = {
        .layers = {{"a" SAME_63, 5000}, {"b" SAME_63, 5000}, {"c" SAME_63, 5000}, {"", 5000}},
        .count = 4,
        .bytes = 20000};
    const struct timespec yesterday[2] = {{.tv_sec = time(NULL) - 2 * 86400},
                                          {.tv_sec = time(NULL) - 2 * 86400}};
    struct scratch scratch;
    struct download download;
    struct progress progress = {
        .draft = "/nowhere/draft", .scratch = &scratch, .download = &download};
    char cache[128], file[512], line[256], layer[9000] = "";

    scratch_create(&scratch, directory, &err);
    snprintf(cache, sizeof(cache), "%s/layers", directory);
    mkdir(cache, 0700);
    snprintf(file, sizeof(file), "%s/a" SAME_63, cache);
    write_file(file, layer, 1);
    snprintf(file, sizeof(file), "%s/c" SAME_63 ".0123456789", cache);
    write_file(file, layer, 3000);
    utimensat(AT_FDCWD, file, yesterday, 0);
    download_watch(&download, &manifest, cache);
    is_int(download.before, 5000, "a layer that is there counts whole");
    ok(access(file, F_OK) < 0, "what a killed import left goes");
    snprintf(file, sizeof(file), "%s/b" SAME_63 ".0123456789", cache);
    write_file(file, layer, 2500);
    progress_line(&progress, "[INFO] Downloading 3 missing layers...\n", 10, line, sizeof(line));
    is(line, "Downloading 3 missing layers... 8 kB of 20 kB, 250 B/s (10 s, about 50 s left)",
       "bytes, rate and estimate of a download");
    write_file(file, layer, 9000);
    is_int(download_bytes(&download), 10000, "no layer counts more than it has");
    scratch_destroy(&scratch);
}

static void test_progress(void)
{
    struct scratch scratch;
    struct progress progress = {.draft = "/nowhere/draft", .scratch = &scratch};
    char file[4096], line[256], layer[5000] = "";

    scratch_create(&scratch, directory, &err);
    progress_line(&progress, "[INFO] Downloading 2 layers\n", 2, line, sizeof(line));
    is(line, "Downloading 2 layers (2 s)", "before there are layers: the phase");
    snprintf(file, sizeof(file), "%s/layer", scratch.path);
    write_file(file, layer, sizeof(layer));
    progress_line(&progress, "[INFO] Extracting image layers...\n", 1e6, line, sizeof(line));
    is(line, "Extracting image layers... 5 kB unpacked, 1 kB/s (1000000 s)", "then their bytes");
    /* The image is written. */
    progress.draft = file;
    progress.uncompressed = 1;
    progress.total = 20000;
    progress.writing = 100;
    progress_line(&progress, "", 110, line, sizeof(line));
    is(line, "5 kB written, 500 B/s (110 s, about 30 s left)", "then the image's");
    scratch_destroy(&scratch);
}

/* Another process of the user sweeps all the time: nobody's directory may go, and none may stay. */
static void test_scratch(void)
{
    struct scratch scratch;
    char parent[128], file[4096];
    int made = 0, kept = 0, left = 0;
    struct dirent *item;
    DIR *listed;
    pid_t sweepers[2];

    snprintf(parent, sizeof(parent), "%s/scratch", directory);
    mkdir(parent, 0700);
    for (int i = 0; i < 2; i++) {
        sweepers[i] = fork();
        while (sweepers[i] == 0)
            scratch_sweep(parent);
    }
    for (int i = 0; i < 1000; i++) {
        if (scratch_create(&scratch, parent, &err) < 0)
            continue;
        made++;
        snprintf(file, sizeof(file), "%s/file", scratch.path);
        write_file(file, "x", 1);
        kept += access(file, F_OK) == 0;
        scratch_destroy(&scratch);
    }
    for (int i = 0; i < 2; i++) {
        kill(sweepers[i], SIGKILL);
        waitpid(sweepers[i], NULL, 0);
    }
    if (!is_int(made, 1000, "directories are made while others sweep"))
        diag("%s", err.text);
    is_int(kept, 1000, "and kept");
    for (int removing = 0; removing < 2; removing++) {
        if (fork() == 0) {
            scratch_create(&scratch, parent, &err);
            snprintf(file, sizeof(file), "%s/file", scratch.path);
            write_file(file, "x", 1);
            snprintf(file, sizeof(file), "%s/alive", scratch.path);
            if (removing) /* this one goes first, as it may */
                unlink(file);
            kill(getpid(), SIGKILL);
        }
        wait(NULL);
    }
    scratch_sweep(parent);
    listed = opendir(parent);
    while ((item = readdir(listed)))
        left += item->d_name[0] != '.';
    closedir(listed);
    is_int(left, 0, "what killed processes left is swept, also half removed");
}

static void test_stage(void)
{
    char place[128], image[128], draft[256], path[4096];
    unsigned char bytes[4096] = "hsqs";
    struct stage_request request = {
        .directory = place, .key = "sha256-" HEX, .image = image, .timeout = 60};
    struct image_cache stage;
    struct image_entry *entries = NULL;
    size_t count = 0;

    bytes[28] = 4;
    bytes[40] = 0xA0;
    bytes[41] = 0x0F;
    snprintf(place, sizeof(place), "%s/stage", directory);
    mkdir(place, 0700);
    snprintf(image, sizeof(image), "%s/staged.sqsh", directory);
    write_file(image, bytes, sizeof(bytes));
    request.timeout = -1;
    ok(image_stage(&request, path, sizeof(path), &err) < 0, "a copy that takes too long");
    ok(strstr(err.text, "took longer than") != NULL, "is given up");
    snprintf(draft, sizeof(draft), "%s/%u/work/sha256-" HEX ".draft", place, (unsigned)geteuid());
    ok(access(draft, F_OK) < 0, "and leaves nothing");
    request.timeout = 60;
    *strrchr(draft, '/') = '\0';
    strcat(draft, "/sha256-other.draft");
    write_file(draft, bytes, sizeof(bytes));
    if (!ok(image_stage(&request, path, sizeof(path), &err) == 0, "a copy"))
        diag("%s", err.text);
    ok(access(draft, F_OK) < 0, "what a killed copy of another image left is gone");
    snprintf(draft, sizeof(draft), "%s/%u", place, (unsigned)geteuid());
    ok(image_cache_open(&stage, draft, &err) == 0 &&
           image_cache_list(&stage, &entries, &count, &err) == 0 && count == 1 &&
           image_entry_verify(&entries[0], &err) == 0,
       "is whole, by the checksum taken on the way");
    free(entries);
    unlink(image);
    ok(image_stage(&request, path, sizeof(path), &err) == 0, "and found again");
}

static void test_manifests(void)
{
    static const struct {
        const char *text;
        long long sum;
    } cases[] = {
        {"{\"config\":{\"size\":7},\"layers\":[{\"size\":100,\"digest\":\"x\"},{\"digest\":\"y\","
         "\"size\" : 23}]}",
         123},
        {"{ \"layers\" : [ {\"annotations\":{\"size\":9},\"size\":5,\"urls\":[\"]\"]} ] }", 5},
        {"{\"a\":\"\\\"layers\\\":[{\",\"b\":{\"layers\":[{\"size\":1}]}}", -1},
        {"{\"layers\":[]}", -1},
        {"{\"layers\":[{\"size\":-5}]}", -1},
        {"{\"layers\":[{\"size\":\"5\"}]}", -1},
        {"{\"layers\":[{\"size\":9223372036854775807},{\"size\":9223372036854775807}]}", -1},
        {"{\"layers\":[{\"size\":5}", -1},
        {"{\"layers\":[{\"size", -1},
        {"{\"errors\":[{\"code\":\"UNAUTHORIZED\"}]}", -1},
        {"", -1},
        {"\"", -1},
        {"\"\\", -1},
    };

    static struct manifest manifest;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        is_int(manifest_parse(cases[i].text, &manifest) < 0 ? -1 : manifest.bytes, cases[i].sum,
               cases[i].text);
    ok(manifest_parse("{\"layers\":[{\"size\":7,\"digest\":\"sha256:" HEX "\"},"
                      "{\"size\":8,\"digest\":\"sha512:" HEX "\"}]}",
                      &manifest) == 0 &&
           manifest.count == 2,
       "two layers");
    is(manifest.layers[0].digest, HEX, "with a digest");
    is(manifest.layers[1].digest, "", "and with one of another kind");
}

static int slow_parent;

/* Lets a child run before its parent goes on, as a busy machine does now and then. */
static void pause_parent(void)
{
    const struct timespec pause = {.tv_nsec = 10000000};

    if (slow_parent)
        nanosleep(&pause, NULL);
}

static void test_import(void)
{
    static const char program[] = "#!/bin/sh\n"
                                  "[ \"$1\" != version ] || { echo 4.1.2; exit 0; }\n"
                                  "cp \"${0%enroot}image\" \"$3\"\n"
                                  /* It takes a while to sum that up. */
                                  "truncate -s 300M \"$3\"\n";
    unsigned char image[4096] = "hsqs";
    struct image_reference reference = {.scheme = IMAGE_DOCKER, .text = "docker://here#x:1"};
    struct image_cache cache;
    const char *const environment[] = {"PATH=/usr/bin:/bin", NULL};
    struct image_request request = {.reference = &reference,
                                    .cache = &cache,
                                    .environment = environment,
                                    .path = directory,
                                    .temporary = directory,
                                    .timeout = 60,
                                    .patience = 20,
                                    .processors = 1};
    /* As the plugin has it: in memory that a child does not get a copy of. */
    struct error *common =
        mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char path[4096];
    int rc;

    image[28] = 4;
    image[40] = 0xA0;
    image[41] = 0x0F;
    snprintf(path, sizeof(path), "%s/image", directory);
    write_file(path, image, sizeof(image));
    snprintf(path, sizeof(path), "%s/enroot", directory);
    write_file(path, program, sizeof(program) - 1);
    chmod(path, 0700);
    snprintf(path, sizeof(path), "%s/imports", directory);
    if (!ok(image_cache_open(&cache, path, &err) == 0, "a cache for imports"))
        return;
    pthread_atfork(NULL, pause_parent, NULL);
    slow_parent = 1;
    rc = image_obtain(&request, "sha256-" HEX, path, sizeof(path), common);
    slow_parent = 0;
    if (!is_int(rc, 0, "an import whose children are faster than it"))
        diag("%s", common->text);
    is_int(access(path, F_OK), 0, "is there");
    munmap(common, sizeof(*common));
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

static void test_explanations(void)
{
    static const char *const complaints[][2] = {
        {"[INFO] x\nplain\n[ERROR] /etc/enroot/hooks.d/98-nvidia.sh exited with return code 1\n",
         "/etc/enroot/hooks.d/98-nvidia.sh exited with return code 1: plain"},
        {"plain\n[WARN] slow\n", "plain"},
        {"[WARN] slow\n", "slow"},
        {"[WARN] slow\n[ERROR] hook exited with return code 1\n", "hook exited with return code 1"},
        {"[ERROR] bad value\n[ERROR] hook exited with return code 1\n", "bad value"},
        {"[INFO] x\n[ERROR] hook exited with return code 1\n", "hook exited with return code 1"},
        {"[ERROR] one\n[ERROR] two\nthree\n", "two"},
        {"", ""},
    };
    char line[200];

    for (size_t i = 0; i < sizeof(complaints) / sizeof(complaints[0]); i++) {
        process_complaint(complaints[i][0], line, sizeof(line));
        is(line, complaints[i][1], "the line that tells most");
    }
    enroot_explain("import of docker://x", 7, "curl: (7) Connection refused\n", &err);
    is(err.text,
       "import of docker://x failed (exit code 7): curl: (7) Connection refused; is the registry "
       "running, and its name right?",
       "a registry that is not there");
    enroot_explain("import", 1, "[ERROR] URL x returned error code: 401 Unauthorized\n", &err);
    ok(strstr(err.text, "credentials") != NULL, "a registry that wants to know who");
    enroot_explain("asking", 125, "Error: inspecting object: x:1: image not known\n", &err);
    ok(strstr(err.text, "name and tag") != NULL, "an image that podman does not have");
    enroot_explain("import", 1, "enroot-aufs2ovlfs: failed to set capabilities: x\n", &err);
    ok(strstr(err.text, "enroot+caps") != NULL, "an Enroot with which only root can import");
}

int main(void)
{
    if (!mkdtemp(directory))
        return 1;
    test_references();
    test_mounts();
    test_processes();
    test_leases();
    test_sweep();
    test_join_ended();
    test_records();
    test_cache();
    test_download();
    test_progress();
    test_scratch();
    test_stage();
    test_manifests();
    test_import();
    test_checksum();
    test_explanations();
    if (fork() == 0)
        execlp("rm", "rm", "-rf", directory, (char *)NULL);
    wait(NULL);
    return done_testing();
}
