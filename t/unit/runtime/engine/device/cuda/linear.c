/* SPDX-License-Identifier: Apache-2.0 */
/* The variant of a linear layer is chosen once and found again, whatever happens to the file and
 * whatever fails meanwhile. Products are fakes. */
#include "fake_layer.h"
#include "tap.h"

#include <stdlib.h>
#include <unistd.h>

enum { SPLIT, FUSED, FUSED_PART, OWN };

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
        ok(gemm && gemm->finalists_count > 1,
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
    if (directory_create() < 0)
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
    test_own();
    test_gated(OPERATION_LINEAR_FORWARD);
    test_gated(OPERATION_LINEAR_DGRAD);
    test_long_gated();
    test_no_memory();
    directory_remove();
    return done_testing();
}
