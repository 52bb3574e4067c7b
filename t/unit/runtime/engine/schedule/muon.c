/* SPDX-License-Identifier: Apache-2.0 */
/* Which tensors of a masked language model Muon updates: the matrices of layers, head and pooler,
 * but no table, norm or bias; the bias of the vocabulary has many rows, but is no matrix. */
#include "tap.h"
#include "engine/schedule/muon.h"

static const struct model_config config = {
    .network.shape = {.layers = 1,
                      .hidden = 8,
                      .ffn_hidden = 16,
                      .heads = 2,
                      .query_groups = 2,
                      .kv_channels = 4,
                      .vocabulary = 32,
                      .sequence = 8},
    .padded_vocabulary = 32,
    .network.positions = 10,
    .network.position = POSITION_LEARNED,
    .network.position_offset = 2,
    .network.norm = NORM_LAYER,
    .network.epsilon = 1e-5,
    .network.linear_bias = 1,
    .network.qkv_bias = 1,
    .network.tied = 1,
    .network.masked = 1,
    .masked_max = 3,
    .network.post_norm = 1,
    .network.gelu_erf = 1,
    .network.token_types = 2,
    .network.binary_head = 1,
    .network.init_std = 0.02,
    .micro_batch = 1,
    .split.chunks = 1,
    .bucket_elements = 1,
};

static void list_matrices(const struct layout *layout, const struct layout_position *at, char *text,
                          size_t size)
{
    struct parameters p;
    size_t used = 0;

    text[0] = '\0';
    parameters_create(&p, &config, layout, at);
    for (int i = 0; i < p.tensor_count && used < size; i++)
        if (muon_has(&p, i))
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? " " : "",
                                     p.list[p.tensors[i].first].name);
    parameters_destroy(&p);
}

int main(void)
{
    static const char expected[] =
        "layers.0.attention.query.weight layers.0.attention.projection.weight "
        "layers.0.mlp.up.weight layers.0.mlp.down.weight head.dense.weight head.pooler.weight "
        "head.binary.weight";
    static const struct {
        const char *name;
        struct layout layout;
        struct layout_position at;
    } rows[] = {
        {"one rank", {.tp = 1, .cp = 1, .dp = 1, .pp = 1}, {0}},
        {"two tensor-parallel ranks", {.tp = 2, .cp = 1, .dp = 1, .pp = 1}, {.tp = 1}},
    };
    char text[4096];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        list_matrices(&rows[i].layout, &rows[i].at, text, sizeof(text));
        is(text, expected, rows[i].name);
    }
    return done_testing();
}
