/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "unigram_learn.h"
#include "base/core/threads.h"
#include "data/tokenizer/trie.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/list.h"

/* Sums have PARTS parts, independent of the number of threads, so that rounding is reproducible. */
enum { PARTS = 16, FITS = 2 };

static const double shrink = 0.75, least_expected = 0.5, first_shift = 2;

struct unigram_learning {
    const struct unigram_rules *rules;
    const struct lexicon *spans;
    struct unigram_pieces *pieces;
    struct trie trie;
    struct threads *threads;
    double *expected[PARTS]; /* by piece: how often it is used, of each part of the spans */
    double likelihood[PARTS];
    /* Probability of each piece times exp(shift) for each of its bytes. All ways through a span
     * have the same bytes, so the factor does not change which are probable, and with the average
     * of the corpus products of many pieces stay within the range of a double. */
    double *weights;
    double shift;
    double bytes; /* of the corpus */
};

/* --- The lattice of a span -------------------------------------------------------------------- */

/* One node before each byte of the span, and one at the end. */
struct node {
    double forward, backward; /* sums over all ways from the start, and to the end */
    double best;              /* score of the best way from the start */
    uint32_t piece, from;     /* the last piece of that way */
};

/* A piece between two nodes. */
struct arc {
    uint32_t begin, end, piece;
};

struct lattice {
    struct node *nodes;
    size_t room; /* of nodes */
    LIST(struct arc) arcs;
};

static void lattice_clear(struct lattice *lattice)
{
    free(lattice->nodes);
    list_free(&lattice->arcs);
}

static void lattice_begin(struct lattice *lattice, size_t size)
{
    if (size + 1 > lattice->room) {
        lattice->room = (size + 1) * 2;
        lattice->nodes = xrealloc(lattice->nodes, lattice->room, sizeof(*lattice->nodes));
    }
    for (size_t i = 0; i <= size; i++)
        lattice->nodes[i] = (struct node){0, 0, -INFINITY, TRIE_NONE, 0};
    lattice->nodes[0] = (struct node){1, 0, 0, TRIE_NONE, 0};
    lattice->nodes[size].backward = 1;
    lattice->arcs.count = 0;
}

/* Call with each piece that begins at 'begin': its number and end. */
#define FOR_PIECES(l, text, size, begin, piece, end)                                    \
    for (uint32_t at_ = TRIE_ROOT, end = (uint32_t)(begin), piece = TRIE_NONE;          \
         end < (size) && (at_ = trie_step(&(l)->trie, at_, (text)[end])) != TRIE_NONE;) \
        if ((piece = (l)->trie.values[at_], end++, piece) != TRIE_NONE)

/* Collect the arcs, and sum up from the start. */
static void sum_forward(const struct unigram_learning *l, const uint8_t *text, size_t size,
                        struct lattice *lattice)
{
    struct node *nodes = lattice->nodes;

    for (size_t begin = 0; begin < size; begin++) {
        if (nodes[begin].forward == 0)
            continue;
        FOR_PIECES(l, text, size, begin, piece, end)
        {
            nodes[end].forward += nodes[begin].forward * l->weights[piece];
            *list_add(&lattice->arcs) = (struct arc){(uint32_t)begin, end, piece};
        }
    }
}

/* The best way without the piece 'not' (TRIE_NONE: with all). */
static void find_best(const struct unigram_learning *l, const uint8_t *text, size_t size,
                      uint32_t not, struct node *nodes)
{
    for (size_t begin = 0; begin < size; begin++) {
        if (nodes[begin].best == -INFINITY)
            continue;
        FOR_PIECES(l, text, size, begin, piece, end)
        {
            double score = nodes[begin].best + l->pieces->scores[piece];

            if (piece == not || score <= nodes[end].best)
                continue;
            nodes[end].best = score;
            nodes[end].piece = piece;
            nodes[end].from = (uint32_t)begin;
        }
    }
}

/* --- Expectations ----------------------------------------------------------------------------- */

static void use_best(const struct unigram_learning *l, const struct lexicon_word *span,
                     struct lattice *lattice, double *used, double *likelihood)
{
    struct node *nodes = lattice->nodes;

    find_best(l, l->spans->text.data + span->offset, span->size, TRIE_NONE, nodes);
    for (size_t end = span->size; end > 0 && nodes[end].piece != TRIE_NONE; end = nodes[end].from)
        used[nodes[end].piece] += (double)span->times;
    *likelihood += (double)span->times * nodes[span->size].best;
}

/* How often each piece is used on average over all ways, by their probabilities. */
static void use_average(const struct unigram_learning *l, const struct lexicon_word *span,
                        struct lattice *lattice, double *used, double *likelihood)
{
    struct node *nodes = lattice->nodes;
    double all, times = (double)span->times;

    sum_forward(l, l->spans->text.data + span->offset, span->size, lattice);
    all = nodes[span->size].forward;
    if (!(all > 0 && all < INFINITY)) { /* out of range: a word that nearly never occurs */
        use_best(l, span, lattice, used, likelihood);
        return;
    }
    for (size_t i = lattice->arcs.count; i-- > 0;) {
        const struct arc *arc = &lattice->arcs.items[i];
        double rest = l->weights[arc->piece] * nodes[arc->end].backward;

        nodes[arc->begin].backward += rest;
        used[arc->piece] += times * nodes[arc->begin].forward * rest / all;
    }
    *likelihood += times * (log(all) - l->shift * (double)span->size);
}

typedef void use_span(const struct unigram_learning *l, const struct lexicon_word *span,
                      struct lattice *lattice, double *used, double *likelihood);

struct counting {
    struct unigram_learning *l;
    use_span *use;
};

static void count_part(void *context, int64_t part)
{
    const struct counting *counting = context;
    struct unigram_learning *l = counting->l;
    size_t first = l->spans->count * (size_t)part / PARTS;
    size_t last = l->spans->count * ((size_t)part + 1) / PARTS;
    struct lattice lattice = {0};

    l->likelihood[part] = 0;
    for (size_t i = first; i < last; i++) {
        const struct lexicon_word *span = &l->spans->words[i];

        lattice_begin(&lattice, span->size);
        counting->use(l, span, &lattice, l->expected[part], &l->likelihood[part]);
    }
    lattice_clear(&lattice);
}

/* Counts of all pieces over all spans, in expected[0]. */
static void count_all(struct unigram_learning *l, use_span *use)
{
    struct counting counting = {l, use};
    double sum = 0;

    for (int part = 0; part < PARTS; part++)
        memset(l->expected[part], 0, l->pieces->tokens.count * sizeof(double));
    threads_run(l->threads, PARTS, count_part, &counting);
    for (int part = 1; part < PARTS; part++)
        for (size_t i = 0; i < l->pieces->tokens.count; i++)
            l->expected[0][i] += l->expected[part][i];
    for (int part = 0; part < PARTS; part++)
        sum += l->likelihood[part];
    l->shift = -sum / l->bytes;
    if (l->rules->moved)
        l->rules->moved(l->rules->context, (int64_t)l->pieces->tokens.count);
}

/* --- Rounds ----------------------------------------------------------------------------------- */

static int build_trie(struct unigram_learning *l, struct error *err)
{
    trie_clear(&l->trie);
    trie_init(&l->trie);
    for (size_t i = 0; i < l->pieces->tokens.count; i++) {
        uint32_t former;
        size_t size;
        const char *text = token_text(&l->pieces->tokens, i, &size);

        if (trie_insert(&l->trie, (const uint8_t *)text, size, (uint32_t)i, &former) < 0)
            return trie_full(err);
    }
    return 0;
}

/* Keep the pieces with keeps[i] set, with their scores. Characters come first and are always kept.
 */
static int keep_pieces(struct unigram_learning *l, const uint8_t *keeps, const double *scores,
                       struct error *err)
{
    struct unigram_pieces *old = l->pieces, kept = {.required = old->required};

    kept.scores = xcalloc(old->tokens.count + 1, sizeof(*kept.scores));
    for (size_t i = 0; i < old->tokens.count; i++) {
        size_t size;
        const char *text = token_text(&old->tokens, i, &size);

        if (i >= old->required && !keeps[i])
            continue;
        kept.scores[kept.tokens.count] = scores[i];
        tokens_add(&kept.tokens, text, size);
    }
    unigram_pieces_clear(old);
    *old = kept;
    return build_trie(l, err);
}

/* Digamma: with it, EM is variational Bayes with a sparse prior, which prunes rare pieces. */
static double digamma(double x)
{
    double result = 0, square;

    for (; x < 7; x++)
        result -= 1 / x;
    x -= 0.5;
    square = 1 / (x * x);
    return result + log(x) + square / 24 - square * square * 7 / 960 +
           square * square * square * 31 / 8064 - square * square * square * square * 127 / 30720;
}

static void weigh(struct unigram_learning *l)
{
    for (size_t i = 0; i < l->pieces->tokens.count; i++) {
        size_t size;

        token_text(&l->pieces->tokens, i, &size);
        l->weights[i] = exp(l->pieces->scores[i] + l->shift * (double)size);
    }
}

/* One step of expectation maximization. */
static int fit(struct unigram_learning *l, struct error *err)
{
    size_t count = l->pieces->tokens.count;
    uint8_t *keeps = xcalloc(count + 1, 1);
    double sum = 0, *scores = xcalloc(count + 1, sizeof(*scores));
    int rc;

    weigh(l);
    count_all(l, use_average);
    for (size_t i = 0; i < count; i++) {
        double *expected = &l->expected[0][i];

        keeps[i] = *expected >= least_expected;
        if (i < l->pieces->required && *expected < least_expected)
            *expected = least_expected;
        if (keeps[i] || i < l->pieces->required)
            sum += *expected;
    }
    for (size_t i = 0; i < count; i++)
        scores[i] =
            digamma(l->expected[0][i] > 0 ? l->expected[0][i] : least_expected) - digamma(sum);
    rc = keep_pieces(l, keeps, scores, err);
    free(keeps);
    free(scores);
    return rc;
}

struct loss {
    double loss;
    uint32_t piece;
};

static int by_loss(const void *a, const void *b)
{
    const struct loss *left = a, *right = b;

    if (left->loss != right->loss)
        return left->loss > right->loss ? -1 : 1;
    return left->piece < right->piece ? -1 : left->piece > right->piece;
}

/* The likelihood that the corpus loses if other pieces replace this one: infinite if none can, -1
 * if the piece is never used or others are better anyway. */
static double loss_of(const struct unigram_learning *l, struct lattice *lattice, uint32_t piece,
                      double sum)
{
    const double *used = l->expected[0];
    size_t size, count = 0;
    const char *text = token_text(&l->pieces->tokens, piece, &size);
    struct node *nodes;
    double with, without = 0;

    if (used[piece] == 0)
        return -1;
    lattice_begin(lattice, size);
    nodes = lattice->nodes;
    find_best(l, (const uint8_t *)text, size, piece, nodes);
    if (nodes[size].best == -INFINITY)
        return INFINITY;
    if (nodes[size].best > l->pieces->scores[piece])
        return -1;
    for (size_t end = size; end > 0; end = nodes[end].from, count++)
        without += log(used[nodes[end].piece] + used[piece]);
    with = log(used[piece]) - log(sum);
    without -= (double)count * log(sum + used[piece] * (double)(count - 1));
    return used[piece] / sum * (with - without);
}

/* Drop the pieces whose loss costs least. */
static int prune(struct unigram_learning *l, size_t wanted, struct error *err)
{
    size_t count = l->pieces->tokens.count, kept = (size_t)((double)count * shrink);
    struct loss *losses = xcalloc(count + 1, sizeof(*losses));
    uint8_t *keeps = xcalloc(count + 1, 1);
    struct lattice lattice = {0};
    double sum = 0;
    int rc;

    count_all(l, use_best);
    kept = kept > wanted ? kept : wanted;
    for (size_t i = 0; i < count; i++)
        sum += l->expected[0][i];
    for (size_t i = 0; i < count; i++)
        losses[i] = (struct loss){i < l->pieces->required ? INFINITY
                                                          : loss_of(l, &lattice, (uint32_t)i, sum),
                                  (uint32_t)i};
    qsort(losses, count, sizeof(*losses), by_loss);
    for (size_t i = 0; i < count && i < kept && losses[i].loss >= 0; i++)
        keeps[losses[i].piece] = 1;
    rc = keep_pieces(l, keeps, l->pieces->scores, err);
    free(losses);
    free(keeps);
    lattice_clear(&lattice);
    return rc;
}

/* --- The result ------------------------------------------------------------------------------- */

/* The characters and the most probable of the others, the most probable first. */
static void finish(const struct unigram_pieces *pieces, size_t wanted,
                   struct unigram_learned *learned)
{
    size_t count = pieces->tokens.count, kept = count < wanted ? count : wanted;
    struct loss *order = xcalloc(count + 1, sizeof(*order));

    learned->scores = xcalloc(kept + 1, sizeof(*learned->scores));
    for (size_t i = 0; i < count; i++)
        order[i] = (struct loss){i < pieces->required ? INFINITY : pieces->scores[i], (uint32_t)i};
    qsort(order, count, sizeof(*order), by_loss);
    for (size_t i = 0; i < kept; i++)
        order[i].loss = pieces->scores[order[i].piece];
    qsort(order, kept, sizeof(*order), by_loss);
    for (size_t i = 0; i < kept; i++) {
        size_t size;
        const char *text = token_text(&pieces->tokens, order[i].piece, &size);

        learned->scores[i] = order[i].loss;
        tokens_add(&learned->pieces, text, size);
    }
    free(order);
}

static int learn_rounds(struct unigram_learning *l, struct error *err)
{
    /* A few more than wanted, of which the least probable are dropped at the end. */
    size_t wanted = (size_t)((double)l->rules->vocab_size * 1.1), before;

    do {
        before = l->pieces->tokens.count;
        for (int i = 0; i < FITS; i++)
            if (fit(l, err) < 0)
                return -1;
        if (l->pieces->tokens.count <= wanted)
            break;
        if (prune(l, wanted, err) < 0)
            return -1;
    } while (l->pieces->tokens.count < before);
    return fit(l, err);
}

int unigram_learn(const struct lexicon *lexicon, const struct unigram_rules *rules,
                  struct unigram_learned *learned, struct error *err)
{
    struct unigram_pieces pieces = {0};
    struct lexicon spans = {0};
    struct unigram_learning l = {
        .rules = rules, .spans = &spans, .pieces = &pieces, .shift = first_shift};
    int rc = -1;

    memset(learned, 0, sizeof(*learned));
    unigram_seed(lexicon, rules, &pieces, &spans);
    if ((int64_t)pieces.required > rules->vocab_size) {
        error_set_code(err, ERROR_USAGE,
                       "%lld pieces besides special tokens and bytes are too few: the corpus "
                       "has %zu different characters; use a larger vocabulary",
                       (long long)rules->vocab_size, pieces.required);
        goto out;
    }
    for (int part = 0; part < PARTS; part++)
        l.expected[part] = xcalloc(pieces.tokens.count + 1, sizeof(double));
    l.weights = xcalloc(pieces.tokens.count + 1, sizeof(*l.weights));
    for (size_t i = 0; i < spans.count; i++)
        l.bytes += (double)spans.words[i].times * (double)spans.words[i].size;
    l.threads = threads_create(rules->threads, err);
    if (!l.threads || build_trie(&l, err) < 0 || learn_rounds(&l, err) < 0)
        goto out;
    finish(&pieces, (size_t)rules->vocab_size, learned);
    rc = 0;
out:
    for (int part = 0; part < PARTS; part++)
        free(l.expected[part]);
    free(l.weights);
    threads_destroy(l.threads);
    trie_clear(&l.trie);
    unigram_pieces_clear(&pieces);
    lexicon_clear(&spans);
    return rc;
}

void unigram_learned_clear(struct unigram_learned *learned)
{
    tokens_clear(&learned->pieces);
    free(learned->scores);
    memset(learned, 0, sizeof(*learned));
}
