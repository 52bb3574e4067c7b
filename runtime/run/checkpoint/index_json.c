/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/checksum.h"
#include "base/core/xmalloc.h"
#include "directory.h"
#include "lib/file.h"
#include "index_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT      "megatron checkpoint"
#define VERSION     1
#define INDEX_LIMIT ((size_t)1 << 30)
/* Upper limit for any size in an index, so that products fit into 128 bits. */
#define NUMBER_MOST ((int64_t)1 << 48)

static const struct field progress_fields[] = {
    FIELD(struct progress, "iteration", iteration, FIELD_INT64),
    FIELD(struct progress, "consumed_samples", consumed, FIELD_INT64),
    FIELD(struct progress, "consumed_valid_samples", consumed_valid, FIELD_INT64),
    {0},
};

#define STATE(name, type) FIELD(struct step_state, #name, name, type)
static const struct field state_fields[] = {
    STATE(scheduled_samples, FIELD_INT64),
    STATE(adam_step, FIELD_INT64),
    STATE(seed, FIELD_INT64),
    STATE(loss_scale, FIELD_FLOAT),
    STATE(good_steps, FIELD_INT32),
    STATE(hysteresis, FIELD_INT32),
    STATE(loss_total, FIELD_DOUBLE),
    STATE(taken, FIELD_INT64),
    STATE(skipped, FIELD_INT64),
    STATE(nans, FIELD_INT64),
    STATE(weight_total, FIELD_DOUBLE),
    STATE(pair_total, FIELD_DOUBLE),
    STATE(norm_total, FIELD_DOUBLE),
    STATE(clipped, FIELD_INT64),
    {0},
};

static const struct field layout_fields[] = {
    FIELD(struct layout, "tp", tp, FIELD_INT64),
    FIELD(struct layout, "cp", cp, FIELD_INT64),
    FIELD(struct layout, "dp", dp, FIELD_INT64),
    FIELD(struct layout, "pp", pp, FIELD_INT64),
    {0},
};

/* --- Writing --------------------------------------------------------------------------------- */

static void write_file(const struct checkpoint_index *index, const struct index_file *file, FILE *f)
{
    fprintf(f,
            "{\"name\": \"%s\", \"data\": %" PRId64 ", \"elements\": %" PRId64
            ", \"bytes\": %" PRId64 ", \"checksum\": \"%016" PRIx64 "\", \"pieces\": [",
            file->name, file->data, file->elements, file->bytes, file->checksum);
    for (int i = 0; i < file->pieces; i++) {
        const struct index_piece *p = &index->pieces[file->first + i];

        fprintf(f,
                "%s[%d, %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                "]",
                i ? "," : "", p->tensor, p->first_row, p->first_col, p->rows, p->cols, p->start,
                p->count);
    }
    fprintf(f, "]}");
}

static void write_body(const struct checkpoint_index *index, FILE *f)
{
    struct field model_fields[NETWORK_PROPERTIES + 1];

    index_model_fields(model_fields);
    fprintf(f, "{\"format\": \"" FORMAT "\", \"version\": %d,\n\"progress\": ", VERSION);
    fields_write(progress_fields, &index->progress, f);
    fprintf(f, ",\n\"state\": ");
    fields_write(state_fields, &index->state, f);
    fprintf(f, ",\n\"schedule\": ");
    fields_write(index_rule_fields, &index->rules, f);
    fprintf(f, ",\n\"model\": ");
    fields_write(model_fields, &index->model.network, f);
    fprintf(f, ",\n\"layout\": ");
    fields_write(layout_fields, &index->layout, f);
    fprintf(f, ", \"arrays\": %d,\n\"tensors\": [", index->arrays);
    for (int i = 0; i < index->tensor_count; i++)
        fprintf(f, "%s[\"%s\", %" PRId64 ", %" PRId64 "]", i ? ",\n" : "", index->tensors[i].name,
                index->tensors[i].rows, index->tensors[i].cols);
    fprintf(f, "],\n\"files\": [");
    for (int i = 0; i < index->file_count; i++) {
        fprintf(f, i ? ",\n" : "");
        write_file(index, &index->files[i], f);
    }
    fprintf(f, "],\n");
    if (index->scales.bytes > 0)
        fprintf(f, "\"fp8_scales\": {\"bytes\": %" PRId64 ", \"checksum\": \"%016" PRIx64 "\"},\n",
                index->scales.bytes, index->scales.checksum);
}

char *index_write(const struct checkpoint_index *index, size_t *size, struct error *err)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, size);

    if (f) {
        write_body(index, f);
        fflush(f);
        fprintf(f, "\"checksum\": \"%016" PRIx64 "\"}\n", checksum_of(text, *size));
        if (!ferror(f) && fclose(f) == 0)
            return text;
    }
    free(text);
    error_set(err, "out of memory");
    return NULL;
}

/* --- Reading --------------------------------------------------------------------------------- */

/* Read 'count' integers of an array, each in [0, NUMBER_MOST], from element 'skip' on. */
static int read_numbers(struct json_value array, int skip, int64_t *numbers, int count)
{
    struct json_iterator i;
    struct json_value value;
    int at = -skip;

    if (json_type(array) != JSON_ARRAY || json_iterate(array, &i) < 0)
        return -1;
    for (; json_next(&i, NULL, NULL, &value); at++)
        if (at >= 0 && (at >= count || json_integer(value, &numbers[at]) < 0 || numbers[at] < 0 ||
                        numbers[at] > NUMBER_MOST))
            return -1;
    return at == count ? 0 : -1;
}

static int read_tensor(struct checkpoint_index *index, struct json_value value, struct error *err)
{
    struct index_tensor *tensor = &index->tensors[index->tensor_count];
    struct json_iterator i;
    struct json_value name;
    const char *text;
    size_t length;
    int64_t shape[2];

    if (json_type(value) != JSON_ARRAY || json_iterate(value, &i) < 0 ||
        !json_next(&i, NULL, NULL, &name) || json_string(name, &text, &length) < 0 ||
        length >= sizeof(tensor->name) || strlen(text) != length ||
        read_numbers(value, 1, shape, 2) < 0 || shape[0] == 0 || shape[1] == 0 ||
        (__int128)shape[0] * shape[1] > NUMBER_MOST)
        return error_set(
            err, "entry %d of \"tensors\" is not a name, a number of rows and a number of columns",
            index->tensor_count);
    memcpy(tensor->name, text, length + 1);
    tensor->rows = shape[0];
    tensor->cols = shape[1];
    tensor->first = -1;
    index->tensor_count++;
    return 0;
}

static int read_piece(struct checkpoint_index *index, struct index_file *file,
                      struct json_value value, struct error *err)
{
    int64_t n[7];
    struct index_piece piece;
    const struct index_tensor *tensor;

    if (read_numbers(value, 0, n, 7) < 0 || n[0] >= index->tensor_count)
        return error_set(err,
                         "piece %d of file %s is not seven numbers, or its tensor does not exist",
                         file->pieces, file->name);
    tensor = &index->tensors[n[0]];
    piece = (struct index_piece){(int)n[0], -1, n[1], n[2], n[3], n[4], n[5], n[6], file->elements};
    /* Rows may extend into the padding of a vocabulary, elements may not. */
    if (piece.rows == 0 || piece.cols == 0 || piece.count == 0 || piece.first_row >= tensor->rows ||
        piece.first_col + piece.cols > tensor->cols ||
        (__int128)piece.start + piece.count > (__int128)piece.rows * piece.cols ||
        (piece.start + piece.count - 1) / piece.cols + piece.first_row >= tensor->rows ||
        file->elements + piece.count > NUMBER_MOST)
        return error_set(err, "piece %d of file %s is outside tensor %s", file->pieces, file->name,
                         tensor->name);
    file->elements += piece.count;
    file->pieces++;
    index_add_piece(index, &piece);
    return 0;
}

static int read_text(struct json_value object, const char *name, char *out, size_t size)
{
    struct json_value value;
    const char *text;
    size_t length;

    if (json_member(object, name, &value) < 0 || json_string(value, &text, &length) < 0 ||
        length == 0 || length >= size || strlen(text) != length || strchr(text, '/') ||
        text[0] == '.')
        return -1;
    memcpy(out, text, length + 1);
    return 0;
}

static int read_number(struct json_value object, const char *name, int64_t most, int64_t *number)
{
    struct json_value value;

    return json_member(object, name, &value) < 0 || json_integer(value, number) < 0 ||
                   *number < 0 || *number > most
               ? -1
               : 0;
}

static int read_checksum(struct json_value object, uint64_t *checksum)
{
    char text[20];

    if (read_text(object, "checksum", text, sizeof(text)) < 0 || strlen(text) != 16)
        return -1;
    *checksum = strtoull(text, NULL, 16);
    return 0;
}

static int read_file(struct checkpoint_index *index, struct json_value value, struct error *err)
{
    struct index_file *file = &index->files[index->file_count++];
    struct json_value pieces, piece;
    struct json_iterator i;
    int64_t elements;
    int rc = 0;

    if (read_text(value, "name", file->name, sizeof(file->name)) < 0 ||
        read_checksum(value, &file->checksum) < 0 ||
        read_number(value, "data", NUMBER_MOST, &file->data) < 0 ||
        read_number(value, "bytes", 16 * NUMBER_MOST, &file->bytes) < 0 ||
        read_number(value, "elements", NUMBER_MOST, &elements) < 0 ||
        json_member(value, "pieces", &pieces) < 0 || json_iterate(pieces, &i) < 0)
        return error_set(
            err,
            "entry %d of \"files\" has no valid name, checksum, data, bytes, elements or pieces",
            index->file_count - 1);
    file->first = index->piece_count;
    while (rc == 0 && json_next(&i, NULL, NULL, &piece))
        rc = read_piece(index, file, piece, err);
    if (rc == 0 && file->elements != elements)
        rc = error_set(err,
                       "the pieces of file %s have %" PRId64
                       " elements, but its description says %" PRId64,
                       file->name, file->elements, elements);
    return rc;
}

static int read_lists(struct checkpoint_index *index, struct json_value root, struct error *err)
{
    struct json_value tensors, files, value;
    struct json_iterator i;
    int rc = 0;

    if (json_member(root, "tensors", &tensors) < 0 || json_member(root, "files", &files) < 0)
        return error_set(err, "the list \"tensors\" or \"files\" is missing");
    index->tensors = xcalloc(json_count(tensors) + 1, sizeof(*index->tensors));
    index->files = xcalloc(json_count(files) + 1, sizeof(*index->files));
    if (json_iterate(tensors, &i) < 0)
        return error_set(err, "\"tensors\" is not a list");
    while (rc == 0 && json_next(&i, NULL, NULL, &value))
        rc = read_tensor(index, value, err);
    if (rc == 0 && json_iterate(files, &i) < 0)
        rc = error_set(err, "\"files\" is not a list");
    while (rc == 0 && json_next(&i, NULL, NULL, &value))
        rc = read_file(index, value, err);
    return rc;
}

/* Only runs in fp8 write it. */
static int read_scales(struct index_scales *scales, struct json_value root, struct error *err)
{
    struct json_value object;

    if (json_member(root, "fp8_scales", &object) < 0)
        return 0;
    if (read_number(object, "bytes", NUMBER_MOST, &scales->bytes) < 0 || scales->bytes == 0 ||
        read_checksum(object, &scales->checksum) < 0)
        return error_set(err, "\"fp8_scales\" has no valid bytes or checksum");
    return 0;
}

static int read_fields(struct json_value root, const char *name, const struct field *table,
                       void *values, struct error *err)
{
    struct json_value object;

    if (json_member(root, name, &object) < 0)
        return error_set(err, "\"%s\" is missing", name);
    return fields_read(table, object, values, err) < 0 ? error_prefix(err, "%s", name) : 0;
}

/* The network: a property that this program does not know would change it. */
static int read_network(struct network *network, struct json_value root, struct error *err)
{
    struct field fields[NETWORK_PROPERTIES + 1];
    struct json_value object, value;
    struct json_iterator i;
    const char *name;
    size_t length;

    index_model_fields(fields);
    network_default(network);
    if (read_fields(root, "model", fields, network, err) < 0 ||
        json_member(root, "model", &object) < 0 || json_iterate(object, &i) < 0)
        return -1;
    while (json_next(&i, &name, &length, &value)) {
        const struct field *field = fields;

        while (field->name && strcmp(field->name, name) != 0)
            field++;
        if (!field->name)
            return error_set(err,
                             "its model has a property that this program does not know, %.60s; use "
                             "the version of megatron that saved it",
                             name);
    }
    return 0;
}

static int read_root(struct checkpoint_index *index, struct json_value root, struct error *err)
{
    char format[32] = "";
    int64_t version = 0, arrays = 0;

    if (read_text(root, "format", format, sizeof(format)) < 0 || strcmp(format, FORMAT) != 0)
        return error_set(err, "the file is not the index of a checkpoint");
    if (read_number(root, "version", INT32_MAX, &version) < 0 || version != VERSION)
        return error_set(err,
                         "it has format version %" PRId64
                         ", but this program reads only version %d; use the version of megatron "
                         "that saved it",
                         version, VERSION);
    if (read_number(root, "arrays", 3, &arrays) < 0 || (arrays != 1 && arrays != 3))
        return error_set(err, "\"arrays\" must be 1 or 3");
    index->arrays = (int)arrays;
    if (read_fields(root, "progress", progress_fields, &index->progress, err) < 0 ||
        read_fields(root, "state", state_fields, &index->state, err) < 0 ||
        read_fields(root, "schedule", index_rule_fields, &index->rules, err) < 0 ||
        read_network(&index->model.network, root, err) < 0 ||
        read_fields(root, "layout", layout_fields, &index->layout, err) < 0)
        return -1;
    if (index->progress.iteration < 0 || index->progress.consumed < 0 ||
        index->progress.consumed_valid < 0)
        return error_set(err, "a number of \"progress\" is negative");
    index->model.masked_max = index->model.network.masked;
    if (index_check_sizes(&index->model.network, err) < 0 ||
        network_check(&index->model.network, err) < 0 || read_scales(&index->scales, root, err) < 0)
        return -1;
    return read_lists(index, root, err);
}

/* The text ends with its own checksum, in a fixed-length form. */
static int check_sum(const char *text, size_t size, struct error *err)
{
    static const size_t tail = sizeof("\"checksum\": \"0123456789abcdef\"}\n") - 1;
    char expected[48];

    if (size > tail)
        snprintf(expected, sizeof(expected), "\"checksum\": \"%016" PRIx64 "\"}\n",
                 checksum_of(text, size - tail));
    if (size <= tail || memcmp(text + size - tail, expected, tail) != 0)
        return error_set(err, "wrong checksum: the file is damaged or truncated");
    return 0;
}

int index_read(struct checkpoint_index *index, const char *text, size_t size, const char *name,
               struct error *err)
{
    struct json *json = NULL;
    int rc;

    memset(index, 0, sizeof(*index));
    rc = check_sum(text, size, err);
    if (rc == 0) {
        json = json_read(text, size, err);
        rc = json ? read_root(index, json_root(json), err) : -1;
    }
    json_destroy(json);
    if (rc < 0) {
        error_prefix(err, "%s", name);
        error_advise(err, CHECKPOINT_REMEDY);
    }
    return rc;
}

int index_damaged(struct error *err)
{
    size_t length = err ? strlen(err->text) : 0;

    if (err) {
        /* Not what errno suggests, such as to check the path. */
        if (err->advice > 0 && (size_t)err->advice <= length)
            err->text[length - (size_t)err->advice] = '\0';
        err->advice = 0;
        err->code = ERROR_DAMAGED;
    }
    error_advise(err, CHECKPOINT_REMEDY);
    return CHECKPOINT_DAMAGED;
}

int index_fault(int number, struct error *err)
{
    /* Missing files, files that are not ours, and errors that a file system reports about its own
     * data. */
    static const int lost[] = {ENOENT, EISDIR, EFBIG, ENODATA, EBADMSG, EUCLEAN};

    for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++)
        if (number == lost[i])
            return index_damaged(err);
    return number == EIO ? CHECKPOINT_UNREADABLE : -1;
}

int index_load(struct checkpoint_index *index, const char *directory, struct error *err)
{
    struct file_bytes bytes;
    char path[PATH_MAX];
    int rc;

    memset(index, 0, sizeof(*index));
    if (directory_path(path, err, "%s/" INDEX_NAME, directory) < 0)
        return -1;
    if (file_read(path, INDEX_LIMIT, &bytes, err) < 0)
        return index_fault(errno, err);
    rc = index_read(index, bytes.data, bytes.length, path, err);
    file_bytes_clear(&bytes);
    return rc < 0 ? index_damaged(err) : 0;
}
