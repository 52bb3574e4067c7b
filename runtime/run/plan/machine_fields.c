/* SPDX-License-Identifier: Apache-2.0 */
#include "machine_fields.h"

#include <stddef.h>

#define FIELD(type, name, member, unit, min, max, required)           \
    {                                                                 \
        name, offsetof(struct type, member), unit, min, max, required \
    }
#define RATE(name, unit, min, max)     FIELD(machine_rates, #name, name, unit, min, max, 0)
#define GPU(name, ...)                 FIELD(machine_gpu, name, __VA_ARGS__)
#define STEP(name, ...)                FIELD(machine_step, name, __VA_ARGS__, 1)
#define NODE(name, ...)                FIELD(machine, name, __VA_ARGS__)
#define MEMORY(name, ...)              FIELD(machine_memory, name, __VA_ARGS__, 0)
#define LIMIT(name, member, unit, max) FIELD(machine_limits, name, member, unit, 0, max, 0)

const struct field machine_rate_fields[] = {
    RATE(product, 1, 0.01, 1),
    RATE(small_tile, 1, 0.01, 1),
    RATE(half_depth, 1, 0, 10000),
    RATE(launch, 1e-6, 0, 1000),
    RATE(flash, 1, 0.01, 1),
    RATE(unfused, 1, 0.01, 1),
    RATE(head_exponent, 1, 0, 4),
    RATE(unaligned, 1, 0.01, 1),
    RATE(unaligned_vocabulary, 1, 0.01, 1),
    RATE(fp8, 1, 0.1, 1.5),
    RATE(fp4, 1, 0.1, 1.5),
    RATE(score_bytes, 1, 0, 100),
    RATE(hidden_traffic, 1, 0, 200),
    RATE(ffn_traffic, 1, 0, 200),
    RATE(logit_bytes, 1, 0, 200),
    RATE(cast_bytes, 1, 0, 200),
    RATE(layer, 1e-6, 0, 100000),
    RATE(host, 1e-6, 0, 100000),
    RATE(host_softmax, 1e-6, 0, 100000),
    RATE(host_collective, 1e-6, 0, 10000),
    RATE(host_late, 1e-6, 0, 10000),
    RATE(nvlink, 1, 0.01, 2),
    RATE(network, 1, 0.01, 2),
    RATE(network_group, 1, 0.01, 16),
    RATE(collective, 1e-6, 0, 10000),
    RATE(latency, 1e-6, 0, 10000),
    RATE(hop, 1e-6, 0, 10000),
    RATE(tensor_exposed, 1, 0, 1),
    RATE(context_exposed, 1, 0, 1),
    RATE(pipeline_exposed, 1, 0, 4),
    RATE(data_exposed, 1, 0, 1),
    RATE(data_growth, 1, 0, 1),
    RATE(gradient_bytes, 1, 0, 16),
    RATE(accumulate_bytes, 1, 0, 64),
    RATE(optimizer_bytes, 1, 0, 128),
    RATE(fixed, 1e-3, 0, 10000),
    RATE(hbm, 1, 0.1, 1),
    RATE(classic, 1, 0, 1),
    {NULL, 0, 0, 0, 0, 0},
};

const struct field machine_gpu_fields[] = {
    GPU("bf16_tflops", flops[MACHINE_BF16], 1e12, 1e-4, 1e5, 1),
    GPU("fp8_tflops", flops[MACHINE_FP8], 1e12, 0, 1e5, 0),
    GPU("fp4_tflops", flops[MACHINE_FP4], 1e12, 0, 1e5, 0),
    GPU("memory_gib", memory_bytes, GIB, 0.1, 1e5, 1),
    GPU("time_error", time_error, 1, 0, 1, 0),
    GPU("memory_gb_per_s", memory_bandwidth, 1e9, 0.1, 1e6, 1),
    {NULL, 0, 0, 0, 0, 0},
};

const struct field machine_step_fields[] = {
    STEP("hidden", hidden, 1, 1, 1e6),
    STEP("ffn", ffn, 1, 1, 1e7),
    STEP("heads", heads, 1, 1, 1e5),
    STEP("query_groups", groups, 1, 1, 1e5),
    STEP("gated", gated, 1, 0, 1),
    STEP("sequence", sequence, 1, 1, 1e8),
    STEP("micro_batch", micro_batch, 1, 1, 1e6),
    STEP("vocabulary", vocabulary, 1, 1, 1e7),
    STEP("layer_us", layer, 1e-6, 0.1, 1e9),
    STEP("head_us", head, 1e-6, 0.1, 1e9),
    {NULL, 0, 0, 0, 0, 0},
};

const struct field machine_node_fields[] = {
    NODE("nvlink_gb_per_s", nvlink, 1e9, 1, 1e5, 1),
    NODE("nvlink_pair_share", nvlink_pair, 1, 0.01, 1, 0),
    NODE("network_gb_per_s", network, 1e9, 0.01, 1e4, 1),
    NODE("efficiency", efficiency, 1, 0.1, 2, 0),
    NODE("nvlink_efficiency", nvlink_efficiency, 1, 0.01, 2, 0),
    NODE("collective_latency", collective_latency, 1, 0, 100, 0),
    NODE("synchronous_launches", synchronous, 1, 0, 1, 0),
    NODE("dollars_per_hour", price, 1, 0, 1e5, 0),
    NODE("gpu_hours_per_fault", fault_hours, 1, 1, 1e9, 0),
    NODE("save_gb_per_s", save_bandwidth, 1e9, 0.001, 1e4, 0),
    NODE("own_context_gib", context_bytes, GIB, 0, 100, 0),
    NODE("nics", nics, 1, 0, 256, 0),
    {NULL, 0, 0, 0, 0, 0},
};

const struct field machine_memory_fields[] = {
    MEMORY("state_bytes", state_bytes, 1, 0, 32),
    MEMORY("bf16_bytes", bf16_bytes, 1, 0, 32),
    MEMORY("sharded_bytes", sharded_bytes, 1, 0, 32),
    MEMORY("activations", activations, 1, 0.5, 4),
    MEMORY("context_gib", context_bytes, GIB, 0, 100),
    {NULL, 0, 0, 0, 0, 0},
};

const struct field machine_limit_fields[] = {
    LIMIT("core_warn", core_warn, 1, 1),
    LIMIT("core_fail", core_fail, 1, 1),
    LIMIT("memory_warn", memory_warn, 1, 1),
    LIMIT("memory_fail", memory_fail, 1, 1),
    LIMIT("layer_warn", layer_warn, 1, 1),
    LIMIT("layer_fail", layer_fail, 1, 1),
    LIMIT("held_warn", held_warn, 1, 1),
    LIMIT("held_fail", held_fail, 1, 1),
    LIMIT("link_warn", link_warn, 1, 1),
    LIMIT("link_fail", link_fail, 1, 1),
    LIMIT("loss_warn", loss_warn, 1, 1),
    LIMIT("loss_fail", loss_fail, 1, 1),
    LIMIT("skew_warn_s", skew_warn, 1, 1e6),
    LIMIT("skew_fail_s", skew_fail, 1, 1e6),
    LIMIT("disk_gib", disk_bytes, GIB, 1e6),
    LIMIT("disk_mb_per_s", disk_bandwidth, 1e6, 1e6),
    LIMIT("host_gb_per_s", host_bandwidth, 1e9, 1e4),
    LIMIT("all_reduce_gb_per_s", all_reduce, 1e9, 1e5),
    LIMIT("pair_all_reduce_gb_per_s", pair_all_reduce, 1e9, 1e5),
    LIMIT("open_files", open_files, 1, 1e9),
    LIMIT("locked_gib", locked_memory, GIB, 1e6),
    {NULL, 0, 0, 0, 0, 0},
};
