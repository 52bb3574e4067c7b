#include "config.h"
#include "commands.h"

#include <stdio.h>

static int run_version(int argc, const char *const *argv, struct error *err)
{
    (void)argc, (void)argv, (void)err;
    printf("megatron %s\n", PACKAGE_VERSION);
    printf("built with:%s\n", MEGATRON_FEATURES);
    return 0;
}

const struct command command_version = {
    .name = "version",
    .summary = "print the version and what this build can do",
    .run = run_version,
};
