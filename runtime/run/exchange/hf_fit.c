/* SPDX-License-Identifier: Apache-2.0 */
/* Which networks are models of a family. */
#include "hf_families.h"

#include <math.h>

/* Llama's layers, as far as they differ from the defaults. */
static const struct hf_value llama[] = {
    {"position-embedding-type", POSITION_ROPE},
    {"normalization", NORM_RMS},
    {"swiglu", 1},
    {"bias", 0},
    {"tied", 0},
    {"hidden-dropout", 0},
    {"attention-dropout", 0},
    {0},
};

/* Every family has these, with any value, besides those that are not part of a model (.loose).
 * Norms minus 1 are converted. */
static const char every[] =
    "num-layers|hidden-size|ffn-hidden-size|num-attention-heads|vocab-size|rotary-base|"
    "norm-epsilon|apply-layernorm-1p|rope-scaling-factor|rope-scaling-low|rope-scaling-high|"
    "rope-scaling-original|rope-attention-factor";

static bool is_in(const char *names, const char *name)
{
    size_t length = strlen(name);

    for (; names && *names; names += strcspn(names, "|"), names += *names == '|')
        if (strncmp(names, name, length) == 0 && strcspn(names, "|") == length)
            return true;
    return false;
}

bool hf_family_may_have(const struct hf_family *family, const char *property)
{
    return is_in(family->may_have, property);
}

static const struct hf_value *find(const struct hf_value *list, const char *property)
{
    for (; list && list->property; list++)
        if (strcmp(list->property, property) == 0)
            return list;
    return NULL;
}

static double value_of(const struct hf_value *row, const struct network *c)
{
    return row->value == HF_ROOT_OF_HIDDEN ? sqrt((double)c->shape.hidden) : row->value;
}

static void set_all(const struct hf_value *list, struct network *c)
{
    const struct hf_value *row;

    for (const struct network_property *p = network_properties; p->name; p++)
        if ((row = find(list, p->name)))
            network_set(c, p, value_of(row, c));
}

void hf_plain(struct network *c)
{
    network_default(c);
    set_all(llama, c);
}

void hf_family_set(const struct hf_family *family, struct network *c)
{
    set_all(family->has, c);
    c->shape.family = network_family(c);
}

/* The network with defaults in place of values that have no effect. */
static struct network effective(const struct network *c)
{
    struct network e = *c;

    if (e.position != POSITION_ROPE)
        e.rotary_percent = 1;
    if (e.window == 0)
        e.window_every = 0;
    if (e.local_rotary_base == e.shape.rotary_base &&
        (e.window == 0 || e.rope_scaling.kind == ROPE_PLAIN))
        e.local_rotary_base = 0;
    if (e.linear_bias)
        e.qkv_bias = 0;
    if (e.swiglu) {
        e.activation = ACTIVATION_NONE;
        e.gelu_erf = 0;
    }
    return e;
}

const struct network_property *hf_misfit(const struct hf_value *plain, const struct hf_value *has,
                                         const char *may_have, const struct network *c)
{
    struct network e = effective(c);
    /* Where layers with a window have rotations of their own, these are not scaled. */
    bool unscaled =
        is_in(may_have, "rotary-base-local") && e.window > 0 && e.local_rotary_base == 0;

    for (const struct network_property *p = network_properties; p->name; p++) {
        const struct hf_value *row = find(has, p->name);
        double usual = p->fallback;

        if (!row && (p->loose || is_in(every, p->name) || is_in(may_have, p->name)) &&
            !(unscaled && strcmp(p->name, "use-rope-scaling") == 0))
            continue;
        if (row || (row = find(plain, p->name)))
            usual = value_of(row, c);
        else if (strcmp(p->name, "num-query-groups") == 0)
            usual = (double)c->shape.heads;
        else if (strcmp(p->name, "kv-channels") == 0)
            usual = (double)c->shape.hidden / (double)c->shape.heads;
        if (network_value(&e, p) != usual)
            return p;
    }
    return NULL;
}

const struct network_property *hf_family_misfit(const struct hf_family *family,
                                                const struct network *c)
{
    return hf_misfit(llama, family->has, family->may_have, c);
}
