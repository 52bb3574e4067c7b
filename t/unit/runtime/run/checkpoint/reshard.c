/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of every layout are read by every other one, element by element; and the effects of
 * damage and hostile indices. No ranks run here: the test writes and reads the files of all of
 * them. */
#include "lib/checksum.h"
#include "run/checkpoint/directory.h"
#include "run/checkpoint/reshard.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ARRAYS = 3 };

static struct model_config gpt = {
    .network.shape = {.name = "gpt",
                      .layers = 4,
                      .hidden = 16,
                      .ffn_hidden = 64,
                      .heads = 4,
                      .query_groups = 4,
                      .kv_channels = 4,
                      .vocabulary = 97,
                      .sequence = 8},
    .network.positions = 8,
    .network.position = POSITION_LEARNED,
    .network.norm = NORM_LAYER,
    .network.tied = 1,
    .network.linear_bias = 1,
    .split.chunks = 1,
};
static struct model_config llama = {
    .network.shape = {.name = "llama",
                      .family = MODEL_LLAMA,
                      .layers = 4,
                      .hidden = 16,
                      .ffn_hidden = 48,
                      .heads = 4,
                      .query_groups = 2,
                      .kv_channels = 8,
                      .vocabulary = 61,
                      .sequence = 8},
    .network.positions = 8,
    .network.position = POSITION_ROPE,
    .network.norm = NORM_RMS,
    .network.swiglu = 1,
    .split.chunks = 1,
};

static char scratch[] = "/tmp/reshard-XXXXXX";

/* The value of an element, unique to its tensor, position and array. */
static float value_of(const char *name, int array, int64_t row, int64_t col)
{
    uint64_t h = checksum_of(name, strlen(name)) % 1000003;

    return (float)((h * 31 + (uint64_t)row * 1009 + (uint64_t)col * 7 + (uint64_t)array * 3) %
                   16777213);
}

static int ranks_of(const struct layout *l)
{
    return (int)(l->tp * l->cp * l->dp * l->pp);
}

/* What the command line would derive for this layout. */
static struct model_config fitted(const struct model_config *model, const struct layout *l,
                                  int64_t chunks)
{
    struct model_config fit = *model;

    fit.padded_vocabulary = vocabulary_padded(model->network.shape.vocabulary, 8, l->tp);
    fit.split.chunks = chunks;
    return fit;
}

/* Call 'each' with every element of a rank's pieces. */
static void fill(const struct parameters *p, const struct pieces *pieces, float *const *arrays)
{
    for (int i = 0; i < pieces->count; i++)
        for (int64_t k = 0; k < pieces->list[i].count; k++) {
            const struct parameter *q = &p->list[pieces->list[i].parameter];
            int64_t at = pieces->list[i].start + k;

            for (int a = 0; a < ARRAYS; a++)
                arrays[a][pieces->list[i].shard + k] =
                    value_of(q->name, a, q->first_row + at / q->cols, q->first_col + at % q->cols);
        }
}

struct rank {
    struct parameters p;
    struct pieces pieces;
    float *arrays[ARRAYS];
};

static void rank_open(struct rank *r, const struct model_config *model, const struct layout *l,
                      int number, enum pieces_of of)
{
    struct layout_position at = layout_position(l, number);

    parameters_create(&r->p, model, l, &at);
    pieces_create(&r->pieces, &r->p, &at, shard_number(l, &at), of);
    for (int a = 0; a < ARRAYS; a++)
        r->arrays[a] = calloc((size_t)r->p.shard_elements + 1, sizeof(float));
}

static void rank_close(struct rank *r)
{
    for (int a = 0; a < ARRAYS; a++)
        free(r->arrays[a]);
    pieces_destroy(&r->pieces);
    parameters_destroy(&r->p);
}

/* Write the checkpoint of all ranks of a layout to 'directory'. */
static int write_all(const char *directory, const struct model_config *model,
                     const struct layout *l, struct error *err)
{
    struct checkpoint_index index;
    int rc = index_create(&index, model, l, err);
    size_t size;
    char *text;

    mkdir(directory, 0777);
    index.arrays = ARRAYS;
    for (int i = 0; i < ranks_of(l) && rc == 0; i++) {
        struct rank r;
        char path[PATH_MAX];
        int64_t elements = index.files[i].elements;

        rank_open(&r, model, l, i, PIECES_WRITTEN);
        fill(&r.p, &r.pieces, r.arrays);
        directory_path(path, err, "%s/%s", directory, index.files[i].name);
        rc = shard_file_write(path, &r.p, &r.pieces, (const float *const *)r.arrays, ARRAYS,
                              &index.files[i], NULL, err);
        if (elements != index.files[i].elements)
            rc = error_set(err, "the index has %" PRId64 " elements", elements);
        rank_close(&r);
    }
    text = rc == 0 ? index_write(&index, &size, err) : NULL;
    rc = text ? directory_write(directory, INDEX_NAME, text, size, err) : -1;
    free(text);
    index_clear(&index);
    return rc;
}

/* Read it as all ranks of a layout would; every element must be right, all others 0. */
static int read_all(const char *directory, const struct model_config *model, const struct layout *l,
                    struct error *err)
{
    struct checkpoint_index index;
    int rc = index_load(&index, directory, err);

    for (int i = 0; i < ranks_of(l) && rc == 0; i++) {
        struct rank got, expected;

        rank_open(&got, model, l, i, PIECES_HELD);
        rank_open(&expected, model, l, i, PIECES_HELD);
        fill(&expected.p, &expected.pieces, expected.arrays);
        rc = reshard_read(directory, &index, &got.p, &got.pieces, got.arrays, ARRAYS, err);
        for (int a = 0; a < ARRAYS && rc == 0; a++)
            if (memcmp(got.arrays[a], expected.arrays[a],
                       (size_t)got.p.shard_elements * sizeof(float)) != 0)
                rc = error_set(err, "rank %d of the readers got other values", i);
        rank_close(&got);
        rank_close(&expected);
    }
    index_clear(&index);
    return rc;
}

/* tp, cp, dp, pp, and virtual stages. */
static const struct shape {
    struct layout layout;
    int64_t chunks;
} shapes[] = {
    {{1, 1, 1, 1}, 1}, {{2, 1, 1, 1}, 1}, {{4, 1, 1, 1}, 1}, {{1, 1, 1, 2}, 1}, {{1, 1, 1, 2}, 2},
    {{1, 1, 2, 1}, 1}, {{1, 1, 3, 1}, 1}, {{2, 1, 2, 1}, 1}, {{2, 1, 1, 2}, 1}, {{1, 2, 2, 1}, 1},
    {{2, 2, 1, 2}, 1}, {{4, 1, 2, 2}, 1}, {{2, 1, 5, 4}, 1}, {{1, 1, 1, 4}, 1},
};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static void test_matrix(const char *name, const struct model_config *model)
{
    for (int a = 0; a < SHAPES; a++) {
        struct model_config writer = fitted(model, &shapes[a].layout, shapes[a].chunks);
        char directory[PATH_MAX];
        struct error err = {.text = ""};
        int rc;

        snprintf(directory, sizeof(directory), "%s/%s-%d", scratch, name, a);
        rc = write_all(directory, &writer, &shapes[a].layout, &err);
        for (int b = 0; b < SHAPES && rc == 0; b++) {
            struct model_config reader;

            if (model->network.shape.query_groups % shapes[b].layout.tp != 0)
                continue;
            reader = fitted(model, &shapes[b].layout, shapes[b].chunks);
            rc = read_all(directory, &reader, &shapes[b].layout, &err);
            if (rc < 0)
                diag("read by layout %d", b);
        }
        ok(rc == 0, "%s: all layouts read what layout %d wrote", name, a);
        if (rc < 0)
            diag("%s", err.text);
        directory_remove(directory, NULL, &err);
    }
}

/* More than one block of checksums in a file. */
static void test_blocks(void)
{
    struct model_config big = gpt;
    struct layout one = {1, 1, 1, 1}, four = {2, 1, 2, 1};
    char directory[PATH_MAX];
    struct error err = {.text = ""};
    struct model_config as_one, as_four;
    int rc;

    big.network.shape.hidden = 64;
    big.network.shape.kv_channels = 16;
    big.network.shape.vocabulary = 33333;
    big.network.shape.layers =
        1; /* its tensors span several blocks, too, and are split by rows and by columns */
    big.network.shape.ffn_hidden = 20000;
    as_one = fitted(&big, &one, 1);
    as_four = fitted(&big, &four, 1);
    snprintf(directory, sizeof(directory), "%s/blocks", scratch);
    rc = write_all(directory, &as_one, &one, &err);
    ok(rc == 0 && read_all(directory, &as_four, &four, &err) == 0, "several blocks, one to four");
    rc = write_all(directory, &as_four, &four, &err);
    ok(rc == 0 && read_all(directory, &as_one, &one, &err) == 0, "several blocks, four to one");
    directory_remove(directory, NULL, &err);
}

/* Damage to one file of a checkpoint, and the expected result. */
static void test_damage(void)
{
    static const struct {
        const char *name, *file;
        long at;  /* byte to flip, from the end if negative; -1: none */
        long cut; /* new length; -1: none */
        const char *text;
    } rows[] = {
        {"a flipped bit of the header", "rank_00000.safetensors", 20, -1, "header"},
        {"a flipped bit of the data", "rank_00000.safetensors", 50000, -1, "damaged between"},
        {"a flipped bit of the checksums", "rank_00001.safetensors", -3, -1, "checksums changed"},
        {"a cut file", "rank_00001.safetensors", -1, 6000, "bytes"},
        {"an empty file", "rank_00001.safetensors", -1, 0, "bytes"},
        {"a flipped bit of the index", INDEX_NAME, 100, -1, "wrong checksum"},
        {"a cut index", INDEX_NAME, -1, 400, "wrong checksum"},
        {"an empty index", INDEX_NAME, -1, 0, "wrong checksum"},
    };
    struct layout two = {2, 1, 1, 1};
    struct model_config model = fitted(&gpt, &two, 1);
    char directory[PATH_MAX], path[PATH_MAX];

    snprintf(directory, sizeof(directory), "%s/damage", scratch);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct error err = {.text = ""};
        unsigned char byte;
        int fd;

        write_all(directory, &model, &two, &err);
        directory_path(path, &err, "%s/%s", directory, rows[i].file);
        fd = open(path, O_RDWR);
        if (rows[i].at != -1) {
            off_t at = lseek(fd, rows[i].at, rows[i].at < 0 ? SEEK_END : SEEK_SET);

            if (pread(fd, &byte, 1, at) == 1) {
                byte ^= 4;
                ok(pwrite(fd, &byte, 1, at) == 1, "flip byte %ld", (long)at);
            }
        }
        if (rows[i].cut >= 0)
            ok(ftruncate(fd, rows[i].cut) == 0, "cut to %ld", rows[i].cut);
        close(fd);
        ok(read_all(directory, &model, &two, &err) == CHECKPOINT_DAMAGED &&
               strstr(err.text, rows[i].text),
           "%s is noticed", rows[i].name);
        diag("%s", err.text);
    }
    directory_path(path, NULL, "%s/rank_00001.safetensors", directory);
    write_all(directory, &model, &two, NULL);
    unlink(path);
    {
        struct error err = {.text = ""};

        ok(read_all(directory, &model, &two, &err) == CHECKPOINT_DAMAGED &&
               strstr(err.text, "rank_00001"),
           "a missing file is named");
    }
}

/* A temporary failure to read a checkpoint is not damage: here no file descriptor is left. */
static void test_trouble(void)
{
    struct layout two = {2, 1, 1, 1};
    struct model_config model = fitted(&gpt, &two, 1);
    struct checkpoint_index index;
    char directory[PATH_MAX];
    struct error err = {.text = ""};
    struct shard_reader *reader;
    struct rlimit before, none;

    snprintf(directory, sizeof(directory), "%s/trouble", scratch);
    write_all(directory, &model, &two, &err);
    ok(index_load(&index, directory, &err) == 0 && getrlimit(RLIMIT_NOFILE, &before) == 0,
       "a checkpoint");
    none = (struct rlimit){0, before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    ok(shard_reader_open(&reader, directory, &index.files[0], index.arrays, &err) == -1,
       "a file that cannot be opened now is not damaged: %s", err.text);
    shard_reader_close(reader);
    index_clear(&index);
    ok(index_load(&index, directory, &err) == -1, "nor is an index: %s", err.text);
    index_clear(&index);
    setrlimit(RLIMIT_NOFILE, &before);
    ok(read_all(directory, &model, &two, &err) == 0, "both can be read later");
    ok(index_fault(EIO, NULL) == CHECKPOINT_UNREADABLE && index_fault(ESTALE, NULL) == -1,
       "a disk that fails is another matter than a server");
    directory_remove(directory, NULL, &err);
}

/* Replace the first 'from' of an index by 'to' and correct its checksum. */
static char *changed(const char *text, size_t size, const char *from, const char *to,
                     size_t *new_size)
{
    const char *at = strstr(text, from), *tail;
    char *out = malloc(size + strlen(to) + 64);
    size_t head;

    if (!at || !out) {
        free(out);
        return NULL;
    }
    head = (size_t)(at - text);
    sprintf(out, "%.*s%s%s", (int)head, text, to, at + strlen(from));
    tail = strstr(out, "\"checksum\": \"");
    for (const char *next = tail; (next = strstr(next + 1, "\"checksum\": \""));)
        tail = next;
    head = (size_t)(tail - out);
    sprintf(out + head, "\"checksum\": \"%016" PRIx64 "\"}\n", checksum_of(out, head));
    *new_size = strlen(out);
    return out;
}

/* An index with a valid checksum and invalid content. */
static void test_hostile(void)
{
    static const struct {
        const char *name, *from, *to;
    } rows[] = {
        {"another format", "megatron checkpoint", "something else"},
        {"another version", "\"version\": 1", "\"version\": 2"},
        {"an unknown kind of network", "\"norm-placement\": 0", "\"norm-placement\": 9"},
        {"no JSON", "\"files\": [", "\"files\": [}"},
        {"a huge shape", "[\"embedding.word.weight\", 97, 16]",
         "[\"embedding.word.weight\", 281474976710656, 16]"},
        {"a negative shape", "[\"embedding.word.weight\", 97, 16]",
         "[\"embedding.word.weight\", -97, 16]"},
        {"a shape too small for its pieces", "[\"embedding.word.weight\", 97, 16]",
         "[\"embedding.word.weight\", 9, 16]"},
        {"a name too long", "\"embedding.word.weight\"",
         "\"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee\""},
        {"a file outside", "\"name\": \"rank_00000.safetensors\"", "\"name\": \"../passwd\""},
        {"a piece of no tensor", "\"pieces\": [[0, ", "\"pieces\": [[999, "},
        {"a piece that wraps", "\"pieces\": [[0, 0, 0,",
         "\"pieces\": [[0, 0, 9223372036854775807,"},
        {"a piece without columns", "\"pieces\": [[0, 0, 0, ", "\"pieces\": [[0, 0, 0, 0, "},
        {"arrays", "\"arrays\": 3", "\"arrays\": 2"},
        {"no layers", "\"num-layers\": 4", "\"num-layers\": 0"},
        {"a size beyond all", "\"hidden-size\": 16", "\"hidden-size\": 4611686018427387904"},
        {"key heads beyond all", "\"num-query-groups\": 4",
         "\"num-query-groups\": 2444444444444444444"},
        {"no key heads", "\"num-query-groups\": 4", "\"num-query-groups\": 0"},
        {"progress below 0", "\"iteration\": 0", "\"iteration\": -1"},
        {"a member missing", "\"adam_step\"", "\"adam_stop\""},
        {"a property of a later version", "\"clip-qkv\"", "\"clip-value\""},
    };
    struct layout two = {2, 1, 1, 1};
    struct model_config model = fitted(&gpt, &two, 1);
    struct checkpoint_index index;
    struct error err = {.text = ""};
    size_t size;
    char *text;

    index_create(&index, &model, &two, &err);
    index.arrays = ARRAYS;
    text = index_write(&index, &size, &err);
    index_clear(&index);
    ok(text && index_read(&index, text, size, "it", &err) == 0, "the index itself is fine");
    index_clear(&index);
    for (size_t i = 0; text && i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t new_size = 0;
        char *bad = changed(text, size, rows[i].from, rows[i].to, &new_size);
        int rc = bad ? index_read(&index, bad, new_size, "it", &err) : 0;

        ok(rc < 0, "%s is rejected", rows[i].name);
        diag("%s", err.text);
        index_clear(&index);
        free(bad);
    }
    /* A checkpoint that was saved before there was a property. */
    if (text) {
        size_t new_size = 0;
        char *old = changed(text, size, "\"clip-qkv\": 0, ", "", &new_size);

        index.model.network.qkv_clip = 1;
        ok(old && index_read(&index, old, new_size, "it", &err) == 0 &&
               index.model.network.qkv_clip == 0,
           "a property that is not there has its default");
        index_clear(&index);
        free(old);
    }
    free(text);
}

static void test_model(void)
{
    struct layout one = {1, 1, 1, 1};
    struct model_config a = fitted(&gpt, &one, 1), b = a;
    struct checkpoint_index index;
    struct error err = {.text = ""};

    index_create(&index, &a, &one, &err);
    ok(index_check_model(&index, &a, &err) == 0, "the same model fits");
    b.network.shape.sequence = 4;
    ok(index_check_model(&index, &b, &err) == 0, "with another sequence length, too");
    b.network.shape.hidden = 32;
    ok(index_check_model(&index, &b, &err) < 0 && strstr(err.text, "hidden-size (16, here 32)") &&
           strstr(err.text, "embedding.word.weight (97 x 16, here 97 x 32)"),
       "a different model is recognized by sizes and shapes");
    diag("%s", err.text);
    index_clear(&index);
}

static void test_sizes(void)
{
    struct layout one = {1, 1, 1, 1};
    struct model_config good = fitted(&gpt, &one, 1), wide = good, short_one = good;
    struct error err = {.text = ""};

    wide.network.shape.kv_channels = (1 << 23) + 1;
    short_one.network.positions = 0;
    is_int(index_check_sizes(&good.network, &err), 0, "sizes are accepted");
    is_int(index_check_sizes(&wide.network, &err), -1, "heads that are too wide");
    is(err.text, "the size of an attention head is 8388609, not between 1 and 8388608",
       "  the error names the size and its limits");
    is_int(index_check_sizes(&short_one.network, &err), -1, "no positions");
    is(err.text, "the number of positions is 0, not between 1 and 2147483647",
       "  the error names them, too");
}

/* A directory that cannot be read is not an empty one. */
static void test_newest(void)
{
    char path[PATH_MAX];
    int64_t iteration;
    struct error err;
    FILE *file;

    directory_path(path, &err, "%s/newest", scratch);
    ok(directory_newest(path, -1, &iteration, &err) == 0 && iteration == -1,
       "no directory, no checkpoint");
    file = fopen(path, "w");
    fclose(file);
    ok(directory_newest(path, -1, &iteration, &err) < 0 && errno == ENOTDIR,
       "a directory that cannot be read is an error");
    unlink(path);
    /* A tracker file that cannot be read: another checkpoint would be mistaken for the latest. */
    directory_path(path, &err, "%s/named/iter_0000100", scratch);
    directory_prepare(path, &err);
    directory_path(path, &err, "%s/named/" LATEST, scratch);
    mkdir(path, 0777);
    directory_path(path, &err, "%s/named", scratch);
    ok(directory_newest(path, -1, &iteration, &err) < 0 && errno == EISDIR,
       "the name of the latest that cannot be read is an error");
    directory_remove(path, NULL, &err);
}

int main(void)
{
    struct error err;

    if (!mkdtemp(scratch))
        return skip_all("no directory to write in");
    test_matrix("gpt", &gpt);
    test_matrix("llama", &llama);
    test_blocks();
    test_damage();
    test_trouble();
    test_hostile();
    test_model();
    test_sizes();
    test_newest();
    {
        char path[PATH_MAX];

        directory_path(path, &err, "%s/damage", scratch);
        directory_remove(path, NULL, &err);
    }
    directory_remove(scratch, NULL, &err);
    return done_testing();
}
