#include "named.h"
#include "enroot.h"
#include "files.h"
#include "lease.h"
#include "process.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

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

static int on_tick(void *argument, double elapsed)
{
    (void)elapsed;
    (void)lease_beat(argument);
    return 0;
}

/* With the lease: make it, in place of what is there if 'anew'. */
static int make(const struct named_request *request, const char *full, int anew,
                struct lease *lease, struct error *err)
{
    const char *const argv[] = {"enroot",
                                "create",
                                "--name",
                                full,
                                anew ? "--force" : request->image,
                                anew ? request->image : NULL,
                                NULL};
    struct process_request process = {.argv = argv,
                                      .environment = request->environment,
                                      .path = request->path,
                                      .timeout = request->timeout,
                                      .tick = on_tick,
                                      .argument = lease};
    struct process_result result;

    if (process_run(&process, &result, err) < 0)
        return -1;
    if (result.timed_out)
        return error_set(err, "making the container %s took longer than %.0f seconds",
                         request->name, request->timeout);
    if (result.status != 0)
        return enroot_explain("making the container", result.status, result.errors, err);
    return 0;
}

int container_keep(const struct named_request *request, char *full, size_t size, struct error *err)
{
    struct lease_watch watch = {0};
    struct lease lease;
    struct utsname host;
    char path[4096];
    double begun = seconds_now();
    int taken, rc;

    snprintf(full, size, "megatron_%s", request->name);
    uname(&host);
    /* By host: Enroot's containers may be on the node's own disk. */
    snprintf(path, sizeof(path), "%s/containers", request->cache->directory);
    if (make_directories(path, err) < 0)
        return -1;
    snprintf(path, sizeof(path), "%s/containers/%s.%s", request->cache->directory, request->name,
             host.nodename);
    while ((taken = lease_take(&lease, path, request->patience, &watch, err)) == 0) {
        if (seconds_now() - begun > request->timeout)
            return error_set(err, "the container %s is being made for over %.0f seconds",
                             request->name, request->timeout);
        seconds_sleep(0.2);
    }
    if (taken < 0)
        return -1;
    rc = watch.broken ? 0 : is_there(full, request->path, request->environment, err);
    if (rc == 0) {
        rc = make(request, full, watch.broken, &lease, err);
        /* Where making failed, the lease stays behind: what is there now is no container. */
        if (rc < 0)
            return -1;
    }
    lease_release(&lease);
    return rc < 0 ? -1 : 0;
}
