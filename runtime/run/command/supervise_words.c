/* SPDX-License-Identifier: Apache-2.0 */
#include "run/checkpoint/directory.h"
#include "base/core/storage.h"
#include "base/core/log.h"
#include "base/core/option.h"
#include "run/exchange/origin.h"
#include "supervise.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* File next to the checkpoints: the iteration that the run went back to, and the newest save before
 * that. */
#define STEP ".ckpt-step"

const char *words_value(const char *const *words, const char *name)
{
    const char *value = NULL;

    for (; *words; words++) {
        const char *after = option_after(words[0], name);

        if (after && *after == '=')
            value = after + 1;
        else if (after && words[1])
            value = words[1];
    }
    return value;
}

int words_resume_themselves(const char *const *words, const char *const *environment)
{
    static const char prefix[] = "SLURM_SPANK_", suffix[] = "_auto_resume=1";
    const char *value = words_value(words, "--auto-resume");

    if (value)
        return strcmp(value, "1") == 0;
    for (; *environment; environment++) {
        size_t length = strlen(*environment);

        if (strncmp(*environment, prefix, sizeof(prefix) - 1) == 0 && length > sizeof(suffix) - 1 &&
            strcmp(*environment + length - (sizeof(suffix) - 1), suffix) == 0)
            return 1;
    }
    return 0;
}

/* Does the checkpoint that the run resumes from contain the optimizer state? An imported one, or
 * one saved with --no-save-optim, does not. If it cannot be read, assume that it does: resuming
 * without the state would be silent. */
static int has_optimizer(const char *save, const char *step)
{
    struct step_rules ignored_rules;
    struct error ignored;

    return origin_schedule(&ignored_rules, save, step ? strtoll(step, NULL, 10) : -1, &ignored) !=
           0;
}

/* Is the checkpoint that the run resumes from an imported one, from which no run has saved yet?
 * Then --finetune, which starts at iteration 0 like it, still says how to begin. */
static int is_imported(const char *save, const char *step)
{
    int64_t iteration = step ? strtoll(step, NULL, 10) : -1;

    if (!step && directory_newest(save, -1, &iteration, NULL) < 0)
        return 0;
    return iteration == 0 && !has_optimizer(save, step);
}

/* How many words, beginning with words[0], select where a run starts and must not be repeated when
 * it resumes? */
static size_t beginning(const char *const *words, const char *save, const char *step)
{
    static const char *const flags[] = {"--finetune", "--no-load-rng", "--no-load-optim"};
    static const char *const values[] = {"--load", "--load-hf", "--ckpt-step"};

    if (option_after(words[0], "--no-load-optim") && !has_optimizer(save, step))
        return 0;
    if (option_after(words[0], "--finetune") && is_imported(save, step))
        return 0;
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (option_after(words[0], flags[i]))
            return 1;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        const char *after = option_after(words[0], values[i]);

        if (after && *after == '=')
            return 1;
        if (after && words[1])
            return 2;
    }
    return 0;
}

const char **words_resumed(const char *const *words, size_t count, const char *save,
                           const char *step)
{
    const char **out = calloc(count + 5, sizeof(*out));
    size_t n = 0;

    if (!out)
        return NULL;
    for (size_t i = 0; i < count;) {
        size_t left_out = beginning(words + i, save, step);

        if (left_out == 0)
            out[n++] = words[i++];
        i += left_out;
    }
    out[n++] = "--load";
    out[n++] = save;
    if (step) {
        out[n++] = "--ckpt-step";
        out[n] = step;
    }
    return out;
}

/* Does --ckpt-step refer to the checkpoints in 'save'? If --load names another directory, it does
 * not. */
static int is_own(const char *const *words, const char *save)
{
    const char *load = words_value(words, "--load");

    if (words_value(words, "--load-hf"))
        return 0;
    return !load || file_is_same(load, save);
}

/* The file's content: the iteration, and the time of the newest save, because an iteration number
 * alone can repeat. */
static int make_stamp(char *stamp, size_t size, const char *save, const char *step,
                      struct error *err)
{
    struct stat status = {0};
    char path[PATH_MAX];

    if (directory_path(path, err, "%s/" LATEST, save) < 0)
        return -1;
    if (stat(path, &status) < 0 && errno != ENOENT)
        return error_set_errno(err, errno, "cannot read %s", path);
    snprintf(stamp, size, "%.40s %lld.%09ld\n", step, (long long)status.st_mtim.tv_sec,
             status.st_mtim.tv_nsec);
    return 0;
}

/* An empty text if there is no such file. */
static int read_stamp(char *stamp, int size, const char *save, struct error *err)
{
    char path[PATH_MAX];
    FILE *file;

    stamp[0] = '\0';
    if (directory_path(path, err, "%s/" STEP, save) < 0)
        return -1;
    file = fopen(path, "re");
    if (!file)
        return errno == ENOENT ? 0 : error_set_errno(err, errno, "cannot read %s", path);
    if (!fgets(stamp, size, file))
        stamp[0] = '\0';
    fclose(file);
    return 0;
}

int words_step(const char *const *words, const char *save, const char **step, struct error *err)
{
    const char *asked = words_value(words, "--ckpt-step");
    char stamp[80], before[80], path[PATH_MAX];

    *step = NULL;
    if (!asked || !is_own(words, save)) {
        if (directory_path(path, NULL, "%s/" STEP, save) == 0)
            unlink(path);
        return 0;
    }
    if (make_stamp(stamp, sizeof(stamp), save, asked, err) < 0 ||
        read_stamp(before, sizeof(before), save, err) < 0)
        return -1;
    if (strcmp(before, stamp) == 0 || strtoll(before, NULL, 10) != strtoll(asked, NULL, 10) ||
        !before[0])
        *step = asked;
    if (*step && strcmp(before, stamp) != 0 &&
        directory_write(save, STEP, stamp, strlen(stamp), err) < 0)
        return -1;
    if (!*step)
        log_warning("ignoring --ckpt-step %s: the run has saved checkpoints since it went back "
                    "there; to go back again, remove %s/" STEP,
                    asked, save);
    else
        printf("megatron supervise: the run goes back to iteration %s (--ckpt-step)\n", asked);
    fflush(stdout);
    return 0;
}
