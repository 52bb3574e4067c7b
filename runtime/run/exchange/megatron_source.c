/* SPDX-License-Identifier: Apache-2.0 */
#include "megatron_private.h"
#include "base/core/xmalloc.h"
#include "run/checkpoint/directory.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RANK_FILE "model_optim_rng.pt"
enum { RANKS_MOST = 4096 };

/* --- Which files ----------------------------------------------------------------------------- */

/* Parse a directory name mp_rank_TT or mp_rank_TT_PPP. */
static int parse_rank(const char *name, int64_t *tp, int64_t *pp, int *with_pp)
{
    int a, b = 0, end = 0;

    *with_pp = 0;
    if (sscanf(name, "mp_rank_%2d%n", &a, &end) != 1 || a < 0 || end != 10)
        return -1;
    if (name[end] != '\0') {
        int more = 0;

        if (sscanf(name + end, "_%3d%n", &b, &more) != 1 || b < 0 || name[end + more] != '\0')
            return -1;
        *with_pp = 1;
    }
    *tp = a;
    *pp = b;
    return 0;
}

/* Count the tensor- and pipeline-parallel ranks in the directory; 0: none. */
static int count_ranks(const char *path, int64_t *tp, int64_t *pp, int *with_pp, struct error *err)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    int64_t found = 0, a, b;
    int long_name;

    *tp = *pp = 0;
    if (!directory)
        return error_set_errno(err, errno, "cannot open %s", path);
    while ((entry = readdir(directory))) {
        if (parse_rank(entry->d_name, &a, &b, &long_name) < 0)
            continue;
        *with_pp = long_name;
        *tp = a + 1 > *tp ? a + 1 : *tp;
        *pp = b + 1 > *pp ? b + 1 : *pp;
        found++;
    }
    closedir(directory);
    if (found != *tp * *pp || found > RANKS_MOST)
        return error_set(err,
                         "%s has %" PRId64 " mp_rank directories, but tp %" PRId64 " x pp %" PRId64
                         " are expected; copy the missing ones, or remove those of another layout",
                         path, found, *tp, *pp);
    return 0;
}

/* The directory that latest_checkpointed_iteration.txt names. */
static int find_latest(const char *path, char out[PATH_MAX], struct error *err)
{
    char name[PATH_MAX], text[32] = "";
    FILE *file;
    int64_t iteration = directory_latest(path);

    if (iteration >= 0)
        return directory_path(out, err, "%s/iter_%07" PRId64, path, iteration);
    if (directory_path(name, err, "%s/latest_checkpointed_iteration.txt", path) < 0)
        return -1;
    file = fopen(name, "re");
    if (file && fscanf(file, "%31s", text) != 1)
        text[0] = '\0';
    if (file)
        fclose(file);
    if (file && strcmp(text, "release") != 0)
        return error_set(err,
                         "%s contains neither an iteration nor \"release\"; write one of them "
                         "into it, or import an iter_* directory itself",
                         name);
    return directory_path(out, err, "%s/release", path);
}

/* Set 'out' to the directory that contains the mp_rank directories, or a distributed checkpoint. */
static int find_ranks(struct megatron_source *s, const char *path, char out[PATH_MAX], int *with_pp,
                      struct error *err)
{
    int dist;

    if (directory_path(out, err, "%s", path) < 0 ||
        count_ranks(path, &s->tp, &s->pp, with_pp, err) < 0)
        return -1;
    if (s->tp > 0)
        return 0;
    dist = megatron_dist_is(path, err);
    if (dist != 0)
        return dist < 0 ? -1 : 0;
    if (find_latest(path, out, err) < 0)
        return -1;
    if (access(out, F_OK) < 0)
        return error_set_code(
            err, ERROR_USAGE,
            "%s is not a Megatron-LM checkpoint: it contains neither mp_rank_00 nor "
            "release nor latest_checkpointed_iteration.txt; name the directory that contains them",
            path);
    if (count_ranks(out, &s->tp, &s->pp, with_pp, err) < 0)
        return -1;
    if (s->tp > 0)
        return 0;
    dist = megatron_dist_is(out, err);
    if (dist != 0)
        return dist < 0 ? -1 : 0;
    return error_set(err, "%s does not contain mp_rank_00; copy the checkpoint again", out);
}

static int open_shard(struct megatron_shard *shard, const char *path, struct error *err)
{
    shard->file = torch_file_open(path, err);
    return shard->file ? 0 : error_prefix(err, "%s", path);
}

static int open_shards(struct megatron_source *s, const char *path, struct error *err)
{
    char directory[PATH_MAX], file[PATH_MAX];
    struct stat status;
    int with_pp = 0, single;

    if (stat(path, &status) < 0)
        return error_set_errno(err, errno, "cannot open %s", path);
    single = !S_ISDIR(status.st_mode);
    s->tp = s->pp = 1;
    if (!single && find_ranks(s, path, directory, &with_pp, err) < 0)
        return -1;
    if (s->tp == 0)
        return megatron_dist_open(s, directory, err);
    s->shards = xcalloc((size_t)(s->tp * s->pp), sizeof(*s->shards));
    for (int64_t i = 0; i < s->tp * s->pp; i++) {
        struct megatron_shard *shard = &s->shards[i];
        int tp = (int)(i % s->tp), pp = (int)(i / s->tp);

        snprintf(shard->name, sizeof(shard->name), with_pp ? "mp_rank_%02d_%03d" : "mp_rank_%02d",
                 tp, pp);
        if (!single && directory_path(file, err, "%s/%s/" RANK_FILE, directory, shard->name) < 0)
            return -1;
        if (open_shard(shard, single ? path : file, err) < 0)
            return -1;
    }
    return 0;
}

/* --- Contents -------------------------------------------------------------------------------- */

/* With several model chunks per pipeline rank, the models are called model0, model1, ... */
static int64_t count_chunks(const struct megatron_source *s)
{
    const struct pickle_value *root = s->dist ? NULL : torch_file_root(s->shards[0].file);
    int64_t chunks = 0;
    char name[32];

    if (s->dist || pickle_member(root, "model"))
        return 1;
    for (;; chunks++) {
        snprintf(name, sizeof(name), "model%" PRId64, chunks);
        if (chunks == RANKS_MOST || !pickle_member(root, name))
            return chunks;
    }
}

static int count_layers(struct megatron_source *s, struct error *err)
{
    struct megatron_location location = {0, 0, 0, 0};
    int64_t layer;
    const struct megatron_name *name = megatron_name_of("layers.0.mlp.down.weight", &layer);

    s->chunks = count_chunks(s);
    if (s->chunks == 0)
        return error_set(err, "%s is not a Megatron-LM checkpoint: it contains no model",
                         s->shards[0].name);
    while (location.local < RANKS_MOST && megatron_has(s, name, &location))
        location.local++;
    s->chunk_layers = location.local;
    return s->chunk_layers > 0
               ? 0
               : error_set(err,
                           "%s has no transformer layers; only GPT checkpoints can be imported",
                           s->shards[0].name);
}

struct megatron_source *megatron_source_open(const char *path, const struct megatron_hints *hints,
                                             struct error *err)
{
    struct megatron_source *s = xcalloc(1, sizeof(*s));

    if (open_shards(s, path, err) < 0) {
        megatron_source_destroy(s);
        return NULL;
    }
    if (count_layers(s, err) < 0 || megatron_read_model(s, hints, err) < 0) {
        error_prefix(err, "%s", path);
        megatron_source_destroy(s);
        return NULL;
    }
    return s;
}

void megatron_source_destroy(struct megatron_source *s)
{
    if (!s)
        return;
    for (int64_t i = 0; s->shards && i < s->tp * s->pp; i++)
        torch_file_destroy(s->shards[i].file);
    free(s->shards);
    torch_dist_destroy(s->dist);
    free(s->values);
    free(s);
}

const struct model_config *megatron_source_model(const struct megatron_source *s)
{
    return &s->model;
}

const char *megatron_source_describe(const struct megatron_source *s)
{
    return s->description;
}
