/* SPDX-License-Identifier: Apache-2.0 */
/* What is timed for a new product or layer if results of similar ones are installed. Products are
 * fakes. */
#include "fake_layer.h"
#include "engine/device/cuda/gemm_private.h"
#include "tap.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Add an installed result. */
static void install(const char *start, int number, const char *end, const char *value)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/installed", directory);
    file = fopen(path, "a");
    if (file) {
        fprintf(file, "%s%d%s %s\n", start, number, end, value);
        fclose(file);
    }
}

/* An algorithm as the file has it. */
static void write_algorithm(int number, char text[2 * sizeof(cublasLtMatmulAlgo_t) + 1])
{
    snprintf(text, 2 * sizeof(cublasLtMatmulAlgo_t) + 1, "%02x%0*d", number,
             2 * (int)sizeof(cublasLtMatmulAlgo_t) - 2, 0);
}

/* The library offers twelve algorithms, and usually eight are timed. If enough similar products are
 * installed, these are the first four and those that were the fastest for similar products. */
static void test_similar_products(void)
{
    static const unsigned few = 0x1e, eight = 0x1fe, last = 1 << 12;
    static const char alike[] = "x8:NN:8:8:8:110:0:0";
    static const struct {
        const char *name, *end; /* of the keys */
        int first, count, number;
        const char *suffix; /* of the values */
        int winners;        /* so many algorithms were the fastest */
        unsigned timed;
    } rows[] = {
        {"none are installed", alike, 60, 0, 12, "", 1, eight},
        {"there are sixteen", alike, 60, 16, 12, "", 1, few | last},
        {"there are fifteen", alike, 60, 15, 12, "", 1, eight},
        {"eight algorithms were the fastest", alike, 60, 16, 12, "", 8, few | 0x1fe0},
        {"nine were", alike, 60, 16, 12, "", 9, eight},
        {"they have other strides", "x8:NN:9:16:8:110:0:0", 60, 16, 12, "", 1, few | last},
        {"the first was the fastest", alike, 60, 16, 1, "", 1, few},
        {"they are provisional", alike, 60, 16, 12, "?", 1, eight},
        {"the fastest is not offered", alike, 60, 16, 13, "", 1, eight},
        {"they are transposed", "x8:TN:8:8:8:110:0:0", 60, 16, 12, "", 1, eight},
        {"they have a bias", "x8:NN:8:8:8:111:1:0", 60, 16, 12, "", 1, eight},
        {"their rows are a sixteenth", alike, 4, 16, 12, "", 1, few | last},
        {"they are far smaller", "x1:NN:8:8:8:110:0:0", 3, 16, 12, "", 1, eight},
        {"they are far larger", alike, 1100, 16, 12, "", 1, eight},
    };
    static const struct gemm_operands scratch;

    fake.offered = fake.best = 12;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct gemm_shape shape = product_shape(64, 0);
        struct layer l;
        struct gemm *gemm;

        remove_named("installed");
        for (int k = 0; k < rows[i].count; k++) {
            char value[2 * sizeof(cublasLtMatmulAlgo_t) + 2];

            write_algorithm(rows[i].number - k % rows[i].winners, value);
            strcat(value, rows[i].suffix);
            install("gemm:8x", rows[i].first + k, rows[i].end, value);
        }
        remove_file();
        begin(&l, 0);
        fake.timed = 0;
        gemm = gemm_create(&l.device.gemm, &shape, &scratch, &l.err);
        ok(gemm && gemm_decide(gemm, &scratch, &l.err) == 0 && fake.timed == rows[i].timed,
           "similar products: %s", rows[i].name);
        is_int(count_lines(&l, "gemm:8x64x8:NN:8:8:8:110:0:0 0c", ""),
               (rows[i].timed & last) ? 1 : 0, "  the fastest is chosen if it was timed");
        gemm_destroy(gemm);
        end(&l);
    }
    fake.offered = fake.best = 0;
    remove_named("installed");
}

/* A product whose neighbors are tried: one of them may have won, which is not offered. */
static void test_similar_neighbors(void)
{
    struct gemm_shape shape = product_shape(64, 0);
    char value[2 * sizeof(cublasLtMatmulAlgo_t) + 1];
    struct gemm *gemm;
    struct layer l;

    shape.epilogue = GEMM_BIAS;
    write_algorithm(12, value);
    for (int i = 0; i < 16; i++)
        install("gemm:8x", 60 + i, "x8:NN:8:8:8:110:1:0", value);
    remove_file();
    fake.offered = 12;
    begin(&l, 0);
    fake.timed = 0;
    gemm = gemm_create(&l.device.gemm, &shape, &(struct gemm_operands){NULL}, &l.err);
    ok(gemm && fake.timed == 0x1fe, "a product with neighbors has all candidates");
    gemm_destroy(gemm);
    end(&l);
    fake.offered = 0;
    remove_named("installed");
}

/* A variant that clearly lost in at least four similar layers is not timed. */
static void test_similar_layers(void)
{
    enum { LIBRARY = 1, OURS, BOTH };
    static const char forward[] = "linear0:", alike[] = ":8:8:1:1:1:0:ours1";
    static const char won[] = "3,0:53us,1:52us,3:50us";
    static const struct {
        const char *name, *start, *end, *value;
        int count;
        const char *other; /* one more value, or NULL */
        int number;        /* rows of its layer */
        int own, timed;
    } rows[] = {
        {"ours was the fastest", forward, alike, won, 4, NULL, 0, 1, OURS},
        {"three are too few", forward, alike, won, 3, NULL, 0, 1, BOTH},
        {"none lost clearly", forward, alike, "3,0:51us,1:51us,3:50us", 4, NULL, 0, 1, BOTH},
        {"others did not run", forward, alike, "3,0:-1us,1:-1us,3:50us", 4, NULL, 0, 1, OURS},
        {"others lost in all but one", forward, alike, won, 7, "0,0:50us,1:50us,3:50us", 70, 1, BOTH},
        {"the ninth differs", forward, alike, won, 8, "0,0:50us,1:50us,3:50us", 90, 1, OURS},
        {"one has no times", forward, alike, won, 6, "0", 70, 1, OURS},
        {"none has times", forward, alike, "3", 4, NULL, 0, 1, BOTH},
        {"one variant has no times", forward, alike, "3,0:53us,3:50us", 4, NULL, 0, 1, BOTH},
        {"of the gradient", "linear1:", alike, won, 4, NULL, 0, 1, BOTH},
        {"of another activation", forward, ":8:8:1:1:2:0:ours1", won, 4, NULL, 0, 1, BOTH},
        {"twice as wide", forward, ":16:8:1:1:1:0:ours1", won, 4, NULL, 0, 1, OURS},
        {"over four times as wide", forward, ":33:8:1:1:1:0:ours1", won, 4, NULL, 0, 1, BOTH},
        {"ours lost", forward, alike, "1,0:53us,1:50us,3:52us", 4, NULL, 0, 1, LIBRARY},
        {"ours cannot be started now", forward, alike, won, 4, NULL, 0, -1, LIBRARY},
        {"an impossible variant won", forward, alike, "2,0:53us,1:52us,2:50us,3:52us", 4, NULL, 0,
         1, BOTH},
    };
    const struct linear_shape shape = gelu_layer(64);

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        for (fake.elsewhere = 0; fake.elsewhere < 2; fake.elsewhere++) {
            int timed, expected = rows[i].own < 0 ? LIBRARY : BOTH;
            struct layer l;

            remove_named("installed");
            for (int k = 0; k < rows[i].count; k++)
                install(rows[i].start, 62 + k, rows[i].end, rows[i].value);
            if (rows[i].other)
                install(rows[i].start, rows[i].number, rows[i].end, rows[i].other);
            remove_file();
            fake.own = rows[i].own;
            fake.timed = 0;
            fake.ours = 0;
            begin_shape(&l, 0, OPERATION_LINEAR_FORWARD, &shape);
            timed = (fake.timed ? LIBRARY : 0) | (fake.ours ? OURS : 0);
            ok(l.rc == 0 && timed == (fake.elsewhere ? expected : rows[i].timed),
               "similar layers%s: %s", fake.elsewhere ? " of another GPU" : "", rows[i].name);
            end(&l);
        }
    fake.own = fake.elsewhere = 0;
    remove_named("installed");
}

/* A gradient is compared with gradients. */
static void test_similar_gradients(void)
{
    const struct linear_shape shape = gelu_layer(64);

    fake.own = 1;
    for (int kind = OPERATION_LINEAR_FORWARD; kind <= OPERATION_LINEAR_DGRAD; kind++) {
        char start[32];
        struct layer l;

        snprintf(start, sizeof(start), "linear%d:", kind);
        for (int i = 0; i < 4; i++)
            install(start, 62 + i, ":8:8:1:1:1:0:ours1", "3,0:53us,1:54us,2:52us,3:50us");
        remove_file();
        fake.timed = 0;
        begin_shape(&l, 0, OPERATION_LINEAR_DGRAD, &shape);
        ok(l.rc == 0 && (fake.timed != 0) == (kind == OPERATION_LINEAR_FORWARD),
           "a gradient, and similar layers of kind %d", kind);
        end(&l);
        remove_named("installed");
    }
    fake.own = 0;
}

/* The keys of the installed file are those of today's code: among them are similar products and
 * layers for a Llama of 4,608 columns, for which nothing is installed. After a change of
 * HOPPER_LINEAR_VERSION, TUNING_METHOD or keys the file must be measured again. */
static void test_installed(void)
{
    const struct gemm_shape shape = {.m = 24576,
                                     .n = 16384,
                                     .k = 4608,
                                     .transpose_a = 1,
                                     .lda = 4608,
                                     .ldb = 4608,
                                     .ldd = 24576,
                                     .type = TYPE_BF16,
                                     .out = TYPE_BF16,
                                     .bias_type = TYPE_BF16};
    const struct linear_shape layer = {.rows = 16384,
                                       .in = 4608,
                                       .out = 24576,
                                       .types = linear_types(TYPE_BF16),
                                       .activation = ACTIVATION_SWIGLU,
                                       .save_pre = 1};
    char file[sizeof(TOP_SRCDIR) + 64], path[128];
    struct similar similar;
    struct gemm *gemm;
    struct layer l;

    remove_file();
    snprintf(file, sizeof(file), TOP_SRCDIR "/etc/tuning/tuning%d-NVIDIA_H200-132-cublaslt130100",
             TUNING_METHOD);
    snprintf(path, sizeof(path), "%s/installed", directory);
    ok(symlink(file, path) == 0 && access(path, R_OK) == 0, "the installed file is found");
    fake.own = 1, fake.timed = 0;
    begin_shape(&l, 0, OPERATION_LINEAR_FORWARD, &layer);
    ok(l.rc == 0 && fake.timed == 0, "  it tells which variant wins");
    gemm = gemm_create(&l.device.gemm, &shape, &(struct gemm_operands){NULL}, &l.err);
    ok(gemm && gemm_find_similar(gemm, &similar) && similar.count == SIMILAR_MOST,
       "  and similar products");
    gemm_destroy(gemm);
    end(&l);
    fake.own = 0;
    remove_named("installed");
}

int main(void)
{
    if (directory_create() < 0)
        return skip_all("no temporary directory");
    test_similar_products();
    test_similar_neighbors();
    test_similar_layers();
    test_similar_gradients();
    test_installed();
    directory_remove();
    return done_testing();
}
