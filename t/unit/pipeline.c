/* Schedules: all stages together, run as if every exchange waited for all its partners. */
#include "tap.h"
#include "pipeline.h"

#include <stdlib.h>

enum { STAGES = 8, CHUNKS = 4, MICROS = 32 };

struct world {
    struct pipeline_shape shape;
    struct pipeline p[STAGES];
    int at[STAGES];
    /* What each stage has: inputs, outputs, gradients of outputs and of inputs. */
    char input[STAGES][CHUNKS][MICROS], output[STAGES][CHUNKS][MICROS];
    char out_gradient[STAGES][CHUNKS][MICROS], in_gradient[STAGES][CHUNKS][MICROS];
    const char *fault;
};

static const struct pipeline_operation *head(struct world *w, int stage)
{
    return w->at[stage] < w->p[stage].count ? &w->p[stage].list[w->at[stage]] : NULL;
}

/* Does 'item' of stage 'from' become 'other' of its neighbour? 'step' is 1 forward, -1 backward. */
static int same(const struct world *w, int from, struct pipeline_item item, int step,
                struct pipeline_item other)
{
    int wraps = step > 0 ? from == w->shape.stages - 1 : from == 0;

    return item.micro == other.micro && item.chunk + (wraps ? step : 0) == other.chunk;
}

/* An exchange can go when each partner of each message stands at an exchange with its other end. */
static int can_exchange(struct world *w, int stage)
{
    const struct pipeline_operation *op = head(w, stage);
    int next = (stage + 1) % w->shape.stages,
        prev = (stage + w->shape.stages - 1) % w->shape.stages;
    const struct pipeline_operation *n = head(w, next), *p = head(w, prev);

    if (op->send_next.micro >= 0 || op->recv_next.micro >= 0)
        if (!n || n->kind != PIPELINE_EXCHANGE)
            return 0;
    if (op->send_prev.micro >= 0 || op->recv_prev.micro >= 0)
        if (!p || p->kind != PIPELINE_EXCHANGE)
            return 0;
    if (op->send_next.micro >= 0 && !same(w, stage, op->send_next, 1, n->recv_prev))
        return 0;
    if (op->recv_next.micro >= 0 && !same(w, next, n->send_prev, -1, op->recv_next))
        return 0;
    if (op->send_prev.micro >= 0 && !same(w, stage, op->send_prev, -1, p->recv_next))
        return 0;
    if (op->recv_prev.micro >= 0 && !same(w, prev, p->send_next, 1, op->recv_prev))
        return 0;
    return 1;
}

static void check(struct world *w, int good, const char *fault)
{
    if (!good && !w->fault)
        w->fault = fault;
}

static void run_pass(struct world *w, int stage, const struct pipeline_operation *op)
{
    int c = op->item.chunk, m = op->item.micro;
    int first = stage == 0 && c == 0;
    int last = stage == w->shape.stages - 1 && c == w->shape.chunks - 1;

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

static void run_exchange(struct world *w, int stage, const struct pipeline_operation *op)
{
    if (op->send_next.micro >= 0)
        check(w, w->output[stage][op->send_next.chunk][op->send_next.micro], "an output too early");
    if (op->send_prev.micro >= 0)
        check(w, w->in_gradient[stage][op->send_prev.chunk][op->send_prev.micro],
              "a gradient too early");
    if (op->recv_prev.micro >= 0)
        w->input[stage][op->recv_prev.chunk][op->recv_prev.micro] = 1;
    if (op->recv_next.micro >= 0)
        w->out_gradient[stage][op->recv_next.chunk][op->recv_next.micro] = 1;
}

/* Exchanges that wait for each other go together: with all partners' heads matching, each may go
 * once the group around it can. */
static int step_all(struct world *w)
{
    int able[STAGES], moved = 0, changed = 1;

    for (int s = 0; s < w->shape.stages; s++) {
        const struct pipeline_operation *op = head(w, s);

        able[s] = op && op->kind == PIPELINE_EXCHANGE && can_exchange(w, s);
    }
    while (changed) {
        changed = 0;
        for (int s = 0; s < w->shape.stages; s++) {
            const struct pipeline_operation *op = head(w, s);
            int next = (s + 1) % w->shape.stages,
                prev = (s + w->shape.stages - 1) % w->shape.stages;

            if (!able[s])
                continue;
            if (((op->send_next.micro >= 0 || op->recv_next.micro >= 0) && !able[next]) ||
                ((op->send_prev.micro >= 0 || op->recv_prev.micro >= 0) && !able[prev])) {
                able[s] = 0;
                changed = 1;
            }
        }
    }
    for (int s = 0; s < w->shape.stages; s++)
        if (able[s]) {
            run_exchange(w, s, head(w, s));
            w->at[s]++;
            moved = 1;
        }
    for (int s = 0; s < w->shape.stages; s++)
        while (head(w, s) && head(w, s)->kind != PIPELINE_EXCHANGE) {
            run_pass(w, s, head(w, s));
            w->at[s]++;
            moved = 1;
        }
    return moved;
}

static void test(int stages, int chunks, int micros, int forward_only)
{
    struct world *w = calloc(1, sizeof(*w));
    struct error err;
    int most = 0, passes = 0;

    w->shape = (struct pipeline_shape){stages, 0, chunks, micros, forward_only};
    for (int s = 0; s < stages; s++) {
        struct pipeline_shape shape = w->shape;

        shape.stage = s;
        if (pipeline_create(&w->p[s], &shape, &err) < 0)
            check(w, 0, err.text);
        for (int c = 0; c < chunks && w->p[s].slots; c++)
            most = w->p[s].slots[c] > most ? w->p[s].slots[c] : most;
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
    if (!ok(!w->fault, "%d stages, %d chunks, %d micro-batches%s", stages, chunks, micros,
            forward_only ? ", forward only" : ""))
        diag("%s", w->fault);
    if (chunks == 1 && !forward_only && !ok(most <= stages + 1, "1F1B keeps few micro-batches"))
        diag("%d", most);
    for (int s = 0; s < stages; s++)
        pipeline_destroy(&w->p[s]);
    free(w);
}

/* A batch may grow: no step needs more slots than the smallest or the largest. */
static void test_growth(int stages, int chunks, int fewest, int most)
{
    int slots[CHUNKS], good = 1;
    struct pipeline p;
    struct error err;

    for (int stage = 0; stage < stages; stage++) {
        struct pipeline_shape shape = {stages, stage, chunks, fewest, 0};

        for (int end = 0; end < 2; end++) {
            shape.micros = end ? most : fewest;
            good &= pipeline_create(&p, &shape, &err) == 0;
            for (int c = 0; c < chunks && good; c++)
                slots[c] = end && slots[c] > p.slots[c] ? slots[c] : p.slots[c];
            pipeline_destroy(&p);
        }
        for (shape.micros = fewest; shape.micros <= most; shape.micros += chunks > 1 ? stages : 1) {
            good &= pipeline_create(&p, &shape, &err) == 0;
            for (int c = 0; c < chunks && good; c++)
                good &= p.slots[c] <= slots[c];
            pipeline_destroy(&p);
        }
    }
    ok(good, "slots of %d stages, %d chunks, %d to %d micro-batches", stages, chunks, fewest, most);
}

int main(void)
{
    struct pipeline p;
    struct error err;

    for (int stages = 1; stages <= STAGES; stages++)
        for (int micros = 1; micros <= 12; micros++) {
            test(stages, 1, micros, 0);
            test(stages, 1, micros, 1);
            test_growth(stages, 1, micros, 12);
        }
    for (int stages = 2; stages <= STAGES; stages++)
        for (int chunks = 2; chunks <= CHUNKS; chunks++)
            for (int rounds = 1; rounds * stages <= MICROS && rounds <= 4; rounds++) {
                test(stages, chunks, rounds * stages, 0);
                test(stages, chunks, rounds * stages, 1);
                test_growth(stages, chunks, rounds * stages, MICROS / stages * stages);
            }
    ok(pipeline_create(&p, &(struct pipeline_shape){4, 0, 2, 6, 0}, &err) < 0,
       "6 micro-batches do not interleave over 4 stages");
    pipeline_destroy(&p);
    return done_testing();
}
