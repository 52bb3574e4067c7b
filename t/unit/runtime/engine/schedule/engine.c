/* SPDX-License-Identifier: Apache-2.0 */
/* When a step calls back because the device is busy, and that the step before can be read then. The
 * device queues all work, as a GPU does; micro-batches come from a fake loader that counts them. */
#include "tap.h"
#include "engine/schedule/engine.h"

#include <string.h>

enum { SEQUENCE = 4, VOCABULARY = 16, MOST_MICROS = 8 };

struct batch_loader {
    int given;
};

int batch_loader_next(struct batch_loader *loader, struct batch *batch, struct error *err)
{
    static int32_t tokens[SEQUENCE] = {1, 2, 3, 4}, labels[SEQUENCE] = {2, 3, 4, 5};
    static int32_t positions[SEQUENCE] = {0, 1, 2, 3}, offsets[] = {0, SEQUENCE};
    static float mask[SEQUENCE] = {1, 1, 1, 1};

    (void)err;
    loader->given++;
    *batch = (struct batch){.tokens = tokens,
                            .labels = labels,
                            .loss_mask = mask,
                            .position_ids = positions,
                            .document_offsets = offsets,
                            .document_count = 1,
                            .longest_document = SEQUENCE};
    return 0;
}

void batch_loader_release(struct batch_loader *loader, const struct batch *batch)
{
    (void)loader;
    (void)batch;
}

static const struct engine_config config = {
    .model = {.network.shape = {.layers = 1,
                                .hidden = 8,
                                .ffn_hidden = 16,
                                .heads = 2,
                                .query_groups = 2,
                                .kv_channels = 4,
                                .vocabulary = VOCABULARY,
                                .sequence = SEQUENCE},
              .padded_vocabulary = VOCABULARY,
              .network.positions = SEQUENCE,
              .network.norm = NORM_LAYER,
              .network.epsilon = 1e-5,
              .network.tied = 1,
              .network.linear_bias = 1,
              .network.init_std = 0.02,
              .micro_batch = 1,
              .split.chunks = 1,
              .bucket_elements = 1},
    .optimizer = {.rules = {.lr = 1e-3, .decay_samples = 100, .beta1 = 0.9, .beta2 = 0.99},
                  .epsilon = 1e-8,
                  .initial_scale = 1,
                  .tied = 1},
    .min_micros = 1,
    .max_micros = MOST_MICROS,
    .eval_micros = 2,
    .deadline = 60,
};

/* What the callback finds. */
struct found {
    struct engine *engine;
    struct batch_loader loader;
    int calls, given; /* micro-batches taken when it was called */
    int fails;        /* it is to fail */
    struct step_state before;
    double seconds;
};

static int look(void *context, struct error *err)
{
    struct found *f = context;

    f->calls++;
    f->given = f->loader.given;
    if (f->fails)
        return error_set(err, "as told");
    return engine_reported(f->engine, &f->before, &f->seconds, err);
}

static void test_steps(struct engine *e)
{
    /* With more micro-batches than the host has buffers for, most of the step runs before
     * engine_step returns. */
    static const int micros[] = {1, 2, MOST_MICROS, MOST_MICROS, 1};
    struct engine_losses losses = {0};
    struct found f = {.engine = e};
    struct error err;

    engine_report(e);
    engine_on_busy(e, look, &f);
    for (int i = 0; i < (int)(sizeof(micros) / sizeof(*micros)); i++) {
        f.calls = f.given = f.loader.given = 0;
        ok(engine_step(e, &f.loader, i, micros[i], &err) == 0 && f.loader.given == micros[i],
           "a step of %d micro-batch(es)", micros[i]);
        is_int(f.calls, 1, "  calls back once");
        is_int(f.given, 1, "  after one of them");
        is_int(f.before.adam_step, i, "  when all steps before can be read, but not this one");
        ok(i == 0 ? f.seconds < 0 : f.seconds >= 0, "  and how long the last one took");
        engine_report(e);
    }
    f.calls = 0;
    ok(engine_evaluate(e, &f.loader, 2, &losses, &err) == 0, "an evaluation");
    is_int(f.calls, 0, "  does not call back");
    f.loader.given = 0;
    f.fails = 1;
    err.text[0] = '\0';
    is_int(engine_step(e, &f.loader, 5, MOST_MICROS, &err), -1, "a callback that fails");
    is(err.text, "as told", "  ends the step with its error");
    is_int(f.loader.given, 1, "  at once");
}

int main(void)
{
    struct device_options options = {.threads = 1, .random_order = 1, .order_seed = 3};
    struct comm_options world = {.size = 1, .deadline = 60};
    struct layout layout = {.tp = 1, .cp = 1, .dp = 1, .pp = 1};
    struct parallel parallel = {0};
    struct engine *engine = NULL;
    struct comm *comm;
    struct error err;

    world.device = device_open("cpu", &options, &err);
    comm = world.device ? comm_open("self", &world, &err) : NULL;
    if (comm && parallel_create(&parallel, comm, &layout, &err) == 0)
        engine = engine_create(&config, &parallel, world.device, &err);
    if (ok(engine && engine_start(engine, 1, NULL, 7, &err) == 0, "an engine"))
        test_steps(engine);
    else
        diag("%s", err.text);
    engine_destroy(engine);
    parallel_destroy(&parallel);
    comm_close(comm);
    device_close(world.device);
    return done_testing();
}
