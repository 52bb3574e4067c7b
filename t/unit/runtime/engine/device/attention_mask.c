/* SPDX-License-Identifier: Apache-2.0 */
/* What dropout does to the probabilities of attention. A device that need not keep its scores in
 * memory may use its own random numbers with 16-bit types; their mask becomes visible if values are
 * unit vectors, and is the same for every run with the same seed, step, purpose, rows and shape. */
#include "device_attention.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>

/* Two rows with this many probabilities do not have the same mask by chance: 0.82 ^ 100 is 2e-9 at
 * a rate of 0.1, where each number is used for two of a row. */
enum { ROWS_TELL = 200 };

/* Must the numbers be those that device.h defines? */
static int is_numbered(void)
{
    return unfused || type == TYPE_FP32;
}

/* Scale of the probabilities that are kept. */
static double kept_factor(const struct attention_shape *s)
{
    return 65536 / (65536 - round(s->dropout * 65536));
}

/* Set the value of key first + e to the unit vector e, and that of keys outside the head_size keys
 * from 'first' on to 0. */
static void unit_vectors(const struct attention_shape *s, int64_t first, double *v)
{
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->kv_heads; h++)
            for (int64_t j = 0; j < s->kv_rows; j++)
                for (int64_t e = 0; e < s->head_size; e++)
                    v[b * s->kv.batch + j * s->kv.row + h * s->kv.head + e] = j == first + e;
}

/* Extract the probabilities of these keys from the result for such values. */
static void collect(const struct attention_shape *s, int64_t first, const double *out, double *p)
{
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t i = 0; i < s->q_rows; i++)
                for (int64_t e = 0; e < s->head_size && first + e < s->kv_rows; e++)
                    p[((b * s->heads + h) * s->q_rows + i) * s->kv_rows + first + e] =
                        out[b * s->out.batch + i * s->out.row + h * s->out.head + e];
}

/* The probabilities after dropout, laid out like keep: one run for as many keys as a head has
 * channels. The caller frees them. */
static double *dropped_probabilities(const struct attention_test *t,
                                     const struct attention_operands *operands)
{
    const struct attention_shape *s = &t->shape;
    double *p = malloc((size_t)attention_scores(s) * sizeof(*p)), *out;
    double *kv = malloc((size_t)t->kv.n * sizeof(*kv));

    memcpy(kv, t->kv.v, (size_t)t->kv.n * sizeof(*kv));
    for (int64_t first = 0; first < s->kv_rows; first += s->head_size) {
        unit_vectors(s, first, kv + t->v_at);
        tensor_put(&t->kv, kv);
        run_attention(t->forward, stream, operands);
        out = download(&t->out);
        collect(s, first, out, p);
        free(out);
    }
    tensor_put(&t->kv, t->kv.v);
    free(kv);
    return p;
}

/* How many rows of a head may have the same mask? */
static int most_alike(void)
{
    return is_numbered() ? 1 : 2;
}

/* How many probabilities share a random number: cuDNN uses one for four, at the same keys of two
 * rows and at others. */
static int uses(void)
{
    return is_numbered() ? 1 : 4;
}

/* Is 'count' of 'n' plausible for a probability of 'share'? Within 5 standard deviations. */
static int likely(int64_t count, int64_t n, double share)
{
    double variance = (double)n * share * (1 - share) * uses();

    return fabs((double)count - (double)n * share) <= 5 * sqrt(variance);
}

/* Extract the mask: each probability 'dropped' is 0, or 'p' times the scale. Values that the type
 * cannot distinguish from 0 are ignored. */
static void read_mask(const struct attention_shape *s, const double *p, const double *dropped,
                      double *keep)
{
    double factor = kept_factor(s), least = least_of(type), tolerance = tolerance_of(type);
    int64_t n = attention_scores(s), wrong = 0, at = 0, told = 0, lost = 0;

    for (int64_t i = n - 1; i >= 0; i--) {
        double whole = p[i] * factor, most = tolerance * fmax(whole, least);
        int kept = dropped[i] > whole / 2, tell = p[i] > 0 && whole >= least;

        keep[i] = kept ? factor : 0;
        told += tell;
        lost += tell && !kept;
        if (p[i] == 0 || (tell && !kept))
            most = 0;
        if (fabs(dropped[i] - (kept ? whole : 0)) <= most)
            continue;
        wrong++;
        at = i;
    }
    if (!ok(wrong == 0, "probabilities are dropped, or scaled by the fraction kept"))
        diag("%lld of %lld, the first is %lld: got %.9g, before dropout %.9g", (long long)wrong,
             (long long)n, (long long)at, dropped[at], p[at]);
    if (!ok(likely(lost, told, s->dropout), "as many are dropped as should be"))
        diag("%lld of %lld at a rate of %g", (long long)lost, (long long)told, s->dropout);
}

/* How many probabilities, of those that the type distinguishes from 0, are dropped by only one of
 * two masks? */
static int64_t different(const struct attention_shape *s, const double *p, const double *a,
                         const double *b, int64_t *told)
{
    double least = least_of(type) / kept_factor(s);
    int64_t count = 0;

    *told = 0;
    for (int64_t i = attention_scores(s) - 1; i >= 0; i--)
        if (p[i] > 0 && p[i] >= least) {
            *told += 1;
            count += (a[i] > 0) != (b[i] > 0);
        }
    return count;
}

/* Do two rows drop the same keys among those that both can show? Rows with too few of these count
 * as different. */
static int alike(const double *p, const double *q, const double *a, const double *b, int64_t keys,
                 double least)
{
    int64_t both = 0;

    for (int64_t j = 0; j < keys; j++)
        if (p[j] > 0 && q[j] > 0 && p[j] >= least && q[j] >= least) {
            if ((a[j] > 0) != (b[j] > 0))
                return 0;
            both++;
        }
    return both >= ROWS_TELL;
}

/* No more rows of a head have the same mask than allowed. */
static void rows_differ(const struct attention_shape *s, const double *p, const double *keep)
{
    double least = least_of(type) / kept_factor(s);
    int64_t keys = s->kv_rows, all = s->batch * s->heads * s->q_rows;
    int worst = 1;

    for (int64_t i = 0; i < all; i++) {
        int64_t head = i / s->q_rows * s->q_rows;
        int like = 1;

        for (int64_t k = head; k < head + s->q_rows; k++)
            like += k != i && alike(p + i * keys, p + k * keys, keep + i * keys, keep + k * keys,
                                    keys, least);
        worst = like > worst ? like : worst;
    }
    if (!ok(worst <= most_alike(), "rows drop different probabilities"))
        diag("%d rows of a head drop the same", worst);
}

/* The mask from the numbers that device.h defines. */
static void number_mask(const struct attention_test *t, double *keep)
{
    const struct attention_shape *s = &t->shape;

    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t i = 0; i < s->q_rows; i++) {
                int64_t row = t->rows[b * s->q_rows + i], sample = row / s->sequence;
                int64_t head = sample * s->all_heads + s->first_head + h;
                int64_t first = (head * s->sequence + row % s->sequence) * s->sequence;

                for (int64_t j = 0; j < s->kv_rows; j++)
                    *keep++ =
                        dropout_reference(s->dropout, t->operands.purpose, (uint64_t)(first + j));
            }
}

/* Another purpose, sample or step has another mask: as many elements differ as between independent
 * masks. */
static void masks_differ(const struct attention_test *t, const double *p, const double *keep)
{
    const struct attention_shape *s = &t->shape;
    size_t queries = (size_t)(s->batch * s->q_rows), bytes = queries * sizeof(*t->rows);
    struct step_state step = state_read(t->operands.state);
    const char *names[] = {"purpose", "sample", "step"};
    struct attention_operands others[] = {t->operands, t->operands, t->operands};
    int64_t *rows = malloc(bytes), told, count;

    for (size_t i = 0; i < queries; i++)
        rows[i] = t->rows[i] + s->batch * s->sequence;
    step.iteration++;
    others[0].purpose++;
    others[1].row_index = upload(rows, bytes);
    others[2].state = upload(&step, sizeof(step));
    for (int i = 0; i < 3; i++) {
        double *other = dropped_probabilities(t, &others[i]);

        count = different(s, p, keep, other, &told);
        if (!ok(likely(count, told, 2 * s->dropout * (1 - s->dropout)),
                "another %s drops other probabilities", names[i]))
            diag("%lld of %lld differ", (long long)count, (long long)told);
        free(other);
    }
    device_release(device, (void *)others[1].row_index);
    device_release(device, (void *)others[2].state);
    free(rows);
}

double *attention_mask(struct attention_test *t)
{
    const struct attention_shape *s = &t->shape;
    size_t bytes = (size_t)attention_scores(s) * sizeof(double);
    double *p = malloc(bytes), *keep = malloc(bytes), *numbered = malloc(bytes), *dropped;
    int64_t told, apart;

    attention_probabilities(&t->reference, p);
    dropped = dropped_probabilities(t, &t->operands);
    read_mask(s, p, dropped, keep);
    number_mask(t, numbered);
    apart = different(s, p, keep, numbered, &told);
    if (is_numbered()) {
        ok(apart == 0, "the mask follows the numbering");
        memcpy(keep, numbered, bytes);
    } else {
        diag("dropout by %s", apart == 0 ? "our numbering" : "the library's own numbers");
    }
    if (s->kv_rows >= ROWS_TELL)
        rows_differ(s, p, keep);
    if (s->kv_rows <= s->head_size)
        masks_differ(t, p, keep);
    free(p), free(numbered), free(dropped);
    return keep;
}
