/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizer state of which a part is in host memory: every element is updated once in each step,
 * whatever the order in which the streams run. */
#include "tap.h"
#include "engine/schedule/optimizer_state.h"

#include <stdlib.h>
#include <string.h>

enum { ELEMENTS = 5000, STEPS = 4, PIECES = 64 };

/* moment1 += 1 and master += moment1, moment2 stays, for all elements. Several pieces, and steps,
 * are under way at a time. */
static int step(struct optimizer_state *s, struct device_stream *stream, const float *ones,
                struct device_plan *plans[PIECES], struct error *err)
{
    int pieces = 0;

    offload_begin(s->offload);
    for (int64_t at = 0, count; at < s->elements && pieces < PIECES; at += count) {
        struct operation op = {.kind = OPERATION_ADD};
        struct device_plan **add = &plans[pieces++];
        struct offload_arrays a;

        count = optimizer_state_span(s, at, s->elements - at);
        op.add.count = count;
        if (!*add)
            *add = plan_create(s->device, &op, err);
        if (!*add)
            return -1;
        a = optimizer_state_use(s, stream, at, count, STATE_ALL);
        run_add(*add, stream, &(struct add_operands){ones, a.moment1});
        run_add(*add, stream, &(struct add_operands){a.moment1, a.master});
        optimizer_state_done(s, stream, at, count, STATE_ALL);
    }
    offload_settle(s->offload, stream);
    return 0;
}

static float element(const struct optimizer_state *s, const float *here, const float *host,
                     int64_t i)
{
    return i < s->hosted ? host[i] : here[i - s->hosted];
}

/* Element i of moment2, of either type. */
static char *second(const struct optimizer_state *s, int64_t i)
{
    size_t size = type_size(s->types.moment2);

    return i < s->hosted ? (char *)s->host.moment2 + (size_t)i * size
                         : (char *)s->here.moment2 + (size_t)(i - s->hosted) * size;
}

static int all_zero(const struct optimizer_state *s)
{
    static const char zero[sizeof(float)];

    for (int64_t i = 0; i < s->elements; i++)
        if (memcmp(second(s, i), zero, type_size(s->types.moment2)) != 0)
            return 0;
    return 1;
}

/* Give each element bytes of its own. */
static void set_second(const struct optimizer_state *s)
{
    for (int64_t i = 0; i < s->elements; i++) {
        uint16_t bytes[2] = {(uint16_t)i, (uint16_t)(i * 7)};

        memcpy(second(s, i), bytes, type_size(s->types.moment2));
    }
}

static int is_kept(const struct optimizer_state *s, int64_t i)
{
    uint16_t expected[2] = {(uint16_t)i, (uint16_t)(i * 7)};

    return memcmp(second(s, i), expected, type_size(s->types.moment2)) == 0;
}

/* After n steps the moment is n, and the master weight i + 1 + 2 + ... + n. */
static void check(const struct optimizer_state *s, double fraction, int64_t hosted)
{
    int64_t wrong = 0, total = STEPS * (STEPS + 1) / 2;

    for (int64_t i = 0; i < s->elements; i++)
        wrong += element(s, s->here.master, s->host.master, i) != (float)(i + total) ||
                 element(s, s->here.moment1, s->host.moment1, i) != STEPS || !is_kept(s, i);
    if (!ok(wrong == 0 && s->hosted == hosted, "%g in host memory, moments of %zu and %zu bytes",
            fraction, type_size(s->types.moment1), type_size(s->types.moment2)))
        diag("%lld elements are wrong, %lld are in host memory", (long long)wrong,
             (long long)s->hosted);
}

static void test(struct device *device, double fraction, int64_t hosted, enum device_type moment2)
{
    const struct state_types types = {.master = 1, .moment2 = moment2};
    struct device_stream *stream;
    struct optimizer_state s = {0};
    struct error err = {0};
    float *ones = calloc(ELEMENTS, sizeof(*ones)), *first = calloc(ELEMENTS, sizeof(*first));
    struct device_plan *plans[PIECES] = {0};
    size_t on_device, on_host;
    int rc = -1;

    for (int64_t i = 0; i < ELEMENTS; i++) {
        ones[i] = 1;
        first[i] = (float)i;
    }
    stream = device_stream_create(device, 0);
    if (stream && optimizer_state_create(&s, device, ELEMENTS, &types, fraction, &err) == 0 &&
        optimizer_state_clear(&s, stream, &err) == 0) {
        /* In two parts, as from two buckets. */
        optimizer_state_set_master(&s, stream, 0, first, 1500);
        optimizer_state_set_master(&s, stream, 1500, first + 1500, ELEMENTS - 1500);
        rc = device_stream_wait(stream, 60, &err);
        ok(all_zero(&s), "moments begin with 0");
        set_second(&s);
    }
    for (int i = 0; i < STEPS && rc == 0; i++)
        rc = step(&s, stream, ones, plans, &err);
    if (rc == 0)
        rc = device_stream_wait(stream, 60, &err);
    if (!ok(rc == 0, "steps"))
        diag("%s", err.text);
    else
        check(&s, fraction, hosted);
    optimizer_state_memory(ELEMENTS, &types, fraction, &on_device, &on_host);
    ok(on_host == (size_t)hosted * (2 * sizeof(float) + type_size(moment2)), "  its host memory");
    for (int i = 0; i < PIECES; i++)
        plan_destroy(plans[i]);
    optimizer_state_destroy(&s);
    device_stream_destroy(stream);
    free(ones);
    free(first);
}

/* Without master weights there is none to be updated, also in what is copied to the device. */
static void test_two_arrays(struct device *device)
{
    struct error err = {0};
    struct device_stream *stream = device_stream_create(device, 0);
    struct optimizer_state s = {0};
    const struct state_types types = {.master = 0};
    int rc = stream ? optimizer_state_create(&s, device, ELEMENTS, &types, 1, &err) : -1;
    struct offload_arrays a = {0};

    if (rc == 0) {
        offload_begin(s.offload);
        a = optimizer_state_use(&s, stream, 0, 128, STATE_ALL);
        optimizer_state_done(&s, stream, 0, 128, STATE_ALL);
        offload_settle(s.offload, stream);
        rc = device_stream_wait(stream, 60, &err);
    }
    ok(rc == 0 && !a.master && a.moment1 && a.moment2, "two arrays in host memory: no master");
    optimizer_state_destroy(&s);
    device_stream_destroy(stream);
}

int main(void)
{
    for (int order = 0; order < 4; order++) {
        struct error err;
        struct device *device =
            device_open("cpu",
                        &(struct device_options){
                            .threads = 1, .random_order = order > 0, .order_seed = (uint64_t)order},
                        &err);

        if (!device) {
            printf("Bail out! %s\n", err.text);
            return 1;
        }
        test(device, 0, 0, TYPE_FP32);
        test(device, 0.026, 128, TYPE_FP32); /* one piece */
        test(device, 0.3, 1408, TYPE_FP32);
        test(device, 1, ELEMENTS, TYPE_FP32);
        test(device, 0, 0, TYPE_BF16);
        test(device, 0.3, 1408, TYPE_BF16);
        test(device, 1, ELEMENTS, TYPE_BF16);
        test_two_arrays(device);
        device_close(device);
    }
    return done_testing();
}
