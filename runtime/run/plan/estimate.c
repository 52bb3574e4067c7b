/* SPDX-License-Identifier: Apache-2.0 */
#include "estimate.h"

#include <math.h>

/* Everything that the parts of the estimate share. */
struct setting {
    const struct plan_run *run;
    const struct machine *machine;
    const struct machine_rates *rates;
    double rows;                          /* tokens of a micro-batch on one context-parallel rank */
    double batches;                       /* micro-batches of a step */
    double hidden, ffn, tp, groups_share; /* query groups per head */
    double flops;                         /* per second that large products reach */
    double bandwidth;                     /* bytes per second that kernels reach */
    double nvlink;                        /* and collectives of all GPUs of a node */
};

static struct setting make_setting(const struct plan_run *run, const struct machine *machine)
{
    const struct machine_gpu *gpu = &machine->gpu;
    struct setting s = {.run = run, .machine = machine};

    s.rates = run->own ? &gpu->own : &gpu->rates;
    s.rows = (double)(run->micro_batch * run->shape.sequence) / (double)run->layout.cp;
    s.batches = (double)run->global_batch / (double)(run->layout.dp * run->micro_batch);
    s.hidden = (double)run->shape.hidden;
    s.ffn = (double)run->shape.ffn_hidden;
    s.tp = (double)run->layout.tp;
    s.groups_share = (double)run->shape.query_groups / (double)run->shape.heads;
    s.nvlink = machine->nvlink * s.rates->nvlink * machine->nvlink_efficiency;
    s.flops = gpu->flops[run->precision] * s.rates->product * machine->efficiency;
    s.flops *= run->precision == MACHINE_FP8 ? s.rates->fp8 : 1;
    s.flops *= run->precision == MACHINE_FP4 ? s.rates->fp4 : 1;
    s.bandwidth = gpu->memory_bandwidth * s.rates->hbm;
    return s;
}

/* --- Products -------------------------------------------------------------------------------- */

/* The last wave of tiles leaves processors idle. */
static double wave_loss(double tiles, double processors)
{
    double waves = tiles / processors;

    return waves < 8 ? ceil(waves) / waves : 1 + 0.5 / waves;
}

/* Seconds of a (rows, depth) by (depth, cols) product: the best of three tile sizes, and not less
 * than moving its operands takes. */
static double product(const struct setting *s, double rows, double cols, double depth)
{
    const struct {
        double rows, cols, speed;
    } tiles[] = {
        {128, 256, 1}, {128, 128, s->rates->small_tile}, {64, 128, 0.85 * s->rates->small_tile}};
    double flops = 2 * rows * cols * depth, best = INFINITY, move;

    for (size_t i = 0; i < sizeof(tiles) / sizeof(*tiles); i++) {
        double count = ceil(rows / tiles[i].rows) * ceil(cols / tiles[i].cols);
        double seconds = flops * wave_loss(count, s->machine->gpu.processors) /
                         (s->flops * tiles[i].speed) * (1 + s->rates->half_depth / depth);

        best = fmin(best, seconds);
    }
    move = 2 * (rows * depth + rows * cols + cols * depth) / s->bandwidth;
    return fmax(best, move) + s->rates->launch;
}

/* The four linear layers of a transformer layer as (in, out). */
struct linear {
    double in, out;
};

static void linears(const struct setting *s, struct linear list[4])
{
    list[0] = (struct linear){s->hidden, s->hidden * (1 + 2 * s->groups_share) / s->tp};
    list[1] = (struct linear){s->hidden / s->tp, s->hidden};
    list[2] = (struct linear){s->hidden, (s->run->gated ? 2 : 1) * s->ffn / s->tp};
    list[3] = (struct linear){s->ffn / s->tp, s->hidden};
}

static double products_forward(const struct setting *s)
{
    struct linear list[4];
    double seconds = 0;

    linears(s, list);
    for (int i = 0; i < 4; i++)
        seconds += product(s, s->rows, list[i].out, list[i].in);
    return seconds;
}

static double products_backward(const struct setting *s)
{
    struct linear list[4];
    double seconds = 0;

    linears(s, list);
    for (int i = 0; i < 4; i++)
        seconds += product(s, s->rows, list[i].in, list[i].out) +
                   product(s, list[i].out, list[i].in, s->rows);
    return seconds;
}

/* --- Attention and memory traffic ------------------------------------------------------------ */

static double attention_forward(const struct setting *s)
{
    const struct model_shape *shape = &s->run->shape;
    double sequence = (double)shape->sequence, heads = (double)shape->heads;
    double size = s->hidden / heads, peak = s->machine->gpu.flops[MACHINE_BF16];
    double scores, share = pow(fmin(1, size / 128), s->rates->head_exponent);

    if (shape->hidden / shape->heads % 8 != 0)
        share *= s->rates->unaligned;
    if (s->rates->classic == 0)
        return 2 * s->rows * sequence * s->hidden / s->tp / (peak * s->rates->flash) *
               (size < 128 ? 1.15 : 1);
    scores = s->rows * heads / s->tp * sequence;
    return 4 * s->rows * sequence * s->hidden / s->tp / (s->flops * s->rates->unfused * share) +
           scores * s->rates->score_bytes / s->bandwidth;
}

static double attention_backward(const struct setting *s)
{
    return attention_forward(s) * (s->rates->classic == 0 ? 2.75 : 2);
}

static double elementwise_forward(const struct setting *s)
{
    int modern = s->rates->classic == 0;
    double hidden = s->rows * s->hidden * 2 * s->rates->hidden_traffic;
    double ffn = s->rows * s->ffn / s->tp * 2 * s->rates->ffn_traffic;

    /* Sequence parallelism divides the rows of norms and residuals. */
    if (modern)
        hidden /= s->tp;
    if (modern && s->run->gated)
        ffn *= 1.5;
    return (hidden + ffn) / s->bandwidth;
}

/* Inputs, forward, and gradients of outputs, backward, are cast to fp8; with recomputation the
 * inputs once more. */
static double casts(const struct setting *s, double again)
{
    struct linear list[4];
    double elements = 0;

    if (s->run->precision == MACHINE_BF16)
        return 0;
    linears(s, list);
    for (int i = 0; i < 4; i++)
        elements += (1 + again) * list[i].in + list[i].out;
    return s->rows * elements * s->rates->cast_bytes / s->bandwidth;
}

/* --- Communication --------------------------------------------------------------------------- */

/* Bytes per second within a node that each of 'ranks' reaches in a group. Without a switch a pair
 * has only the links between its two GPUs, and larger groups have more with every doubling. */
static double node_bandwidth(const struct setting *s, double ranks)
{
    double pair = s->machine->nvlink_pair, gpus = s->machine->gpus;

    if (ranks >= gpus || gpus <= 2)
        return s->nvlink;
    return s->nvlink * (pair + (1 - pair) * log2(fmax(ranks, 2) / 2) / log2(gpus / 2));
}

/* One all-reduce (or all-gather and reduce-scatter) of the hidden states of a micro-batch. */
static double tensor_collective(const struct setting *s)
{
    const struct machine *m = s->machine;
    double bandwidth =
        s->tp <= m->gpus ? node_bandwidth(s, s->tp) : m->network * s->rates->network_group;

    if (s->tp <= 1)
        return 0;
    return (2 * (s->tp - 1) / s->tp * s->rows * s->hidden * 2 / bandwidth + s->rates->collective +
            s->rates->latency * m->collective_latency * log2(s->tp)) *
           s->rates->tensor_exposed;
}

/* Keys and values travel once around the ring. */
static double context_forward(const struct setting *s)
{
    double ranks = (double)s->run->layout.cp;
    double bandwidth = ranks * s->tp <= s->machine->gpus ? node_bandwidth(s, ranks)
                                                         : s->machine->network * s->rates->network;

    return s->rates->context_exposed * 2 * s->rows * s->hidden * s->groups_share / s->tp * 2 *
           (ranks - 1) / bandwidth;
}

static int in_one_node(const struct setting *s)
{
    return s->run->layout.tp * s->run->layout.cp * s->run->layout.dp * s->run->layout.pp <=
           s->machine->gpus;
}

/* Hidden states to the next stage and gradients back, per micro-batch. The slowest boundary counts:
 * one between nodes if there are several. */
static double pipeline_messages(const struct setting *s)
{
    double chunks = (double)s->run->chunks, bytes = 2 * s->rows * s->hidden * 2 / s->tp;

    if (s->run->layout.pp == 1)
        return 0;
    if (in_one_node(s))
        return chunks * bytes / node_bandwidth(s, 2) * s->rates->pipeline_exposed;
    return chunks *
           (bytes / (s->machine->network * s->rates->network) * s->rates->pipeline_exposed +
            s->rates->hop);
}

static double layer_parameters(const struct setting *s)
{
    return s->hidden * s->hidden * (2 + 2 * s->groups_share) +
           (s->run->gated ? 3 : 2) * s->hidden * s->ffn;
}

struct plan_stage plan_stage(const struct plan_run *run, int64_t index)
{
    struct setting s = make_setting(run, &(struct machine){.gpus = 1});
    const int64_t layers = run->shape.layers, stages = run->layout.pp;
    const int equal = layers % stages != 0 && (layers + 2) % stages == 0;
    struct plan_stage stage = {.layers = (layers + (equal ? 2 : stages - 1)) / stages};
    double tables = run->tied || stages > 1 ? 1 : 2;

    if (index > 0 && index < stages - 1)
        tables = 0;
    else if (equal)
        stage.layers--;
    stage.parameters = ((double)stage.layers * layer_parameters(&s) +
                        tables * (double)run->shape.vocabulary * s.hidden) /
                       s.tp;
    return stage;
}

/* With bf16, Megatron-LM and DeepSpeed add the gradients of micro-batches and of ranks in fp32. The
 * rates of newer software include that. */
static int keeps_fp32_gradients(const struct setting *s)
{
    return s->rates->classic > 0 && s->run->bf16;
}

/* Bytes per parameter to add the gradients of a micro-batch: the sum is read and written, with 2
 * bytes more each in fp32, and the gradients are converted by a kernel of its own. */
static double accumulate_bytes(const struct setting *s)
{
    return s->rates->accumulate_bytes + (keeps_fp32_gradients(s) ? 6 : 0);
}

/* Gradients of all data-parallel ranks are summed. Ranks of one group that share a node send over
 * all of its NICs that their tensor-parallel peers leave free. Software that overlaps hides the
 * traffic under one micro-batch, the last one backward and the first one forward, and no more. */
static double data_collective(const struct setting *s, double parameters, double micro_batch)
{
    const struct machine *m = s->machine;
    const struct layout *layout = &s->run->layout;
    double ranks = (double)(layout->dp * layout->cp);
    double of_node = fmax(1, fmin(ranks, m->gpus / s->tp)), seconds;
    double bandwidth =
        in_one_node(s) ? node_bandwidth(s, ranks) : m->network * s->rates->network * of_node;

    if (ranks <= 1)
        return 0;
    seconds = 2 * (ranks - 1) / ranks * parameters * s->rates->gradient_bytes / bandwidth *
              (1 + s->rates->data_growth * log2(ranks));
    seconds *= keeps_fp32_gradients(s) ? 2 : 1;
    if (s->rates->classic > 0)
        return seconds * s->rates->data_exposed;
    return fmax(seconds * s->rates->data_exposed, seconds - micro_batch);
}

/* --- The step -------------------------------------------------------------------------------- */

/* Megatron-LM's fused softmax takes matrices of scores by four; others are scaled, masked and
 * converted one kernel after the other. */
static int softmax_is_fused(const struct setting *s)
{
    const struct plan_run *run = s->run;

    return s->rates->classic == 0 ||
           run->micro_batch * (run->shape.heads / run->layout.tp) % 4 == 0;
}

/* Seconds beyond 'gpu' that a layer takes because the host launches its kernels too slowly: the
 * slower of the two sets the pace, or they take turns if the host waits for every kernel. The host
 * launches collectives, too, and each doubling of their ranks makes it likelier that one is late.
 */
static double launch_delay(const struct setting *s, double passes, double collectives, double gpu)
{
    double host = passes * s->rates->host;

    if (!softmax_is_fused(s))
        host += passes * s->rates->host_softmax;
    if (s->tp > 1)
        host += collectives * (s->rates->host_collective + s->rates->host_late * log2(s->tp));
    return fmax(host - gpu, s->machine->synchronous * host);
}

/* Seconds that one layer adds to a micro-batch, by cause. */
static struct plan_time layer_time(const struct setting *s)
{
    double again = s->run->recompute == PLAN_RECOMPUTE_FULL ? 1 : 0;
    double attention_again = s->run->recompute == PLAN_RECOMPUTE_NONE ? 0 : 1;
    double collectives = 4 + 2 * again, delay;
    struct plan_time t = {0};

    t.products = (1 + again) * products_forward(s) + products_backward(s);
    t.attention = (1 + attention_again) * attention_forward(s) + attention_backward(s);
    t.elementwise = (3 + again) * elementwise_forward(s) + (3 + again) * s->rates->layer;
    t.elementwise += casts(s, again);
    t.tensor = collectives * tensor_collective(s);
    t.context = (3 + again) * context_forward(s);
    t.total = t.products + t.attention + t.elementwise + t.tensor + t.context;
    delay = launch_delay(s, 3 + again, collectives, t.total);
    t.elementwise += delay;
    t.total += delay;
    return t;
}

/* The output layer and the loss of a micro-batch, forward and backward. */
static double head_time(const struct setting *layers)
{
    struct setting wide = *layers, *s = &wide;
    double vocabulary = (double)s->run->shape.vocabulary / s->tp;

    if (s->run->own) /* never in fp8 */
        s->flops = s->machine->gpu.flops[MACHINE_BF16] * s->rates->product * s->machine->efficiency;
    if (vocabulary == floor(vocabulary) && fmod(vocabulary, 8) != 0)
        s->flops *= s->rates->unaligned_vocabulary;
    return product(s, s->rows, vocabulary, s->hidden) + product(s, s->rows, s->hidden, vocabulary) +
           product(s, vocabulary, s->hidden, s->rows) +
           s->rows * vocabulary * s->rates->logit_bytes / s->bandwidth + 2 * tensor_collective(s);
}

/* --- Measured steps -------------------------------------------------------------------------- */

/* What the measured steps of a machine file take, relative to the model. */
struct correction {
    double layer, head;
};

static double computation(const struct plan_time *layer)
{
    return layer->products + layer->attention + layer->elementwise;
}

struct plan_run plan_run_of_step(const struct machine_step *step)
{
    return (struct plan_run){.shape = {.hidden = (int64_t)step->hidden,
                                       .ffn_hidden = (int64_t)step->ffn,
                                       .heads = (int64_t)step->heads,
                                       .query_groups = (int64_t)step->groups,
                                       .vocabulary = (int64_t)step->vocabulary,
                                       .sequence = (int64_t)step->sequence,
                                       .layers = 1},
                             .gated = step->gated > 0.5,
                             .own = 1,
                             .layout = {.tp = 1, .pp = 1, .cp = 1, .dp = 1},
                             .chunks = 1,
                             .micro_batch = (int64_t)step->micro_batch,
                             .global_batch = (int64_t)step->micro_batch};
}

/* How different the kernels of two runs are: squares of the logarithms of what sizes them. */
static double distance(const struct setting *a, const struct setting *b)
{
    double heads =
        (b->hidden * (double)a->run->shape.heads) / (a->hidden * (double)b->run->shape.heads);
    const double ratios[] = {a->hidden / b->hidden,
                             a->ffn * b->tp / (b->ffn * a->tp),
                             sqrt(a->rows / b->rows),
                             sqrt((double)a->run->shape.sequence / (double)b->run->shape.sequence),
                             heads,
                             a->run->gated == b->run->gated ? 1 : 2};
    double sum = 0;

    for (size_t i = 0; i < sizeof(ratios) / sizeof(*ratios); i++)
        sum += log(ratios[i]) * log(ratios[i]);
    return sum;
}

/* The geometric mean over the measured steps, of which near ones count most. */
static struct correction correct(const struct setting *s)
{
    const struct machine_gpu *gpu = &s->machine->gpu;
    double weights = 0, layer = 0, head = 0;

    if (!s->run->own)
        return (struct correction){1, 1};
    for (int i = 0; i < gpu->step_count; i++) {
        const struct machine_step *step = &gpu->steps[i];
        struct plan_run run = plan_run_of_step(step);
        struct setting other = make_setting(&run, s->machine);
        struct plan_time model = layer_time(&other);
        double weight = pow(distance(s, &other) + 1e-4, -1.5);

        weights += weight;
        layer += weight * log(step->layer / computation(&model));
        head += weight * log(step->head / head_time(&other));
    }
    return weights > 0 ? (struct correction){exp(layer / weights), exp(head / weights)}
                       : (struct correction){1, 1};
}

static void correct_layer(struct plan_time *t, double by)
{
    t->total += (by - 1) * computation(t);
    t->products *= by;
    t->attention *= by;
    t->elementwise *= by;
}

/* Among how many ranks the optimizer's state, and with it the update, is divided. */
static int64_t shards(const struct setting *s)
{
    return s->rates->classic == 0 || s->machine->memory.sharded_bytes > 0 ? s->run->layout.dp : 1;
}

/* Offloaded state: its bytes per parameter, and bytes per second in each direction between a GPU
 * and pinned host memory while all GPUs of a node copy (PCIe 4; faster ones are not assumed). */
static const double STATE_BYTES = 12, HOST_COPIES = 20e9;

struct plan_time plan_estimate(const struct plan_run *run, const struct machine *machine)
{
    struct setting s = make_setting(run, machine);
    const struct plan_stage first = plan_stage(run, 0), second = plan_stage(run, 1);
    double stages = (double)run->layout.pp, layers = (double)(stages > 1 ? second : first).layers;
    struct correction measured = correct(&s);
    double parameters = fmax(first.parameters, stages > 1 ? second.parameters : 0);
    double head = measured.head * head_time(&s);
    double messages = pipeline_messages(&s), accumulate, stage;
    struct plan_time layer = layer_time(&s), t;
    double count = s.batches * layers;

    correct_layer(&layer, measured.layer);
    /* Where the output layer takes the place of a layer, only what it needs beyond one delays. */
    if (first.layers < second.layers)
        head = fmax(0, head - layer.total);
    accumulate = layers * layer_parameters(&s) / s.tp * accumulate_bytes(&s) / s.bandwidth;
    stage = layers * layer.total + accumulate + messages;
    t.products = count * layer.products;
    t.attention = count * layer.attention;
    t.elementwise = count * layer.elementwise + s.batches * accumulate;
    t.tensor = count * layer.tensor;
    t.context = count * layer.context;
    t.head = s.batches * head;
    t.pipeline = s.batches * messages;
    t.bubble = (stages - 1) * stage / (double)run->chunks;
    t.data = data_collective(&s, parameters, stage);
    /* The state is read and written. */
    t.optimizer = parameters * fmax(0, s.rates->optimizer_bytes - 2 * run->narrowed) / s.bandwidth /
                  (double)shards(&s);
    t.optimizer += run->offloaded * parameters * (STATE_BYTES - run->narrowed) / HOST_COPIES /
                   (double)run->layout.dp;
    t.fixed = s.rates->fixed;
    t.total = t.products + t.attention + t.elementwise + t.tensor + t.context + t.head +
              t.pipeline + t.bubble + t.data + t.optimizer + t.fixed;
    return t;
}

double plan_flops(const struct plan_run *run)
{
    const struct model_shape *shape = &run->shape;
    double hidden = (double)shape->hidden,
           share = (double)shape->query_groups / (double)shape->heads;
    double layer = 4 * hidden * hidden * (1 + share) + 4 * (double)shape->sequence * hidden +
                   2 * (run->gated ? 3 : 2) * hidden * (double)shape->ffn_hidden;

    return 3 * (double)(run->global_batch * shape->sequence) *
           ((double)shape->layers * layer + 2 * (double)shape->vocabulary * hidden);
}
