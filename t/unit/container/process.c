/* Work that may be killed: processes, leases, directories for a while, imports, containers that
 * end. */
#include "container.h"
#include "cache.h"
#include "files.h"
#include "import.h"
#include "lease.h"
#include "manifest.h"
#include "owner.h"
#include "process.h"
#include "progress.h"
#include "scratch.h"
#include "start.h"
#include "sweep.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

#define SAME_63 "000000000000000000000000000000000000000000000000000000000000000"

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

/* A process is killed that runs a program which has started another: both end, and the first has
 * time to undo what it did. */
static void test_killed_caller(void)
{
    static const char script[] =
        "trap 'echo x >undone; exit' TERM; sleep 600 & echo $! >begun; wait";
    const char *const argv[] = {"sh", "-c", script, NULL};
    const struct process_request request = {.argv = argv, .path = "/usr/bin:/bin"};
    const struct timespec moment = {.tv_nsec = 20000000};
    struct process_result result;
    char path[128], text[32] = "";
    pid_t caller = fork();
    int grandchild;

    if (caller == 0) {
        if (chdir(directory) == 0)
            process_run(&request, &result, &err);
        _exit(1);
    }
    snprintf(path, sizeof(path), "%s/begun", directory);
    for (int i = 0; i < 3000 && !strchr(text, '\n'); i++) {
        nanosleep(&moment, NULL);
        small_file_read(path, text, sizeof(text));
    }
    grandchild = atoi(text);
    ok(grandchild > 1 && kill(grandchild, 0) == 0, "a program that started another");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    kill(caller, SIGKILL);
    for (int i = 0; i < 3000 && kill(grandchild, 0) == 0; i++) {
        nanosleep(&moment, NULL);
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    ok(kill(grandchild, 0) < 0, "ends with it when its caller is killed");
    snprintf(path, sizeof(path), "%s/undone", directory);
    ok(access(path, F_OK) == 0, "and can undo what it did");
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
    int taken = 0;

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
    for (int i = 0; i < 100 && !taken; i++) {
        nanosleep(&(struct timespec){0, 50000000}, NULL);
        taken = lease_take(&mine, path, 0.2, &watch, &err);
    }
    is_int(taken, 1, "and loses it when the file stands still");
    lease_release(&mine);
    ok(access(path, F_OK) < 0, "nothing is left");
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
    struct error err = {.text = ""};
    pid_t child = fork();
    int entered = 1;

    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    is_int(container_join(child, 0, "/", &entered, &err), -1, "an ended container is not joined");
    ok(strstr(err.text, "mnt namespace") != NULL, "which is said: %s", err.text);
    is_int(entered, 0, "and nothing was entered");
    is_int(container_join(getpid(), 0, "/", &entered, &err), -1,
           "nor is a process outside that has its number");
    is(err.text, "the container has ended", "which is said");
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

int main(void)
{
    if (!mkdtemp(directory))
        return 1;
    test_processes();
    test_killed_caller();
    test_leases();
    test_sweep();
    test_join_ended();
    test_download();
    test_progress();
    test_scratch();
    test_import();
    return finish();
}
