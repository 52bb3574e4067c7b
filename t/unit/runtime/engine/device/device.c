/* SPDX-License-Identifier: Apache-2.0 */
/* Every operation of the device against an independent reference in double precision: forward
 * values, and gradients against finite differences of that reference. MEGATRON_TEST_DEVICE (cpu),
 * MEGATRON_TEST_TYPE (fp32), MEGATRON_TEST_DETERMINISTIC (1) and MEGATRON_TEST_UNFUSED (0) select
 * the device, the type, deterministic mode, and attention with its scores in memory, so that every
 * backend can run the same tests. MEGATRON_TEST_CASES: of these only the cases with these names, as
 * in the table below. */
#include "device_test.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>

static int is_set(const char *name, int otherwise)
{
    const char *value = getenv(name);

    return value ? strcmp(value, "0") != 0 : otherwise;
}

/* In this order: all draw from one random sequence. */
static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"linear", linear_cases},
    {"norm", norm_cases},
    {"attention", attention_cases},
    {"row", row_cases},
    {"loss", loss_cases},
    {"optimizer", optimizer_cases},
    {"element", element_cases},
    {"step", step_cases},
    {"wide-attention", wide_attention_cases},
    {"attention-dropout", attention_dropout_cases},
    {"attention-end", attention_end_cases},
    {"linear-erf", linear_erf_cases},
    {"activation", activation_cases},
    {"attention-window", attention_window_cases},
    {"head-norm", head_norm_cases},
    {"gate", gate_cases},
    {"softcap", softcap_cases},
    {"squared-relu", squared_relu_cases},
    {"quantize", quantize_cases},
    {"quantize-blocks", quantize_blocks_cases},
    {"narrow-gradient", narrow_gradient_cases},
    {"linear-deep", linear_deep_cases},
    {"linear-gated", linear_gated_cases},
};

/* Is the name among those of MEGATRON_TEST_CASES, which are separated by spaces? All are without
 * it. */
static int is_asked(const char *name)
{
    const char *list = getenv("MEGATRON_TEST_CASES"), *at = list;
    size_t length = strlen(name);

    for (; at && (at = strstr(at, name)); at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return 1;
    return !list;
}

int main(void)
{
    const char *name = getenv("MEGATRON_TEST_DEVICE"), *as = getenv("MEGATRON_TEST_TYPE");
    struct device_options options = {.threads = 2, .cache_dir = getenv("MEGATRON_CACHE_DIR")};
    struct error err;

    type = as && strcmp(as, "bf16") == 0   ? TYPE_BF16
           : as && strcmp(as, "fp16") == 0 ? TYPE_FP16
                                           : type;
    options.deterministic = deterministic = is_set("MEGATRON_TEST_DETERMINISTIC", 1);
    options.unfused_attention = unfused = is_set("MEGATRON_TEST_UNFUSED", 0);
    device = device_open(name ? name : "cpu", &options, &err);
    if (!device)
        return skip_all(err.text);
    stream = device_stream_create(device, 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (is_asked(cases[i].name))
            cases[i].run();
    device_stream_destroy(stream);
    device_close(device);
    return done_testing();
}
