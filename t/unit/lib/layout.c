/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"
#include "lib/layout.h"

static struct error err;
static const struct layout_names layout_names = {"--megatron-tp", "--megatron-pp", "--megatron-cp"};

static void test_parameters(void)
{
    FILE *list = tmpfile();
    char line[256], name[64], said[256];

    preset_print(list);
    rewind(list);
    while (fgets(line, sizeof(line), list)) {
        const struct model_shape *shape;

        line[strcspn(line, "\n")] = '\0';
        if (!strstr(line, " layers, ") || sscanf(line, "%63s", name) != 1)
            continue; /* a heading */
        shape = preset_find("m", name, &err);
        if (!ok(shape != NULL, "%s is found", name))
            continue;
        preset_describe(shape, said, sizeof(said));
        is(said, line, "and described as in the list");
        ok(shape->layers > 0 && shape->ffn_hidden > 0 && shape->vocabulary > 0 &&
               shape->sequence > 0,
           "all its sizes are set");
        ok(shape->heads % shape->query_groups == 0 &&
               (shape->kv_channels == 128 || shape->hidden == shape->heads * shape->kv_channels),
           "and consistent");
    }
    fclose(list);
    is_int(model_parameters(preset_find("m", "gpt2-345m", &err), 1), 354823168,
           "parameters of GPT-2 345M as published");
    is_int(model_parameters(preset_find("m", "llama2-7b", &err), 1), 6738415616, "of Llama 2 7B");
    is_int(model_parameters(preset_find("m", "LLAMA2-70B", &err), 1), 68976648192,
           "of Llama 2 70B");
    is_int(model_parameters(preset_find("m", "llama3-8b", &err), 1), 8030261248, "of Llama 3 8B");
    is_int(model_parameters(preset_find("m", "llama3.2-1b", &err), 1), 1235814400,
           "of Llama 3.2 1B, tied");
    is_int(model_parameters(preset_find("m", "mistral-7b-v0.1", &err), 1), 7241732096,
           "of Mistral 7B");
    is_int(model_parameters(preset_find("m", "mistral-nemo-12b", &err), 1), 12247782400,
           "of Mistral NeMo");
    is_int(model_parameters(preset_find("m", "qwen2.5-0.5b", &err), 1), 494032768,
           "of Qwen 2.5 0.5B");
    is_int(model_parameters(preset_find("m", "qwen2.5-72b", &err), 1), 72706203648,
           "of Qwen 2.5 72B");
    is_int(model_parameters(preset_find("m", "qwen3-0.6b", &err), 1), 596049920, "of Qwen 3 0.6B");
    is_int(model_parameters(preset_find("m", "qwen3-8b", &err), 1), 8190735360, "of Qwen 3 8B");
    is_int(vocabulary_padded(50257, 128, 8), 51200, "vocabulary padded for 8 ranks");
    is_int(vocabulary_padded(32000, 128, 1), 32000, "vocabulary that needs no padding");
    ok(!preset_find("--megatron-model", "lama2-7b", &err), "unknown model");
    is(err.text,
       "--megatron-model=lama2-7b is an unknown model; did you mean llama2-7b, llama2-70b or "
       "llama2-13b? --megatron-model=list shows all",
       "nearest names");
    ok(!preset_find("plugstack.conf: model", "lama2-7b", &err), "in plugstack.conf");
    ok(strstr(err.text, "llama2-13b? `srun --megatron-model=list` shows all") != NULL,
       "srun lists the models");
    ok(!preset_find("plugstack.conf: model", "?", &err), "nothing near in plugstack.conf");
    is(err.text,
       "plugstack.conf: model=? is an unknown model; `srun --megatron-model=list` shows all",
       "srun lists the models");
    ok(!preset_find("-m", "20B", &err), "a size of another family");
    is(err.text, "-m=20B is an unknown model; did you mean nemo-20b? -m=list shows all",
       "is named");
    ok(!preset_find("-m", "8B", &err), "a size of several families");
    ok(strstr(err.text, "did you mean gpt2-8b or nemo-8b or llama3-8b or qwen3-8b?") != NULL,
       "all are named");
}

static void test_divide(void)
{
    static const struct {
        struct layout layout;
        int64_t world, dp;
        const char *text;
    } rows[] = {
        {{8, 1, 0, 1}, 16, 2, ""},
        {{2, 2, 0, 2}, 8, 1, ""},
        {{3, 1, 0, 1},
         8,
         0,
         "--megatron-tp=3 does not divide 8 tasks; use 6 or 9 tasks, or another layout"},
        {{2, 1, 0, 1},
         1,
         0,
         "--megatron-tp=2 does not divide 1 task; use 2 tasks, or another layout"},
        {{4, 1, 0, 4},
         8,
         0,
         "--megatron-tp=4 x --megatron-pp=4 x --megatron-cp=1 = 16 does not divide 8 tasks; use 16 "
         "tasks, or another layout"},
        {{INT64_MAX, 1, 0, 2},
         8,
         0,
         "--megatron-tp=9223372036854775807 times --megatron-pp=2 times --megatron-cp=1 is too "
         "large; use smaller sizes"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct layout layout = rows[i].layout;

        err.text[0] = '\0';
        is_int(layout_divide(&layout, rows[i].world, &layout_names, &err), rows[i].text[0] ? -1 : 0,
               "divide");
        is(err.text, rows[i].text, "sentence");
        if (!rows[i].text[0])
            is_int(layout.dp, rows[i].dp, "data-parallel size");
    }
}

static void test_model(void)
{
    static const struct {
        const char *model;
        struct layout layout;
        int64_t chunks;
        const char *text;
    } rows[] = {
        {"llama2-70b", {8, 1, 1, 4}, 1, ""},
        {"llama2-70b", {8, 2, 1, 4}, 5, ""},
        {"llama2-70b",
         {16, 1, 1, 1},
         1,
         "--megatron-tp=16 does not divide the 8 query groups of llama2-70b; use 1, 2, 4 or 8"},
        {"1.7B",
         {16, 1, 1, 1},
         1,
         "--megatron-tp=16 does not divide the 24 attention heads of 1.7B; use 1, 2, 3, 4, 6, 8, "
         "12 "
         "or 24"},
        {"llama2-7b",
         {1, 1, 1, 5},
         1,
         "--megatron-pp=5 does not divide the 32 layers of llama2-7b; use 1, 2, 4, 8, 16 or 32"},
        {"llama2-7b",
         {1, 1, 1, 4},
         3,
         "--megatron-pp=4 with 3 virtual stages does not divide the 32 layers of llama2-7b; use 1 "
         "or 2 virtual stages"},
        {"llama2-7b",
         {1, 3, 1, 1},
         1,
         "--megatron-cp=3 needs a sequence length that is a multiple of 6; that of llama2-7b is "
         "4096; use 1 or 2"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct model_shape *shape = preset_find("m", rows[i].model, &err);

        err.text[0] = '\0';
        is_int(layout_check_model(&rows[i].layout, shape, rows[i].chunks, &layout_names, &err),
               rows[i].text[0] ? -1 : 0, rows[i].model);
        is(err.text, rows[i].text, "sentence");
    }
}

static void test_node(void)
{
    struct layout layout = {8, 1, 1, 1};

    ok(layout_check_node(&layout, 8, 8, &layout_names, &err) == 0, "8 on 8");
    ok(layout_check_node(&layout, 4, 0, &layout_names, &err) == 0, "8 over two nodes of 4");
    ok(layout_check_node(&layout, 4, 4, &layout_names, &err) < 0, "8 on 4 GPUs");
    is(err.text,
       "--megatron-tp=8 is more than the 4 GPUs of a node; use 1, 2 or 4, and more pipeline stages "
       "(--megatron-pp) for larger models",
       "sentence");
    ok(layout_check_node(&layout, 4, 8, &layout_names, &err) < 0, "8 on 4 tasks with GPUs");
    is(err.text,
       "--megatron-tp=8 is more than the 4 tasks per node; use 1, 2 or 4, or 8 tasks per node",
       "sentence");
    ok(layout_check_node(&layout, 1, 8, &layout_names, &err) == 0,
       "8 on one task that has all GPUs");
    layout.tp = 3;
    ok(layout_check_node(&layout, 8, 8, &layout_names, &err) < 0, "3 on 8 tasks");
    is(err.text,
       "--megatron-tp=3 does not divide 8 tasks per node; use 1, 2, 4 or 8, or sbatch "
       "--ntasks-per-node "
       "with a multiple of 3",
       "sentence");
}

static void test_positions(void)
{
    struct layout layout = {2, 2, 3, 4};
    int good = 1;

    for (int64_t rank = 0; rank < 48; rank++)
        good = good && layout_rank(&layout, layout_position(&layout, rank)) == rank;
    ok(good, "positions and back");
    is_int(layout_position(&layout, 1).tp, 1, "tensor-parallel neighbors are next to each other");
    is_int(layout_position(&layout, 12).pp, 1, "pipeline stages are farthest apart");
}

int main(void)
{
    test_parameters();
    test_divide();
    test_model();
    test_node();
    test_positions();
    return done_testing();
}
