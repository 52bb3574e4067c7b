/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of attention and its gradient, thread by thread, on the fake blocks of
 * fake_hopper.h. */
#include "fake_hopper.h"

#include "comparison.h"
#include "engine/device/cuda/hopper_attention_forward.cuh"
#include "engine/device/cuda/hopper_attention_keys.cuh"
#include "engine/device/cuda/hopper_attention_queries.cuh"

static struct attention_arguments arguments;

template <typename WORKER> static void kernel_body(void)
{
    static_assert(sizeof(typename WORKER::shared_memory) <= SHARED_BYTES, "shared memory");
    run_groups<WORKER>(arguments, fake_own().shared);
}

/* (batch, positions, heads, width) with some elements after each sample that nobody may write. */
struct tensor {
    enum { AFTER = 64, UNTOUCHED = 0x4242 };
    int64_t batch, positions, heads, width, pitch;
    std::vector<bf16> e;

    tensor(int64_t b, int64_t p, int64_t h, int64_t w)
        : batch(b), positions(p), heads(h), width(w), pitch(p * h * w + AFTER),
          e((size_t)(b * pitch))
    {
        for (size_t i = 0; i < e.size(); i++)
            if ((int64_t)i % pitch < pitch - AFTER)
                e[i] = to_bf16((float)(fake_random() % 20001) / 10000 - 1);
            else
                e[i].bits = UNTOUCHED;
    }

    double at(int64_t b, int64_t p, int64_t h, int64_t c) const
    {
        return to_float(e[(size_t)(b * pitch + (p * heads + h) * width + c)]);
    }

    bool is_intact(void) const
    {
        for (size_t i = 0; i < e.size(); i++)
            if ((int64_t)i % pitch >= pitch - AFTER && e[i].bits != UNTOUCHED)
                return false;
        return true;
    }

    CUtensorMap map(int columns, int rows)
    {
        return {e.data(),
                4,
                {width, positions, heads, batch},
                {2 * heads * width, 2 * width, 2 * pitch},
                {columns, rows, 1, 1},
                2 * columns};
    }
};

struct problem {
    int batch, queries, keys, heads, groups, causal, documents, ends;
};

/* What the kernels work on, and what they should compute. */
struct data {
    struct problem p;
    tensor q, k, v, o, d_o, dq, dk, dv;
    std::vector<int32_t> start, end;
    std::vector<float> lse;
    std::vector<double> weights, d_scores; /* (batch, heads, queries, keys) */
    std::vector<char> facts;
    int32_t next[2] = {0, 0};
    double scale;

    data(const struct problem &problem, int width)
        : p(problem), q(p.batch, p.queries, p.heads, width), k(p.batch, p.keys, p.groups, width),
          v(k), o(q), d_o(q), dq(q), dk(k), dv(k), start((size_t)(p.batch * p.queries)), end(start),
          lse((size_t)(p.batch * p.heads * p.queries), NAN), scale(2 / sqrt(width))
    {
        v = tensor(p.batch, p.keys, p.groups, width);
        d_o = tensor(p.batch, p.queries, p.heads, width);
        for (int i = 0; i < p.batch * p.queries; i++) {
            const int query = i % p.queries;

            start[(size_t)i] = query < 90 ? 0 : query / 70 * 70;
            end[(size_t)i] = p.keys - (i / p.queries + 1) * 70;
        }
    }

    size_t row(int b, int h, int i) const
    {
        return (size_t)((b * p.heads + h) * p.queries + i);
    }

    /* Probabilities, from a kernel's log-sum-exp if there is one. */
    void expect(void)
    {
        weights.assign((size_t)(p.batch * p.heads * p.queries) * (size_t)p.keys, 0);
        for (int b = 0; b < p.batch; b++)
            for (int h = 0; h < p.heads; h++)
                for (int i = 0; i < p.queries; i++)
                    expect_row(b, h, i);
    }

    int first_key(int b, int i) const
    {
        return p.documents ? start[(size_t)(b * p.queries + i)] : 0;
    }

    int keys_of(int b, int i) const
    {
        const int seen = p.causal ? i + p.keys - p.queries + 1 : p.keys;

        return p.ends ? min(seen, end[(size_t)(b * p.queries + i)]) : seen;
    }

    void expect_row(int b, int h, int i)
    {
        double *w = &weights[row(b, h, i) * (size_t)p.keys], sum = 0;
        const int from = first_key(b, i), to = keys_of(b, i);

        for (int j = from; j < to; j++) {
            double score = 0;

            for (int c = 0; c < q.width; c++)
                score += q.at(b, i, h, c) * k.at(b, j, h / (p.heads / p.groups), c);
            w[j] = exp(scale * score);
            sum += w[j];
        }
        for (int j = from; j < to; j++)
            w[j] /= sum;
        if (isnan(lse[row(b, h, i)]))
            lse[row(b, h, i)] = (float)log(sum);
        else
            lse_error = fmax(lse_error, fabs(lse[row(b, h, i)] - log(sum)));
    }

    double lse_error = 0;
};

/* The tensors of a kernel, which copies them in tiles of so many rows. */
template <int WIDTH> static void describe(struct data *d, int o_rows, int query_rows, int key_rows)
{
    constexpr int COLUMNS = tile_shape<WIDTH, TILE>::COLUMNS;
    const struct problem *p = &d->p;

    arguments = {};
    arguments.q = d->q.map(COLUMNS, query_rows);
    arguments.k = d->k.map(COLUMNS, key_rows);
    arguments.v = d->v.map(COLUMNS, key_rows);
    arguments.o = d->o.map(COLUMNS, o_rows);
    arguments.d_o = d->d_o.map(COLUMNS, query_rows);
    arguments.dq = d->dq.map(COLUMNS, SLICE);
    arguments.dk = d->dk.map(COLUMNS, SLICE);
    arguments.dv = d->dv.map(COLUMNS, SLICE);
    arguments.lse = arguments.lse_out = d->lse.data();
    arguments.start = p->documents ? d->start.data() : NULL;
    arguments.end = p->ends ? d->end.data() : NULL;
    arguments.facts = d->facts.data();
    arguments.next = d->next;
    arguments.scale = (float)d->scale;
    arguments.batch = p->batch;
    arguments.heads = p->heads;
    arguments.groups = p->groups;
    arguments.queries = p->queries;
    arguments.keys = p->keys;
    arguments.query_tiles = (p->queries + TILE - 1) / TILE;
    arguments.key_tiles = (p->keys + TILE - 1) / TILE;
    arguments.ahead = p->causal ? p->keys - p->queries : p->keys;
    arguments.out = {d->o.e.data(), d->o.pitch, d->o.width, d->o.heads * d->o.width};
}

static void run(void (*kernel)(void), const char *name)
{
    const char *error = fake_run(kernel, 1);

    ok(!error, "  %s runs%s%s", name, error ? ": " : "", error ? error : "");
}

template <int WIDTH> static void test_forward(const struct problem *p)
{
    struct data d(*p, WIDTH);
    comparison c;

    describe<WIDTH>(&d, SLICE, TILE, passing_keys(WIDTH));
    run(kernel_body<forward_worker<bf16, WIDTH>>, "forward");
    d.expect();
    for (int b = 0; b < p->batch; b++)
        for (int i = 0; i < p->queries; i++)
            for (int h = 0; h < p->heads; h++)
                for (int column = 0; column < WIDTH; column++) {
                    const double *w = &d.weights[d.row(b, h, i) * (size_t)p->keys];
                    double sum = 0;

                    for (int j = 0; j < p->keys; j++)
                        sum += w[j] * d.v.at(b, j, h / (p->heads / p->groups), column);
                    c.add(d.o.at(b, i, h, column), sum);
                }
    c.report("the output", 0.015);
    ok(d.lse_error < 1e-3, "  its log-sum-exp differs by %.1g", d.lse_error);
    ok(d.o.is_intact(), "  nothing is written after a sample");
}

/* dQ of a row, and its part of dK and dV, which are sums of doubles. */
static void differentiate(const struct data &d, int b, int h, int i, comparison *dq,
                          std::vector<double> *dk, std::vector<double> *dv)
{
    const int64_t width = d.q.width, g = h / (d.p.heads / d.p.groups);
    const double *w = &d.weights[d.row(b, h, i) * (size_t)d.p.keys];
    std::vector<double> sum((size_t)width);
    double delta = 0;

    for (int64_t c = 0; c < width; c++)
        delta += d.o.at(b, i, h, c) * d.d_o.at(b, i, h, c);
    for (int j = d.first_key(b, i); j < d.keys_of(b, i); j++) {
        const size_t at = (size_t)(((b * d.p.keys + j) * d.p.groups + g) * width);
        double dp = 0, ds;

        for (int64_t c = 0; c < width; c++)
            dp += d.d_o.at(b, i, h, c) * d.v.at(b, j, g, c);
        ds = d.scale * w[j] * (dp - delta);
        for (int64_t c = 0; c < width; c++) {
            sum[(size_t)c] += ds * d.k.at(b, j, g, c);
            (*dk)[at + (size_t)c] += ds * d.q.at(b, i, h, c);
            (*dv)[at + (size_t)c] += w[j] * d.d_o.at(b, i, h, c);
        }
    }
    for (int64_t c = 0; c < width; c++)
        dq->add(d.dq.at(b, i, h, c), sum[(size_t)c]);
}

template <int WIDTH> static void test_gradient(const struct problem *p)
{
    struct data d(*p, WIDTH);
    comparison dq, dk, dv;
    std::vector<double> dk_sums((size_t)(p->batch * p->keys * p->groups * WIDTH)), dv_sums(dk_sums);

    d.expect();
    d.facts.assign((size_t)(p->batch * p->heads * ((p->queries + TILE - 1) / TILE)) *
                       sizeof(struct row_facts<TILE>),
                   0x7f);
    describe<WIDTH>(&d, TILE, TILE, passing_keys(WIDTH));
    run(kernel_body<query_worker<bf16, WIDTH>>, "the gradient's first kernel");
    describe<WIDTH>(&d, TILE, passing_queries(WIDTH), TILE);
    run(kernel_body<key_worker<bf16, WIDTH>>, "its second kernel");
    for (int b = 0; b < p->batch; b++)
        for (int h = 0; h < p->heads; h++)
            for (int i = 0; i < p->queries; i++)
                differentiate(d, b, h, i, &dq, &dk_sums, &dv_sums);
    for (int b = 0; b < p->batch; b++)
        for (int64_t i = 0; i < (int64_t)p->keys * p->groups * WIDTH; i++) {
            const size_t at = (size_t)(b * d.dk.pitch + i);
            const size_t sum = (size_t)((int64_t)b * p->keys * p->groups * WIDTH + i);

            dk.add(to_float(d.dk.e[at]), dk_sums[sum]);
            dv.add(to_float(d.dv.e[at]), dv_sums[sum]);
        }
    dq.report("dQ", 0.015);
    dk.report("dK", 0.015);
    dv.report("dV", 0.015);
    ok(d.dq.is_intact() && d.dk.is_intact() && d.dv.is_intact(),
       "  nothing is written after a sample");
}

template <int WIDTH> static void test_width(const struct problem *problems, int count)
{
    for (const struct problem *p = problems; p < problems + count; p++) {
        diag("heads of %d: %d samples, %d queries, %d keys, %d heads, %d groups%s%s%s", WIDTH,
             p->batch, p->queries, p->keys, p->heads, p->groups, p->causal ? ", causal" : "",
             p->documents ? ", documents" : "", p->ends ? ", ends" : "");
        test_forward<WIDTH>(p);
        test_gradient<WIDTH>(p);
    }
}

/* Sanitizers make them far slower: only the first one then. */
static const struct problem problems[] = {
    {1, 150, 150, 2, 1, 1, 1, 0}, {2, 300, 300, 2, 2, 1, 0, 0}, {1, 140, 290, 4, 2, 1, 0, 0},
    {2, 257, 257, 1, 1, 0, 0, 1}, {1, 1, 128, 2, 1, 1, 0, 0},
};

int main(void)
{
    const int count = repetitions(6) == 6 ? (int)(sizeof(problems) / sizeof(problems[0])) : 1;

    test_width<64>(problems, count);
    test_width<80>(problems, count);
    test_width<96>(problems, count);
    test_width<128>(problems, count);
    return done_testing();
}
