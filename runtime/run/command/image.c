/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "commands.h"
#include "lib/cpuset.h"
#include "container/enroot.h"
#include "image.h"
#include "base/core/log.h"
#include "base/core/option_rows.h"
#include "lib/parse.h"
#include "run/image/get.h"
#include "lib/file.h"
#include "base/core/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Free space that an import needs by default. */
#define MIN_FREE ((int64_t)1000000000)

#define AT(field) offsetof(struct image_options, field)
static const struct option options[] = {
    TEXT("cache", cache, "DIR",
         "cache directory (default: MEGATRON_IMAGE_CACHE, else below ~/.cache)"),
    NUMBER("timeout", timeout, "SECONDS", 0, 1 << 30,
           "import, get: give up after SECONDS (0: never)"),
    TEXT("min-free", min_free, "SIZE",
         "import, get: refuse to import with less free space (default: 1G)"),
    RANGE("processors", processors, 1, 1 << 20,
          "import, get: CPUs to use (default: all that this process may use)"),
    TEXT("arch", arch, "NAME",
         "import, get: image for x86_64, aarch64 or ppc64le (default: this machine)"),
    TEXT("output", output, "FILE", "import: also copy the image to FILE"),
    SHORT("o", "output"),
    RANGE("keep-days", keep_days, 0, 36500, "prune: remove images not used for N days"),
    TEXT("max-size", max_size, "SIZE",
         "prune: remove least recently used images down to SIZE (500G, 2T)"),
    HEADING("Options of get, as the Slurm plugin passes them"),
    TEXT("shared-cache", shared_cache, "DIR", "read-only cache for all users"),
    TEXT("publisher", publisher, "USER", "owner of the shared cache besides root"),
    TEXT("stage", stage, "DIR", "copy the image to this directory of the node"),
    TEXT("stage-max", stage_max, "SIZE", "limit of all copies of this user"),
    TEXT("job", job, "NAME", "unique name of the job: look the image up once per job"),
    TEXT("step", step, "NAME", "unique name of the job step"),
    RANGE("nodes", nodes, 1, 1 << 24, "nodes of the step; one of them imports"),
    FLAG("wait", wait, "another node of the step imports; wait for it"),
    TEXT("container", container, "NAME",
         "create the Enroot container megatron_NAME and print that name"),
    TEXT("importer", importer, "PROGRAM", "run `PROGRAM get URI` to get the image"),
    {NULL, 0, 0, NULL, NULL, NULL, 0, 0},
};

extern char **environ;

static void say_line(void *argument, const char *line)
{
    (void)argument;
    log_note("%s", line);
}

int image_open_cache(const struct image_options *given, struct image_cache *cache,
                     struct error *err)
{
    char directory[2048], absolute[4096 + 2048];
    const char *named = given->cache ? given->cache : getenv("MEGATRON_IMAGE_CACHE");

    errno = 0;
    /* On the command line the path may be relative. */
    if (given->cache && given->cache[0] && given->cache[0] != '/') {
        if (!getcwd(absolute, 4096))
            return error_set_errno(err, errno, "cannot determine the current directory");
        snprintf(absolute + strlen(absolute), 2048, "/%s", given->cache);
        named = absolute;
    }
    if (image_cache_default(named, getenv("XDG_CACHE_HOME"), getenv("HOME"), directory,
                            sizeof(directory), err) < 0 ||
        image_cache_open(cache, directory, err) < 0)
        return file_path_error(err);
    return 0;
}

static int count_processors(void)
{
    struct cpuset set;

    return cpuset_of_thread(&set, NULL) == 0 ? cpuset_count(&set) : 1;
}

/* Before the import: can the file be created? */
static int check_output(const char *output, struct error *err)
{
    char directory[4096];
    const char *slash = strrchr(output, '/');

    if (access(output, F_OK) == 0)
        return error_set_code(err, ERROR_USAGE,
                              "%.300s already exists; remove it or choose another file", output);
    snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(slash - output) : 1,
             slash ? output : ".");
    if (access(slash == output ? "/" : directory, W_OK | X_OK) == 0)
        return 0;
    error_set_errno(err, errno, "cannot write %.300s", output);
    return file_path_error(err);
}

static stop_flag interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* Signals that nohup(1) ignores stay ignored. SIGCHLD must not be: this process waits for its
 * children. */
const stop_flag *image_catch_signals(int once)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction gently = {.sa_handler = on_interrupt,
                                     .sa_flags = once ? (int)SA_RESETHAND : 0};
    struct sigaction before;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &gently, NULL);
    signal(SIGCHLD, SIG_DFL);
    return &interrupted;
}

/* Copy the image, sharing its blocks if the file system can. Not a hard link: changing the file
 * must not change the cached image. */
static int put_output(const char *path, const char *output, struct error *err)
{
    char draft[4096];
    char buffer[1 << 16];
    int64_t at = 0;
    ssize_t got;
    int from, to, rc = 0, shared;

    if (snprintf(draft, sizeof(draft), "%s.XXXXXX", output) >= (int)sizeof(draft))
        return error_set(err, "the name %.100s... is too long; use a shorter one", output);
    from = open(path, O_RDONLY | O_CLOEXEC);
    to = mkostemp(draft, O_CLOEXEC);
    if (from < 0 || to < 0)
        rc = error_set_errno(err, errno, "cannot write %.300s", output);
    shared = rc == 0 && ioctl(to, FICLONE, from) == 0;
    if (rc == 0 && fchmod(to, 0644) < 0)
        rc = error_set_errno(err, errno, "cannot write %.300s", output);
    while (rc == 0 && !shared && (got = read(from, buffer, sizeof(buffer))) != 0)
        if (is_stopped(&interrupted))
            rc = error_set(err, "the copy to %.300s " STOPPED, output);
        else if (got < 0 ? errno != EINTR : file_write_at(to, buffer, (size_t)got, at) < 0)
            rc = error_set_errno(err, errno, "cannot copy to %.300s", output);
        else
            at += got > 0 ? got : 0;
    if (from >= 0)
        close(from);
    if (to >= 0 && (fsync(to) < 0 || close(to) < 0) && rc == 0)
        rc = error_set_errno(err, errno, "cannot write %.300s", output);
    if (rc == 0 && rename(draft, output) < 0)
        rc = error_set_errno(err, errno, "cannot write %.300s", output);
    if (rc < 0 && to >= 0)
        unlink(draft);
    return rc;
}

int image_prepare(const struct image_options *given, const char *uri,
                  const struct image_cache *cache, struct image_reference *reference,
                  struct image_request *request, struct error *err)
{
    const char *const added[] = {ENROOT_ANY_RUNTIME, NULL};

    request->reference = reference;
    request->cache = cache;
    request->path = getenv("PATH");
    request->temporary = enroot_temporary((const char *const *)environ);
    request->min_free = MIN_FREE;
    request->timeout = (double)given->timeout;
    request->timeout_remedy = "raise --timeout";
    request->patience = LEASE_SECONDS;
    request->processors = given->processors > 0 ? (int)given->processors : count_processors();
    request->say = say_line;
    if (image_reference_parse("URI", uri, reference, err) < 0)
        return -1;
    if (given->min_free &&
        parse_size("--min-free", given->min_free, 1000, 0, INT64_MAX, &request->min_free, err) < 0)
        return -1;
    if (given->arch) {
        request->architecture = image_architecture(given->arch);
        if (!request->architecture)
            return error_set_code(err, ERROR_USAGE,
                                  "--arch=%.50s is unknown; use x86_64, aarch64 or ppc64le",
                                  given->arch);
    }
    request->environment = enroot_environment((const char *const *)environ, added);
    return request->environment ? 0 : error_set(err, "out of memory");
}

static int import_image(const struct image_request *request, const char *output, struct error *err)
{
    char key[IMAGE_KEY_SIZE], path[4096];

    if (image_resolve(request, 1, key, err) < 0 ||
        image_obtain(request, key, path, sizeof(path), err) < 0 ||
        (output && put_output(path, output, err) < 0))
        return -1;
    printf("%s\n", output ? output : path);
    return 0;
}

static int run_import(const struct image_options *given, const char *uri,
                      const struct image_cache *cache, struct error *err)
{
    struct image_reference reference;
    struct image_request request = {.stop = image_catch_signals(1)};
    int rc;

    if (given->output && check_output(given->output, err) < 0)
        return -1;
    if (image_prepare(given, uri, cache, &reference, &request, err) < 0)
        return -1;
    if (reference.scheme == IMAGE_FILE)
        rc = error_set_code(err, ERROR_USAGE,
                            "%.300s is a file; use it with --megatron-image directly", uri);
    else
        rc = import_image(&request, given->output, err);
    free((void *)request.environment);
    return rc;
}

static int run_list(const struct image_entry *entries, size_t count)
{
    int64_t total = 0;

    for (size_t i = count; i-- > 0;) {
        char used[32];
        time_t when = (time_t)entries[i].used;
        struct tm day;

        strftime(used, sizeof(used), "%Y-%m-%d %H:%M", localtime_r(&when, &day));
        printf("%s  %8.1f MB  used %s  %s\n", entries[i].key, (double)entries[i].size / 1e6, used,
               entries[i].origin[0] ? entries[i].origin : "-");
        total += entries[i].size;
    }
    printf("%zu image%s, %.1f MB\n", count, count == 1 ? "" : "s", (double)total / 1e6);
    return 0;
}

static int is_wanted(const char *key, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strstr(key, words[i]))
            return 1;
    return count == 0;
}

static int run_verify(const struct image_cache *cache, const struct image_entry *entries,
                      size_t count, const char *const *words, size_t word_count, struct error *err)
{
    size_t checked = 0, bad = 0;

    for (size_t i = 0; i < count; i++) {
        if (!is_wanted(entries[i].key, words, word_count))
            continue;
        checked++;
        if (image_entry_verify(cache, &entries[i], err) < 0) {
            bad++;
            log_warning("%s", err->text);
        }
    }
    if (bad > 0)
        return error_set(err, "%zu of %zu image%s damaged; remove the files and import again", bad,
                         checked, checked == 1 ? " is" : "s are");
    if (checked == 0 && word_count > 0)
        return error_set_code(
            err, ERROR_USAGE,
            "the cache has no image with that key; `megatron image list` shows the keys");
    printf("%zu image%s intact\n", checked, checked == 1 ? " is" : "s are");
    return 0;
}

static int run_prune(const struct image_options *given, const struct options_result *result,
                     const struct image_cache *cache, const struct image_entry *entries,
                     size_t count, struct error *err)
{
    int64_t most = INT64_MAX, total = 0, now = (int64_t)time(NULL);
    int by_age = options_given(result, "keep-days");
    size_t removed = 0;

    if (!by_age && !given->max_size)
        return error_set_code(
            err, ERROR_USAGE,
            "prune needs to know what to keep; use --keep-days N or --max-size SIZE");
    if (given->max_size &&
        parse_size("--max-size", given->max_size, 1000, 0, INT64_MAX, &most, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        total += entries[i].size;
    for (size_t i = 0; i < count; i++) {
        int old = by_age && now - entries[i].used > given->keep_days * 86400;

        if (!old && total <= most)
            continue;
        if (image_entry_remove(cache, &entries[i], err) < 0)
            return -1;
        total -= entries[i].size;
        removed++;
    }
    image_cache_sweep(cache);
    printf("removed %zu image%s; %.1f MB left\n", removed, removed == 1 ? "" : "s",
           (double)total / 1e6);
    return 0;
}

/* The actions, and how many words each takes after its name. */
static const struct {
    const char *name;
    size_t least, most;
} actions[] = {
    {"import", 1, 1}, {"list", 0, 0}, {"verify", 0, SIZE_MAX},
    {"prune", 0, 0},  {"get", 1, 1},  {"release", 0, 0},
};

static int check_words(const char *action, const struct options_result *result, struct error *err)
{
    size_t words = result->word_count - 1, i = 0, count = sizeof(actions) / sizeof(actions[0]);

    while (i < count && strcmp(actions[i].name, action) != 0)
        i++;
    if (i == count)
        return error_set_code(err, ERROR_USAGE,
                              "%s%.50s; use import, list, verify, prune, get or release",
                              *action ? "unknown action " : "no action", action);
    if (words < actions[i].least || (actions[i].least == 1 && words > 1))
        return error_set_code(err, ERROR_USAGE, "%s takes one image: docker://IMAGE[:TAG]", action);
    /* `prune NAME` must not remove everything else. */
    if (words > actions[i].most)
        return error_set_code(err, ERROR_USAGE, "unexpected word %.100s; %s takes only options",
                              result->words[1], action);
    return 0;
}

static int run_image(void *context, const struct options_result *result, struct error *err)
{
    const struct image_options *given = context;
    const char *action = result->word_count > 0 ? result->words[0] : "";
    struct image_entry *entries = NULL;
    struct image_cache cache;
    size_t count = 0;
    int rc;

    if (check_words(action, result, err) < 0)
        return -1;
    if (strcmp(action, "get") == 0)
        return image_run_get(given, result->words[1], err);
    if (strcmp(action, "release") == 0)
        return image_run_release(given, err);
    if (image_open_cache(given, &cache, err) < 0)
        return -1;
    if (strcmp(action, "import") == 0)
        rc = run_import(given, result->words[1], &cache, err);
    else if (image_cache_list(&cache, &entries, &count, err) < 0)
        rc = -1;
    else if (strcmp(action, "list") == 0)
        rc = run_list(entries, count);
    else if (strcmp(action, "verify") == 0)
        rc = run_verify(&cache, entries, count, result->words + 1, result->word_count - 1, err);
    else
        rc = run_prune(given, result, &cache, entries, count, err);
    free(entries);
    image_cache_close(&cache);
    return rc;
}

const struct command command_image = {
    .name = "image",
    .summary = "import, list, verify and prune container images",
    .usage = "Usage: megatron image import URI [-o FILE]   import an image into the cache\n"
             "       megatron image list                   list the cached images\n"
             "       megatron image verify [KEY...]        compare images with their checksums\n"
             "       megatron image prune [--keep-days N] [--max-size SIZE]\n"
             "       megatron image get URI [OPTION...]    import if needed, print the path\n"
             "       megatron image release                remove what killed imports left\n\n"
             "URI is docker://[USER@][REGISTRY#]IMAGE[:TAG][@sha256:...], dockerd://IMAGE or "
             "podman://IMAGE.\n"
             "-o FILE is the same as --output FILE.\n"
             "Jobs with --megatron-image use the same cache.\n\nOptions:\n",
    .options = options,
    .size = sizeof(struct image_options),
    .run = run_image,
};
