/* SPDX-License-Identifier: Apache-2.0 */
#include "origin.h"
#include "run/checkpoint/directory.h"
#include "hf_config.h"
#include "run/checkpoint/index.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* An index may contain any values; nothing here may divide by zero. */
static int check_model(const struct network *c, struct error *err)
{
    if (c->rotary_percent > 0 && c->rotary_percent <= 1 && c->epsilon >= 0 &&
        c->shape.rotary_base > 0)
        return 0;
    return error_set(err, "its index contains no valid model configuration");
}

static int read_index(struct origin *origin, const char *directory, int64_t iteration,
                      struct error *err)
{
    struct checkpoint_index index = {0};
    char path[PATH_MAX];
    int rc = directory_path(path, err, "%s/iter_%07" PRId64, directory, iteration);

    if (rc == 0)
        rc = index_load(&index, path, err);
    if (rc == 0 && check_model(&index.model.network, err) < 0) {
        rc = error_prefix(err, "%s", path);
        index_damaged(err);
    }
    if (rc == 0) {
        *origin = (struct origin){ORIGIN_CHECKPOINT, iteration, index.model};
        origin->model.network.shape.name = "the model";
        origin->model.network.shape.family = network_family(&index.model.network);
        model_config_whole(&origin->model);
    }
    index_clear(&index);
    return rc;
}

/* The one that latest_checkpointed_iteration.txt names, otherwise the newest that can be read. */
static int read_newest(struct origin *origin, const char *directory, const int64_t *list,
                       size_t count, struct error *err)
{
    int64_t latest = directory_latest(directory);
    struct error first;

    if (latest >= 0 && read_index(origin, directory, latest, err) == 0)
        return 0;
    first = *err;
    for (size_t i = 0; i < count; i++)
        if (list[i] != latest && read_index(origin, directory, list[i], err) == 0)
            return 0;
    if (latest >= 0)
        *err = first;
    directory_check_megatron(directory, err);
    return -1;
}

int origin_read(struct origin *origin, const char *directory, struct error *err)
{
    struct stat status;
    int64_t *list = NULL;
    size_t count = 0;
    int rc;

    if (stat(directory, &status) < 0 && errno == ENOENT)
        return error_set_code(err, ERROR_USAGE, "directory %s does not exist; check the path",
                              directory);
    if (stat(directory, &status) < 0)
        return error_set_errno(err, errno, "cannot open %s", directory);
    if (!S_ISDIR(status.st_mode))
        return error_set_code(err, ERROR_USAGE,
                              "%s is not a directory; use the directory that contains the weights",
                              directory);
    if (directory_list(directory, &list, &count, err) < 0)
        return -1;
    if (count > 0) {
        rc = read_newest(origin, directory, list, count, err);
    } else if (directory_has(directory, "config.json")) {
        memset(origin, 0, sizeof(*origin));
        origin->kind = ORIGIN_HF;
        rc = hf_config_read(directory, &origin->model, err);
    } else if (directory_has(directory, INDEX_NAME)) {
        rc = error_set_code(err, ERROR_USAGE, "%s is a single checkpoint; use its parent directory",
                            directory);
    } else {
        rc = error_set_code(err, ERROR_USAGE,
                            "%s contains neither checkpoints (iter_*) nor Hugging Face weights "
                            "(config.json); name the directory that contains them",
                            directory);
        directory_check_megatron(directory, err);
    }
    free(list);
    return rc;
}

int origin_schedule(struct step_rules *rules, const char *directory, int64_t iteration,
                    struct error *err)
{
    struct checkpoint_index index = {0};
    struct origin origin;
    int64_t *list = NULL;
    size_t count = 0;
    char path[PATH_MAX];
    int rc = 0;

    if (access(directory, F_OK) < 0)
        return 0;
    if (iteration < 0) {
        rc = directory_list(directory, &list, &count, err);
        if (rc == 0 && count > 0)
            rc = read_newest(&origin, directory, list, count, err);
        free(list);
        if (rc < 0 || count == 0)
            return rc;
        iteration = origin.iteration;
    }
    if (directory_path(path, err, "%s/iter_%07" PRId64, directory, iteration) < 0)
        return -1;
    rc = index_load(&index, path, err) < 0 ? -1 : index.arrays > 1;
    *rules = index.rules;
    index_clear(&index);
    return rc;
}
