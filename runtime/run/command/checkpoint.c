/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "run/exchange/convert.h"
#include "run/checkpoint/directory.h"
#include "base/core/storage.h"
#include "run/exchange/hf.h"
#include "run/checkpoint/index.h"
#include "base/core/option_rows.h"
#include "run/exchange/origin.h"
#include "lib/parse.h"
#include "run/checkpoint/scaling_file.h"
#include "run/checkpoint/shard_file.h"
#include "run/checkpoint/tokenizer_files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum format { FORMAT_HF, FORMAT_MEGATRON, FORMAT_TORCH_DIST, FORMAT_FAIRSEQ };

struct checkpoint_options {
    int64_t iteration, keep_last, heads, vocabulary, tp, pp, divisor;
    int format, type, tensors, all, transformer, interleaved;
    const char *shard_size;
};

#define AT(field) offsetof(struct checkpoint_options, field)

/* clang-format off */
static const struct option options[] = {
    CHOICE("format", format, "hf|megatron|torch_dist|fairseq", "format to import from or export to"),
    CHOICE("dtype", type, "fp32|bf16|fp16", "export: data type of the weights"),
    TEXT("max-shard-size", shard_size, "SIZE", "export: maximum file size, for example 5GB (default: 50GB)"),
    RANGE("vocab-size", vocabulary, 1, INT32_MAX, "import of Megatron-LM checkpoints: vocabulary size without padding"),
    RANGE("num-attention-heads", heads, 1, INT32_MAX, "import of Megatron-LM or fairseq checkpoints: number of attention heads, if the checkpoint does not contain it"),
    RANGE("target-tensor-parallel-size", tp, 1, 99, "export --format megatron: number of tensor-parallel ranks (default: 1)"),
    RANGE("target-pipeline-parallel-size", pp, 1, 999, "export --format megatron: number of pipeline stages (default: 1)"),
    CHOICE("transformer-impl", transformer, "transformer_engine|local", "export --format megatron: use the names of this implementation"),
    FLAG("rotary-interleaved", interleaved, "export to Megatron-LM: store the channels of heads as it needs them with its option of this name"),
    RANGE("make-vocab-size-divisible-by", divisor, 1, 1 << 20, "export to Megatron-LM: pad the vocabulary to a multiple of this times the tensor-parallel size (default: 128)"),
    RANGE("iteration", iteration, 0, INT64_MAX, "use this checkpoint instead of the latest"),
    FLAG("tensors", tensors, "inspect: list all tensors"),
    FLAG("all", all, "verify: check all checkpoints in the directory"),
    RANGE("keep-last", keep_last, 1, INT64_MAX, "prune: number of checkpoints to keep"),
    {0},
};
/* clang-format on */

/* Iteration 'iteration' does not exist: say what asked for it, and list those that exist. */
static int report_missing(const struct checkpoint_options *given, const char *directory,
                          int64_t iteration, struct error *err)
{
    enum { SHOWN = 8 };
    char existing[256] = "";
    int64_t *list;
    size_t count;

    if (directory_list(directory, &list, &count, err) < 0)
        return -1;
    for (size_t i = 0; i < count && i < SHOWN; i++)
        list_text_add(existing, sizeof(existing), ", ", "%" PRId64, list[i]);
    if (count > SHOWN)
        list_text_add(existing, sizeof(existing), " and ", "%zu older one%s", count - SHOWN,
                      count - SHOWN == 1 ? "" : "s");
    if (count > 0)
        list_text_add(existing, sizeof(existing), "; ", "select one with --iteration");
    else
        snprintf(existing, sizeof(existing), "no other checkpoint");
    free(list);
    if (given->iteration >= 0)
        return error_set_code(err, ERROR_USAGE,
                              "%s does not contain a checkpoint of iteration %" PRId64
                              "; it contains %s",
                              directory, iteration, existing);
    return error_set(err,
                     "%s/" LATEST " names iteration %" PRId64 ", but iter_%07" PRId64
                     " does not exist; %s contains %s",
                     directory, iteration, iteration, directory, existing);
}

/* The directory of one checkpoint: DIR itself, the one of --iteration, or the latest in DIR. */
static int find_one(const struct checkpoint_options *given, const char *directory,
                    char path[PATH_MAX], struct error *err)
{
    int64_t iteration = given->iteration;

    if (directory_path(path, err, "%s/" INDEX_NAME, directory) < 0)
        return -1;
    if (access(path, R_OK) == 0)
        return directory_path(path, err, "%s", directory);
    if (iteration < 0 && directory_newest(directory, -1, &iteration, err) < 0)
        return -1;
    if (iteration < 0) {
        error_set_code(err, ERROR_USAGE,
                       "%s is not a checkpoint directory: it contains neither " INDEX_NAME
                       " nor iter_* directories; name the --save directory of a run",
                       directory);
        directory_check_megatron(directory, err);
        return -1;
    }
    if (directory_path(path, err, "%s/iter_%07" PRId64, directory, iteration) < 0)
        return -1;
    if (access(path, F_OK) < 0 && errno == ENOENT)
        return report_missing(given, directory, iteration, err);
    return directory_has(path, INDEX_NAME) ? 0 : directory_check_megatron(directory, err);
}

static int64_t elements_of(const struct checkpoint_index *index)
{
    int64_t total = 0;

    for (int i = 0; i < index->tensor_count; i++)
        total += index->tensors[i].rows * index->tensors[i].cols;
    return total;
}

static int64_t bytes_of(const struct checkpoint_index *index)
{
    int64_t total = 0;

    for (int i = 0; i < index->file_count; i++)
        total += index->files[i].bytes;
    return total;
}

static void print_model(const struct network *m)
{
    const struct model_shape *s = &m->shape;

    printf("model:       %" PRId64 " layers, hidden size %" PRId64 ", ffn hidden size %" PRId64
           ", %" PRId64 " attention heads of size %" PRId64 ", %" PRId64
           " query groups, vocabulary %" PRId64 "\n",
           s->layers, s->hidden, s->ffn_hidden, s->heads, s->kv_channels, s->query_groups,
           s->vocabulary);
    printf("             %s, %s, %s, %s head, %s\n",
           m->position == POSITION_LEARNED ? "learned position embeddings"
           : m->position == POSITION_ROPE  ? "rope"
                                           : "no position embeddings",
           m->norm == NORM_RMS ? "RMSNorm" : "LayerNorm",
           m->swiglu ? m->gate == GATE_SILU ? "SwiGLU" : "GeGLU" : "GELU",
           m->tied ? "tied" : "untied", m->linear_bias ? "biases" : "no biases");
}

/* What differs from GPT and Llama. */
static void print_blocks(const struct network *m)
{
    const char *before = "blocks:      ";
    char text[96];

    for (const struct network_property *p = network_properties; p->name; p++)
        if (network_describe(m, p, text, sizeof(text))) {
            printf("%s%s", before, text);
            before = ", ";
        }
    if (strcmp(before, ", ") == 0)
        printf("\n");
}

/* If the checkpoint in 'path' is damaged, another one in 'directory' may not be. Returns -1. */
static int offer_others(const char *directory, const char *path, struct error *err)
{
    int64_t *list = NULL;
    size_t count = 0;

    if (err->code == ERROR_DAMAGED && err->advice > 0 && strcmp(directory, path) != 0 &&
        directory_list(directory, &list, &count, NULL) == 0 && count > 1)
        error_append(err, "; restore it from a copy, or select another one with --iteration");
    free(list);
    return -1;
}

static int run_inspect(const struct checkpoint_options *given, const char *directory,
                       struct error *err)
{
    struct checkpoint_index index;
    char path[PATH_MAX];

    if (find_one(given, directory, path, err) < 0)
        return -1;
    if (index_load(&index, path, err) < 0) {
        index_clear(&index);
        return offer_others(directory, path, err);
    }
    printf("checkpoint:  %s\n", path);
    printf("iteration:   %" PRId64 ", consumed samples %" PRId64 " (validation %" PRId64 ")\n",
           index.progress.iteration, index.progress.consumed, index.progress.consumed_valid);
    print_model(&index.model.network);
    print_blocks(&index.model.network);
    printf("parameters:  %" PRId64 " in %d tensors, %s\n", elements_of(&index), index.tensor_count,
           index.arrays > 1 ? "with optimizer state" : "without optimizer state");
    printf("written by:  tp %" PRId64 ", cp %" PRId64 ", dp %" PRId64 ", pp %" PRId64
           " (any layout can load it)\n",
           index.layout.tp, index.layout.cp, index.layout.dp, index.layout.pp);
    printf("files:       %d, %.1f MB in total\n", index.file_count, (double)bytes_of(&index) / 1e6);
    if (index.arrays > 1)
        printf("state:       Adam step %" PRId64 ", scheduler samples %" PRId64
               ", loss scale %g, seed %" PRIu64 "\n",
               index.state.adam_step, index.state.scheduled_samples, index.state.loss_scale,
               index.state.seed);
    for (int i = 0; i < index.tensor_count && given->tensors; i++)
        printf("%-48s %" PRId64 " x %" PRId64 "\n", index.tensors[i].name, index.tensors[i].rows,
               index.tensors[i].cols);
    index_clear(&index);
    return 0;
}

/* Every element of every tensor must be stored in some file. */
static int check_cover(const struct checkpoint_index *index, struct error *err)
{
    for (int i = 0; i < index->tensor_count; i++) {
        int64_t left = index->tensors[i].rows * index->tensors[i].cols;

        for (int p = index->tensors[i].first; p >= 0; p = index->pieces[p].next)
            left -= index->pieces[p].count;
        if (left != 0)
            return error_set(err,
                             "some elements of tensor %s are missing or stored twice, so the "
                             "checkpoint is damaged",
                             index->tensors[i].name);
    }
    return 0;
}

/* Only wrong bytes prove damage; a file that cannot be read proves nothing. */
static void print_fault(const char *path, int rc, const struct error *err)
{
    struct error said = *err;

    if (rc == CHECKPOINT_DAMAGED)
        error_append(&said, "; delete this directory if there is no copy of it");
    else if (rc == CHECKPOINT_UNREADABLE)
        error_append(&said, "; check the disk or file server, then verify again on another node");
    else
        error_append(&said, "; it may be intact: verify again as a user and on a node that can "
                            "read it");
    printf("%s: %s: %s\n", path, rc == CHECKPOINT_DAMAGED ? "damaged" : "not checked", said.text);
}

static int verify_one(const char *path, struct error *err)
{
    struct checkpoint_index index;
    struct scaling_found found;
    int rc = index_load(&index, path, err);

    if (rc == 0)
        rc = scaling_file_read(path, &index.scales, NULL, NULL, &found, err);
    if (rc == 0 && check_cover(&index, err) < 0)
        rc = CHECKPOINT_DAMAGED;
    for (int i = 0; i < index.file_count && rc == 0; i++) {
        struct shard_reader *reader;

        rc = shard_reader_open(&reader, path, &index.files[i], index.arrays, err);
        if (rc == 0)
            rc = shard_reader_verify(reader, err);
        shard_reader_close(reader);
    }
    if (rc == 0)
        printf("%s: intact, %d file%s, %.1f MB\n", path, index.file_count,
               index.file_count == 1 ? "" : "s", (double)bytes_of(&index) / 1e6);
    else
        print_fault(path, rc, err);
    index_clear(&index);
    return rc;
}

static int run_verify(const struct checkpoint_options *given, const char *directory,
                      struct error *err)
{
    char path[PATH_MAX];
    int64_t *list;
    size_t count;
    int faults = 0;

    if (!given->all) {
        if (find_one(given, directory, path, err) < 0)
            return -1;
        return verify_one(path, err) < 0 ? 1 : 0;
    }
    if (directory_list(directory, &list, &count, err) < 0)
        return file_path_error(err);
    for (size_t i = 0; i < count; i++)
        if (directory_path(path, err, "%s/iter_%07" PRId64, directory, list[i]) < 0 ||
            verify_one(path, err) < 0)
            faults++;
    free(list);
    if (count == 0)
        return error_set_code(
            err, ERROR_USAGE,
            "%s contains no checkpoints (iter_* directories); name the --save directory of a run",
            directory);
    return faults ? 1 : 0;
}

/* How many checkpoints are newer than the one a run resumes from? */
static size_t count_later(const char *directory)
{
    int64_t *list, latest = directory_latest(directory);
    size_t count, later = 0;

    if (latest < 0 || directory_list(directory, &list, &count, NULL) < 0)
        return 0;
    while (later < count && list[later] > latest)
        later++;
    free(list);
    return later;
}

static int run_prune(const struct checkpoint_options *given, const char *directory,
                     struct error *err)
{
    struct error busy, unlocked = {.text = ""};
    size_t later;
    int removed, held, rc;

    if (given->keep_last < 0)
        return error_set_code(
            err, ERROR_USAGE,
            "prune needs to know how many checkpoints to keep; use --keep-last N");
    if (access(directory, R_OK | X_OK) < 0) {
        error_set_errno(err, errno, "cannot read %s", directory);
        return file_path_error(err);
    }
    if (directory_has(directory, INDEX_NAME))
        return error_set_code(err, ERROR_USAGE,
                              "%s is a single checkpoint; use its parent directory", directory);
    if (directory_prune(directory, given->keep_last, &removed, NULL, err) < 0)
        return -1;
    held = directory_lock(directory, &unlocked, &busy);
    rc = held < 0 || unlocked.text[0] ? 0 : directory_restore(directory, err);
    if (rc == 0 && held >= 0 && !unlocked.text[0])
        rc = directory_clean(directory, err);
    printf("removed %d checkpoint%s from %s\n", removed, removed == 1 ? "" : "s", directory);
    later = count_later(directory);
    if (later > 0)
        printf("kept %zu checkpoint%s newer than iteration %" PRId64 ", which " LATEST " names\n",
               later, later == 1 ? "" : "s", directory_latest(directory));
    if (held < 0 || unlocked.text[0])
        printf("unfinished checkpoints were not removed: %s\n",
               held < 0 ? busy.text : unlocked.text);
    if (held >= 0)
        close(held);
    return rc;
}

/* Options that have no meaning for the format are errors. */
static int check_export(const struct checkpoint_options *given, struct error *err)
{
    if (given->format == FORMAT_FAIRSEQ)
        return error_set_code(
            err, ERROR_USAGE,
            "export does not support this format; use --format hf, megatron or torch_dist");
    if (given->format != FORMAT_MEGATRON && (given->tp > 0 || given->pp > 0 || given->transformer))
        return error_set_code(
            err, ERROR_USAGE,
            "--target-tensor-parallel-size, --target-pipeline-parallel-size and "
            "--transformer-impl can only be used with --format megatron%s",
            given->format == FORMAT_TORCH_DIST
                ? "; a torch_dist checkpoint can be loaded with any of them: drop them"
                : "; drop them");
    if (given->format == FORMAT_HF && (given->divisor > 0 || given->interleaved))
        return error_set_code(err, ERROR_USAGE,
                              "--make-vocab-size-divisible-by and --rotary-interleaved can only be "
                              "used with --format megatron or torch_dist; drop them");
    if (given->format == FORMAT_MEGATRON && given->shard_size)
        return error_set_code(err, ERROR_USAGE,
                              "--max-shard-size cannot be used with --format megatron, which has a "
                              "file per rank; drop it");
    return 0;
}

static int run_export(const struct checkpoint_options *given, const char *from, const char *to,
                      struct error *err)
{
    static const enum device_type types[] = {TYPE_FP32, TYPE_BF16, TYPE_FP16};
    char path[PATH_MAX];
    int64_t bytes = HF_SHARD_BYTES;
    struct megatron_target target = {.dist = given->format == FORMAT_TORCH_DIST,
                                     .tp = given->tp > 0 ? given->tp : 1,
                                     .pp = given->pp > 0 ? given->pp : 1,
                                     .interleaved = given->interleaved,
                                     .local = given->transformer,
                                     .divisor = given->divisor > 0 ? given->divisor : 128,
                                     .type = types[given->type]};

    if (check_export(given, err) < 0)
        return -1;
    if (given->shard_size &&
        parse_size("--max-shard-size", given->shard_size, 1000, 1, INT64_MAX, &bytes, err) < 0)
        return -1;
    target.file_bytes = bytes;
    if (find_one(given, from, path, err) < 0)
        return -1;
    if ((given->format == FORMAT_HF ? convert_export_hf(path, to, types[given->type], bytes, err)
                                    : convert_export_megatron(path, to, &target, err)) < 0)
        return offer_others(from, path, err);
    if (given->format == FORMAT_HF && tokenizer_files_copy(from, to, 0, err) < 0)
        return -1;
    printf("exported %s to %s\n", path, to);
    if (given->format != FORMAT_HF)
        printf("without optimizer state; to train from it with Megatron-LM: --load %s --finetune "
               "--ckpt-format %s\n",
               to, target.dist ? "torch_dist" : "torch");
    return 0;
}

/* If config.json is missing, the folder is usually a Megatron-LM checkpoint. */
static int check_source(int format, const char *folder, struct error *err)
{
    char path[PATH_MAX];

    if (format != FORMAT_HF)
        return access(folder, R_OK) == 0 ? 0
                                         : error_set_errno(err, errno, "cannot open %s", folder);
    if (directory_path(path, err, "%s/config.json", folder) < 0)
        return -1;
    if (access(path, F_OK) == 0)
        return 0;
    if (access(folder, F_OK) < 0)
        return error_set_code_errno(err, ERROR_USAGE, errno, "cannot open %s", folder);
    return error_set_code(err, ERROR_USAGE,
                          "%s does not exist, so %s is not a Hugging Face folder; for a "
                          "Megatron-LM checkpoint, add --format megatron or torch_dist",
                          path, folder);
}

static int run_import(const struct checkpoint_options *given, const char *from, const char *to,
                      struct error *err)
{
    struct megatron_hints hints = {given->heads, given->vocabulary};
    char said[200] = "";

    if (given->format == FORMAT_HF && (given->heads > 0 || given->vocabulary > 0))
        return error_set_code(err, ERROR_USAGE,
                              "--num-attention-heads and --vocab-size can only be used with "
                              "--format megatron or torch_dist; drop them");
    if (check_source(given->format, from, err) < 0)
        return file_path_error(err);
    if ((given->format == FORMAT_HF ? convert_import_hf(from, to, err)
         : given->format == FORMAT_FAIRSEQ
             ? convert_import_fairseq(from, to, given->heads, err)
             : convert_import_megatron(from, to, &hints, said, err)) < 0)
        return -1;
    if (given->format == FORMAT_HF && tokenizer_files_copy(from, to, 1, err) < 0)
        return -1;
    printf("imported %s to %s; to train from it: --load %s --finetune\n", from, to, to);
    if (*said)
        printf("interpreted as: %s; the optimizer state is not imported\n", said);
    return 0;
}

/* The actions, and the directories that each takes. */
static const struct {
    const char *name;
    int (*run)(const struct checkpoint_options *given, const char *directory, struct error *err);
    int (*run_pair)(const struct checkpoint_options *given, const char *from, const char *to,
                    struct error *err);
} actions[] = {
    {"inspect", run_inspect, NULL}, {"verify", run_verify, NULL}, {"prune", run_prune, NULL},
    {"import", NULL, run_import},   {"export", NULL, run_export},
};

static int run_checkpoint(void *given, const struct options_result *result, struct error *err)
{
    const char *const *words = result->words, *action = result->word_count > 0 ? words[0] : "";

    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
        if (strcmp(action, actions[i].name) != 0)
            continue;
        if (result->word_count != (actions[i].run ? 2u : 3u))
            return error_set_code(err, ERROR_USAGE, "%s takes %s", action,
                                  actions[i].run ? "one directory"
                                                 : "two directories: source and destination");
        return actions[i].run ? actions[i].run(given, words[1], err)
                              : actions[i].run_pair(given, words[1], words[2], err);
    }
    return error_set_code(err, ERROR_USAGE, "%s%.50s; use inspect, verify, prune, import or export",
                          *action ? "unknown action " : "no action", action);
}

const struct command command_checkpoint = {
    .name = "checkpoint",
    .summary = "inspect, verify, prune, import and export checkpoints",
    .usage =
        "Usage: megatron checkpoint inspect DIR [--iteration N] [--tensors]\n"
        "       megatron checkpoint verify  DIR [--iteration N] [--all]\n"
        "       megatron checkpoint prune   DIR --keep-last N\n"
        "       megatron checkpoint import  FOLDER DIR [--format hf|megatron|torch_dist|fairseq]\n"
        "       megatron checkpoint export  DIR FOLDER [--format hf|megatron|torch_dist]\n"
        "                                   [--dtype TYPE] [--max-shard-size SIZE]\n"
        "Inspect, verify and prune checkpoints; import and export Hugging Face weights and\n"
        "Megatron-LM checkpoints.\n",
    .options = options,
    .size = sizeof(struct checkpoint_options),
    .defaults = &(const struct checkpoint_options){.iteration = -1, .keep_last = -1},
    .run = run_checkpoint,
};
