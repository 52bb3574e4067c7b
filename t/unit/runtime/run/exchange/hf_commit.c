/* SPDX-License-Identifier: Apache-2.0 */
/* Exports over earlier ones: killed or failing at any step, they leave the old weights or the new
 * ones. What is not an earlier export of the model is not replaced. */
#include "tap.h"
#include "run/exchange/convert.h"
#include "run/checkpoint/directory.h"
#include "lib/file.h"
#include "run/exchange/hf_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char scratch[] = "/tmp/megatron-hf-commit-XXXXXX";
static struct error err;

/* --- Faults: these take the place of libc's -------------------------------------------------- */

enum fault { NO_FAULT, KILL, FAIL };
enum { FAILED = 1, COMPLETE = 2, KILLED = 9 };

static enum fault fault;
static int steps_left;
static int no_links;

/* Is this call the one that fails? */
static int fails(void)
{
    if (fault == NO_FAULT || steps_left-- != 0)
        return 0;
    if (fault == KILL)
        _exit(KILLED);
    errno = EIO;
    return 1;
}

int rename(const char *from, const char *to)
{
    return fails() ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *path)
{
    return fails() ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int unlinkat(int directory, const char *path, int flags)
{
    return fails() ? -1 : (int)syscall(SYS_unlinkat, directory, path, flags);
}

int link(const char *from, const char *to)
{
    if (no_links) {
        errno = EPERM;
        return -1;
    }
    return fails() ? -1 : (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* Nothing here survives a power failure anyway. */
int fsync(int fd)
{
    return fcntl(fd, F_GETFD) < 0 || fails() ? -1 : 0;
}

/* --- A small model --------------------------------------------------------------------------- */

static const char *path_of(const char *name)
{
    static char path[8][256];
    static int turn;
    char *out = path[turn++ % 8];

    snprintf(out, sizeof(path[0]), "%s/%s", scratch, name);
    return out;
}

static void clear(const char *name)
{
    struct error ignored;

    directory_remove(path_of(name), NULL, &ignored);
}

static void write_text(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "w");

    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        ok(0, "cannot write %s", name);
}

static int there(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

static void model_of(struct model_config *config)
{
    *config = (struct model_config){.network.shape = {.layers = 1,
                                                      .hidden = 4,
                                                      .heads = 2,
                                                      .query_groups = 1,
                                                      .kv_channels = 2,
                                                      .ffn_hidden = 6,
                                                      .vocabulary = 5,
                                                      .sequence = 8,
                                                      .rotary_base = 10000},
                                    .padded_vocabulary = 5,
                                    .network.positions = 8,
                                    .network.position = POSITION_ROPE,
                                    .network.rotary_percent = 1,
                                    .network.norm = NORM_RMS,
                                    .network.epsilon = 1e-5,
                                    .network.swiglu = 1,
                                    .split.chunks = 1,
                                    .network.init_std = 0.02,
                                    .numerics.type = TYPE_FP32};
}

/* Export a model whose weights all are 'value' to the directory "out". */
static int save(float value, int64_t shard_bytes)
{
    struct layout one = {1, 1, 1, 1};
    struct layout_position at = {0, 0, 0, 0};
    struct model_config config;
    struct hf_files files;
    struct parameters p = {0};
    float values[64];
    int rc;

    model_of(&config);
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        values[i] = value;
    rc = hf_files_plan(&files, &config, shard_bytes, &err);
    if (rc == 0)
        rc = directory_prepare(path_of("out"), &err);
    if (rc == 0)
        rc = hf_files_check(path_of("out"), &config, &err);
    if (rc == 0)
        rc = hf_files_open(&files, path_of("out"), 1, &err);
    parameters_create(&p, &config, &one, &at);
    for (int i = 0; i < p.count && rc == 0; i++)
        rc = hf_files_write(&files, &p.list[i], (const char *)values, &err);
    if (rc == 0)
        rc = hf_files_close(&files, &err);
    if (rc == 0)
        rc = hf_files_commit(&files, path_of("out"), &config, &err);
    hf_files_clear(&files);
    parameters_destroy(&p);
    return rc;
}

/* The value of all weights that a reader of "out" gets; -1: it cannot be read, or values differ. */
static float value_of_all(void)
{
    struct safetensors *tensors = safetensors_open(path_of("out"), &err);
    const struct safetensor *t;
    float value = 0, first = 0;
    size_t count = 0;

    for (; tensors && first >= 0 && (t = safetensors_at(tensors, count)); count++)
        for (int64_t i = 0; i < t->rows * t->cols; i++) {
            safetensor_read(t, i, 1, 1, &value);
            if (count == 0 && i == 0)
                first = value;
            if (value != first)
                first = -1;
        }
    safetensors_destroy(tensors);
    return count == 12 && there("out/config.json") ? first : -1;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Not directory_prepare's probes. */
static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* The names in "out", one after the other. */
static void list_out(char *text, size_t size)
{
    struct dirent **list = NULL;
    int count = scandir(path_of("out"), &list, is_visible, by_name);
    size_t used = 0;

    *text = '\0';
    for (int i = 0; i < count; i++) {
        used +=
            (size_t)snprintf(text + used, used < size ? size - used : 0, "%s ", list[i]->d_name);
        free(list[i]);
    }
    free(list);
}

/* --- Tests ----------------------------------------------------------------------------------- */

/* One file, three files, and two. */
static const int64_t sizes[] = {INT64_MAX, 300, 500};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* Replace weights 1 by weights 2, in a process with a fault at a step. Returns its exit status: 0,
 * FAILED, KILLED, or COMPLETE: it has no such step. */
static int replace(int64_t shard_bytes, enum fault which, int step)
{
    int status;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        fault = which;
        steps_left = step;
        _exit(save(2, shard_bytes) < 0 ? FAILED : steps_left >= 0 ? COMPLETE : 0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
               ? WEXITSTATUS(status)
               : -1;
}

/* Whatever an interrupted export has left, the next one completes and cleans up. */
static int completes(int64_t shard_bytes, const char *names)
{
    char now[2000];

    if (save(3, shard_bytes) < 0 || value_of_all() != 3)
        return 0;
    list_out(now, sizeof(now));
    return strcmp(now, names) == 0;
}

/* With a fault at every step in turn, until there is no such step. */
static void test_faults(int from, int to, enum fault which)
{
    char names[2000];
    int step = 0, rc = 0, old = 0, new = 0, wrong = 0;

    clear("out");
    save(1, sizes[to]);
    list_out(names, sizeof(names));
    for (; rc != COMPLETE && wrong == 0; step++) {
        float value;

        clear("out");
        wrong += save(1, sizes[from]) < 0 || value_of_all() != 1;
        rc = replace(sizes[to], which, step);
        value = value_of_all();
        old += value == 1;
        new += value == 2;
        wrong += value != 1 && value != 2;
        wrong += rc < 0 || (rc != KILLED && rc != FAILED && value != 2);
        wrong += !completes(sizes[to], names);
        if (wrong)
            diag("step %d: exit code %d, value %g, %s", step, rc, (double)value, err.text);
    }
    ok(wrong == 0 && old > 3 && new > 1, "from %lld to %lld bytes a file, %s at each of %d steps",
       (long long)sizes[from], (long long)sizes[to], which == KILL ? "killed" : "failing", step);
}

static void test_no_links(void)
{
    clear("out");
    no_links = 1;
    is_int(save(1, 300), 0, "a file system without hard links: an export");
    is_int(save(2, 300), 0, "  that is replaced");
    ok(value_of_all() == 2 && !there("out/model-00001-of-00003.safetensors"), "  by other names");
    is_int(save(3, 300), 0, "  and again");
    ok(value_of_all() == 3 && there("out/model-00001-of-00003.safetensors") &&
           !there("out/model-next-00001-of-00003.safetensors"),
       "  by the usual ones");
    no_links = 0;
}

static void test_foreign(void)
{
    struct stat before, after;
    struct model_config config;
    char from[256];

    clear("out");
    mkdir(path_of("out"), 0777);
    write_text("out/model.safetensors", "of somebody");
    ok(save(1, 300) < 0 && err.code == ERROR_USAGE && !there("out/config.json"),
       "weights without a configuration are not replaced");
    unlink(path_of("out/model.safetensors"));
    write_text("out/config.json", "{\"model_type\": \"llama\"}");
    ok(save(1, 300) < 0 && err.code == ERROR_USAGE && !there("out/model.safetensors.index.json"),
       "nor another configuration");
    model_of(&config);
    is_int(hf_files_check(path_of("nowhere"), &config, &err), 0, "a directory that does not exist");
    clear("out");
    is_int(save(1, 300), 0, "an export");
    config.numerics.type = TYPE_BF16;
    is_int(hf_files_check(path_of("out"), &config, &err), 0, "may be replaced by another type");
    config.network.attention_dropout = 0.1;
    is_int(hf_files_check(path_of("out"), &config, &err), 0, "or after training with dropout");
    config.network.shape.rotary_base = 500000;
    ok(hf_files_check(path_of("out"), &config, &err) < 0 && err.code == ERROR_USAGE,
       "but not by another model");

    is_int(convert_import_hf(path_of("out"), path_of("run"), &err), 0, "its import");
    snprintf(from, sizeof(from), "%s/iter_0000000", path_of("run"));
    stat(path_of("out/model-00001-of-00003.safetensors"), &before);
    ok(convert_export_hf(from, path_of("out"), TYPE_FP32, 300, &err) < 0 && err.code == ERROR_USAGE,
       "is not exported over its source");
    stat(path_of("out/model-00001-of-00003.safetensors"), &after);
    ok(before.st_ino == after.st_ino, "  which stays as it was");
    is_int(convert_export_hf(from, path_of("other"), TYPE_FP32, 300, &err), 0, "  but elsewhere");
}

int main(void)
{
    if (!mkdtemp(scratch))
        return skip_all("no directory for files");
    for (int from = 0; from < SIZES; from++)
        for (int to = 0; to < SIZES; to++) {
            test_faults(from, to, KILL);
            test_faults(from, to, FAIL);
        }
    test_no_links();
    test_foreign();
    directory_remove(scratch, NULL, &err);
    return done_testing();
}
