/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the algorithms that the library offers for a product are worth timing, judging by
 * similar products.
 *
 * In large products few algorithms ever win. Of the 807 installed choices for the H200, 452 have
 * similar ones with other weights that agree well enough: they have 5.2 winners on average, and
 * in 94 % of the cases the fastest algorithm is one of these. What the others lose was not
 * measured; the library's own first few are timed, too. */
#include "gemm_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* There is a shortlist if there are at least ENOUGH similar products with at most MOST_WINNERS
 * algorithms: where more of them won, mostly weight gradients of narrow layers, the fastest one is
 * often another. It has the FIRST few that the library offers, too. */
enum { ENOUGH = 16, MOST_WINNERS = 8, FIRST = 4 };
_Static_assert((int)ENOUGH <= (int)SIMILAR_MOST, "so many can be found");

/* The part of a key that follows so many colons, "" if there are fewer. */
static const char *part(const char *key, int colons)
{
    while (colons > 0 && *key)
        colons -= *key++ == ':';
    return key;
}

/* Do two keys differ in sizes and strides alone? */
static int same_kind(const char *a, const char *b)
{
    const char *transposed_a = part(a, 2), *transposed_b = part(b, 2);

    return strncmp(transposed_a, transposed_b, strcspn(transposed_a, ":") + 1) == 0 &&
           strcmp(part(a, 6), part(b, 6)) == 0;
}

static int count_winners(const struct similar *similar)
{
    int winners = 0;

    for (int i = 0; i < similar->count; i++) {
        int earlier = 0;

        while (strcmp(similar->values[earlier], similar->values[i]) != 0)
            earlier++;
        winners += earlier == i;
    }
    return winners;
}

int gemm_find_similar(const struct gemm *gemm, struct similar *similar)
{
    const int64_t sizes[3] = {gemm->shape.m, gemm->shape.n, gemm->shape.k};
    const char *key, *value;
    char own[GEMM_KEY];
    size_t at = 0;

    gemm_key(&gemm->shape, own);
    similar->count = 0;
    while ((value = tuning_next(gemm->context->installed, "gemm:", &at, &key)) != NULL) {
        int64_t others[3];

        if (same_kind(own, key) && sscanf(key, "gemm:%" SCNd64 "x%" SCNd64 "x%" SCNd64, &others[0],
                                          &others[1], &others[2]) == 3)
            similar_add(similar, sizes, others, value);
    }
    return similar->count >= ENOUGH && count_winners(similar) <= MOST_WINNERS;
}

static int has_won(const struct similar *similar, const cublasLtMatmulAlgo_t *algorithm)
{
    char text[GEMM_ALGORITHM];

    gemm_write_algorithm(algorithm, text);
    for (int i = 0; i < similar->count; i++)
        if (strcmp(similar->values[i], text) == 0)
            return 1;
    return 0;
}

int gemm_shortlist(const struct similar *similar, cublasLtMatmulHeuristicResult_t *offered,
                   int count)
{
    int winners = 0, kept = 0;

    for (int i = 0; i < count; i++) {
        int winner = has_won(similar, &offered[i].algo);

        winners += winner;
        if (winner || i < FIRST)
            offered[kept++] = offered[i];
    }
    return winners > 0 ? kept : 0;
}
