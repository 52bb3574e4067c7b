#include "config.h"
#include "cache.h"
#include "commands.h"
#include "enroot.h"
#include "files.h"
#include "import.h"
#include "option.h"
#include "parse.h"
#include "reference.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct image_options {
    const char *output, *cache, *arch, *max_size;
    int64_t keep_days, timeout;
};

#define AT(field) offsetof(struct image_options, field)
static const struct option options[] = {
    {"cache", OPTION_TEXT, AT(cache), "DIR",
     "the cache; default: MEGATRON_IMAGE_CACHE, else below ~/.cache", NULL, 0, 0},
    {"output", OPTION_TEXT, AT(output), "FILE", "import: also put the image there", NULL, 0, 0},
    {"arch", OPTION_TEXT, AT(arch), "NAME",
     "import: for nodes that are x86_64, aarch64 or ppc64le, not for this machine", NULL, 0, 0},
    {"timeout", OPTION_INT, AT(timeout), "SECONDS", "import: give up after so long (0: never)",
     NULL, 0, 1 << 30},
    {"keep-days", OPTION_INT, AT(keep_days), "N", "prune: remove what was not used for N days",
     NULL, 0, 36500},
    {"max-size", OPTION_TEXT, AT(max_size), "SIZE",
     "prune: remove the longest unused until SIZE (500G, 2T) is left", NULL, 0, 0},
    {NULL, 0, 0, NULL, NULL, NULL, 0, 0},
};

extern char **environ;

static void print_usage(void)
{
    printf("Usage: megatron image import URI [-o FILE]   import an image into the cache\n"
           "       megatron image list                   what is in the cache\n"
           "       megatron image verify [KEY...]        is it whole\n"
           "       megatron image prune [--keep-days N] [--max-size SIZE]\n\n"
           "URI is docker://[USER@][REGISTRY#]IMAGE[:TAG][@sha256:...], dockerd://IMAGE or "
           "podman://IMAGE.\n"
           "-o FILE is the same as --output FILE.\n"
           "Jobs with --megatron-image use the same cache.\n\nOptions:\n");
    options_print(options, stdout);
}

static void say_line(void *argument, const char *line)
{
    (void)argument;
    fprintf(stderr, "megatron image: %s\n", line);
}

static int open_cache(const struct image_options *given, struct image_cache *cache,
                      struct error *err)
{
    char directory[2048], absolute[4096 + 2048];
    const char *named = given->cache ? given->cache : getenv("MEGATRON_IMAGE_CACHE");

    /* The option may be relative, as paths of the command line are. */
    if (given->cache && given->cache[0] && given->cache[0] != '/') {
        if (!getcwd(absolute, 4096))
            return error_set_errno(err, errno, "cannot tell the current directory");
        snprintf(absolute + strlen(absolute), 2048, "/%s", given->cache);
        named = absolute;
    }
    if (image_cache_default(named, getenv("XDG_CACHE_HOME"), getenv("HOME"), directory,
                            sizeof(directory), err) < 0)
        return -1;
    return image_cache_open(cache, directory, err);
}

static int count_processors(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* Before anything is imported: can the file be made? */
static int check_output(const char *output, struct error *err)
{
    char directory[4096];
    const char *slash = strrchr(output, '/');

    if (access(output, F_OK) == 0)
        return error_set(err, "%.300s exists already; remove it or name another file", output);
    snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(slash - output) : 1,
             slash ? output : ".");
    if (access(slash == output ? "/" : directory, W_OK | X_OK) < 0)
        return error_set_errno(err, errno, "cannot write %.300s", output);
    return 0;
}

static stop_flag interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* An import that is interrupted leaves nothing. A second signal ends at once. What nohup(1) ignores
 * stays so; of children the end must be told. */
static void catch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction gently = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    struct sigaction before;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &gently, NULL);
    signal(SIGCHLD, SIG_DFL);
}

/* A copy of the image, which shares its blocks where the file system can do that. It is no link:
 * who changes the file must not change what the cache has under a digest. */
static int put_output(const char *path, const char *output, struct error *err)
{
    char draft[4096];
    char buffer[1 << 16];
    ssize_t got;
    int from, to, rc = 0, shared;

    if (snprintf(draft, sizeof(draft), "%s.XXXXXX", output) >= (int)sizeof(draft))
        return error_set(err, "the name %.100s... is too long", output);
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
        else if (got < 0 ? errno != EINTR : bytes_write(to, buffer, (size_t)got) < 0)
            rc = error_set_errno(err, errno, "cannot copy to %.300s", output);
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

static int run_import(const struct image_options *given, const char *uri,
                      const struct image_cache *cache, struct error *err)
{
    struct image_reference reference;
    char key[IMAGE_KEY_SIZE], path[4096];
    const char *const added[] = {ENROOT_ANY_RUNTIME, NULL};
    const char **environment;
    int rc;
    struct image_request request = {
        .reference = &reference,
        .cache = cache,
        .path = getenv("PATH"),
        .temporary = enroot_temporary((const char *const *)environ),
        .timeout = (double)given->timeout,
        .timeout_option = "--timeout",
        .patience = 20,
        .processors = count_processors(),
        .say = say_line,
        .stop = &interrupted,
    };

    if (image_reference_parse("URI", uri, &reference, err) < 0)
        return -1;
    if (reference.scheme == IMAGE_FILE)
        return error_set(err, "%.300s is a file already; --megatron-image takes it as it is", uri);
    if (given->output && check_output(given->output, err) < 0)
        return -1;
    if (given->arch) {
        request.architecture = image_architecture(given->arch);
        if (!request.architecture)
            return error_set(err, "--arch=%.50s is not x86_64, aarch64 or ppc64le", given->arch);
    }
    environment = enroot_environment((const char *const *)environ, added);
    if (!environment)
        return error_set(err, "out of memory");
    request.environment = environment;
    catch_signals();
    rc = image_resolve(&request, 1, key, err);
    if (rc == 0)
        rc = image_obtain(&request, key, path, sizeof(path), err);
    free(environment);
    if (rc < 0)
        return -1;
    if (given->output && put_output(path, given->output, err) < 0)
        return -1;
    printf("%s\n", given->output ? given->output : path);
    return 0;
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
    printf("%zu images, %.1f MB\n", count, (double)total / 1e6);
    return 0;
}

static int is_wanted(const char *key, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strstr(key, words[i]))
            return 1;
    return count == 0;
}

static int run_verify(const struct image_entry *entries, size_t count, const char *const *words,
                      size_t word_count, struct error *err)
{
    size_t checked = 0, bad = 0;

    for (size_t i = 0; i < count; i++) {
        if (!is_wanted(entries[i].key, words, word_count))
            continue;
        checked++;
        if (image_entry_verify(&entries[i], err) < 0) {
            bad++;
            fprintf(stderr, "megatron image: %s\n", err->text);
        }
    }
    if (bad > 0)
        return error_set(err, "%zu of %zu images are damaged", bad, checked);
    if (checked == 0 && word_count > 0)
        return error_set(err, "no image of that key is in the cache");
    printf("%zu images are whole\n", checked);
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
        return error_set(err, "prune needs --keep-days N or --max-size SIZE");
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
    printf("removed %zu images; %.1f MB are left\n", removed, (double)total / 1e6);
    return 0;
}

static int run_action(const struct image_options *given, const struct options_result *result,
                      struct error *err)
{
    const char *action = result->words[0];
    struct image_entry *entries = NULL;
    struct image_cache cache;
    size_t count = 0;
    int rc;

    /* Who names what to prune must not lose all else. */
    if ((strcmp(action, "list") == 0 || strcmp(action, "prune") == 0) && result->word_count > 1)
        return error_set(err, "unexpected word %.100s; %s takes only options", result->words[1],
                         action);
    if (open_cache(given, &cache, err) < 0)
        return -1;
    if (strcmp(action, "import") == 0) {
        if (result->word_count != 2)
            return error_set(err, "import takes one image: docker://IMAGE[:TAG]");
        return run_import(given, result->words[1], &cache, err);
    }
    if (image_cache_list(&cache, &entries, &count, err) < 0)
        rc = -1;
    else if (strcmp(action, "list") == 0)
        rc = run_list(entries, count);
    else if (strcmp(action, "verify") == 0)
        rc = run_verify(entries, count, result->words + 1, result->word_count - 1, err);
    else if (strcmp(action, "prune") == 0)
        rc = run_prune(given, result, &cache, entries, count, err);
    else
        rc = error_set(err, "unknown action %.50s; use import, list, verify or prune", action);
    free(entries);
    return rc;
}

static int run_image(int argc, const char *const *argv, struct error *err)
{
    struct image_options given = {0};
    struct options_result result;
    const char **words = calloc((size_t)argc + 1, sizeof(*words));
    int rc;

    if (!words)
        return error_set(err, "out of memory");
    /* As Enroot has it: -o. */
    for (int i = 0; i < argc; i++)
        words[i] = strcmp(argv[i], "-o") == 0 ? "--output" : argv[i];
    rc = options_parse(options, &given, argc, words, &result, err);
    if (rc == 0 && (result.help || result.word_count == 0))
        print_usage();
    else if (rc == 0)
        rc = run_action(&given, &result, err);
    options_result_clear(&result);
    free(words);
    return rc;
}

const struct command command_image = {
    .name = "image",
    .summary = "import, list, verify and prune container images",
    .run = run_image,
};
