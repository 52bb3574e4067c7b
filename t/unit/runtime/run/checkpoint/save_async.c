/* SPDX-License-Identifier: Apache-2.0 */
/* A save during training: it copies the state after its step, whatever the device runs first; the
 * passes of the next step do not wait for the copies, and its update does. */
#include "tap.h"
#include "run/checkpoint/checkpoint.h"
#include "run/checkpoint/directory.h"
#include "engine/schedule/optimizer.h"
#include "engine/parallel/ranks.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEPS = 4, ORDERS = 24, MOST_BYTES = 1 << 20 };

static const struct model_config gpt = {
    .network.shape = {.name = "gpt",
                      .layers = 1,
                      .hidden = 16,
                      .ffn_hidden = 32,
                      .heads = 2,
                      .query_groups = 2,
                      .kv_channels = 8,
                      .vocabulary = 32,
                      .sequence = 8},
    .padded_vocabulary = 32,
    .network.positions = 8,
    .network.position = POSITION_LEARNED,
    .network.norm = NORM_LAYER,
    .network.epsilon = 1e-5,
    .network.tied = 1,
    .network.linear_bias = 1,
    .network.init_std = 0.02,
    .micro_batch = 1,
    .split.chunks = 1,
    .bucket_elements = 1,
    .seed = 7,
};

static const struct optimizer_config adam = {
    .rules = {.lr = 0.01, .style = LR_CONSTANT, .beta1 = 0.9, .beta2 = 0.99},
    .epsilon = 1e-8,
    .initial_scale = 1,
    .tied = 1,
};

struct rank {
    struct ranks ranks;
    struct model *model;
    struct optimizer *optimizer;
    struct checkpoint *checkpoint;
    struct device_plan *gradients; /* stands in for the passes: all are the same */
    int beside;                    /* saves that the model's stream overtook */
};

static char scratch[] = "/tmp/snapshot-XXXXXX";

static int open_rank(struct rank *r, const char *directory, int random_order, uint64_t seed,
                     struct error *err)
{
    static const struct world world = {.size = 1, .local_size = 1, .nodes = 1};
    struct ranks_config ranks = {.device = DEVICE_CPU,
                                 .threads = 1,
                                 .random_order = random_order,
                                 .seed = seed,
                                 .deadline = 60,
                                 .layout = {1, 1, 1, 1}};
    struct checkpoint_config config = {
        .save = directory, .save_optimizer = 1, .async = 1, .model = &gpt, .rules = &adam.rules};
    struct operation fill = {.kind = OPERATION_FILL, .fill = {0, TYPE_FP32, 0.5}};
    struct checkpoint_arrays arrays;
    const struct optimizer_state *state;

    if (ranks_open(&r->ranks, &ranks, &world, err) < 0)
        return -1;
    r->model = model_create(&gpt, &r->ranks.parallel, r->ranks.device, 1, err);
    if (!r->model)
        return -1;
    r->optimizer =
        optimizer_create(&adam, r->model, &r->ranks.parallel, r->ranks.device, TYPE_FP32, err);
    if (!r->optimizer)
        return -1;
    state = optimizer_state(r->optimizer);
    arrays = (struct checkpoint_arrays){.master = state->here.master,
                                        .moment1 = state->here.moment1,
                                        .moment2 = state->here.moment2};
    r->checkpoint =
        checkpoint_create(&config, r->model, &r->ranks.parallel, r->ranks.device, &arrays, err);
    fill.fill.count = state->elements;
    r->gradients = plan_create(r->ranks.device, &fill, err);
    if (!r->checkpoint || !r->gradients || model_initialize(r->model, err) < 0)
        return -1;
    return optimizer_start(r->optimizer, NULL, 1, err);
}

/* Everything except the checkpoint. */
static void close_rest(struct rank *r)
{
    plan_destroy(r->gradients);
    optimizer_destroy(r->optimizer);
    model_destroy(r->model);
    ranks_close(&r->ranks);
}

/* Work before the update overtakes the copies of a save. Do not wait for all of it: meanwhile the
 * copies advance, and an update that does not wait for them would rarely be ahead. */
static int pass(struct rank *r, int wait, struct error *err)
{
    struct device_stream *stream = model_facts(r->model).stream;

    run_fill(r->gradients, stream, &(struct fill_operands){model_facts(r->model).gradients});
    if (!wait)
        return 0;
    if (device_stream_wait(stream, 60, err) < 0)
        return -1;
    r->beside += !device_event_done(checkpoint_copied(r->checkpoint));
    return 0;
}

/* Every step is saved; one more follows the last save. */
static int train(struct rank *r, struct error *err)
{
    for (int64_t step = 1; step <= STEPS + 1; step++) {
        if (pass(r, step % 2 == 0, err) < 0)
            return -1;
        optimizer_phase(r->optimizer, STEP_BEGIN);
        optimizer_finish(r->optimizer);
        if (step > STEPS)
            break;
        if (checkpoint_save(r->checkpoint, &(struct progress){.iteration = step}, err) < 0)
            return -1;
        optimizer_hold(r->optimizer, checkpoint_copied(r->checkpoint));
        optimizer_phase(r->optimizer,
                        STEP_RESET); /* the step's state does not wait for the update */
    }
    return checkpoint_wait(r->checkpoint, err);
}

/* Returns the number of saves that the model's stream overtook, or -1. */
static int run(const char *directory, int random_order, uint64_t seed)
{
    struct rank r = {.beside = 0};
    struct error err;
    int rc = open_rank(&r, directory, random_order, seed, &err);

    if (rc == 0)
        rc = train(&r, &err);
    if (rc < 0)
        diag("%s", err.text);
    checkpoint_destroy(r.checkpoint);
    close_rest(&r);
    return rc < 0 ? -1 : r.beside;
}

static size_t read_whole(const char *directory, int step, const char *name, char *bytes)
{
    char path[256];
    FILE *file;
    size_t size = 0;

    snprintf(path, sizeof(path), "%s/iter_%07d/%s", directory, step, name);
    file = fopen(path, "r");
    if (file) {
        size = fread(bytes, 1, MOST_BYTES, file);
        fclose(file);
    }
    return size;
}

/* Are the checkpoints of all steps identical? */
static int same(const char *a, const char *b)
{
    static const char *const names[] = {"rank_00000.safetensors", "index.json"};
    static char left[MOST_BYTES], right[MOST_BYTES];

    for (int step = 1; step <= STEPS; step++)
        for (int i = 0; i < 2; i++) {
            size_t size = read_whole(a, step, names[i], left);

            if (size == 0 || size == MOST_BYTES || read_whole(b, step, names[i], right) != size ||
                memcmp(left, right, size) != 0) {
                diag("step %d: %s differs", step, names[i]);
                return 0;
            }
        }
    return 1;
}

/* --- The end of a rank with a save under way ---------------------------------------------------
 */

static struct rank ending; /* static: abandoned work keeps its memory */
static int releases, early;
static void (*true_release)(struct device *device, void *memory);

static void count_release(struct device *device, void *memory)
{
    releases++;
    early += !device_event_done(checkpoint_copied(ending.checkpoint));
    true_release(device, memory);
}

static int wait_in_vain(struct device_event *event, double seconds, struct error *err)
{
    (void)event, (void)seconds;
    return error_set(err, "not within the deadline");
}

static int never_done(struct device_event *event)
{
    (void)event;
    return 0;
}

static const struct {
    const char *name;
    int stuck; /* the copies never finish */
    int releases;
} ends[] = {
    {"copies under way: their memory goes when they are done", 0, 2},
    {"copies that do not end: they keep their memory", 1, 0},
};

static void test_end(const char *directory, size_t row)
{
    struct error err = {.text = ""};
    struct device *device, before;
    int rc;

    ending = (struct rank){.beside = 0};
    rc = open_rank(&ending, directory, 1, 0, &err);
    if (rc == 0)
        rc = checkpoint_save(ending.checkpoint, &(struct progress){.iteration = 1}, &err);
    if (!ok(rc == 0, "a save begins")) {
        diag("%s", err.text);
        return;
    }
    device = ending.ranks.device;
    before = *device;
    true_release = device->host_release;
    device->host_release = count_release;
    if (ends[row].stuck) {
        device->event_wait = wait_in_vain;
        device->event_done = never_done;
    }
    releases = early = 0;
    checkpoint_destroy(ending.checkpoint);
    ok(releases == ends[row].releases && early == 0, "%s", ends[row].name);
    *device = before;
}

int main(void)
{
    char in_order[64], random_order[64];
    struct error err;
    int beside = 0;

    if (!mkdtemp(scratch))
        return 1;
    snprintf(in_order, sizeof(in_order), "%s/in-order", scratch);
    snprintf(random_order, sizeof(random_order), "%s/random-order", scratch);
    ok(run(in_order, 0, 0) == 0, "streams in order");
    for (uint64_t seed = 0; seed < ORDERS; seed++) {
        int saves = run(random_order, 1, seed);

        ok(saves >= 0 && same(in_order, random_order), "random order %d: every step as it was",
           (int)seed);
        beside += saves > 0 ? saves : 0;
        directory_remove(random_order, NULL, &err);
    }
    ok(beside > 0, "passes go by the copies: %d of %d", beside, ORDERS * STEPS / 2);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        test_end(random_order, i);
        close_rest(&ending);
    }
    directory_remove(scratch, NULL, &err);
    return done_testing();
}
