#include "named.h"
#include "enroot.h"
#include "process.h"

#include <stdio.h>
#include <string.h>

static int run_enroot(const char *const *argv, const char *path, const char *const *environment,
                      double timeout, struct process_result *result, struct error *err)
{
    struct process_request request = {
        .argv = argv, .environment = environment, .path = path, .timeout = timeout};

    if (process_run(&request, result, err) < 0)
        return -1;
    if (result->timed_out)
        return error_set(err, "enroot %s took longer than %.0f seconds", argv[1], timeout);
    return 0;
}

static int has_line(const char *text, const char *line)
{
    size_t length = strlen(line);

    for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
        if (strncmp(text, line, length) == 0 && (text[length] == '\n' || text[length] == '\0'))
            return 1;
    return 0;
}

static int is_there(const char *name, const char *path, const char *const *environment,
                    struct error *err)
{
    const char *const argv[] = {"enroot", "list", NULL};
    struct process_result result;

    if (run_enroot(argv, path, environment, 60, &result, err) < 0)
        return -1;
    if (result.status != 0)
        return enroot_explain("enroot list", result.status, result.errors, err);
    return has_line(result.output, name);
}

int container_keep(const char *name, const char *image, const char *path,
                   const char *const *environment, double timeout, char *full, size_t size,
                   struct error *err)
{
    const char *const create[] = {"enroot", "create", "--name", full, image, NULL};
    struct process_result result;
    int there;

    snprintf(full, size, "megatron_%s", name);
    there = is_there(full, path, environment, err);
    if (there != 0)
        return there < 0 ? -1 : 0;
    if (run_enroot(create, path, environment, timeout, &result, err) < 0)
        return -1;
    /* Another step may have made it meanwhile. */
    if (result.status != 0 && !strstr(result.errors, "already exists"))
        return enroot_explain("making the container", result.status, result.errors, err);
    return 0;
}
