#include "hf.h"
#include "hf_private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct hf_name gpt2_names[] = {
    {"embedding.word.weight", "wte.weight", 0, 0, 0},
    {"embedding.position.weight", "wpe.weight", 0, 0, 0},
    {"layers.%d.norm1.weight", "h.%d.ln_1.weight", 0, 0, 0},
    {"layers.%d.norm1.bias", "h.%d.ln_1.bias", 0, 0, 0},
    {"layers.%d.attention.query.weight", "h.%d.attn.c_attn.weight", 1, 0, 3},
    {"layers.%d.attention.key.weight", "h.%d.attn.c_attn.weight", 1, 1, 3},
    {"layers.%d.attention.value.weight", "h.%d.attn.c_attn.weight", 1, 2, 3},
    {"layers.%d.attention.query.bias", "h.%d.attn.c_attn.bias", 0, 0, 3},
    {"layers.%d.attention.key.bias", "h.%d.attn.c_attn.bias", 0, 1, 3},
    {"layers.%d.attention.value.bias", "h.%d.attn.c_attn.bias", 0, 2, 3},
    {"layers.%d.attention.projection.weight", "h.%d.attn.c_proj.weight", 1, 0, 0},
    {"layers.%d.attention.projection.bias", "h.%d.attn.c_proj.bias", 0, 0, 0},
    {"layers.%d.norm2.weight", "h.%d.ln_2.weight", 0, 0, 0},
    {"layers.%d.norm2.bias", "h.%d.ln_2.bias", 0, 0, 0},
    {"layers.%d.mlp.up.weight", "h.%d.mlp.c_fc.weight", 1, 0, 0},
    {"layers.%d.mlp.up.bias", "h.%d.mlp.c_fc.bias", 0, 0, 0},
    {"layers.%d.mlp.down.weight", "h.%d.mlp.c_proj.weight", 1, 0, 0},
    {"layers.%d.mlp.down.bias", "h.%d.mlp.c_proj.bias", 0, 0, 0},
    {"final_norm.weight", "ln_f.weight", 0, 0, 0},
    {"final_norm.bias", "ln_f.bias", 0, 0, 0},
    {0, 0, 0, 0, 0},
};

static const struct hf_name llama_names[] = {
    {"embedding.word.weight", "model.embed_tokens.weight", 0, 0, 0},
    {"layers.%d.norm1.weight", "model.layers.%d.input_layernorm.weight", 0, 0, 0},
    {"layers.%d.attention.query.weight", "model.layers.%d.self_attn.q_proj.weight", 0, 0, 0},
    {"layers.%d.attention.key.weight", "model.layers.%d.self_attn.k_proj.weight", 0, 0, 0},
    {"layers.%d.attention.value.weight", "model.layers.%d.self_attn.v_proj.weight", 0, 0, 0},
    {"layers.%d.attention.projection.weight", "model.layers.%d.self_attn.o_proj.weight", 0, 0, 0},
    {"layers.%d.norm2.weight", "model.layers.%d.post_attention_layernorm.weight", 0, 0, 0},
    {"layers.%d.mlp.gate.weight", "model.layers.%d.mlp.gate_proj.weight", 0, 0, 0},
    {"layers.%d.mlp.up.weight", "model.layers.%d.mlp.up_proj.weight", 0, 0, 0},
    {"layers.%d.mlp.down.weight", "model.layers.%d.mlp.down_proj.weight", 0, 0, 0},
    {"final_norm.weight", "model.norm.weight", 0, 0, 0},
    {"head.weight", "lm_head.weight", 0, 0, 0},
    {0, 0, 0, 0, 0},
};

/* Their family for this network, or NULL where they have none. */
const struct hf_name *hf_names_of(const struct model_config *c, struct error *err)
{
    int gpt2 = c->position == POSITION_LEARNED && c->norm == NORM_LAYER && !c->swiglu &&
               c->linear_bias && c->tied && c->shape.heads == c->shape.query_groups;
    int llama = c->position == POSITION_ROPE && c->norm == NORM_RMS && c->swiglu &&
                !c->linear_bias && !c->qkv_bias && c->rotary_percent == 1;

    if (!gpt2 && !llama)
        error_set(err, "Hugging Face has no such network: GPT-2 (learned positions, LayerNorm, "
                       "GELU, biases, tied head) and Llama (rope, RMSNorm, SwiGLU, no biases) can "
                       "be exchanged");
    return gpt2 ? gpt2_names : llama ? llama_names : NULL;
}

/* The row of the table for our tensor, and their name for it. */
static const struct hf_name *find_name(const struct hf_name *table, const char *ours, char *theirs,
                                       size_t size)
{
    char text[128];
    int layer = -1;

    sscanf(ours, "layers.%d.", &layer);
    for (const struct hf_name *row = table; row->ours; row++) {
        if (strchr(row->ours, '%') ? layer < 0 : layer >= 0)
            continue;
        snprintf(text, sizeof(text), row->ours, layer);
        if (strcmp(text, ours) != 0)
            continue;
        snprintf(theirs, size, row->theirs, layer);
        return row;
    }
    return NULL;
}

/* Shape of their tensor, given ours. */
static void their_shape(const struct hf_name *row, const struct parameter *p, int64_t *rows,
                        int64_t *cols)
{
    int64_t all_rows = p->true_rows < p->all_rows ? p->true_rows : p->all_rows;
    int64_t parts = row->size ? row->size : 1;

    if (all_rows == 1) {
        *rows = 1;
        *cols = p->all_cols * parts;
    } else if (row->transposed) {
        *rows = p->all_cols;
        *cols = all_rows * parts;
    } else {
        *rows = all_rows * parts;
        *cols = p->all_cols;
    }
}

/* Element (row, col) of our whole tensor in theirs. */
static int64_t their_index(const struct hf_name *row, const struct parameter *p, int64_t r,
                           int64_t c)
{
    int64_t rows, cols;

    their_shape(row, p, &rows, &cols);
    if (rows == 1)
        return row->part * p->all_cols + c;
    if (row->transposed)
        return c * cols + row->part * p->all_rows + r;
    return (row->part * p->all_rows + r) * cols + c;
}

/* Rows of a parameter that are not padding. */
static int64_t true_rows(const struct parameter *p)
{
    int64_t rows = p->true_rows - p->first_row;

    return rows < 0 ? 0 : rows < p->rows ? rows : p->rows;
}

int hf_load_one(const struct hf_name *table, const struct safetensors *tensors,
                const struct parameter *p, float *out, struct error *err)
{
    char theirs[112], prefixed[128];
    const struct hf_name *row = find_name(table, p->name, theirs, sizeof(theirs));
    const struct safetensor *tensor;
    int64_t rows, cols;

    if (!row)
        return error_set(err, "Hugging Face has no tensor for %s", p->name);
    tensor = safetensors_find(tensors, theirs);
    snprintf(prefixed, sizeof(prefixed), "transformer.%s", theirs);
    if (!tensor)
        tensor = safetensors_find(tensors, prefixed);
    if (!tensor)
        return error_set(err, "tensor %s is missing", theirs);
    their_shape(row, p, &rows, &cols);
    if (tensor->rows != rows || tensor->cols != cols)
        return error_set(err, "tensor %s is %lld x %lld, and this model's is %lld x %lld", theirs,
                         (long long)tensor->rows, (long long)tensor->cols, (long long)rows,
                         (long long)cols);
    for (int64_t r = 0; r < true_rows(p); r++)
        for (int64_t c = 0; c < p->cols; c++)
            out[r * p->cols + c] =
                safetensor_value(tensor, their_index(row, p, p->first_row + r, p->first_col + c));
    return 0;
}

int hf_load(const char *path, const struct model_config *config, struct model *model,
            struct device *device, struct error *err)
{
    const struct parameters *p = model_parameters_of(model);
    const struct hf_name *table = hf_names_of(config, err);
    struct safetensors *tensors;
    size_t bytes = (size_t)p->elements * sizeof(float);
    float *host;
    int rc = 0;

    if (!table)
        return -1;
    tensors = safetensors_open(path, err);
    if (!tensors)
        return -1;
    host = device_host_allocate(device, bytes, err);
    if (!host) {
        safetensors_destroy(tensors);
        return -1;
    }
    memset(host, 0, bytes);
    for (int i = 0; i < p->count && rc == 0; i++)
        rc = hf_load_one(table, tensors, &p->list[i], host + p->list[i].offset, err);
    if (rc == 0) {
        device_copy(model_stream(model), model_gradients(model), host, bytes, COPY_TO_DEVICE);
        rc = device_stream_wait(model_stream(model), 600, err);
    } else {
        error_prefix(err, "%s", path);
    }
    device_host_release(device, host);
    safetensors_destroy(tensors);
    return rc;
}

/* --- Saving ---------------------------------------------------------------------------------- */

/* All tensors of the whole model, in an order that every rank finds by itself. */
int hf_make_layout(const struct model_config *c, const struct hf_name *table,
                   struct safetensors_layout *layout, struct error *err)
{
    struct layout one = {1, 1, 1, 1};
    struct layout_position at = {0, 0, 0, 0};
    struct model_config whole = *c;
    struct parameters p;
    int rc;

    whole.chunks = 1;
    rc = parameters_create(&p, &whole, &one, &at, 1, err);
    for (int i = 0; i < p.count && rc == 0; i++) {
        char theirs[128];
        const struct hf_name *row = find_name(table, p.list[i].name, theirs, sizeof(theirs));
        int64_t rows, cols;

        if (!row) {
            rc = error_set(err, "Hugging Face has no tensor for %s", p.list[i].name);
            break;
        }
        their_shape(row, &p.list[i], &rows, &cols);
        if (!safetensors_layout_find(layout, theirs))
            rc = safetensors_layout_add(layout, theirs, rows == 1 ? 0 : rows, cols, err);
    }
    parameters_destroy(&p);
    return rc < 0 ? -1 : safetensors_layout_finish(layout, err);
}

static int write_all(int fd, const void *data, size_t bytes, size_t at, struct error *err)
{
    while (bytes > 0) {
        ssize_t wrote = pwrite(fd, data, bytes, (off_t)at);

        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return error_set_errno(err, errno, "cannot write");
        data = (const char *)data + wrote;
        bytes -= (size_t)wrote;
        at += (size_t)wrote;
    }
    return 0;
}

/* This rank's part of one parameter; runs that are consecutive in the file are written at once. */
int hf_save_one(int fd, const struct hf_name *table, const struct safetensors_layout *layout,
                const struct parameter *p, const char *weights, struct error *err)
{
    char theirs[128];
    const struct hf_name *row = find_name(table, p->name, theirs, sizeof(theirs));
    const struct safetensors_entry *entry = safetensors_layout_find(layout, theirs);
    size_t size = type_size(layout->type);
    int64_t rows = true_rows(p);
    char *column;
    int rc = 0;

    if (!row->transposed || p->all_rows == 1) {
        for (int64_t r = 0; r < rows && rc == 0; r++)
            rc = write_all(fd, weights + (size_t)(r * p->cols) * size, (size_t)p->cols * size,
                           entry->offset +
                               (size_t)their_index(row, p, p->first_row + r, p->first_col) * size,
                           err);
        return rc;
    }
    column = malloc((size_t)rows * size);
    if (!column)
        return error_set(err, "out of memory");
    for (int64_t c = 0; c < p->cols && rc == 0; c++) {
        for (int64_t r = 0; r < rows; r++)
            memcpy(column + (size_t)r * size, weights + (size_t)(r * p->cols + c) * size, size);
        rc = write_all(fd, column, (size_t)rows * size,
                       entry->offset +
                           (size_t)their_index(row, p, p->first_row, p->first_col + c) * size,
                       err);
    }
    free(column);
    return rc;
}

/* Is the parameter this rank's to write? Each must be written once. */
static int is_mine(const struct parallel *parallel, const struct parameter *p)
{
    if (parallel->at.dp != 0 || parallel->at.cp != 0 || p->class == CLASS_TIED)
        return 0;
    return parallel->at.tp == 0 || (p->class != CLASS_SHARED && p->class != CLASS_SHARED_RAW);
}

static int save_parts(int fd, const struct hf_name *table, const struct safetensors_layout *layout,
                      const struct model_config *config, struct model *model,
                      const struct parallel *parallel, struct device *device, struct error *err)
{
    const struct parameters *p = model_parameters_of(model);
    size_t size = type_size(config->type), bytes = (size_t)p->elements * size;
    char *host = device_host_allocate(device, bytes, err);
    int rc;

    if (!host)
        return -1;
    device_copy(model_stream(model), host, model_weights(model), bytes, COPY_TO_HOST);
    rc = device_stream_wait(model_stream(model), 600, err);
    for (int i = 0; i < p->count && rc == 0; i++)
        if (is_mine(parallel, &p->list[i]))
            rc = hf_save_one(fd, table, layout, &p->list[i],
                             host + (size_t)p->list[i].offset * size, err);
    device_host_release(device, host);
    return rc;
}

static void print_config(const struct model_config *c, FILE *f)
{
    const struct model_shape *s = &c->shape;
    const char *type = c->type == TYPE_FP32   ? "float32"
                       : c->type == TYPE_BF16 ? "bfloat16"
                                              : "float16";

    if (!c->swiglu) {
        fprintf(f,
                "{\n  \"architectures\": [\"GPT2LMHeadModel\"],\n  \"model_type\": \"gpt2\",\n"
                "  \"activation_function\": \"gelu_new\",\n  \"vocab_size\": %lld,\n"
                "  \"n_positions\": %lld,\n  \"n_ctx\": %lld,\n  \"n_embd\": %lld,\n"
                "  \"n_layer\": %lld,\n  \"n_head\": %lld,\n  \"n_inner\": %lld,\n"
                "  \"layer_norm_epsilon\": %.9g,\n  \"embd_pdrop\": %g,\n  \"resid_pdrop\": %g,\n"
                "  \"attn_pdrop\": %g,\n  \"initializer_range\": %g,\n"
                "  \"tie_word_embeddings\": true,\n  \"torch_dtype\": \"%s\"\n}\n",
                (long long)s->vocabulary, (long long)c->positions, (long long)c->positions,
                (long long)s->hidden, (long long)s->layers, (long long)s->heads,
                (long long)s->ffn_hidden, c->epsilon, c->hidden_dropout, c->hidden_dropout,
                c->attention_dropout, c->init_std, type);
        return;
    }
    fprintf(f,
            "{\n  \"architectures\": [\"LlamaForCausalLM\"],\n  \"model_type\": \"llama\",\n"
            "  \"hidden_act\": \"silu\",\n  \"vocab_size\": %lld,\n"
            "  \"max_position_embeddings\": %lld,\n  \"hidden_size\": %lld,\n"
            "  \"intermediate_size\": %lld,\n  \"num_hidden_layers\": %lld,\n"
            "  \"num_attention_heads\": %lld,\n  \"num_key_value_heads\": %lld,\n"
            "  \"head_dim\": %lld,\n  \"rms_norm_eps\": %.9g,\n  \"rope_theta\": %.9g,\n"
            "  \"attention_bias\": false,\n  \"mlp_bias\": false,\n  \"initializer_range\": %g,\n"
            "  \"tie_word_embeddings\": %s,\n",
            (long long)s->vocabulary, (long long)c->positions, (long long)s->hidden,
            (long long)s->ffn_hidden, (long long)s->layers, (long long)s->heads,
            (long long)s->query_groups, (long long)s->kv_channels, c->epsilon, s->rotary_base,
            c->init_std, c->tied ? "true" : "false");
    if (c->rope_scaling.used)
        fprintf(f,
                "  \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": %g, "
                "\"low_freq_factor\": %g, \"high_freq_factor\": %g, "
                "\"original_max_position_embeddings\": %g},\n",
                c->rope_scaling.factor, c->rope_scaling.low, c->rope_scaling.high,
                c->rope_scaling.original);
    fprintf(f, "  \"torch_dtype\": \"%s\"\n}\n", type);
}

int hf_write_config(const char *directory, const struct model_config *config, struct error *err)
{
    char path[PATH_MAX], temporary[PATH_MAX];
    FILE *file;
    int failed;

    if (snprintf(path, sizeof(path), "%s/config.json", directory) >= (int)sizeof(path) ||
        snprintf(temporary, sizeof(temporary), "%s/config.json.new", directory) >=
            (int)sizeof(temporary))
        return error_set(err, "%s: too long a path", directory);
    file = fopen(temporary, "w");
    if (!file)
        return error_set_errno(err, errno, "cannot write %s", temporary);
    print_config(config, file);
    failed = fflush(file) != 0 || fsync(fileno(file)) != 0;
    failed |= fclose(file) != 0;
    if (failed || rename(temporary, path) < 0)
        return error_set_errno(err, errno, "cannot write %s", path);
    return 0;
}

/* The file with its header, under a name that says it is not whole. */
int hf_open_file(const char *path, const struct safetensors_layout *layout, int create,
                 struct error *err)
{
    int fd = open(path, create ? O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC : O_RDWR | O_CLOEXEC, 0666);

    if (fd < 0) {
        error_set_errno(err, errno, "cannot write %s", path);
        return -1;
    }
    if (create && (ftruncate(fd, (off_t)(layout->header_bytes + layout->data_bytes)) < 0 ||
                   write_all(fd, layout->header, layout->header_bytes, 0, err) < 0)) {
        error_set_errno(err, errno, "cannot write %s", path);
        close(fd);
        return -1;
    }
    return fd;
}

/* Every rank comes here, whatever it met: -1 on all if one failed. */
static int agree(const struct parallel *parallel, int rc, struct error *err)
{
    unsigned char mine = rc < 0, *all = calloc((size_t)parallel->comm->size, 1);
    int bad = -1;

    if (!all)
        return error_set(err, "out of memory");
    if (comm_host_gather(parallel->comm, &mine, all, 1, err) < 0)
        rc = -1;
    for (int i = 0; i < parallel->comm->size; i++)
        if (all[i])
            bad = i;
    free(all);
    if (rc == 0 && bad >= 0)
        return error_set(err, "rank %d could not write its part of the weights", bad);
    return rc;
}

static int save_file(const char *directory, const struct hf_name *table,
                     const struct safetensors_layout *layout, const struct model_config *config,
                     struct model *model, const struct parallel *parallel, struct device *device,
                     struct error *err)
{
    char path[PATH_MAX], temporary[PATH_MAX];
    int first = parallel->comm->rank == 0, fd = -1, rc;

    if (snprintf(path, sizeof(path), "%s/model.safetensors", directory) >= (int)sizeof(path) ||
        snprintf(temporary, sizeof(temporary), "%s/model.safetensors.new", directory) >=
            (int)sizeof(temporary))
        return error_set(err, "%s: too long a path", directory);
    if (first) {
        if (mkdir(directory, 0777) < 0 && errno != EEXIST)
            rc = error_set_errno(err, errno, "cannot make %s", directory);
        else
            rc = fd = hf_open_file(temporary, layout, 1, err);
    } else {
        rc = 0;
    }
    rc = agree(parallel, rc < 0 ? -1 : 0, err);
    if (rc == 0 && !first)
        rc = fd = hf_open_file(temporary, layout, 0, err);
    if (rc >= 0)
        rc = save_parts(fd, table, layout, config, model, parallel, device, err);
    if (rc == 0 && fsync(fd) < 0)
        rc = error_set_errno(err, errno, "cannot write %s", temporary);
    if (fd >= 0)
        close(fd);
    rc = agree(parallel, rc, err);
    if (rc == 0 && first) {
        rc = hf_write_config(directory, config, err);
        if (rc == 0 && rename(temporary, path) < 0)
            rc = error_set_errno(err, errno, "cannot rename %s", temporary);
    }
    return agree(parallel, rc, err);
}

int hf_save(const char *directory, const struct model_config *config, struct model *model,
            const struct parallel *parallel, struct device *device, struct error *err)
{
    const struct hf_name *table = hf_names_of(config, err);
    struct safetensors_layout layout = {.type = config->type};
    int rc;

    if (!table)
        return -1;
    rc = hf_make_layout(config, table, &layout, err);
    if (rc == 0)
        rc = save_file(directory, table, &layout, config, model, parallel, device, err);
    safetensors_layout_clear(&layout);
    return rc;
}
