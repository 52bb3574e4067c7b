/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "commands.h"

#include <stdio.h>
#include <string.h>

/* One line per part: what it is, and which version this build was made with. */
static void print_part(const char *name, const char *version, const char *missing)
{
    printf("%-11s %s\n", name, version[0] != '\0' ? version : missing);
}

static void print_gpus(void)
{
    if (MEGATRON_CUDA_RELEASE[0] == '\0')
        return;
    print_part("cuDNN:", MEGATRON_CUDNN_VERSION, "none");
    print_part("NCCL:", MEGATRON_NCCL_VERSION, "none; one GPU only");
    printf("%-11s compute capabilities %s\n", "GPUs:", MEGATRON_GPU_ARCHITECTURES);
}

static int run_version(int argc, const char *const *argv, struct error *err)
{
    if (argc > 0 && strcmp(argv[0], "--help") != 0 && strcmp(argv[0], "-h") != 0)
        return error_set_code(err, ERROR_USAGE,
                              "unexpected argument %.100s; version takes no arguments", argv[0]);
    printf("megatron %s\n", PACKAGE_VERSION);
    printf("built with:%s\n", MEGATRON_FEATURES);
    print_part("Slurm:", MEGATRON_SLURM_VERSION, "none; built without the plugin");
    print_part("CUDA:", MEGATRON_CUDA_RELEASE, "none; trains on CPUs only");
    print_gpus();
    print_part("compiler:", __VERSION__, "");
    print_part("configure:", MEGATRON_BUILD_OPTIONS, "defaults");
    return 0;
}

const struct command command_version = {
    .name = "version",
    .summary = "print the version and the features of this build",
    .run_words = run_version,
};
