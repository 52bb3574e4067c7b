#include "commands.h"

#include <stddef.h>

const struct command *const commands[] = {
    &command_image,
    &command_version,
    NULL,
};
