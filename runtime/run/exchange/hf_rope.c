/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary positions in config.json. */
#include "hf_families.h"

#include <stdio.h>
#include <string.h>

/* --- Reading ---------------------------------------------------------------------------------- */

/* A required positive number. */
static int needed(struct json_value object, const char *name, double *out, struct error *err)
{
    if (hf_read_real(object, name, 0, out, err) < 0)
        return -1;
    return *out > 0 ? 0 : error_set(err, "rope_scaling: %s is missing or not greater than 0", name);
}

/* YaRN scales from beta_slow to beta_fast turns within the original sequence. */
static int read_yarn(struct json_value object, double positions, struct rope_scaling *s,
                     struct error *err)
{
    double mscale, all;
    int truncate;

    if (hf_read_real(object, "beta_slow", 1, &s->low, err) < 0 ||
        hf_read_real(object, "beta_fast", 32, &s->high, err) < 0 ||
        hf_read_real(object, "original_max_position_embeddings", positions, &s->original, err) <
            0 ||
        hf_read_real_or_null(object, "attention_factor", 0, &s->attention, err) < 0 ||
        hf_read_real_or_null(object, "mscale", 0, &mscale, err) < 0 ||
        hf_read_real_or_null(object, "mscale_all_dim", 0, &all, err) < 0 ||
        hf_read_flag(object, "truncate", 1, &truncate, err) < 0)
        return -1;
    if (!truncate || mscale != all)
        return error_set(err, "yarn with truncate false, or with mscale different from "
                              "mscale_all_dim, is not supported; use another model");
    if (mscale != 0 && s->attention == 0)
        s->attention = 1;
    return s->low > 0 && s->high > 0 && s->original > 0 && s->attention >= 0
               ? 0
               : error_set(err, "yarn: beta_slow, beta_fast and "
                                "original_max_position_embeddings must be greater than 0");
}

/* RoPE scaling: "rope_scaling", or in newer folders "rope_parameters" together with the base. */
static int read_scaling(const struct hf_family *family, struct json_value object, struct network *c,
                        struct error *err)
{
    struct rope_scaling *scaling = &c->rope_scaling;
    double original = (double)c->positions;
    const char *type;

    if (hf_read_real(object, "rope_theta", c->shape.rotary_base, &c->shape.rotary_base, err) < 0 ||
        hf_read_real(object, "partial_rotary_factor", c->rotary_percent, &c->rotary_percent, err) <
            0 ||
        hf_read_text(object, "type", "default", &type, err) < 0 ||
        hf_read_text(object, "rope_type", type, &type, err) < 0)
        return -1;
    if (strcmp(type, "default") == 0)
        return 0;
    if (family->architecture == ARCHITECTURE_PHI3)
        return error_set(
            err, "rope_scaling of type %.40s is not supported for Phi-3; use another model", type);
    if (strcmp(type, "linear") != 0 && strcmp(type, "yarn") != 0 && strcmp(type, "llama3") != 0)
        return error_set(err,
                         "rope_scaling of type %.40s is not supported, only linear, llama3 and "
                         "yarn are; use another model",
                         type);
    if (needed(object, "factor", &scaling->factor, err) < 0)
        return -1;
    if (strcmp(type, "linear") == 0) {
        scaling->kind = ROPE_LINEAR;
        return 0;
    }
    if (strcmp(type, "yarn") == 0) {
        scaling->kind = ROPE_YARN;
        return read_yarn(object, original, scaling, err);
    }
    scaling->kind = ROPE_LLAMA3;
    return needed(object, "low_freq_factor", &scaling->low, err) < 0 ||
                   needed(object, "high_freq_factor", &scaling->high, err) < 0
               ? -1
               : needed(object, "original_max_position_embeddings", &scaling->original, err);
}

/* The base of layers with a window, whose rotations are not scaled. */
static int read_local(const struct hf_family *family, struct json_value root,
                      struct json_value parameters, struct network *c, struct error *err)
{
    int gemma = family->architecture == ARCHITECTURE_GEMMA3;
    double usual = hf_usual(family->usual, "rope_local_base_freq", 0);
    struct json_value local, full;
    const char *type;

    if (gemma && hf_read_real(root, "rope_local_base_freq", usual, &usual, err) < 0)
        return -1;
    if (json_member(parameters, "sliding_attention", &local) < 0) {
        c->local_rotary_base = usual;
        /* Releases of transformers disagree on which layers have this base. */
        return gemma || json_member(parameters, "full_attention", &full) == 0 ||
                       c->shape.rotary_base == usual
                   ? 0
                   : error_set(err,
                               "rope_theta %g must be in rope_parameters for OLMo3, once in "
                               "full_attention and once in sliding_attention",
                               c->shape.rotary_base);
    }
    if (hf_read_text(local, "rope_type", "default", &type, err) < 0)
        return -1;
    if (strcmp(type, "default") != 0)
        return error_set(
            err,
            "rope scaling of layers with a sliding window is not supported; use another model");
    return hf_read_real(local, "rope_theta", usual, &c->local_rotary_base, err);
}

/* A member that is an object with members. */
static int object_of(struct json_value root, const char *name, struct json_value *object)
{
    return json_member(root, name, object) == 0 && json_type(*object) == JSON_OBJECT &&
           json_count(*object) > 0;
}

/* Does it have an object for each kind of layer? */
static int is_nested(struct json_value object)
{
    struct json_value inner;

    return json_member(object, "full_attention", &inner) == 0 ||
           json_member(object, "sliding_attention", &inner) == 0;
}

/* "rope_parameters" of newer folders also contain the base. If layers with a window have rotations
 * of their own, there is one object for each kind of layer. */
static int read_rope_objects(const struct hf_family *family, struct json_value root,
                             struct network *c, struct error *err)
{
    struct json_value scaling, parameters = root, full;
    int local = hf_usual(family->usual, "rope_local_base_freq", 0) > 0;
    int scaled = object_of(root, "rope_scaling", &scaling);
    int given = object_of(root, "rope_parameters", &parameters);

    if ((scaled && is_nested(scaling)) || (given && is_nested(parameters) != local))
        return error_set(
            err, "rope_parameters %s full_attention and sliding_attention are not supported for %s",
            local && !(scaled && is_nested(scaling)) ? "without" : "or rope_scaling with",
            family->name);
    if (given && local && json_member(parameters, "full_attention", &full) == 0 &&
        read_scaling(family, full, c, err) < 0)
        return -1;
    if ((scaled || (given && !local)) &&
        read_scaling(family, scaled ? scaling : parameters, c, err) < 0)
        return -1;
    return local ? read_local(family, root, given ? parameters : root, c, err) : 0;
}

int hf_read_rope(const struct hf_family *family, struct json_value root, struct network *c,
                 struct error *err)
{
    int64_t rotated;

    if (read_rope_objects(family, root, c, err) < 0)
        return -1;
    if (!(c->rotary_percent > 0) || c->rotary_percent > 1 ||
        (c->rotary_percent < 1 && !hf_family_may_have(family, "rotary-percent")))
        return error_set(err,
                         "partial_rotary_factor %g is not supported, only 1 is (Phi-3, GPT-NeoX: "
                         "above 0, at most 1); use another model",
                         c->rotary_percent);
    rotated = (int64_t)((double)c->shape.kv_channels * c->rotary_percent);
    return rotated % 2 == 0
               ? 0
               : error_set(err,
                           "with partial_rotary_factor %g, RoPE rotates %lld of the %lld channels "
                           "of a head, and only an even number is supported; use another model",
                           c->rotary_percent, (long long)rotated, (long long)c->shape.kv_channels);
}

/* --- Writing ---------------------------------------------------------------------------------- */

static void write_members(const struct rope_scaling *s, struct json_writer *json)
{
    static const char *const names[] = {[ROPE_PLAIN] = "default",
                                        [ROPE_LLAMA3] = "llama3",
                                        [ROPE_LINEAR] = "linear",
                                        [ROPE_YARN] = "yarn"};
    int yarn = s->kind == ROPE_YARN;

    json_put_string(json, "rope_type", names[s->kind]);
    if (s->kind == ROPE_PLAIN)
        return;
    json_put_number(json, "factor", s->factor, 9);
    if (s->kind == ROPE_LINEAR)
        return;
    json_put_number(json, yarn ? "beta_slow" : "low_freq_factor", s->low, 9);
    json_put_number(json, yarn ? "beta_fast" : "high_freq_factor", s->high, 9);
    json_put_number(json, "original_max_position_embeddings", s->original, 15);
    if (yarn && s->attention > 0)
        json_put_number(json, "attention_factor", s->attention, 9);
}

void hf_write_rope_scaling(const struct network *c, struct json_writer *json)
{
    if (c->rope_scaling.kind == ROPE_PLAIN)
        return;
    json_open(json, "rope_scaling", '{');
    write_members(&c->rope_scaling, json);
    json_close(json);
}

double hf_local_base(const struct network *c)
{
    return c->local_rotary_base > 0 ? c->local_rotary_base : c->shape.rotary_base;
}

void hf_write_rope_parameters(const struct network *c, struct json_writer *json)
{
    const struct rope_scaling plain = {0};

    json_open(json, "rope_parameters", '{');
    json_open(json, "full_attention", '{');
    json_put_number(json, "rope_theta", c->shape.rotary_base, 9);
    write_members(&c->rope_scaling, json);
    json_close(json);
    json_open(json, "sliding_attention", '{');
    json_put_number(json, "rope_theta", hf_local_base(c), 9);
    write_members(&plain, json);
    json_close(json);
    json_close(json);
}
