/* SPDX-License-Identifier: Apache-2.0 */
/* Every operation of the device against an independent reference in double precision: forward
 * values, and gradients against finite differences of that reference. MEGATRON_TEST_DEVICE (cpu),
 * MEGATRON_TEST_TYPE (fp32), MEGATRON_TEST_DETERMINISTIC (1) and MEGATRON_TEST_UNFUSED (0) select
 * the device, the type, deterministic mode, and attention with its scores in memory, so that every
 * backend can run the same tests. */
#include "device_test.h"
#include "tap.h"

#include <stdlib.h>

static int is_set(const char *name, int otherwise)
{
    const char *value = getenv(name);

    return value ? strcmp(value, "0") != 0 : otherwise;
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
    stream = device_stream_create(device, 0, &err);
    /* In this order: all draw from one random sequence. */
    linear_cases();
    norm_cases();
    attention_cases();
    row_cases();
    loss_cases();
    optimizer_cases();
    element_cases();
    step_cases();
    wide_attention_cases();
    attention_dropout_cases();
    attention_end_cases();
    linear_erf_cases();
    activation_cases();
    attention_window_cases();
    head_norm_cases();
    gate_cases();
    softcap_cases();
    squared_relu_cases();
    quantize_cases();
    narrow_gradient_cases();
    linear_deep_cases();
    device_stream_destroy(stream);
    device_close(device);
    return done_testing();
}
