/* The search for the fastest algorithm of a matrix product. For products with an epilogue the
 * library's heuristic misses good algorithms that differ in one attribute from those it offers, the
 * neighbours. A brief look at many, then a contest of a few. t/gpu/neighbours measures what the
 * neighbours gain per model. */
#include "gemm_private.h"

#include <string.h>

#include "clock.h"

enum { MOST_CANDIDATES = 160, MOST_REPEATS = 3, SEEDS = 3, CONTESTANTS = 6, KIN = 2 };

/* A brief look: up to MOST_REPEATS runs, fewer where they take longer than this. */
static const double BRIEF_SECONDS = 0.001;
/* At all neighbours together: these seconds, and as long as so many runs take. */
static const double SEARCH_SECONDS = 0.1, SEARCH_RUNS = 80;
/* Who is so far behind the best after a brief look gets no second one (HOPELESS), or does not
 * compete (FAR_BEHIND). */
static const double HOPELESS = 1.18, FAR_BEHIND = 1.12, NEVER = 1e9;
/* How much faster than what the library offers a neighbour has to be. */
static const double DOUBT = 1.01;

struct candidate {
    cublasLtMatmulAlgo_t algorithm;
    double seconds; /* NEVER where it fails */
    int offered;    /* by the library, else a neighbour */
};

struct search {
    struct gemm *gemm;
    const struct gemm_operands *scratch;
    struct candidate candidates[MOST_CANDIDATES];
    int count;
    struct candidate reference; /* the fastest that the library offers */
    double drift;               /* how much slower the reference is now than when it was chosen */
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

static double time_briefly(struct search *s, const cublasLtMatmulAlgo_t *algorithm)
{
    struct trial trial = {s->gemm, s->scratch, algorithm};
    int repeats = MOST_REPEATS;

    if (s->fastest * MOST_REPEATS > BRIEF_SECONDS)
        repeats = (int)(BRIEF_SECONDS / s->fastest);
    return gemm_time(s->gemm->context, run_trial, &trial, repeats > 0 ? repeats : 1);
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

static void add(struct search *s, const cublasLtMatmulAlgo_t *algorithm, int offered)
{
    double seconds = time_briefly(s, algorithm);

    if (seconds > 0 && (s->fastest == 0 || seconds < s->fastest))
        s->fastest = seconds;
    s->candidates[s->count++] =
        (struct candidate){*algorithm, seconds > 0 ? seconds / s->drift : NEVER, offered};
}

/* All that the library offers, there and back: clocks rise or fall meanwhile. */
static void add_offered(struct search *s, const cublasLtMatmulHeuristicResult_t *offered, int count)
{
    for (int i = 0; i < count; i++)
        add(s, &offered[i].algo, 1);
    for (int i = count - 1; i >= 0; i--) {
        struct candidate *c = &s->candidates[i];
        double again;

        if (c->seconds > HOPELESS * s->fastest)
            continue;
        again = time_briefly(s, &c->algorithm);
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

/* Neighbours --------------------------------------------------------------------------------- */

/* Attributes to change, those that gain most first. */
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

static void try_neighbour(struct search *s, const struct candidate *seed,
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

/* Clocks rise and fall by a tenth meanwhile: times are made comparable by those of one and the
 * same candidate. */
static void follow_clocks(struct search *s)
{
    double seconds = time_briefly(s, &s->reference.algorithm);

    s->drift = seconds > 0 ? seconds / s->reference.seconds : 1;
}

/* Try what differs in one of the first 'names' attributes from the best 'seeds'. All seeds take
 * part in what the time allows: the best neighbour is not always that of the best. */
static void look_around(struct search *s, int seeds, int names)
{
    sort(s->candidates, s->count);
    if (seeds > s->count)
        seeds = s->count;
    for (int a = 0; a < names && clock_now() < s->deadline; a++) {
        follow_clocks(s);
        for (uint32_t value = 0; value <= attributes[a].most; value++)
            for (int i = 0; i < seeds; i++)
                try_neighbour(s, &s->candidates[i], attributes[a].name, value);
    }
}

/* The contest -------------------------------------------------------------------------------- */

static int is_kin(const cublasLtMatmulAlgo_t *a, const cublasLtMatmulAlgo_t *b)
{
    return get(a, CUBLASLT_ALGO_CONFIG_ID) == get(b, CUBLASLT_ALGO_CONFIG_ID) &&
           get(a, CUBLASLT_ALGO_CONFIG_TILE_ID) == get(b, CUBLASLT_ALGO_CONFIG_TILE_ID);
}

static void move_to(struct candidate *candidates, int from, int to)
{
    struct candidate moved = candidates[from];

    memmove(&candidates[to + 1], &candidates[to], (size_t)(from - to) * sizeof(moved));
    candidates[to] = moved;
}

/* Bring those that run again to the front and return how many. Those of one tile size are often as
 * fast as each other, and would keep the others away: KIN of each. Who is far behind will not catch
 * up. */
static int pick_contestants(struct search *s)
{
    struct candidate *c = s->candidates;
    int picked = 0;

    sort(c, s->count);
    for (int i = 0; i < s->count && picked < CONTESTANTS; i++) {
        int kin = 0;

        if (picked > 0 && c[i].seconds > FAR_BEHIND * c[0].seconds)
            break;
        for (int j = 0; j < picked; j++)
            kin += is_kin(&c[i].algorithm, &c[j].algorithm);
        if (kin < KIN)
            move_to(c, i, picked++);
    }
    return picked;
}

/* A neighbour has to beat the best that the library offers. */
static int add_reference(struct search *s, int picked)
{
    int neighbours = 0, at = 0;

    for (int i = 0; i < picked; i++)
        neighbours += !s->candidates[i].offered;
    while (memcmp(&s->candidates[at].algorithm, &s->reference.algorithm,
                  sizeof(s->reference.algorithm)) != 0)
        at++;
    if (neighbours == 0 || at < picked)
        return picked;
    move_to(s->candidates, at, picked);
    return picked + 1;
}

/* The first 'count' candidates compete and are put in order. */
static void hold_contest(struct search *s, int count)
{
    struct trial trials[CONTESTANTS + 1];
    struct contestant contestants[CONTESTANTS + 1];
    struct candidate ordered[CONTESTANTS + 1], *c = s->candidates;

    for (int i = 0; i < count; i++) {
        trials[i] = (struct trial){s->gemm, s->scratch, &c[i].algorithm};
        contestants[i] =
            (struct contestant){run_trial, &trials[i], c[i].offered ? 1 : DOUBT, c[i].seconds, 0};
    }
    gemm_contest(s->gemm->context, contestants, count);
    for (int i = 0; i < count; i++) {
        ordered[i] = c[(struct trial *)contestants[i].argument - trials];
        ordered[i].seconds = contestants[i].seconds > 0 ? contestants[i].seconds : NEVER;
    }
    memcpy(c, ordered, (size_t)count * sizeof(*c));
}

/* The library does not vouch for a neighbour: it wins only in the contest and if its results are
 * right. NULL: all fail. */
static const cublasLtMatmulAlgo_t *winner(struct search *s, int contestants)
{
    for (int i = 0; i < s->count; i++) {
        const struct candidate *c = &s->candidates[i];

        if (c->seconds < NEVER &&
            (c->offered || (i < contestants && gemm_check(s->gemm, s->scratch,
                                                          &s->reference.algorithm, &c->algorithm))))
            return &c->algorithm;
    }
    return NULL;
}

int gemm_has_neighbours(const struct gemm *gemm)
{
    const struct gemm_shape *shape = &gemm->shape;

    return shape->epilogue != GEMM_PLAIN && shape->epilogue != GEMM_BGRADB && shape->batch <= 1 &&
           shape->ldd == shape->m;
}

int gemm_search(struct gemm *gemm, const struct gemm_operands *scratch,
                const cublasLtMatmulHeuristicResult_t *offered, int count, int around)
{
    struct search s = {.gemm = gemm, .scratch = scratch, .drift = 1};
    const cublasLtMatmulAlgo_t *best;
    int contestants;

    add_offered(&s, offered, count);
    s.deadline = clock_now() + SEARCH_SECONDS + SEARCH_RUNS * s.fastest;
    if (around && s.fastest > 0) {
        look_around(&s, SEEDS, ATTRIBUTES - 1); /* swizzling: for the best alone */
        look_around(&s, 1, ATTRIBUTES);
    }
    contestants = add_reference(&s, pick_contestants(&s));
    if (contestants > 1)
        hold_contest(&s, contestants);
    best = winner(&s, contestants);
    if (!best)
        return -1;
    gemm->algorithm = *best;
    return 0;
}
