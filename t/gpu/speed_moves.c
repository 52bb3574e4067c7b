/* SPDX-License-Identifier: Apache-2.0 */
/* The bandwidth-bound operations: norms, rotations, embeddings, losses, the optimizer. */
#include "speed.h"
#include "base/core/rng.h"

#include <math.h>
#include <stdlib.h>

/* The inputs of dropout's random numbers for 'rows' rows: row numbers and the state of the step; -1
 * without dropout. */
struct key {
    int rows, state;
};

static struct key key_of(int64_t rows, double dropout)
{
    struct step_state state = {.seed = 1234};
    int64_t *numbers;
    struct key key = {-1, -1};

    if (dropout == 0)
        return key;
    numbers = malloc((size_t)rows * sizeof(*numbers));
    if (!numbers)
        abort();
    for (int64_t i = 0; i < rows; i++)
        numbers[i] = i;
    key.rows = constant(numbers, (size_t)rows * sizeof(*numbers));
    key.state = constant(&state, sizeof(state));
    free(numbers);
    return key;
}

static void measure_norm(const struct model *m, int64_t rows, double dropout, int check)
{
    int64_t cols = m->hidden;
    enum norm norm = m->llama ? NORM_RMS : NORM_LAYER;
    struct residual_norm_shape shape = {rows, cols,      TYPE_BF16, TYPE_BF16, norm, 1e-5,
                                        1,    !m->llama, 1,         dropout,   0};
    double bytes = (double)(rows * cols) * 2, times = dropout > 0 ? 0 : 2.0 * (double)m->layers;
    struct key key;

    begin();
    now = (struct operation){.kind = OPERATION_RESIDUAL_NORM, .residual_norm = shape};
    key = key_of(rows, dropout);
    s[0] = input(rows * cols, 1, 0);
    s[1] = m->llama ? -1 : input(cols, 0.1, 0);
    s[2] = input(rows * cols, 1, 0);
    s[3] = output(rows * cols, 0);
    s[4] = input(cols, 1, 0);
    s[5] = m->llama ? -1 : input(cols, 1, 0);
    s[6] = output(rows * cols, 0);
    s[7] = m->llama ? -1 : output(rows, 1);
    s[8] = output(rows, 1);
    s[9] = key.rows;
    s[10] = key.state;
    measure(dropout > 0 ? "norm with dropout" : "residual+norm", run_now, make_now, 4 * bytes, 0,
            times, 5e-3, check);

    begin();
    now = (struct operation){.kind = OPERATION_RESIDUAL_NORM_BACKWARD, .residual_norm = shape};
    key = key_of(rows, dropout);
    s[0] = input(rows * cols, 1, 0);
    s[1] = input(rows * cols, 1, 0);
    s[2] = input(rows * cols, 1, 0);
    s[3] = input(cols, 1, 0);
    s[4] = m->llama ? -1 : input(rows, 0.01, 1);
    s[5] = input(rows, 1, 1);
    s[6] = output(rows * cols, 0);
    s[7] = output(cols, 1);
    s[8] = m->llama ? -1 : output(cols, 1);
    s[9] = m->llama ? -1 : output(cols, 1);
    s[10] = dropout > 0 ? output(rows * cols, 0) : -1;
    s[11] = key.rows;
    s[12] = key.state;
    measure(dropout > 0 ? "norm with dropout backward" : "residual+norm backward", run_now,
            make_now, (dropout > 0 ? 5 : 4) * bytes, 0, times, 5e-3, check);
}

void measure_norms(const struct model *m, int64_t rows, int check)
{
    measure_norm(m, rows, 0, check);
    measure_norm(m, rows, 0.1, check);
}

void measure_llama_parts(const struct model *m, int64_t rows, int check)
{
    int64_t head = m->hidden / m->heads, width = (m->heads + 2 * m->kv_heads) * head;
    double turned = (double)(rows * (m->heads + m->kv_heads) * head) * 2;
    double bytes = (double)(rows * m->ffn) * 2;

    begin();
    now =
        (struct operation){.kind = OPERATION_ROPE,
                           .rope = {rows, m->heads + m->kv_heads, head, head, width, TYPE_BF16, 0}};
    s[0] = input(rows * width, 1, 0);
    s[1] = integers(rows, m->sequence, 1);
    s[2] = input(m->sequence * head / 2, 0.7, 1);
    s[3] = input(m->sequence * head / 2, 0.7, 1);
    slots[s[0]].output = 1;
    measure("rope", run_now, make_now, 2 * turned, 0, 2.0 * (double)m->layers, 5e-3, check);

    begin();
    now = (struct operation){.kind = OPERATION_SWIGLU,
                             .swiglu = {rows, m->ffn, TYPE_BF16, TYPE_BF16, GATE_SILU}};
    s[0] = input(rows * 2 * m->ffn, 1, 0);
    s[1] = output(rows * m->ffn, 0);
    measure("swiglu", run_now, make_now, 3 * bytes, 0, 0, 5e-3, check); /* fc1 has it */
    begin();
    now.kind = OPERATION_SWIGLU_BACKWARD;
    s[0] = input(rows * m->ffn, 1, 0);
    s[1] = input(rows * 2 * m->ffn, 1, 0);
    s[2] = output(rows * 2 * m->ffn, 0);
    measure("swiglu backward", run_now, make_now, 5 * bytes, 0, 0, 5e-3, check);
}

/* The expected number of 'all' that 'draws' random draws hit at least once. */
static double distinct(double draws, double all)
{
    return -all * expm1(-draws / all);
}

/* Bytes: the minimum that must move. Forward, that is each table row that occurs, once, the
 * positions once, and the output; the gradient reads its input and writes every table row in fp32.
 * 'large': a table with one row per token, each used once, so that no cache helps. */
void measure_embeddings(const struct model *m, int64_t rows, int large, int check)
{
    double row = (double)m->hidden * 2, all = (double)rows * row;
    int64_t table = large && rows > m->vocabulary ? rows : m->vocabulary;
    double read = large ? (double)rows : distinct((double)rows, (double)table);
    int second = !m->llama;

    begin();
    now = (struct operation){.kind = OPERATION_EMBEDDING,
                             .embedding = {.rows = rows,
                                           .cols = m->hidden,
                                           .table_rows = table,
                                           .type = TYPE_BF16,
                                           .second = second}};
    s[0] = integers(rows, table, large ? SCATTERED : 0);
    s[1] = input(table * m->hidden, 1, 0);
    s[2] = second ? integers(rows, m->sequence, 1) : -1;
    s[3] = second ? input(m->sequence * m->hidden, 1, 0) : -1;
    s[4] = output(rows * m->hidden, 0);
    measure("embedding", run_now, make_now,
            all + read * row + (second ? (double)m->sequence * row : 0), 0, 1, 5e-3, check);
    begin();
    now = (struct operation){.kind = OPERATION_EMBEDDING_BACKWARD,
                             .embedding = {.rows = rows,
                                           .cols = m->hidden,
                                           .table_rows = m->vocabulary,
                                           .type = TYPE_BF16,
                                           .second = second}};
    s[0] = integers(rows, m->vocabulary, 0);
    s[1] = input(rows * m->hidden, 1, 0);
    s[2] = output(m->vocabulary * m->hidden, 1);
    measure("embedding backward", run_now, make_now, all + (double)m->vocabulary * row * 2, 0, 1,
            5e-3, check);
    begin();
    now.embedding.table_rows = m->sequence;
    s[0] = integers(rows, m->sequence, 1);
    s[1] = input(rows * m->hidden, 1, 0);
    s[2] = output(m->sequence * m->hidden, 1);
    measure("position backward", run_now, make_now, all + (double)m->sequence * row * 2, 0,
            m->llama ? 0 : 1, 5e-3, check);
}

void measure_losses(const struct model *m, int64_t rows, int check)
{
    double bytes = (double)(rows * m->vocabulary) * 2;
    struct step_state state = {.loss_scale = 1};

    begin();
    now = (struct operation){.kind = OPERATION_CROSS_ENTROPY_PARTIAL,
                             .cross_entropy = {.rows = rows,
                                               .cols = m->vocabulary,
                                               .vocabulary = m->vocabulary - 47,
                                               .type = TYPE_BF16,
                                               .parts = 1,
                                               .backward = 1}};
    s[0] = input(rows * m->vocabulary, 1, 0);
    s[1] = integers(rows, m->vocabulary - 47, 0);
    s[2] = output(rows * 3, 1);
    measure("cross entropy partial", run_now, make_now, bytes, 0, 0, 1e-4, check);
    now.kind = OPERATION_CROSS_ENTROPY_FINISH;
    slots[s[0]].output = 1;
    s[3] = input(rows, 1e-3, 1);
    s[4] = output(rows, 1);
    s[5] = constant(&state, sizeof(state));
    measure("cross entropy finish", run_now, make_now, 2 * bytes, 0, 0, 5e-3, check);
    begin();
    s[0] = input(rows * m->vocabulary, 1, 0);
    slots[s[0]].output = 1;
    s[1] = integers(rows, m->vocabulary - 47, 0);
    s[2] = -1;
    s[3] = input(rows, 1e-3, 1);
    s[4] = output(rows, 1);
    s[5] = constant(&state, sizeof(state));
    measure("cross entropy whole", run_now, make_now, 2 * bytes, 0, 1, 5e-3, check);
}

void measure_optimizer(const struct model *m, int check)
{
    int64_t head = m->hidden / m->heads, width = (m->heads + 2 * m->kv_heads) * head;
    int64_t count = m->layers * m->hidden * (width + m->hidden + (m->llama ? 3 : 2) * m->ffn) +
                    m->vocabulary * m->hidden * (m->llama ? 2 : 1);
    struct step_state state = {
        .lr = 1e-3f, .weight_decay = 0.1f, .grad_factor = 1, .correction1 = 1, .correction2 = 1};

    begin();
    now = (struct operation){.kind = OPERATION_SQUARE_SUM, .square_sum = {.count = count}};
    s[0] = input(count, 1, 1);
    s[1] = input(2, 0, 1);
    measure("square sum", run_now, make_now, (double)count * 4, 0, 1, 1e-6, 0);
    now = (struct operation){.kind = OPERATION_ADAM,
                             .adam = {.count = count,
                                      .decayed = count - 1000,
                                      .beta1 = 0.9,
                                      .beta2 = 0.95,
                                      .epsilon = 1e-8,
                                      .type = TYPE_BF16}};
    s[1] = input(count, 0.02, 1);
    s[2] = input(count, 0, 1);
    s[3] = input(count, 0, 1);
    s[4] = output(count, 0);
    s[5] = constant(&state, sizeof(state));
    slots[s[1]].output = slots[s[2]].output = slots[s[3]].output = 1;
    measure("adam", run_now, make_now, (double)count * 30, 0, 1, 5e-3, check);
}
