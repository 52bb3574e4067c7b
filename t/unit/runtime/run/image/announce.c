/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that wait for one another: a working process is not disturbed, however slow everything
 * is. */
#include "unit/container/container.h"
#include "run/image/announce.h"
#include "run/image/cache.h"
#include "run/image/get.h"
#include "run/image/import.h"
#include "lib/lease.h"
#include "run/image/named.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>

/* A process on another host. */
#define ELSEWHERE "elsewhere,1,0000000000000001,0000000000000001"

static const char *host = "one";

/* Replaces the C library's function: processes of this test are on several hosts. */
int uname(struct utsname *names)
{
    memset(names, 0, sizeof(*names));
    snprintf(names->nodename, sizeof(names->nodename), "%s", host);
    return 0;
}

enum { NAPS = 64 };

/* Replaces the C library's function: if 'naps' is not NULL, sleeps are recorded there and skipped.
 */
static double *naps;
static int nap_count;
static double skipped;
static int skips;

int nanosleep(const struct timespec *time, struct timespec *left)
{
    if (!naps)
        return clock_nanosleep(CLOCK_MONOTONIC, 0, time, left);
    if (nap_count < NAPS)
        naps[nap_count++] = (double)time->tv_sec + 1e-9 * (double)time->tv_nsec;
    if (skips)
        skipped += (double)time->tv_sec + 1e-9 * (double)time->tv_nsec;
    return 0;
}

/* Replaces the C library's function: with 'skips', skipped sleeps count. */
int clock_gettime(clockid_t id, struct timespec *time)
{
    int rc = (int)syscall(SYS_clock_gettime, id, time);

    time->tv_sec += (time_t)skipped;
    return rc;
}

static void write_program(const char *path, const char *text)
{
    write_file(path, text, strlen(text));
    chmod(path, 0700);
}

static int count_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    int c, lines = 0;

    while (file && (c = getc(file)) != EOF)
        lines += c == '\n';
    if (file)
        fclose(file);
    return lines;
}

/* --- imports ------------------------------------------------------------------------------- */

static void count_beat(void *argument)
{
    ++*(int *)argument;
}

/* In a child: import with the Enroot in 'place'. Exits with 0 if that succeeded, and if waiting
 * processes were kept informed. */
static void import_in(const char *place, double patience, int least_beats)
{
    struct image_reference reference = {.scheme = IMAGE_DOCKER, .text = "docker://here#x:1"};
    struct image_cache cache;
    char path[4096], search[512];
    const char *const environment[] = {search, NULL};
    int beats = 0;
    struct image_request request = {.reference = &reference,
                                    .cache = &cache,
                                    .environment = environment,
                                    .path = place,
                                    .temporary = place,
                                    .timeout = 60,
                                    .timeout_remedy = "raise the timeout",
                                    .patience = patience,
                                    .processors = 1,
                                    .beat = count_beat,
                                    .argument = &beats};

    snprintf(search, sizeof(search), "PATH=%s:/usr/bin:/bin", place);
    snprintf(path, sizeof(path), "%s/cache", place);
    if (image_cache_open(&cache, path, &err) < 0 ||
        image_obtain(&request, "sha256-" HEX, path, sizeof(path), &err) < 0) {
        diag("%s", err.text);
        _exit(1);
    }
    _exit(beats >= least_beats ? 0 : 2);
}

/* A directory with a fake Enroot. */
static void make_place(char *place, size_t size, const char *name, const char *enroot)
{
    char path[512];

    snprintf(place, size, "%s/%s", directory, name);
    mkdir(place, 0700);
    snprintf(path, sizeof(path), "%s/enroot", place);
    write_program(path, enroot);
    snprintf(path, sizeof(path), "%s/image", place);
    write_file(path, small_image, sizeof(small_image));
}

/* Two processes want an image, and an answer arrives later than their patience lasts. */
static void test_slow_answers(void)
{
    static const char *const slow[] = {"version", "info"};
    enum { CASES = sizeof(slow) / sizeof(slow[0]) };
    char place[CASES][128], path[512], program[512];
    pid_t children[CASES][2];
    int status;

    for (int i = 0; i < CASES; i++) {
        snprintf(program, sizeof(program),
                 "#!/bin/sh\n"
                 "[ $1 != %s ] || sleep 4.5\n"
                 "[ $1 != version ] || echo 4.1.2\n"
                 "[ $1 = import ] || exit 0\n"
                 "echo import >>\"${0%%enroot}log\"\n"
                 "cp \"${0%%enroot}image\" \"$3\"\n",
                 slow[i]);
        make_place(place[i], sizeof(place[i]), slow[i], program);
        for (int k = 0; k < 2; k++) {
            children[i][k] = fork();
            if (children[i][k] == 0)
                import_in(place[i], 3, 2);
        }
    }
    for (int i = 0; i < CASES; i++) {
        for (int k = 0; k < 2; k++) {
            waitpid(children[i][k], &status, 0);
            ok(status == 0, "an import while `enroot %s` is slow", slow[i]);
        }
        snprintf(path, sizeof(path), "%s/log", place[i]);
        is_int(count_lines(path), 1, "is done once");
    }
}

/* The lease, and with it the draft, is lost when the import is done. */
static void test_lost_draft(void)
{
    char place[128], path[512];
    int status;

    make_place(place, sizeof(place), "lost",
               "#!/bin/sh\n"
               "[ $1 != version ] || echo 4.1.2\n"
               "[ $1 = import ] || exit 0\n"
               "cd \"${0%/*}\"\n"
               "echo import >>log\n"
               "if [ $(wc -l <log) = 1 ]; then\n"
               "    echo " ELSEWHERE " 1 >\"${3%@*}.lease\"\n"
               "else\n"
               "    cp image \"$3\"\n"
               "fi\n");
    if (fork() == 0)
        import_in(place, 1, 0);
    wait(&status);
    is_int(status, 0, "who loses the lease before the image is published waits for the other");
    snprintf(path, sizeof(path), "%s/log", place);
    is_int(count_lines(path), 2, "and imports again where that one is gone");
}

/* --- containers that are kept --------------------------------------------------------------- */

/* In a child: create the container 'x' in 'place', as a process of 'name'. */
static void keep_in(const char *place, const char *name)
{
    const char *const environment[] = {"PATH=/usr/bin:/bin", NULL};
    const struct named_request request = {.name = "x",
                                          .image = "image",
                                          .origin = "- image",
                                          .path = place,
                                          .environment = environment,
                                          .timeout = 60,
                                          .patience = 3};
    char full[128], path[512];

    host = name;
    if (container_keep(&request, full, sizeof(full), &err) < 0) {
        diag("%s", err.text);
        _exit(1);
    }
    snprintf(path, sizeof(path), "%s/data/%s/whole", place, full);
    _exit(access(path, F_OK) == 0 ? 0 : 2);
}

/* Two hosts that share Enroot's directory want one container, even if removing what another host
 * left takes longer than their patience lasts. */
static void test_kept(void)
{
    static const struct {
        const char *name, *removal, *draft;
    } rows[] = {
        {"shared-data", "0", "none"},
        {"slow-removal", "4.5", "megatron_x.draft.0000000000000003"},
        {"another-draft", "0", "megatron_x.draft.backup"},
    };
    enum { CASES = sizeof(rows) / sizeof(rows[0]) };
    char place[CASES][128], path[512], program[1024];
    pid_t children[CASES][2];
    int status;

    for (int i = 0; i < CASES; i++) {
        snprintf(program, sizeof(program),
                 "#!/bin/sh\n"
                 "cd \"${0%%/*}\"\n"
                 "case $1 in\n"
                 "info) echo ENROOT_DATA_PATH=$PWD/data ;;\n"
                 "create) echo $3 >>log; mkdir data/$3; sleep 1; >data/$3/whole ;;\n"
                 "remove) sleep %s; rm -rf data/$3 ;;\n"
                 "esac\n",
                 rows[i].removal);
        make_place(place[i], sizeof(place[i]), rows[i].name, program);
        snprintf(path, sizeof(path), "%s/data", place[i]);
        mkdir(path, 0700);
        snprintf(path, sizeof(path), "%s/data/%s", place[i], rows[i].draft);
        mkdir(path, 0700);
        for (int k = 0; k < 2; k++) {
            children[i][k] = fork();
            if (children[i][k] == 0)
                keep_in(place[i], k == 0 ? "one" : "two");
        }
    }
    for (int i = 0; i < CASES; i++) {
        for (int k = 0; k < 2; k++) {
            waitpid(children[i][k], &status, 0);
            ok(status == 0, "%s: host %d has its container", rows[i].name, k);
        }
        snprintf(path, sizeof(path), "%s/log", place[i]);
        is_int(count_lines(path), 1, "which is made once");
        snprintf(path, sizeof(path), "%s/data/megatron_x.draft.0000000000000003", place[i]);
        ok(access(path, F_OK) < 0, "and no draft is left");
        snprintf(path, sizeof(path), "%s/data/%s", place[i], rows[i].draft);
        ok((access(path, F_OK) == 0) == (strcmp(rows[i].name, "slow-removal") != 0),
           "only what Enroot was asked to make is removed");
    }
}

/* Users share Enroot's directory: nothing that another user put there is used, changed or followed.
 */
enum { VICTIM = 65532, ATTACKER = 65533 };

static void test_strangers(void)
{
    static const struct {
        const char *name;
        mode_t parent, data;
        uid_t owner;
        const char *attack; /* by 'attacker' in the directory of containers */
        uid_t attacker;
        int works;
    } rows[] = {
        {"a shared directory", 0755, 01777, 0, ":", ATTACKER, 1},
        {"the user's own", 0755, 0755, VICTIM, ":", VICTIM, 1},
        {"the user's own, and a group's", 0755, 0775, VICTIM, ":", VICTIM, 1},
        {"leases in a link", 0755, 01777, 0, "ln -s ../home .megatron-65532", ATTACKER, 0},
        {"leases in another's directory", 0755, 01777, 0, "mkdir -m 777 .megatron-65532", ATTACKER,
         0},
        {"leases where all can write", 0755, 01777, 0, "mkdir -m 777 .megatron-65532", VICTIM, 0},
        {"another's container", 0755, 01777, 0, "mkdir megatron_x", ATTACKER, 0},
        {"a link to one", 0755, 01777, 0, "ln -s ../home megatron_x", ATTACKER, 0},
        {"the administrator's", 0755, 01777, 0, "mkdir -m 755 megatron_x && touch megatron_x/whole",
         0, 1},
        {"one that all can write to", 0755, 01777, 0, "mkdir -m 777 megatron_x", VICTIM, 0},
        {"a directory without the sticky bit", 0755, 0777, 0, ":", ATTACKER, 0},
        {"a group's without it", 0755, 0775, 0, ":", ATTACKER, 0},
        {"a directory in one", 0777, 01777, 0, ":", ATTACKER, 0},
        {"another user's", 0755, 01777, ATTACKER, ":", ATTACKER, 0},
        {"another's draft", 0755, 01777, 0,
         "mkdir megatron_x.draft.0123456789abcdef; ln -s ../home megatron_x.draft.1123456789abcdef",
         ATTACKER, 1},
    };
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    char place[128], path[256], command[256];
    int status;

    if (geteuid() != 0) {
        ok(1, "other users: skipped, needs root");
        return;
    }
    chmod(directory, 0755);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        pid_t child;

        snprintf(path, sizeof(path), "strangers-%zu", i);
        make_place(place, sizeof(place), path,
                   "#!/bin/sh\n"
                   "cd \"${0%/*}\"\n"
                   "case $1 in\n"
                   "info) echo ENROOT_DATA_PATH=$PWD/data ;;\n"
                   "create) mkdir -m 777 data/$3; >data/$3/whole ;;\n"
                   "remove) rm -rf data/$3 ;;\n"
                   "esac\n");
        snprintf(path, sizeof(path), "%s/enroot", place);
        chmod(path, 0755);
        snprintf(path, sizeof(path), "%s/home", place);
        mkdir(path, 0755);
        is_int(chown(path, VICTIM, (gid_t)-1), 0, "a home");
        strcat(path, "/thesis.lease");
        write_file(path, "", 0);
        utimensat(AT_FDCWD, path, long_ago, 0);
        snprintf(path, sizeof(path), "%s/data", place);
        mkdir(path, 0755);
        is_int(chown(path, rows[i].owner, (gid_t)-1), 0, "a directory of containers");
        chmod(path, rows[i].data);
        chmod(place, rows[i].parent);
        child = fork();
        if (child == 0) {
            snprintf(command, sizeof(command), "umask 0; cd '%s/data' && %s", place,
                     rows[i].attack);
            if (setresuid(rows[i].attacker, rows[i].attacker, rows[i].attacker) < 0)
                _exit(3);
            _exit(execlp("sh", "sh", "-c", command, (char *)NULL));
        }
        waitpid(child, &status, 0);
        is_int(status, 0, rows[i].attack);
        child = fork();
        if (child == 0) {
            if (setresgid(VICTIM, VICTIM, VICTIM) < 0 || setresuid(VICTIM, VICTIM, VICTIM) < 0)
                _exit(3);
            keep_in(place, "one");
        }
        waitpid(child, &status, 0);
        is_int(WEXITSTATUS(status), rows[i].works ? 0 : 1, rows[i].name);
        snprintf(path, sizeof(path), "%s/home/thesis.lease", place);
        ok(access(path, F_OK) == 0, "and nothing of the user's is removed");
        if (rows[i].works && rows[i].attacker != 0) {
            struct stat info;

            snprintf(path, sizeof(path), "%s/data/megatron_x", place);
            ok(lstat(path, &info) == 0 && info.st_uid == VICTIM && (info.st_mode & 022) == 0,
               "the container is the user's alone");
        }
    }
}

/* --- storage that stands still ------------------------------------------------------------- */

enum { STALL = 2 };

/* The image appears at the third look; the second one takes longer than anyone's patience, and
 * nobody can have sent a heartbeat meanwhile. */
static int look_late(void *argument)
{
    int *looks = argument;

    if (++*looks == 2)
        sleep(STALL);
    return *looks == 3;
}

static void test_stall(void)
{
    struct image_cache cache;
    struct announcement announcement;
    struct lease_watch watch = {0};
    struct lease lease;
    int looks = 0, rc;
    const struct announcement_wait wait = {
        .patience = STALL - 1, .look = look_late, .argument = &looks};
    char path[640];

    snprintf(path, sizeof(path), "%s/shared", directory);
    if (!ok(image_cache_open(&cache, path, &err) == 0, "a directory that nodes share") ||
        !ok(announcement_open(&announcement, &cache, "1", &err) == 0, "an import for others"))
        return;
    snprintf(path, sizeof(path), "%s/shared/%s", directory, announcement.path);
    write_file(path, ELSEWHERE " 1\n", strlen(ELSEWHERE " 1\n"));
    snprintf(path, sizeof(path), "%s/shared/work/other", directory);
    write_file(path, ELSEWHERE " 1\n", strlen(ELSEWHERE " 1\n"));
    is_int(lease_take(&lease, AT_FDCWD, path, STALL - 1, &watch, &err), 0,
           "a lease that another one holds");
    rc = announcement_wait(&announcement, &wait, &err);
    if (!is_int(rc, 0, "who waits for the import outlives a stall of the storage"))
        diag("%s", err.text);
    is_int(lease_take(&lease, AT_FDCWD, path, STALL - 1, &watch, &err), 0,
           "and nobody loses a lease by it");
}

/* --- how often who waits looks ------------------------------------------------------------- */

/* Are all naps starting at 'first' within the two limits, and not all the same? */
static int naps_vary(int first, double least, double most)
{
    int same = 0;

    for (int i = first; i < nap_count; i++) {
        if (naps[i] < least || naps[i] > most)
            return 0;
        same += naps[i] == naps[first];
    }
    return nap_count > first + 1 && same < nap_count - first;
}

static int look_often(void *argument)
{
    return ++*(int *)argument > 40;
}

static void test_naps(void)
{
    static const struct {
        int nodes;
        double pause;
    } steps[] = {{2, 0.5}, {64, 0.5}, {256, 2}, {4000, 4}};
    static const struct {
        double waited, pause;
    } turns[] = {{0, 0.1}, {10, 1}, {1000, 2}};
    double noted[NAPS];
    struct image_cache cache;
    struct announcement announcement;

    snprintf(cache.directory, sizeof(cache.directory), "%s/shared", directory);
    announcement_open(&announcement, &cache, "2", &err);
    naps = noted;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        int looks = 0;
        const struct announcement_wait wait = {
            .nodes = steps[i].nodes, .patience = 60, .look = look_often, .argument = &looks};

        nap_count = 0;
        announcement_wait(&announcement, &wait, &err);
        ok(noted[0] < 0.1, "one of %d nodes looks again soon", steps[i].nodes);
        ok(naps_vary(20, 0.7 * steps[i].pause, 1.3 * steps[i].pause), "and then after about %g s",
           steps[i].pause);
    }
    for (size_t i = 0; i < sizeof(turns) / sizeof(turns[0]); i++) {
        nap_count = 0;
        for (int k = 0; k < 20; k++)
            lease_pause(turns[i].waited);
        ok(naps_vary(0, 0.7 * turns[i].pause, 1.3 * turns[i].pause),
           "after waiting %g s for a lease the next pause is about %g s", turns[i].waited,
           turns[i].pause);
    }
    naps = NULL;
}

/* A node that waits for an image which it cannot use says so, and does not blame the importing
 * node, which has ended. */
static void test_unusable(void)
{
    struct image_reference reference = {.scheme = IMAGE_DOCKERD, .text = "dockerd://x:1"};
    struct image_cache cache;
    struct image_get get = {.request = {.reference = &reference, .cache = &cache, .job = "job-1"},
                            .step = "3",
                            .nodes = 2,
                            .waits = 1};
    double noted[NAPS];
    char path[4096];

    snprintf(path, sizeof(path), "%s/unusable", directory);
    image_cache_open(&cache, path, &err);
    image_cache_remember_job(&cache, "job-1", reference.text, "sha256-" HEX, &err);
    snprintf(path, sizeof(path), "%s/unusable/sha256-" HEX ".sqsh", directory);
    write_file(path, small_image, IMAGE_BYTES / 2);
    naps = noted;
    skips = 1;
    is_int(image_get(&get, path, sizeof(path), &err), -1, "an image that this node cannot use");
    ok(strncmp(err.text, "this node cannot use the image", 30) == 0 &&
           strstr(err.text, "is truncated: 2048 of 4000 bytes") != NULL,
       "is the reason: %s", err.text);
    snprintf(path, sizeof(path), "%s/unusable/sha256-" HEX ".sqsh", directory);
    unlink(path);
    is_int(image_get(&get, path, sizeof(path), &err), -1, "no image at all");
    ok(strstr(err.text, "has sent no heartbeat for 60 seconds") != NULL, "is another one: %s",
       err.text);
    skips = 0;
    naps = NULL;
}

/* A process that waits for a lease changes nothing in its directory. */
static void test_quiet(void)
{
    struct lease_watch watch = {0};
    struct lease mine, other;
    struct stat before, after;
    char path[128];

    snprintf(path, sizeof(path), "%s/quiet", directory);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/quiet/lease", directory);
    is_int(lease_take(&mine, AT_FDCWD, path, 60, &watch, &err), 1, "a lease");
    *strrchr(path, '/') = '\0';
    stat(path, &before);
    for (int i = 0; i < 10; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        lease_take(&other, AT_FDCWD, mine.path, 60, &watch, &err);
    }
    stat(path, &after);
    ok(memcmp(&before.st_mtim, &after.st_mtim, sizeof(before.st_mtim)) == 0,
       "a waiting process writes nothing");
    lease_release(&mine);
    is_int(lease_take(&other, AT_FDCWD, mine.path, 60, &watch, &err), 1,
           "and gets it when it is free");
    lease_release(&other);
}

int main(void)
{
    if (!mkdtemp(directory))
        return 1;
    test_stall();
    test_naps();
    test_quiet();
    test_unusable();
    test_slow_answers();
    test_lost_draft();
    test_kept();
    test_strangers();
    return finish();
}
