/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules: all stages together, each in the order of its list, with messages in flight. */
#include "tap.h"
#include "engine/schedule/pipeline.h"

#include <stdlib.h>

enum { STAGES = 8, CHUNKS = 4, MICROS = 32 };

struct world {
    struct pipeline_shape shape;
    struct pipeline p[STAGES];
    int at[STAGES];
    int waits; /* for every exchange, its state */
    /* What each stage has: inputs, outputs, gradients of outputs and of inputs. */
    char input[STAGES][CHUNKS][MICROS], output[STAGES][CHUNKS][MICROS];
    char out_gradient[STAGES][CHUNKS][MICROS], in_gradient[STAGES][CHUNKS][MICROS];
    /* Which item of each stage has a slot; micro -1: it is free. */
    struct pipeline_item holder[STAGES][CHUNKS * MICROS];
    /* For each stage's last exchange of activations and of gradients: what is still missing. */
    struct pipeline_operation under_way[STAGES][2];
    const char *fault;
};

static const struct pipeline_operation *head(struct world *w, int stage)
{
    return w->at[stage] < w->p[stage].count ? &w->p[stage].list[w->at[stage]] : NULL;
}

/* Does 'item' of stage 'from' become 'other' of its neighbor? 'step' is 1 forward, -1 backward. */
static int same(const struct world *w, int from, struct pipeline_item item, int step,
                struct pipeline_item other)
{
    int wraps = step > 0 ? from == w->shape.stages - 1 : from == 0;

    return item.micro == other.micro && item.chunk + (wraps ? step : 0) == other.chunk;
}

static void check(struct world *w, int good, const char *fault)
{
    if (!good && !w->fault)
        w->fault = fault;
}

/* A forward pass finds its slot free; the backward pass finds it as the forward pass left it. */
static void check_slot(struct world *w, int stage, const struct pipeline_operation *op)
{
    struct pipeline_item item = op->item, *holder = &w->holder[stage][item.slot];
    int forward = op->kind == PIPELINE_FORWARD;

    check(w, item.slot >= 0 && item.slot < w->p[stage].slots, "a slot that does not exist");
    if (forward)
        check(w, holder->micro < 0, "a slot that is in use");
    else
        check(w, holder->micro == item.micro && holder->chunk == item.chunk, "another's slot");
    *holder = item;
    if (!forward || w->shape.forward_only)
        holder->micro = -1;
}

static void run_pass(struct world *w, int stage, const struct pipeline_operation *op)
{
    int c = op->item.chunk, m = op->item.micro;
    int first = stage == 0 && c == 0;
    int last = stage == w->shape.stages - 1 && c == w->shape.chunks - 1;

    check_slot(w, stage, op);
    if (op->kind == PIPELINE_FORWARD) {
        check(w, first || w->input[stage][c][m], "a forward pass without its input");
        check(w, !w->output[stage][c][m], "a forward pass twice");
        w->output[stage][c][m] = 1;
    } else {
        check(w, w->output[stage][c][m], "a backward pass before the forward pass");
        check(w, last || w->out_gradient[stage][c][m], "a backward pass without its gradient");
        check(w, !w->in_gradient[stage][c][m], "a backward pass twice");
        check(w, m == 0 || w->in_gradient[stage][c][m - 1], "backward passes out of order");
        w->in_gradient[stage][c][m] = 1;
    }
}

/* The destination of what the stage sends, or the source of what it receives. */
static int neighbor(const struct world *w, int stage, int direction, int send)
{
    return (stage + ((direction == 0) == send ? 1 : w->shape.stages - 1)) % w->shape.stages;
}

/* Deliver what the stage is sending if its neighbor is receiving. */
static int deliver(struct world *w, int stage, int direction)
{
    int to = neighbor(w, stage, direction, 1);
    struct pipeline_item *sent = &w->under_way[stage][direction].send;
    struct pipeline_item *received = &w->under_way[to][direction].receive;

    if (sent->micro < 0 || received->micro < 0)
        return 0;
    check(w, same(w, stage, *sent, direction == 0 ? 1 : -1, *received),
          "another message than the one expected");
    if (direction == 0) {
        check(w, w->output[stage][sent->chunk][sent->micro], "an output too early");
        w->input[to][received->chunk][received->micro] = 1;
    } else {
        check(w, w->in_gradient[stage][sent->chunk][sent->micro], "a gradient too early");
        w->out_gradient[to][received->chunk][received->micro] = 1;
    }
    sent->micro = received->micro = -1;
    return 1;
}

/* Is the current exchange complete, or at least its receiving part? */
static int over(const struct pipeline_operation *exchange, int all)
{
    return exchange->receive.micro < 0 && (!all || exchange->send.micro < 0);
}

/* An exchange starts when the previous one in its direction is complete. A pass starts at the
 * earliest when everything to be received before it in its direction has arrived, whatever is still
 * being sent; at the latest it waits, like everything, for every earlier exchange. */
static int go_on(struct world *w, int stage)
{
    const struct pipeline_operation *op = head(w, stage);
    int direction = op->kind == PIPELINE_BACKWARD || op->kind == PIPELINE_GRADIENTS;
    struct pipeline_operation *under_way = &w->under_way[stage][direction];

    if (!over(under_way, op->kind >= PIPELINE_ACTIVATIONS) ||
        (w->waits && !(over(&w->under_way[stage][0], 1) && over(&w->under_way[stage][1], 1))))
        return 0;
    if (op->kind < PIPELINE_ACTIVATIONS)
        run_pass(w, stage, op);
    else
        *under_way = *op;
    w->at[stage]++;
    return 1;
}

/* Each stage in the order of its list. */
static int step_all(struct world *w)
{
    int moved = 0;

    for (int s = 0; s < w->shape.stages; s++) {
        moved |= deliver(w, s, 0) | deliver(w, s, 1);
        while (head(w, s) && go_on(w, s))
            moved = 1;
    }
    return moved;
}

/* Between two receives of a direction is the pass that uses the first of them. */
static void check_landing(struct world *w, int stage)
{
    int full[2] = {0, 0};

    for (int i = 0; i < w->p[stage].count; i++) {
        const struct pipeline_operation *op = &w->p[stage].list[i];
        int direction = op->kind == PIPELINE_BACKWARD || op->kind == PIPELINE_GRADIENTS;

        if (op->kind < PIPELINE_ACTIVATIONS) {
            full[direction] = 0;
        } else if (op->receive.micro >= 0) {
            check(w, !full[direction], "two messages land in one place");
            full[direction] = 1;
        }
    }
}

static void test(int stages, int chunks, int micros, int forward_only, int waits)
{
    struct world *w = calloc(1, sizeof(*w));
    struct error err;
    int most = 0, passes = 0, slots = -1;

    w->shape = (struct pipeline_shape){stages, 0, chunks, micros, forward_only};
    w->waits = waits;
    for (int s = 0; s < stages; s++) {
        struct pipeline_shape shape = w->shape;

        shape.stage = s;
        if (pipeline_create(&w->p[s], &shape, &err) < 0 || pipeline_slots(&shape, &slots, &err) < 0)
            check(w, 0, err.text);
        check(w, slots == w->p[s].slots, "not as many slots as are counted without a list");
        most = w->p[s].slots > most ? w->p[s].slots : most;
        for (int i = 0; i < CHUNKS * MICROS; i++)
            w->holder[s][i].micro = -1;
        check_landing(w, s);
        for (int direction = 0; direction < 2; direction++)
            w->under_way[s][direction] =
                (struct pipeline_operation){.send = {0, -1}, .receive = {0, -1}};
    }
    while (step_all(w))
        ;
    for (int s = 0; s < stages; s++) {
        check(w, !head(w, s), "the stages wait for each other");
        for (int c = 0; c < chunks; c++)
            for (int m = 0; m < micros; m++)
                passes += w->output[s][c][m] + w->in_gradient[s][c][m];
    }
    check(w, passes == stages * chunks * micros * (forward_only ? 1 : 2), "passes are missing");
    if (!ok(!w->fault, "%d stages, %d chunks, %d micro-batches%s%s", stages, chunks, micros,
            forward_only ? ", forward only" : "", waits ? ", waiting" : ""))
        diag("%s", w->fault);
    if (chunks == 1 && !forward_only && !ok(most <= stages, "1F1B keeps few micro-batches"))
        diag("%d", most);
    for (int s = 0; s < stages; s++)
        pipeline_destroy(&w->p[s]);
    free(w);
}

/* A batch may grow: no step needs more slots than the smallest or the largest. */
static void test_growth(int stages, int chunks, int fewest, int most)
{
    int slots = 0, good = 1;
    struct pipeline p;
    struct error err;

    for (int stage = 0; stage < stages; stage++) {
        struct pipeline_shape shape = {stages, stage, chunks, fewest, 0};

        for (int end = 0; end < 2; end++) {
            shape.micros = end ? most : fewest;
            good &= pipeline_create(&p, &shape, &err) == 0;
            slots = end && slots > p.slots ? slots : p.slots;
            pipeline_destroy(&p);
        }
        for (shape.micros = fewest; shape.micros <= most; shape.micros += chunks > 1 ? stages : 1) {
            good &= pipeline_create(&p, &shape, &err) == 0;
            good &= p.slots <= slots;
            pipeline_destroy(&p);
        }
    }
    ok(good, "slots of %d stages, %d chunks, %d to %d micro-batches", stages, chunks, fewest, most);
}

/* As many slots as items are alive at once. On the first stage these are 1 + (p - 1) / pv times the
 * activations of a schedule that does not interleave, which keeps p micro-batches of v chunks. */
static void test_slots(void)
{
    static const struct {
        struct pipeline_shape shape;
        int slots;
    } table[] = {
        {{1, 0, 1, 7, 0}, 1},    {{4, 0, 1, 8, 0}, 4},    {{4, 3, 1, 8, 0}, 1},
        {{4, 0, 1, 2, 0}, 2},    {{8, 0, 3, 64, 0}, 31},  {{8, 4, 3, 64, 0}, 23},
        {{8, 7, 3, 64, 0}, 17},  {{8, 0, 3, 8, 0}, 24},   {{8, 7, 3, 8, 0}, 24},
        {{8, 0, 6, 192, 0}, 55}, {{12, 0, 2, 36, 0}, 35}, {{2, 0, 2, 4, 0}, 5},
        {{2, 1, 2, 4, 0}, 3},    {{4, 1, 3, 8, 1}, 1},
    };
    struct pipeline p;
    struct error err;

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const struct pipeline_shape *s = &table[i].shape;

        if (!ok(pipeline_create(&p, s, &err) == 0 && p.slots == table[i].slots,
                "stage %d of %d, %d chunks, %d micro-batches%s: %d slots", s->stage, s->stages,
                s->chunks, s->micros, s->forward_only ? ", forward only" : "", table[i].slots))
            diag("%d", p.slots);
        pipeline_destroy(&p);
    }
}

/* More micro-batches than a list can hold: refused, but their slots are known. */
static void test_many(void)
{
    static const struct pipeline_shape shape = {8, 0, 4, 2000000000, 0};
    struct pipeline p;
    struct error err;
    int slots = 0;

    ok(pipeline_create(&p, &shape, &err) < 0, "2000000000 micro-batches are refused");
    is(err.text,
       "2000000000 micro-batches are too many for a step; use a smaller global batch or a larger "
       "micro-batch",
       "  and why");
    pipeline_destroy(&p);
    ok(pipeline_slots(&shape, &slots, &err) == 0, "their slots can be counted");
    is_int(slots, 39, "  as those of few");
    ok(pipeline_slots(&(struct pipeline_shape){4, 0, 2, 6, 0}, &slots, &err) < 0,
       "not those of a schedule that does not interleave");
}

int main(void)
{
    struct pipeline p;
    struct error err;

    for (int stages = 1; stages <= STAGES; stages++)
        for (int micros = 1; micros <= 12; micros++) {
            for (int way = 0; way < 4; way++)
                test(stages, 1, micros, way % 2, way / 2);
            test_growth(stages, 1, micros, 12);
        }
    for (int stages = 2; stages <= STAGES; stages++)
        for (int chunks = 2; chunks <= CHUNKS; chunks++)
            for (int rounds = 1; rounds * stages <= MICROS && rounds <= 4; rounds++) {
                for (int way = 0; way < 4; way++)
                    test(stages, chunks, rounds * stages, way % 2, way / 2);
                test_growth(stages, chunks, rounds * stages, MICROS / stages * stages);
            }
    test_slots();
    ok(pipeline_create(&p, &(struct pipeline_shape){4, 0, 2, 6, 0}, &err) < 0,
       "6 micro-batches do not interleave over 4 stages");
    pipeline_destroy(&p);
    test_many();
    return done_testing();
}
