/* SPDX-License-Identifier: Apache-2.0 */
/* The variant of a linear layer is chosen once and found again, whatever happens to the file and
 * whatever fails meanwhile. Products are fakes. */
#include "cuda.h"
#include "fake_products.h"
#include "gemm_private.h"
#include "tap.h"

#include <stdlib.h>
#include <unistd.h>

enum { SPLIT, FUSED, FUSED_PART, OWN };

static char directory[64] = "/tmp/megatron-linear.XXXXXX", workspace[64];

struct layer {
    struct cuda_device device;
    struct cuda_plan plan;
    struct error err;
    int rc;
};

/* What is installed is of another kind of GPU. */
static int elsewhere;

/* Plan a layer as a newly started process would. */
static void begin_shape(struct layer *l, int deterministic, enum operation_kind kind,
                        const struct linear_shape *shape)
{
    memset(l, 0, sizeof(*l));
    l->device.gemm.tuning = tuning_open(directory, NULL, "file");
    l->device.gemm.installed = tuning_open(NULL, directory, "installed");
    l->device.gemm.elsewhere = elsewhere;
    l->device.gemm.workspace = workspace;
    l->device.gemm.candidates = 8;
    l->device.deterministic = deterministic;
    l->plan.base.device = &l->device.base;
    l->plan.base.kind = kind;
    l->plan.operation.linear = *shape;
    fake.products = fake.gates = fake.failures = fake.broken = 0;
    fake.for_gemms = workspace;
    l->rc = cuda_plan_linear(&l->plan, &l->err);
    if (l->rc == 0)
        tuning_save(l->device.gemm.tuning, NULL);
}

static struct linear_shape gelu_layer(int64_t rows)
{
    return (struct linear_shape){.rows = rows,
                                 .in = 8,
                                 .out = 8,
                                 .types = linear_types(TYPE_BF16),
                                 .bias = 1,
                                 .activation = ACTIVATION_GELU_TANH};
}

/* A layer with an activation. */
static void begin(struct layer *l, int deterministic)
{
    const struct linear_shape shape = gelu_layer(16);

    begin_shape(l, deterministic, OPERATION_LINEAR_FORWARD, &shape);
}

static void end(struct layer *l)
{
    l->plan.destroy(&l->plan);
    tuning_destroy(l->device.gemm.tuning);
    tuning_destroy(l->device.gemm.installed);
}

/* Set all keys in the file that start with 'key' to another value; NULL: remove them. */
static void change_file(const char *key, const char *value)
{
    char path[128], lines[16][512];
    int count = 0;
    FILE *file;

    snprintf(path, sizeof(path), "%s/file", directory);
    file = fopen(path, "r");
    while (file && count < 16 && fgets(lines[count], sizeof(lines[count]), file))
        count++;
    if (file)
        fclose(file);
    file = fopen(path, "w");
    for (int i = 0; file && i < count; i++) {
        if (strncmp(lines[i], key, strlen(key)) != 0)
            fputs(lines[i], file);
        else if (value)
            fprintf(file, "%.*s %s\n", (int)strcspn(lines[i], " "), lines[i], value);
    }
    if (file)
        fclose(file);
}

static void remove_named(const char *name)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    unlink(path);
}

static void remove_file(void)
{
    remove_named("file");
}

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

/* Does a line of the file end with 'end'? */
static int file_has(const char *end)
{
    char path[128], line[512];
    int found = 0;
    FILE *file;

    snprintf(path, sizeof(path), "%s/file", directory);
    file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        found |= strlen(line) > strlen(end) && strcmp(line + strlen(line) - strlen(end), end) == 0;
    }
    if (file)
        fclose(file);
    return found;
}

/* How many lines of the process's choices start with 'key' and end with 'end'? */
static int count_lines(const struct layer *l, const char *key, const char *end)
{
    char *text = tuning_text(l->device.gemm.tuning);
    int count = 0;

    for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;)
        count += strncmp(line, key, strlen(key)) == 0 && strlen(line) > strlen(end) &&
                 strcmp(line + strlen(line) - strlen(end), end) == 0;
    free(text);
    return count;
}

static int variant_of(const struct layer *l)
{
    char *text = tuning_text(l->device.gemm.tuning), *line = strstr(text, "linear");
    int variant = line ? atoi(strchr(line, ' ')) : -1;

    free(text);
    return variant;
}

static void run_layer(struct layer *l)
{
    struct linear_forward_operands operands = {0};
    struct cuda_stream stream = {0};

    l->plan.work(&l->plan, &stream, workspace, &operands);
}

static void test_found_again(void)
{
    static const struct {
        const char *key, *value, *name;
        int again; /* is it timed? */
    } rows[] = {
        {"none", NULL, "an undamaged file", 0},
        {"gemm", NULL, "products that are lost", 1},
        {"gemm", "trying", "products that somebody tried", 1},
        {"gemm", "00ff", "products that cannot be read", 1},
        {"linear", "9", "a layer that is unknown", 1},
        {"linear", "x", "a layer that cannot be read", 1},
    };
    struct layer l;

    begin(&l, 0);
    ok(l.rc == 0 && fake.products > 0, "the first start times");
    is_int(variant_of(&l), FUSED, "and finds the epilogue");
    end(&l);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        change_file(rows[i].key, rows[i].value);
        fake.settled = 0;
        begin(&l, 0);
        ok(l.rc == 0 && (fake.products > 0) == rows[i].again, "%s: timed %s", rows[i].name,
           rows[i].again ? "again" : "once");
        is_int(fake.settled, rows[i].again, "  threads are waited for only then");
        is_int(variant_of(&l), FUSED, "  and the same is found");
        end(&l);
        begin(&l, 0);
        is_int(l.rc == 0 ? fake.products : -1, 0, "  the next start finds it all");
        end(&l);
    }
}

/* A neighbor breaks the GPU after 'lasts' runs in a row. The next start tries no neighbors of that
 * product, and marks what it remembers. */
static void test_breakdown(int epilogue, int lasts, int products, const char *name)
{
    static const char crash[] = "the GPU crashed", remedy[] = "; restart the run";
    struct layer l;

    remove_file();
    fake.epilogue = epilogue;
    fake.lasts = lasts;
    fake.breaks = 1;
    begin(&l, 0);
    ok(l.rc == -1 && strstr(l.err.text, crash) && strstr(l.err.text, remedy),
       "the GPU breaks down over %s", name);
    diag("%s", l.err.text);
    end(&l);
    begin(&l, 0);
    is_int(l.rc, 0, "  once");
    ok(count_lines(&l, "gemm", "?") == products && count_lines(&l, "linear", "?") == 1,
       "  what is found without what broke it is marked");
    end(&l);
    fake.breaks = fake.epilogue = fake.lasts = 0;
}

/* A variant that fails is skipped, and nothing else is. */
static void test_failure(void)
{
    struct layer l;

    remove_file();
    fake.epilogue = CUBLASLT_EPILOGUE_GELU_BIAS;
    fake.fails_in_layers = 1;
    begin(&l, 0);
    is_int(l.rc, 0, "an epilogue that fails in the layer");
    is_int(variant_of(&l), SPLIT, "  is left out");
    is_int(fake.failures, 0, "  and is no failure of the device");
    ok(file_has(" tried") && !file_has(" trying"), "  its trial has ended");
    end(&l);
    remove_file();
    fake.fails_in_layers = 0;
    fake.fails = 1;
    begin(&l, 0);
    is_int(l.rc, 0, "one that never runs");
    is_int(variant_of(&l), SPLIT, "  is left out, too");
    is_int(count_lines(&l, "gemm", ""), 1, "  and no algorithm is remembered for it");
    end(&l);
    remove_file();
    fake.epilogue = 0;
    begin(&l, 0);
    ok(l.rc == -1 && strstr(l.err.text, "none of cuBLASLt's kernels for the product"),
       "an error if all fail");
    diag("%s", l.err.text);
    end(&l);
    fake.fails = 0;
}

/* A call of a product that takes so many milliseconds and fails after so many runs. */
struct runner {
    struct gemm *gemm;
    int milliseconds, left;
};

static int run(void *argument)
{
    struct runner *r = argument;

    if (r->left-- <= 0)
        return -1;
    for (int i = 0; i < r->milliseconds; i++)
        gemm_run(r->gemm, NULL, &(struct gemm_operands){0}, 0, workspace);
    return 0;
}

/* Candidates that fail lose to all others, also when only the close ones are timed. Of three, the
 * first two are close. */
static void test_rank(void)
{
    static const struct gemm_shape shape = {
        .m = 8, .n = 16, .k = 8, .lda = 8, .ldb = 8, .ldd = 8, .type = TYPE_BF16, .out = TYPE_BF16};
    static const struct gemm_operands scratch;
    static const struct {
        const char *name;
        int lasts[3];
        const char *order; /* x: failed */
        int close;
    } rows[] = {
        {"all run", {99, 99, 99}, "012", 2},
        {"one that is close stops running", {5, 99, 99}, "12x", 1},
        {"both stop running", {5, 5, 99}, "2xx", 1},
        {"one never runs", {99, 0, 99}, "02x", 1},
        {"none runs", {0, 0, 0}, "xxx", 0},
    };
    struct layer l;
    struct gemm *gemm;

    remove_file();
    begin(&l, 0);
    gemm = gemm_create(&l.device.gemm, &shape, &scratch, &l.err);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct timing_candidate candidates[3];
        struct runner runners[3];
        char order[4] = "";

        for (int j = 0; j < 3; j++) {
            runners[j] = (struct runner){gemm, j < 2 ? 1 : 2, rows[i].lasts[j]};
            candidates[j] = (struct timing_candidate){
                .call = run, .argument = &runners[j], .handicap = j == 1 ? 1.01 : 1};
        }
        ok(gemm_rank(&l.device.gemm, candidates, 3, &l.err) == rows[i].close,
           "ranked if %s: how many competed", rows[i].name);
        for (int j = 0; j < 3; j++)
            order[j] = candidates[j].seconds > 0
                           ? (char)('0' + ((struct runner *)candidates[j].argument - runners))
                           : 'x';
        is(order, rows[i].order, "  and the order");
    }
    gemm_destroy(gemm);
    end(&l);
}

/* Clocks that fall while the GPU is timed without a rest do not decide, neither for a layer nor for
 * a product alone. */
static void test_tiring(void)
{
    static const struct gemm_shape shape = {
        .m = 8, .n = 16, .k = 8, .lda = 8, .ldb = 8, .ldd = 8, .type = TYPE_BF16, .out = TYPE_BF16};
    static const struct gemm_operands scratch;
    static const char fused[] = "gemm:8x16x8:TN:8:8:8:111:3:0 ", alone[] = "gemm:8x16x8:NN:";

    for (fake.tires = 0; fake.tires < 2; fake.tires++) {
        char key[64];
        struct gemm *gemm;
        struct layer l;

        remove_file();
        begin(&l, 0);
        snprintf(key, sizeof(key), "%s0%d", fused, 1 + fake.tires);
        ok(count_lines(&l, key, "") == 1, "a layer gets the algorithm that is fastest%s",
           fake.tires ? " when the GPU has rested" : "");
        is_int(variant_of(&l), FUSED, "  and the fastest variant");
        gemm = gemm_create(&l.device.gemm, &shape, &scratch, &l.err);
        ok(gemm && gemm_finalists(gemm) > 1,
           "several algorithms of a product are nearly equally fast");
        is_int(gemm ? gemm_decide(gemm, &scratch, &l.err) : -1, 0, "  one of which is chosen");
        snprintf(key, sizeof(key), "%s8:8:8:110:0:0 0%d", alone, 1 + fake.tires);
        is_int(count_lines(&l, key, ""), 1, "  by the same rule");
        gemm_destroy(gemm);
        end(&l);
        begin(&l, 0);
        snprintf(key, sizeof(key), "%s0%d", fused, 1 + fake.tires);
        ok(fake.products == 0 && count_lines(&l, key, "") == 1, "  the next start uses the same");
        end(&l);
    }
    fake.tires = 0;
}

static struct gemm_shape product_shape(int rows, int transpose_a)
{
    return (struct gemm_shape){.m = 8,
                               .n = rows,
                               .k = 8,
                               .transpose_a = transpose_a,
                               .lda = 8,
                               .ldb = 8,
                               .ldd = 8,
                               .type = TYPE_BF16,
                               .out = TYPE_BF16};
}

/* Create a product of 'rows' in a started process; returns how many runs its choice took. The
 * second algorithm is the fastest. */
static int runs_to_choose(struct layer *l, int rows, int transpose_a)
{
    const struct gemm_shape shape = product_shape(rows, transpose_a);
    static const struct gemm_operands scratch;
    int before = fake.products;
    struct gemm *gemm = gemm_create(&l->device.gemm, &shape, &scratch, &l->err);
    int rc = gemm ? gemm_decide(gemm, &scratch, &l->err) : -1;
    char key[64];

    snprintf(key, sizeof(key), "gemm:8x%dx8:%s:8:8:8:110:0:0 02", rows, transpose_a ? "TN" : "NN");
    ok(rc == 0 && count_lines(l, key, "") == 1, "%d rows: the fastest algorithm is chosen", rows);
    gemm_destroy(gemm);
    return fake.products - before;
}

/* Before it is timed, an algorithm of a short product runs once; one of a long product only if its
 * kernel must be loaded, or if it is the first one, as the length is unknown. */
static void test_long(void)
{
    struct layer l;
    int first, again, other;

    fake.tires = 1;
    for (fake.length = 1; fake.length < 10; fake.length += 8) {
        const struct gemm_shape shape = product_shape(32, 0);
        int saved = fake.length == 1 ? 0 : 2;

        remove_file();
        begin(&l, 0);
        fake.fails = 1;
        ok(!gemm_create(&l.device.gemm, &shape, &(struct gemm_operands){NULL}, &l.err),
           "products of %d ms: one does not run", fake.length);
        fake.fails = 0, fake.unloaded = ~0u;
        first = runs_to_choose(&l, 64, 0);
        again = runs_to_choose(&l, 128, 0);
        fake.unloaded = ~0u;
        other = runs_to_choose(&l, 128, 1);
        ok(first - again == saved, "  %d runs, and %d with the same kernels", first, again);
        ok(first == other, "  and %d with others", other);
        end(&l);
    }
    fake.tires = fake.length = 0;
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
        {"others lost but once", forward, alike, won, 7, "0,0:50us,1:50us,3:50us", 70, 1, BOTH},
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
        for (elsewhere = 0; elsewhere < 2; elsewhere++) {
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
            ok(l.rc == 0 && timed == (elsewhere ? expected : rows[i].timed), "similar layers%s: %s",
               elsewhere ? " of another GPU" : "", rows[i].name);
            end(&l);
        }
    fake.own = elsewhere = 0;
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
 * HOPPER_LINEAR_VERSION or of keys the file must be measured again. */
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
    static const char file[] = TOP_SRCDIR "/etc/tuning/tuning9-NVIDIA_H200-132-cublaslt130100";
    char path[128];
    struct similar similar;
    struct gemm *gemm;
    struct layer l;

    remove_file();
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

/* Our own product is one more variant. */
static void test_own(void)
{
    struct layer l;

    remove_file();
    begin(&l, 0);
    is_int(variant_of(&l), FUSED, "a choice is made without our own product");
    end(&l);
    fake.own = 1;
    begin(&l, 0);
    ok(l.rc == 0 && fake.products > 0, "where ours is possible, it is made again");
    is_int(count_lines(&l, "linear0:16:8:8:1:1:1:0:ours", ""), 1, "  under another name");
    end(&l);
    remove_file();
    begin(&l, 0);
    ok(count_lines(&l, "gemm", "") == 0 && !file_has(" trying"),
       "  nothing is remembered of products that ours beats by far");
    end(&l);
    begin(&l, 0);
    is_int(l.rc == 0 ? fake.products : -1, 0, "  and found again");
    fake.products = 0;
    run_layer(&l);
    is_int(fake.products, 1, "  the layer is one product");
    is_int(fake.failures, 0, "  that runs");
    fake.own = -1;
    run_layer(&l);
    is_int(fake.failures, 1, "  if it no longer does, the device has failed");
    end(&l);
    remove_file();
    begin(&l, 0);
    is_int(l.rc, 0, "one that cannot be started");
    is_int(variant_of(&l), FUSED, "  is left out");
    is_int(fake.failures, 0, "  and is no failure of the device");
    end(&l);
    fake.own = 0;
}

static void begin_gated(struct layer *l, enum operation_kind kind, enum activation activation)
{
    begin_shape(l, 0, kind,
                &(struct linear_shape){.rows = 16,
                                       .in = 8,
                                       .out = 24,
                                       .types = linear_types(TYPE_BF16),
                                       .activation = activation});
}

/* Run a gated layer with the library's product: what it computes, and where the result goes. */
static void run_gated(struct layer *l)
{
    char y, pre, product, dx;
    struct linear_forward_operands forward = {.y = &y, .pre = &pre};
    struct linear_dgrad_operands dgrad = {.pre = &pre, .product = &product, .dx = &dx};
    int gradient = l->plan.base.kind == OPERATION_LINEAR_DGRAD;
    struct cuda_stream stream = {0};

    fake.products = fake.gates = 0;
    l->plan.work(&l->plan, &stream, workspace, gradient ? (void *)&dgrad : (void *)&forward);
    ok(fake.products == 1 && fake.gates == 1, "  it is a product and the gate");
    ok(fake.result == (gradient ? &product : &pre) && fake.gated == fake.result,
       "  the gate takes the product from its own memory");
}

/* A gate after the library's product leaves nothing to choose: what is known of the product alone
 * stays valid. With our own product there is a choice of its own. */
static void test_gated(enum operation_kind kind)
{
    char key[64];
    struct layer l;

    remove_file();
    begin_gated(&l, kind, ACTIVATION_NONE);
    ok(l.rc == 0 && fake.products > 0, "a product is timed");
    end(&l);
    begin_gated(&l, kind, ACTIVATION_SWIGLU);
    is_int(l.rc == 0 ? fake.products : -1, 0, "  with a gate nothing is timed again");
    is_int(count_lines(&l, "linear", ""), 1, "  and nothing else is remembered");
    run_gated(&l);
    end(&l);
    fake.own = 1;
    begin_gated(&l, kind, ACTIVATION_SWIGLU);
    ok(l.rc == 0 && fake.products > 0, "where ours is possible, both are timed");
    snprintf(key, sizeof(key), "linear%d:16:8:24:1:0:%d:0:ours", (int)kind, ACTIVATION_SWIGLU);
    is_int(count_lines(&l, key, ""), 1, "  under another name");
    fake.products = fake.gates = 0;
    if (kind == OPERATION_LINEAR_FORWARD) {
        run_layer(&l);
        ok(fake.products == 1 && fake.gates == 0, "  ours is faster, and takes the gate with it");
    }
    end(&l);
    begin_gated(&l, kind, ACTIVATION_SWIGLU);
    is_int(l.rc == 0 ? fake.products : -1, 0, "  it is found again");
    end(&l);
    begin_gated(&l, kind, ACTIVATION_GEGLU);
    ok(l.rc == 0 && fake.products > 0, "  and not for another gate");
    end(&l);
    change_file(key, "0");
    begin_gated(&l, kind, ACTIVATION_SWIGLU);
    is_int(l.rc == 0 ? fake.products : -1, 0, "the library's product can be chosen");
    run_gated(&l);
    end(&l);
    fake.own = 0;
}

/* The kernel that follows a long product may still have to be loaded when the layer is timed. */
static void test_long_gated(void)
{
    struct layer l;

    remove_file();
    fake.tires = 1, fake.length = 3, fake.unloaded = 1;
    begin_gated(&l, OPERATION_LINEAR_FORWARD, ACTIVATION_SWIGLU);
    ok(fake.unloaded == 0, "the gate of a long product is timed with it");
    is_int(count_lines(&l, "gemm:24x16x8:TN:8:8:24:111:0:0 02", ""), 1,
           "  and the fastest algorithm is chosen although it is loaded then");
    end(&l);
    fake.tires = fake.length = 0;
}

/* Without memory for trials. */
static void test_no_memory(void)
{
    struct layer l;

    for (int deterministic = 0; deterministic < 2; deterministic++) {
        remove_file();
        fake.no_memory = 1;
        begin(&l, deterministic);
        ok(l.rc == 0 && fake.products == 0, "without memory nothing is timed");
        is_int(count_lines(&l, "gemm", "?"), deterministic, "  the product is known afterwards");
        is_int(count_lines(&l, "linear", "?"), deterministic, "  and so is the layer");
        end(&l);
        fake.no_memory = 0;
        begin(&l, deterministic);
        is_int(l.rc == 0 && fake.products == 0, deterministic,
               "  to be the same next time if it must be");
        end(&l);
    }
}

int main(void)
{
    char path[128];

    if (!mkdtemp(directory))
        return skip_all("no temporary directory");
    test_found_again();
    test_breakdown(CUBLASLT_EPILOGUE_BIAS, 0, 0, "a product");
    test_breakdown(CUBLASLT_EPILOGUE_GELU_BIAS, 0, 1, "one with an activation");
    test_breakdown(CUBLASLT_EPILOGUE_GELU_BIAS, 3, 1, "one that ran in the layer");
    fake.own = 1;
    test_breakdown(CUBLASLT_EPILOGUE_GELU_BIAS, 3, 0, "one that is slower than ours");
    fake.own = 0;
    test_failure();
    test_rank();
    test_tiring();
    test_long();
    test_similar_products();
    test_similar_neighbors();
    test_similar_layers();
    test_similar_gradients();
    test_installed();
    test_own();
    test_gated(OPERATION_LINEAR_FORWARD);
    test_gated(OPERATION_LINEAR_DGRAD);
    test_long_gated();
    test_no_memory();
    remove_file();
    snprintf(path, sizeof(path), "%s/.tuning.lock", directory);
    unlink(path);
    rmdir(directory);
    return done_testing();
}
