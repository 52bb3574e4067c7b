/* SPDX-License-Identifier: Apache-2.0 */
/* Work of runtime/run/image/ that may be killed: leases, sweeps, imports and their progress. */
#include "unit/container/container.h"
#include "run/image/cache.h"
#include "lib/file.h"
#include "run/image/import.h"
#include "lib/lease.h"
#include "lib/owner.h"
#include "run/image/progress.h"
#include "container/scratch.h"
#include "container/sweep.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#define SAME_63 "000000000000000000000000000000000000000000000000000000000000000"

/* A process that takes the lease and is killed. */
static void die_with_lease(const char *path)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        struct lease lease;
        struct lease_watch watch = {0};

        lease_take(&lease, AT_FDCWD, path, 60, &watch, &err);
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
    int taken = 0;

    snprintf(path, sizeof(path), "%s/lease", directory);
    is_int(lease_take(&mine, AT_FDCWD, path, 60, &watch, &err), 1, "a lease is taken");
    is_int(lease_take(&other, AT_FDCWD, path, 60, &watch, &err), 0, "and is not taken twice");
    ok(lease_beat(&mine) == 0, "it is held");
    lease_release(&other);
    ok(lease_beat(&mine) == 0, "only its holder gives it back");
    lease_release(&mine);
    is_int(lease_take(&other, AT_FDCWD, path, 60, &watch, &err), 1, "it is free again");
    ok(lease_beat(&mine) < 0, "the one before notices");
    lease_release(&other);

    die_with_lease(path);
    memset(&watch, 0, sizeof(watch));
    is_int(lease_take(&mine, AT_FDCWD, path, 60, &watch, &err), 1,
           "a dead neighbor loses it at once");
    lease_release(&mine);

    file = fopen(path, "w");
    fprintf(file, "elsewhere,1,%016x,%016x 7\n", 1, 2);
    fclose(file);
    memset(&watch, 0, sizeof(watch));
    is_int(lease_take(&mine, AT_FDCWD, path, 0.2, &watch, &err), 0, "a holder elsewhere gets time");
    for (int i = 0; i < 100 && !taken; i++) {
        nanosleep(&(struct timespec){0, 50000000}, NULL);
        taken = lease_take(&mine, AT_FDCWD, path, 0.2, &watch, &err);
    }
    is_int(taken, 1, "and loses it when the file stands still");
    lease_release(&mine);
    ok(access(path, F_OK) < 0, "nothing is left");

    write_file(path, "a user's notes\n", 15);
    memset(&watch, 0, sizeof(watch));
    for (int i = 0; i < 2; i++)
        is_int(lease_take(&mine, AT_FDCWD, path, 0, &watch, &err), -1,
               "a file that is not a lease");
    ok(strstr(err.text, "is not a lease; move it away") && access(path, F_OK) == 0,
       "is reported, and stays: %s", err.text);
    unlink(path);
}

/* The name of a process that has exited. */
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

#define KEY "sha256-a" SAME_63

/* Its owner, its kind, for how many seconds it has not changed, and whether it stays. */
static void test_sweep(void)
{
    enum { DEAD, LIVING, EARLIER, OTHER, NOBODY };
    static const char *const whose[] = {"the dead", "the living", "an earlier boot", "another host",
                                        "nobody"};
    static const struct {
        int owner;
        const char *name; /* with the owner in its name, or a lease that contains the owner */
        int still, stays;
    } rows[] = {
        {DEAD, "record@%s.new", 0, 0},      {DEAD, KEY "@%s.draft", 0, 0},
        {DEAD, "step-1.lease", 0, 0},       {LIVING, "record@%s.new", 5, 1},
        {LIVING, KEY "@%s.draft", 500, 1},  {LIVING, "step-1.lease", 500, 1},
        {EARLIER, "record@%s.new", 50, 1},  {EARLIER, "record@%s.new", 70, 0},
        {EARLIER, KEY "@%s.draft", 500, 1}, {EARLIER, "step-1.lease", 500, 1},
        {EARLIER, "step-1.lease", 700, 0},  {OTHER, "lease@%s.new", 50, 1},
        {OTHER, "lease@%s.new", 70, 0},     {OTHER, KEY "@%s.draft", 500, 1},
        {OTHER, KEY "@%s.draft", 700, 0},   {OTHER, "step-1.lease", 500, 1},
        {OTHER, "step-1.lease", 700, 0},    {NOBODY, "step-1.lease", 80000, 1},
        {NOBODY, "step-1.lease", 90000, 0}, {NOBODY, "new.abcdef", 90000, 1},
        {DEAD, "mail@%s.new", 90000, 1},
    };
    static const char *const leases[] = {"step-%w.lease", NULL};
    char owners[5][OWNER_SIZE] = {""}, work[128], name[256], path[512], text[OWNER_SIZE + 8];
    int at;

    snprintf(work, sizeof(work), "%s/unfinished", directory);
    mkdir(work, 0700);
    at = open(work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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
        snprintf(text, sizeof(text), "%s 3\n", owner);
        write_file(path, text, mark || !owner[0] ? 0 : strlen(text));
        utimensat(AT_FDCWD, path, times, 0);
        sweep_unfinished(at, leases);
        ok((access(path, F_OK) == 0) == rows[i].stays, "%.*s of %s %s after %d s",
           (int)strcspn(rows[i].name, "@"), rows[i].name, whose[rows[i].owner],
           rows[i].stays ? "stays" : "goes", rows[i].still);
        unlink(path);
    }
}

/* Layers in Enroot's cache: an old one, one being downloaded, one left by a killed import. */
static void test_download(void)
{
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
    write_file(file, layer, 1000);
    utimensat(AT_FDCWD, file, yesterday, 0);
    snprintf(file, sizeof(file), "%s/c" SAME_63 ".0123456789", cache);
    write_file(file, layer, 3000);
    utimensat(AT_FDCWD, file, yesterday, 0);
    download_watch(&download, cache);
    is_int(download_bytes(&download), 0, "layers from before the download do not count");
    ok(access(file, F_OK) < 0, "leftovers of a killed import are removed");
    snprintf(file, sizeof(file), "%s/c" SAME_63 ".of-mine.gz", cache);
    write_file(file, layer, 0);
    utimensat(AT_FDCWD, file, yesterday, 0);
    download_watch(&download, cache);
    ok(access(file, F_OK) == 0, "but not what Enroot does not name so");
    snprintf(file, sizeof(file), "%s/b" SAME_63 ".0123456789", cache);
    write_file(file, layer, 2500);
    snprintf(file, sizeof(file), "%s/other", cache);
    write_file(file, layer, 100);
    progress_line(&progress, "[INFO] Downloading 3 missing layers...\n", 10, line, sizeof(line));
    is(line, "Downloading 3 missing layers... 2 kB, 250 B/s (10 s)",
       "bytes and rate of a download");
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

static int slow_parent;

/* Lets a child run before its parent continues, as happens on a busy machine. */
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
                                  /* Computing its checksum takes a while. */
                                  "truncate -s 300M \"$3\"\n";
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
    /* As in the plugin: in memory that a child does not get a copy of. */
    struct error *common =
        mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char path[4096];
    int rc;

    snprintf(path, sizeof(path), "%s/image", directory);
    write_file(path, small_image, sizeof(small_image));
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

/* Enroot 4.1 fails at the very end of an import from podman if there is no docker. */
static void test_podman(void)
{
    static const char program[] = "#!/bin/sh\n"
                                  "[ \"$1\" != version ] || { echo 4.1.2; exit 0; }\n"
                                  "[ \"$1\" = import ] || exit 0\n"
                                  "echo " HEX " >&2\n"
                                  "[ -e \"${0%enroot}fails\" ] || cp \"${0%enroot}image\" \"$3\"\n"
                                  "exit 127\n";
    static const char podman[] = "#!/bin/sh\necho \"$@\" >\"${0%podman}called\"\n";
    struct image_reference reference = {.scheme = IMAGE_PODMAN, .text = "podman://x:1"};
    const char *const environment[] = {"PATH=/usr/bin:/bin", NULL};
    struct image_cache cache;
    struct image_request request = {.reference = &reference,
                                    .cache = &cache,
                                    .environment = environment,
                                    .path = directory,
                                    .temporary = directory,
                                    .timeout = 60,
                                    .patience = 20,
                                    .processors = 1};
    char path[4096], called[256];

    snprintf(path, sizeof(path), "%s/enroot", directory);
    write_file(path, program, sizeof(program) - 1);
    chmod(path, 0700);
    snprintf(path, sizeof(path), "%s/podman", directory);
    write_file(path, podman, sizeof(podman) - 1);
    chmod(path, 0700);
    snprintf(path, sizeof(path), "%s/podman-cache", directory);
    image_cache_open(&cache, path, &err);
    if (!is_int(image_obtain(&request, "sha256-" HEX, path, sizeof(path), &err), 0,
                "an import from podman without docker succeeds"))
        diag("%s", err.text);
    snprintf(path, sizeof(path), "%s/called", directory);
    file_read_text(path, called, sizeof(called));
    is(called, "rm -f -v " HEX "\n", "and its container is removed");
    unlink(path);
    snprintf(path, sizeof(path), "%s/fails", directory);
    write_file(path, "", 0);
    is_int(image_obtain(&request, "sha256-0" HEX, path, sizeof(path), &err), -1,
           "one that wrote no image fails");
}

static void test_min_free(void)
{
    struct image_reference reference = {.scheme = IMAGE_DOCKER, .text = "docker://here#y:1"};
    const char *const environment[] = {"PATH=/usr/bin:/bin", NULL};
    struct image_cache cache;
    struct image_request request = {.reference = &reference,
                                    .cache = &cache,
                                    .environment = environment,
                                    .path = directory,
                                    .temporary = directory,
                                    .min_free = INT64_MAX,
                                    .patience = 20,
                                    .processors = 1};
    char path[4096];

    snprintf(path, sizeof(path), "%s/full", directory);
    image_cache_open(&cache, path, &err);
    is_int(image_obtain(&request, "sha256-" HEX, path, sizeof(path), &err), -1,
           "an import with less free space than the minimum is rejected");
    ok(strstr(err.text, "free; set ENROOT_TEMP_PATH or TMPDIR to another directory") != NULL,
       "with the remedy: %s", err.text);
}

/* Replaces the C library's function: directories whose path contains 'full' have 1000 bytes left.
 */
static const char *full;

int statvfs(const char *path, struct statvfs *disk)
{
    memset(disk, 0, sizeof(*disk));
    disk->f_frsize = 1;
    disk->f_bavail = full && strstr(path, full) ? 1000 : 1000000000;
    return 0;
}

/* Copy 'text' with the test's directory in place of each '@'. */
static void replace_each(const char *text, char *result, size_t size)
{
    size_t used = 0;

    for (; *text && used < size; text++)
        used += (size_t)snprintf(result + used, size - used, *text == '@' ? "%s" : "%.1s",
                                 *text == '@' ? directory : text);
}

/* Every directory that an import writes to is checked, and named if one becomes full. */
static void test_space(void)
{
    static const struct {
        const char *full;  /* a part of the path of the full directory */
        const char *error; /* the line that Enroot prints, "" for none */
        const char *found; /* what the message contains */
    } rows[] = {
        {"/layers", "",
         "needs at least 5 kB in the layer cache of Enroot, but @/layers/new has 1 kB free; "
         "set ENROOT_CACHE_PATH to another directory"},
        {"/space-cache", "",
         "needs at least 5 kB in the image cache, but @/space-cache has 1 kB free; run "
         "`megatron image prune`"},
        {NULL, "No space left on device",
         "set MEGATRON_IMAGE_CACHE, ENROOT_CACHE_PATH or ENROOT_TEMP_PATH to another directory "
         "(no space left: 1.0 GB free in @/space-cache, 1.0 GB free in @, 1.0 GB free in "
         "@/layers/new)"},
        {NULL, "Disk quota exceeded",
         "(quota exceeded: 1.0 GB free in @/space-cache, 1.0 GB free in @, 1.0 GB free in "
         "@/layers/new; see `quota -s` for your share of it)"},
    };
    struct image_reference reference = {.scheme = IMAGE_DOCKER, .text = "docker://here#z:1"};
    const char *const environment[] = {"PATH=/usr/bin:/bin", NULL};
    struct image_cache cache;
    struct image_request request = {.reference = &reference,
                                    .cache = &cache,
                                    .environment = environment,
                                    .path = directory,
                                    .temporary = directory,
                                    .min_free = 5000,
                                    .patience = 20,
                                    .processors = 1};
    char path[4096], program[512], expected[512];

    snprintf(path, sizeof(path), "%s/space-cache", directory);
    image_cache_open(&cache, path, &err);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(program, sizeof(program),
                 "#!/bin/sh\n"
                 "[ $1 != version ] || echo 4.1.2\n"
                 "[ $1 != info ] || echo ENROOT_CACHE_PATH=%s/layers/new\n"
                 "[ $1 != import ] || { echo \"write: %s\" >&2; exit 1; }\n",
                 directory, rows[i].error);
        snprintf(path, sizeof(path), "%s/enroot", directory);
        write_file(path, program, strlen(program));
        chmod(path, 0700);
        full = rows[i].full;
        is_int(image_obtain(&request, "sha256-" HEX, path, sizeof(path), &err), -1,
               full ? full : rows[i].error);
        full = NULL;
        replace_each(rows[i].found, expected, sizeof(expected));
        ok(strstr(err.text, expected) != NULL, "the message: %s", err.text);
    }
}

int main(void)
{
    if (!mkdtemp(directory))
        return 1;
    test_leases();
    test_sweep();
    test_download();
    test_progress();
    test_import();
    test_podman();
    test_min_free();
    test_space();
    return finish();
}
