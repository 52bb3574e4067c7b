/* SPDX-License-Identifier: Apache-2.0 */
/* The search for the fastest algorithm of a matrix product: many candidates are timed briefly, and
 * the best few are the finalists. For products with an epilogue the search also tries neighbors of
 * the algorithms that the library offers: algorithms that differ from them in one attribute.
 *
 * Gain of the neighbors, the operations of one step in ms (t/gpu/neighbors, one round, H200,
 * cuBLASLt 13.0, timed without rests):
 *                 without      with      gain
 *     gpt345m      127.66    127.24    0.33 %
 *     gpt1.3b      215.18    215.24   -0.03 %
 *     llama8b-l8   none: no product of Llama has an epilogue
 * The search is for products with an epilogue (bias, GELU, its gradient) in small models, for which
 * the library offers few algorithms. In larger models, such as gpt1.3b, it changes nothing; it
 * costs a tenth of a second per product, once, since results are cached. Plain products gain
 * nothing and are not searched: of 23 products of gpt1.3b and llama8b-l8, tried with up to 680
 * neighbors each, the best neighbor was 1.4 % slower in the median at sustained clocks.
 */
#include "cuda_error.h"
#include "gemm_private.h"

#include "lib/checksum.h"
#include "lib/clock.h"

enum { MOST_CANDIDATES = 160, MOST_REPEATS = 3, SEEDS = 3, KIN = 2, MOST_CHECKS = 8 };

/* A brief measurement: up to MOST_REPEATS runs, fewer if they take longer than this. */
static const double BRIEF_SECONDS = 0.001;
/* Time limit for all neighbors together, including rests: these seconds and the time of this many
 * runs. */
static const double SEARCH_SECONDS = 0.06, SEARCH_RUNS = 40;
/* A candidate that is this much slower than the best is not timed again. */
static const double HOPELESS = 1.06;
static const double NEVER = 1e9; /* the seconds of one that fails */
/* How much faster than the library's own algorithms a neighbor must be. */
static const double DOUBT = 1.01;

struct candidate {
    cublasLtMatmulAlgo_t algorithm;
    double seconds; /* NEVER if it fails */
    int offered;    /* offered by the library; else a neighbor */
};

struct search {
    struct gemm *gemm;
    const struct gemm_operands *scratch;
    struct candidate candidates[MOST_CANDIDATES];
    int count;
    struct candidate reference; /* the fastest that the library offers */
    double fastest;             /* seconds, 0 at first */
    double deadline;
};

/* Timing ------------------------------------------------------------------------------------- */

struct trial {
    struct gemm *gemm;
    const struct gemm_operands *operands;
    const cublasLtMatmulAlgo_t *algorithm;
};

static int run_trial(void *argument)
{
    struct trial *t = argument;
    struct gemm_context *context = t->gemm->context;

    return gemm_launch(t->gemm, context->stream, t->operands, t->algorithm, 0, context->workspace)
               ? -1
               : 0;
}

static int brief_repeats(const struct search *s)
{
    int repeats = MOST_REPEATS;

    if (s->fastest * MOST_REPEATS > BRIEF_SECONDS)
        repeats = (int)(BRIEF_SECONDS / s->fastest);
    return repeats > 0 ? repeats : 1;
}

/* Candidates --------------------------------------------------------------------------------- */

static void sort(struct candidate *candidates, int count)
{
    for (int i = 1; i < count; i++) { /* insertion sort: few entries */
        struct candidate now = candidates[i];
        int j = i;

        for (; j > 0 && now.seconds < candidates[j - 1].seconds; j--)
            candidates[j] = candidates[j - 1];
        candidates[j] = now;
    }
}

/* Products of other sizes use the same kernel if their algorithm and all of this are the same. */
static uint64_t hash_kernel(const struct gemm *gemm, const cublasLtMatmulAlgo_t *algorithm)
{
    const struct gemm_shape *g = &gemm->shape;
    const int traits[] = {g->transpose_a,
                          g->transpose_b,
                          (int)g->type,
                          (int)g->out,
                          (int)g->bias_type,
                          (int)g->epilogue,
                          g->batch,
                          (int)((g->lda | g->ldb | g->ldd) % 8),
                          (int)g->alignment_a,
                          (int)g->alignment_b,
                          (int)g->alignment_d,
                          (int)g->fp8_a,
                          (int)g->fp8_b,
                          g->fast,
                          (int)g->part_a,
                          (int)g->part_b};

    return checksum_seeded(algorithm, sizeof(*algorithm), checksum_of(traits, sizeof(traits)));
}

static int is_loaded(const struct gemm_context *context, uint64_t kernel)
{
    for (int i = 0; i < context->loaded_count; i++)
        if (context->loaded[i] == kernel)
            return 1;
    return 0;
}

static void set_loaded(struct gemm_context *context, uint64_t kernel)
{
    if (!is_loaded(context, kernel) && context->loaded_count < GEMM_LOADED)
        context->loaded[context->loaded_count++] = kernel;
}

static void add(struct search *s, const cublasLtMatmulAlgo_t *algorithm, int offered)
{
    struct gemm_context *context = s->gemm->context;
    struct trial trial = {s->gemm, s->scratch, algorithm};
    uint64_t kernel = hash_kernel(s->gemm, algorithm);
    int untimed = s->fastest < GEMM_LONG || !is_loaded(context, kernel);
    double seconds = gemm_time(context, run_trial, &trial, untimed, brief_repeats(s));

    if (seconds > 0)
        set_loaded(context, kernel);
    if (seconds > 0 && (s->fastest == 0 || seconds < s->fastest))
        s->fastest = seconds;
    s->candidates[s->count++] =
        (struct candidate){*algorithm, seconds > 0 ? seconds : NEVER, offered};
}

/* Time all algorithms that the library offers, forwards and backwards. */
static void add_offered(struct search *s, const cublasLtMatmulHeuristicResult_t *offered, int count)
{
    for (int i = 0; i < count; i++)
        add(s, &offered[i].algo, 1);
    for (int i = count - 1; i >= 0; i--) {
        struct candidate *c = &s->candidates[i];
        struct trial trial = {s->gemm, s->scratch, &c->algorithm};
        double again;

        if (c->seconds > HOPELESS * s->fastest)
            continue;
        again = gemm_time(s->gemm->context, run_trial, &trial, c->seconds < GEMM_LONG,
                          brief_repeats(s));
        c->seconds = again > 0 ? (c->seconds + again) / 2 : NEVER;
    }
    sort(s->candidates, s->count);
    s->reference = s->candidates[0];
}

/* Is the attribute 16 bits wide? */
static int is_half(cublasLtMatmulAlgoConfigAttributes_t name)
{
    return name == CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID ||
           name == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID;
}

static uint32_t get(const cublasLtMatmulAlgo_t *algorithm,
                    cublasLtMatmulAlgoConfigAttributes_t name)
{
    uint32_t value = 0;
    uint16_t half = 0;
    size_t written;

    if (is_half(name))
        return cublasLtMatmulAlgoConfigGetAttribute(algorithm, name, &half, sizeof(half), &written)
                   ? 0
                   : half;
    return cublasLtMatmulAlgoConfigGetAttribute(algorithm, name, &value, sizeof(value), &written)
               ? 0
               : value;
}

static int set(cublasLtMatmulAlgo_t *algorithm, cublasLtMatmulAlgoConfigAttributes_t name,
               uint32_t value)
{
    uint16_t half = (uint16_t)value;

    if (is_half(name))
        return cublasLtMatmulAlgoConfigSetAttribute(algorithm, name, &half, sizeof(half)) ? -1 : 0;
    return cublasLtMatmulAlgoConfigSetAttribute(algorithm, name, &value, sizeof(value)) ? -1 : 0;
}

static int is_known(const struct search *s, const cublasLtMatmulAlgo_t *algorithm)
{
    for (int i = 0; i < s->count; i++) {
        int name = CUBLASLT_ALGO_CONFIG_ID;

        while (name <= CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID &&
               get(algorithm, name) == get(&s->candidates[i].algorithm, name))
            name++;
        if (name > CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID)
            return 1;
    }
    return 0;
}

/* Neighbors --------------------------------------------------------------------------------- */

/* Attributes to change, the most profitable ones first. */
static const struct attribute {
    cublasLtMatmulAlgoConfigAttributes_t name;
    uint32_t most;
} attributes[] = {
    {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 8},
    {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, CUBLASLT_CLUSTER_SHAPE_16x1x1},
    {CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 1},
};
enum { ATTRIBUTES = sizeof(attributes) / sizeof(*attributes) };

static int has_option(const cublasLtMatmulAlgo_t *algorithm, uint32_t value)
{
    int32_t most = 0;
    size_t written;

    return cublasLtMatmulAlgoCapGetAttribute(algorithm, CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX, &most,
                                             sizeof(most), &written) == 0 &&
           (int64_t)value <= most;
}

static void try_neighbor(struct search *s, const struct candidate *seed,
                         cublasLtMatmulAlgoConfigAttributes_t name, uint32_t value)
{
    cublasLtMatmulAlgo_t algorithm = seed->algorithm;

    if (seed->seconds >= NEVER || s->count == MOST_CANDIDATES || clock_now() > s->deadline)
        return;
    if (name == CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION && !has_option(&algorithm, value))
        return;
    if (set(&algorithm, name, value) == 0 && !is_known(s, &algorithm) &&
        gemm_accepts(s->gemm, &algorithm))
        add(s, &algorithm, 0);
}

/* Try algorithms that differ in one of the first 'names' attributes from the best 'seeds'. Every
 * seed gets a share of the time limit: the best neighbor is not always a neighbor of the best. */
static void look_around(struct search *s, int seeds, int names)
{
    sort(s->candidates, s->count);
    if (seeds > s->count)
        seeds = s->count;
    for (int a = 0; a < names; a++)
        for (uint32_t value = 0; value <= attributes[a].most; value++)
            for (int i = 0; i < seeds; i++)
                try_neighbor(s, &s->candidates[i], attributes[a].name, value);
}

/* Finalists ---------------------------------------------------------------------------------- */

static int is_kin(const cublasLtMatmulAlgo_t *a, const cublasLtMatmulAlgo_t *b)
{
    return get(a, CUBLASLT_ALGO_CONFIG_ID) == get(b, CUBLASLT_ALGO_CONFIG_ID) &&
           get(a, CUBLASLT_ALGO_CONFIG_TILE_ID) == get(b, CUBLASLT_ALGO_CONFIG_TILE_ID);
}

/* Candidates with the same tile size are often equally fast and would crowd out the others: are
 * there KIN of them? */
static int is_crowded(const struct gemm *gemm, const cublasLtMatmulAlgo_t *algorithm)
{
    int kin = 0;

    for (int i = 0; i < gemm->finalists_count; i++)
        kin += is_kin(algorithm, &gemm->finalists[i].algorithm);
    return kin >= KIN;
}

/* Add a candidate to the finalists. The library does not vouch for a neighbor: its results must be
 * right. */
static void add_finalist(struct search *s, const struct candidate *c)
{
    struct gemm *gemm = s->gemm;

    if (c->offered || gemm_check(gemm, s->scratch, &s->reference.algorithm, &c->algorithm))
        gemm->finalists[gemm->finalists_count++] =
            (struct gemm_finalist){c->algorithm, c->seconds, c->offered ? 1 : DOUBT};
}

static int may_compete(const struct search *s, const struct candidate *c, int most)
{
    return s->gemm->finalists_count < most && !is_crowded(s->gemm, &c->algorithm);
}

/* The fastest that the library offers is always among them: a neighbor must beat it. */
static void pick_finalists(struct search *s)
{
    int best = 1, checks = 0;

    sort(s->candidates, s->count);
    for (int i = 0; i < s->count && s->candidates[i].seconds < NEVER; i++) {
        const struct candidate *c = &s->candidates[i];

        if (c->offered ? best || may_compete(s, c, GEMM_FINALISTS)
                       : may_compete(s, c, GEMM_FINALISTS - best) && checks++ < MOST_CHECKS)
            add_finalist(s, c);
        best &= !c->offered;
    }
}

int gemm_decide(struct gemm *gemm, const struct gemm_operands *scratch, struct error *err)
{
    struct trial trials[GEMM_FINALISTS];
    struct timing_candidate candidates[GEMM_FINALISTS];
    int count = gemm->finalists_count;

    if (count == 0)
        return 0;
    for (int i = 0; i < count; i++) {
        const struct gemm_finalist *f = &gemm->finalists[i];

        trials[i] = (struct trial){gemm, scratch, &f->algorithm};
        candidates[i] =
            (struct timing_candidate){run_trial, &trials[i], f->handicap, f->seconds, 0};
    }
    if (gemm_rank(gemm->context, candidates, count, err) < 0)
        return -1;
    if (candidates[0].seconds <= 0)
        return error_set(err, "none of cuBLASLt's kernels for a linear layer runs "
                              "repeatedly" CUDA_CHECK_NODE);
    gemm_use(gemm, (int)((struct trial *)candidates[0].argument - trials));
    gemm_remember(gemm);
    return 0;
}

int gemm_has_neighbors(const struct gemm *gemm)
{
    const struct gemm_shape *shape = &gemm->shape;

    return shape->epilogue != GEMM_PLAIN && shape->epilogue != GEMM_BGRADB && shape->batch <= 1 &&
           shape->ldd == shape->m && type_size(shape->fp8_a) != 1;
}

int gemm_search(struct gemm *gemm, const struct gemm_operands *scratch,
                const cublasLtMatmulHeuristicResult_t *offered, int count, int around)
{
    struct search s = {.gemm = gemm, .scratch = scratch};

    add_offered(&s, offered, count);
    if (s.reference.seconds >= NEVER)
        return -1;
    s.deadline = clock_now() + SEARCH_SECONDS + SEARCH_RUNS * s.fastest;
    if (around) {
        look_around(&s, SEEDS, ATTRIBUTES - 1); /* swizzling: only for the best */
        look_around(&s, 1, ATTRIBUTES);
    }
    pick_finalists(&s);
    gemm_use(gemm, 0);
    return 0;
}
