/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "work.h"
#include "base/core/storage.h"
#include "lib/clock.h"
#include "bytes.h"
#include "work_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* How long ranks wait for rank 0. How long a rank that failed waits for the other ranks to notice:
 * on many nodes some start late, and would wait in vain for a rank 0 that failed at once. If the
 * directory is lost, all ranks notice by themselves. */
enum { START_SECONDS = 600, FAILURE_SECONDS = 60, LOST_SECONDS = 5 };

/* Name the launch: what all its processes, and no others, have in common. */
static void name_launch(struct work *work)
{
    static const char *const names[] = {
        "SLURM_HET_JOB_ID",    "SLURM_JOB_ID",   "SLURM_STEP_ID",
        "SLURM_RESTART_COUNT", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid",
        "TORCHELASTIC_RUN_ID", "MASTER_PORT",    "MEGATRON_RESTARTS"};
    struct bytes bytes = {0};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        /* The components of a het job have different ids. */
        if (i == 1 && getenv(names[0]))
            continue;
        bytes_put_text(&bytes, getenv(names[i]));
    }
    if (work->world->size == 1) {
        struct timespec now = clock_after(CLOCK_REALTIME, 0);

        bytes_put_u64(&bytes, (uint64_t)getpid());
        bytes_put_u64(&bytes, (uint64_t)now.tv_sec);
        bytes_put_u64(&bytes, (uint64_t)now.tv_nsec);
    }
    snprintf(work->launch, sizeof(work->launch), "%016" PRIx64,
             checksum_seeded(bytes.data, bytes.size, 4));
    bytes_clear(&bytes);
}

int work_init(struct work *work, const char *output, const struct world *world, int64_t lease,
              struct error *err)
{
    memset(work, 0, sizeof(*work));
    work->world = world;
    work->lease = lease;
    step_guard_start();
    name_launch(work);
    if (disk_path(work->root, err, "%s.work", output) < 0)
        return -1;
    return work_files_check_root(work->root, err);
}

/* Use the plan with this identity. */
static int use_plan(struct work *work, uint64_t identity, struct error *err)
{
    work->identity = identity;
    return disk_path(work->base, err, "%.4000s/%016" PRIx64, work->root, identity);
}

static int root_path(const struct work *work, char *path, const char *what, struct error *err)
{
    return disk_path(path, err, "%.4000s/%s-%s", work->root, what, work->launch);
}

/* Remove the directory of a plan. It is renamed first, so that a rank that still works in it
 * notices at its next step. */
static void remove_plan(const struct work *work, const char *path, const char *name)
{
    char trash[DISK_PATH];

    if (disk_path(trash, NULL, "%.2000s/.removed-%s-%s", work->root, name, work->launch) == 0 &&
        rename(path, trash) == 0)
        work_files_remove_plan(trash);
}

/* Remove an entry of the work directory, if it is a run's own. */
static void remove_entry(const struct work *work, const char *name)
{
    char path[DISK_PATH];

    if (disk_path(path, NULL, "%.2000s/%s", work->root, name) < 0)
        return;
    if (work_files_is_file(name))
        unlink(path);
    else if (work_files_is_removed(name))
        work_files_remove_plan(path);
    else if (work_files_is_plan(name))
        remove_plan(work, path, name);
}

/* Remove the entries of the work directory that 'which' selects. */
static void remove_entries(const struct work *work,
                           bool (*which)(const struct work *work, const char *name))
{
    DIR *directory = opendir(work->root);
    struct dirent *entry;

    while (directory && (entry = readdir(directory)))
        if (which(work, entry->d_name))
            remove_entry(work, entry->d_name);
    if (directory)
        closedir(directory);
}

/* Of another plan or launch? */
static bool is_other(const struct work *work, const char *name)
{
    return strcmp(name, strrchr(work->base, '/') + 1) != 0 && strcmp(name, "plan") != 0;
}

/* Does this file belong to this launch? */
static bool is_of_launch(const struct work *work, const char *name)
{
    return strstr(name, work->launch) != NULL && work_files_is_file(name);
}

static bool is_end_file(const struct work *work, const char *name)
{
    (void)work;
    return (strncmp(name, "end-", 4) == 0 || strncmp(name, "ack-", 4) == 0) &&
           work_files_is_file(name);
}

static bool is_unneeded(const struct work *work, const char *name)
{
    (void)work;
    return strcmp(name, "finished") != 0;
}

/* For ranks that have not acknowledged the end yet, its message stays. */
static bool is_unneeded_by_late(const struct work *work, const char *name)
{
    return is_unneeded(work, name) && !(is_end_file(work, name) && is_of_launch(work, name));
}

/* Is the run over, with only the end message left for ranks that have not arrived yet? */
static bool only_end_remains(const struct work *work)
{
    char owner[DISK_PATH], finished[DISK_PATH];

    return disk_path(owner, NULL, "%.4000s/owner", work->root) == 0 &&
           disk_path(finished, NULL, "%.4000s/finished", work->root) == 0 && disk_is_gone(owner) &&
           disk_is_gone(finished);
}

/* Remove this launch's messages, and the directory if it is then empty: a run that failed early
 * leaves nothing. */
static void forget_launch(const struct work *work)
{
    remove_entries(work, is_of_launch);
    rmdir(work->root);
}

/* Likewise for the messages that were left for ranks of a finished run. */
static void forget_ends(const struct work *work)
{
    if (!only_end_remains(work))
        return;
    remove_entries(work, is_end_file);
    rmdir(work->root);
}

void work_remove_leftovers(const struct work *work, const char *base)
{
    DIR *directory = opendir(base);
    struct dirent *entry;
    char path[DISK_PATH];

    while (directory && (entry = readdir(directory)))
        if (work_files_is_leftover(entry->d_name, work->launch) &&
            disk_path(path, NULL, "%.3000s/%s", base, entry->d_name) == 0)
            unlink(path);
    if (directory)
        closedir(directory);
}

/* --- Begin ------------------------------------------------------------------------------------ */

/* Is the output of this identity complete? */
static bool was_finished(const struct work *work, uint64_t identity)
{
    char path[DISK_PATH];
    struct file_bytes data;
    bool same;

    if (disk_path(path, NULL, "%.4000s/finished", work->root) < 0 ||
        disk_read_file(path, 64, &data, NULL) != 0)
        return false;
    same = data.length == sizeof(identity) && memcmp(data.data, &identity, data.length) == 0;
    file_bytes_clear(&data);
    return same;
}

/* Is 'plan' the one that an earlier launch has written to 'path'? */
static bool is_same_plan(const struct input_plan *plan, const char *path)
{
    struct input_plan before;
    bool same = input_plan_read(&before, path, NULL) == 0 && before.identity == plan->identity;

    input_plan_clear(&before);
    return same;
}

static int set_plan(struct work *work, const struct input_plan *plan, bool resume,
                    struct error *err)
{
    char path[DISK_PATH], identity[24];

    if (mkdir(work->root, 0777) < 0 && errno != EEXIST)
        return error_set_errno(err, errno, "cannot create directory %s", work->root);
    remove_entries(work, is_other);
    if (resume)
        work_remove_leftovers(work, work->base);
    if (mkdir(work->base, 0777) < 0 && errno != EEXIST)
        return error_set_errno(err, errno, "cannot create directory %s", work->base);
    if (disk_path(path, err, "%.4000s/plan", work->root) < 0 ||
        (!resume && input_plan_write(plan, path, err) < 0) ||
        disk_path(path, err, "%.4000s/owner", work->root) < 0 ||
        file_write_whole(path, work->launch, strlen(work->launch), 0, err) < 0)
        return -1;
    work->owned = true;
    if (work->world->size == 1)
        return 0;
    snprintf(identity, sizeof(identity), "%016" PRIx64, plan->identity);
    if (root_path(work, path, "go", err) < 0)
        return -1;
    return file_write_whole(path, identity, strlen(identity), 0, err);
}

int work_begin(struct work *work, const struct input_plan *plan, const char *existing,
               bool overwrite, struct error *err)
{
    char path[DISK_PATH];
    bool same, resume;

    if (work_files_check(work->root, err) < 0)
        return -1;
    /* The previous launch was killed while it cleaned up. */
    if (existing && was_finished(work, plan->identity))
        return WORK_COMPLETE;
    if (disk_path(path, err, "%.4000s/plan", work->root) < 0)
        return -1;
    same = is_same_plan(plan, path);
    if (existing && !overwrite && !same) {
        forget_ends(work);
        error_set_code(err, ERROR_USAGE, "%s exists", existing);
        return error_append(err, "; use --overwrite to replace it");
    }
    if (use_plan(work, plan->identity, err) < 0)
        return -1;
    resume = same && disk_exists(work->base);
    if (set_plan(work, plan, resume, err) < 0)
        return -1;
    return resume ? WORK_RESUMED : WORK_NEW;
}

/* Rank 0 has made the plan: read it. */
static int read_plan(struct work *work, struct input_plan *plan, const char *identity,
                     struct error *err)
{
    char path[DISK_PATH];
    int rc;

    if (disk_path(path, err, "%.4000s/plan", work->root) < 0 ||
        use_plan(work, strtoull(identity, NULL, 16), err) < 0)
        return -1;
    rc = input_plan_read(plan, path, err);
    if (rc == 0 && plan->identity != work->identity)
        rc = 1;
    if (rc > 0) {
        input_plan_clear(plan);
        return error_set(err, "another run has taken over %s; start only one run for an output",
                         work->root);
    }
    work->owned = rc == 0;
    return rc;
}

/* Read the end message at 'path'. Returns false if it is missing or incomplete. */
static bool read_end(const char *path, char *message, size_t size)
{
    struct file_bytes text;
    bool whole;

    if (disk_read_file(path, 4096, &text, NULL) != 0)
        return false;
    whole = text.length > 0 && text.data[text.length - 1] == '\n';
    if (whole)
        snprintf(message, size, "%.*s", (int)text.length - 1, text.data);
    file_bytes_clear(&text);
    return whole;
}

/* If two launches have the same name, the end message of the earlier one may still be there for a
 * rank that never arrived. It does not concern a launch that has not begun yet. */
static bool is_stale_end(const struct work *work, const char *message)
{
    return !work->owned && !message[0] && only_end_remains(work);
}

bool work_is_over(struct work *work)
{
    char path[DISK_PATH];

    if (work->world->size > 1 && !work->ended && root_path(work, path, "end", NULL) == 0)
        work->ended =
            read_end(path, work->ending, sizeof(work->ending)) && !is_stale_end(work, work->ending);
    return work->ended;
}

int work_await(struct work *work, struct input_plan *plan, struct error *err)
{
    double begin = clock_now(), pause = 0.01;
    char go[DISK_PATH];

    memset(plan, 0, sizeof(*plan));
    if (root_path(work, go, "go", err) < 0)
        return -1;
    for (;;) {
        struct file_bytes identity;
        int rc;

        if (work_is_over(work))
            return 1;
        rc = disk_read_file(go, 64, &identity, err);
        if (rc < 0)
            return -1;
        if (rc == 0) {
            rc = read_plan(work, plan, identity.data, err);
            file_bytes_clear(&identity);
            return rc;
        }
        if (clock_now() - begin > START_SECONDS)
            return error_set(
                err,
                "rank %lld: rank 0 has not prepared the run within %d s; see the output of rank 0, "
                "and check that %s is on a file system that all nodes share",
                (long long)work->world->rank, START_SECONDS, work->root);
        clock_sleep(pause);
        pause = pause < 1 ? pause * 1.5 : 1;
    }
}

/* --- End -------------------------------------------------------------------------------------- */

int work_set_gone(const struct work *work, struct error *err)
{
    return error_set(err,
                     "%s is gone: another run has taken over; start only one run for an output",
                     work->base);
}

/* Has another launch taken over or removed the directory? */
static bool lost_directory(const struct work *work)
{
    char path[DISK_PATH];
    struct file_bytes owner;
    int rc;
    bool lost;

    if (!work->owned || disk_path(path, NULL, "%.4000s/owner", work->root) < 0)
        return false;
    rc = disk_read_file(path, 64, &owner, NULL);
    if (rc != 0)
        return rc > 0;
    lost = strcmp(owner.data, work->launch) != 0;
    file_bytes_clear(&owner);
    return lost;
}

bool work_was_removed(struct work *work)
{
    return work->base[0] && disk_is_gone(work->base) &&
           (disk_is_gone(work->root) || was_finished(work, work->identity) ||
            only_end_remains(work));
}

/* The number of ranks that have acknowledged the end. */
static int64_t count_acknowledged(const struct work *work)
{
    DIR *directory = opendir(work->root);
    struct dirent *entry;
    char prefix[64];
    int64_t count = 0;

    snprintf(prefix, sizeof(prefix), "ack-%s-", work->launch);
    while (directory && (entry = readdir(directory)))
        count += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    if (directory)
        closedir(directory);
    return count;
}

/* Have all ranks acknowledged except the one that ended the launch? */
static bool all_acknowledged(const struct work *work)
{
    return count_acknowledged(work) + 1 >= work->world->size;
}

/* End the launch with a message ("": success), then wait up to 'seconds' for the other ranks to
 * acknowledge it. Returns 0, 1 immediately if another rank has ended it before, or -1. */
static int end_launch(struct work *work, const char *message, double seconds, struct error *err)
{
    double begin = clock_now();
    char path[DISK_PATH], before[512];
    int fd;

    if (work->world->size == 1)
        return 0;
    if (root_path(work, path, "end", err) < 0)
        return -1;
    if (read_end(path, before, sizeof(before)) && is_stale_end(work, before))
        forget_ends(work);
    mkdir(work->root, 0777);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno == EEXIST ? 1 : error_set_errno(err, errno, "cannot create %s", path);
    /* A single write with a terminator: a reader sees all of it or ignores it. */
    if (dprintf(fd, "%.400s\n", message) < 0 || close(fd) < 0)
        return error_set_errno(err, errno, "cannot write %s", path);
    while (clock_now() - begin < seconds && !all_acknowledged(work))
        clock_sleep(work->world->size > 64 ? 0.5 : 0.02);
    return 0;
}

void work_acknowledge(struct work *work, bool success)
{
    char path[DISK_PATH], end[DISK_PATH];
    int fd;

    if (root_path(work, end, "end", NULL) < 0 ||
        disk_path(path, NULL, "%.4000s/ack-%s-%lld", work->root, work->launch,
                  (long long)work->world->rank) < 0)
        return;
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    close(fd);
    /* No rank waits for the acknowledgment any more, or would remove it. */
    if (disk_is_gone(end)) {
        unlink(path);
        rmdir(work->root);
    } else if (success && only_end_remains(work) && all_acknowledged(work)) {
        forget_launch(work);
    }
}

/* The file "finished" is removed last: if this is interrupted, the next launch only has to clean
 * up. The directory of the plan is renamed first, so that a late rank cannot create files in it
 * while it is being emptied. */
static void remove_all(const struct work *work)
{
    bool late = work->world->size > 1 && !all_acknowledged(work);
    char path[DISK_PATH];

    if (work->base[0] && disk_path(path, NULL, "%.2000s/.removed-%016" PRIx64 "-%s", work->root,
                                   work->identity, work->launch) == 0)
        rename(work->base, path);
    remove_entries(work, late ? is_unneeded_by_late : is_unneeded);
    if (disk_path(path, NULL, "%.4000s/finished", work->root) == 0)
        unlink(path);
    if (late && !all_acknowledged(work))
        return;
    if (rmdir(work->root) < 0)
        forget_launch(work); /* a late rank has acknowledged meanwhile */
}

int work_mark_finished(struct work *work, struct error *err)
{
    char path[DISK_PATH];

    if (disk_path(path, err, "%.4000s/finished", work->root) < 0)
        return -1;
    return file_write_whole(path, &work->identity, sizeof(work->identity), 0, err);
}

int work_finish(struct work *work, struct error *err)
{
    int rc = end_launch(work, "", (double)work->lease, err);

    if (rc < 0)
        return -1;
    /* Another rank took this one for dead, has also finished, and waits for its acknowledgment. */
    if (rc > 0 && work_is_over(work) && !work->ending[0])
        return 0;
    work->finished = true;
    remove_all(work);
    return 0;
}

/* End the launch with the error of this rank. */
static void fail(struct work *work, bool useless, struct error *err)
{
    bool lost = lost_directory(work);
    char message[512];

    if (lost)
        error_set(err,
                  "another run has taken over (or removed) %.700s, so this one ends; choose "
                  "another --output-prefix or --output",
                  work->root);
    snprintf(message, sizeof(message), "%.400s (rank %lld)", err->text,
             (long long)work->world->rank);
    if (end_launch(work, message, lost ? LOST_SECONDS : FAILURE_SECONDS, NULL) > 0)
        work_acknowledge(work, false);
    else if (err->code == ERROR_USAGE && useless && !lost)
        remove_all(work);
    else if (work->world->size > 1)
        forget_launch(work);
}

int work_close(struct work *work, int rc, bool useless, struct error *err)
{
    if (rc < 0) /* the NFS client may have cached that there is no end message */
        file_refresh_directory(work->root);
    if (!work->finished && work_is_over(work)) {
        work_acknowledge(work, !work->ending[0]);
        return work->ending[0]
                   ? error_set(err, "stopped because another rank failed: %s", work->ending)
                   : 0;
    }
    if (rc >= 0)
        return 0;
    fail(work, useless, err);
    return -1;
}
