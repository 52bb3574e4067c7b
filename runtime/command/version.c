/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "commands.h"

#include <stdio.h>
#include <string.h>

static int run_version(int argc, const char *const *argv, struct error *err)
{
    if (argc > 0 && strcmp(argv[0], "--help") != 0 && strcmp(argv[0], "-h") != 0)
        return error_set_code(err, ERROR_USAGE,
                              "unexpected argument %.100s; version takes no arguments", argv[0]);
    printf("megatron %s\n", PACKAGE_VERSION);
    printf("built with:%s\n", MEGATRON_FEATURES);
    return 0;
}

const struct command command_version = {
    .name = "version",
    .summary = "print the version and the features of this build",
    .run = run_version,
};
