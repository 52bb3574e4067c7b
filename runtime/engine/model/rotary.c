/* SPDX-License-Identifier: Apache-2.0 */
#include "block.h"

#include <math.h>

static enum rope_kind kind_of(const struct network *c, int window)
{
    return window && c->local_rotary_base > 0 ? ROPE_PLAIN : c->rope_scaling.kind;
}

static double llama3(const struct rope_scaling *s, double frequency)
{
    double length = 2 * M_PI / frequency, smooth;

    if (length < s->original / s->high)
        return frequency;
    if (length > s->original / s->low)
        return frequency / s->factor;
    smooth = (s->original / length - s->low) / (s->high - s->low);
    return (1 - smooth) * frequency / s->factor + smooth * frequency;
}

/* The pair of channels that turns 'turns' times in the original sequence. */
static double pair_of(const struct rope_scaling *s, double base, double rotary, double turns)
{
    return rotary * log(s->original / (turns * 2 * M_PI)) / (2 * log(base));
}

static double yarn(const struct rope_scaling *s, double base, int64_t rotary, int64_t i,
                   double frequency)
{
    double low = floor(pair_of(s, base, (double)rotary, s->high));
    double high = ceil(pair_of(s, base, (double)rotary, s->low)), share;

    low = fmax(low, 0);
    high = fmin(high, (double)rotary - 1);
    if (low == high)
        high += 0.001;
    share = fmin(fmax(((double)i - low) / (high - low), 0), 1);
    return frequency / s->factor * share + frequency * (1 - share);
}

double rotary_rotation(const struct network *c, int window, int64_t rotary, int64_t i)
{
    const struct rope_scaling *s = &c->rope_scaling;
    double base = window && c->local_rotary_base > 0 ? c->local_rotary_base : c->shape.rotary_base;
    double frequency = pow(base, -2.0 * (double)i / (double)rotary);

    switch (kind_of(c, window)) {
    case ROPE_LLAMA3:
        return llama3(s, frequency);
    case ROPE_LINEAR:
        return frequency / s->factor;
    case ROPE_YARN:
        return yarn(s, base, rotary, i, frequency);
    default:
        return frequency;
    }
}

double rotary_magnitude(const struct network *c, int window)
{
    const struct rope_scaling *s = &c->rope_scaling;

    if (kind_of(c, window) != ROPE_YARN)
        return 1;
    return s->attention > 0 ? s->attention : s->factor > 1 ? 0.1 * log(s->factor) + 1 : 1;
}
