#include "named.h"
#include "enroot.h"
#include "files.h"
#include "lease.h"
#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

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

/* Where Enroot has its containers, which its configuration may say. */
static int find_data(const struct named_request *request, char *data, size_t size,
                     struct error *err)
{
    static const char name[] = "ENROOT_DATA_PATH";
    const struct enroot_call call = {
        .path = request->path, .environment = request->environment, .stop = request->stop};
    char info[ENROOT_INFO_SIZE];

    if (enroot_info(&call, info, sizeof(info), err) < 0)
        return -1;
    return enroot_setting(info, name, data, size) == 0
               ? 0
               : error_set(err, "enroot info does not tell %s", name);
}

/* In the container itself: it comes and goes with it. */
#define ORIGIN_FILE ".megatron-image"

/* Who cannot write it down goes without. */
static void write_origin(const char *container, const char *origin)
{
    char path[8192 + 32];
    FILE *file;

    snprintf(path, sizeof(path), "%s/" ORIGIN_FILE, container);
    file = fopen(path, "wxe");
    if (!file)
        return;
    fprintf(file, "%s\n", origin);
    fclose(file);
}

static int on_tick(void *argument, double elapsed)
{
    (void)elapsed;
    (void)lease_beat(argument);
    return 0;
}

/* Drafts of this host that a killed process left; only the holder of the lease has a right to any.
 */
static void remove_drafts(const struct named_request *request, const char *data, const char *prefix)
{
    struct process_result result;
    struct error ignored;
    DIR *listed = opendir(data);
    struct dirent *item;

    while (listed && (item = readdir(listed))) {
        const char *const argv[] = {"enroot", "remove", "--force", item->d_name, NULL};

        if (strncmp(item->d_name, prefix, strlen(prefix)) == 0)
            run_enroot(argv, request->path, request->environment, request->timeout, &result,
                       &ignored);
    }
    if (listed)
        closedir(listed);
}

/* Extract the image as container 'draft'. */
static int extract(const struct named_request *request, const char *draft, struct lease *lease,
                   struct error *err)
{
    const char *const argv[] = {"enroot", "create", "--name", draft, request->image, NULL};
    struct process_request process = {.argv = argv,
                                      .environment = request->environment,
                                      .path = request->path,
                                      .timeout = request->timeout,
                                      .tick = on_tick,
                                      .argument = lease,
                                      .stop = request->stop};
    struct process_result result;

    if (process_run(&process, &result, err) < 0)
        return -1;
    if (is_stopped(request->stop))
        return error_set(err, STOPPED);
    if (result.timed_out)
        return error_set(err, "making the container %s took longer than %.0f seconds",
                         request->name, request->timeout);
    if (result.status != 0)
        return enroot_explain("making the container", result.status, result.errors, err);
    return 0;
}

/* With the lease: make it under another name. It is whole from the moment it has its own, also for
 * nodes that share the directory; where another was faster, that one is it. */
static int make(const struct named_request *request, const char *data, const char *full,
                const char *host, struct lease *lease, struct error *err)
{
    char prefix[256], draft[320], from[8192], to[8192];
    int rc;

    snprintf(prefix, sizeof(prefix), "%.100s.draft.%.64s.", full, host);
    remove_drafts(request, data, prefix);
    snprintf(to, sizeof(to), "%.4000s/%s", data, full);
    if (access(to, F_OK) == 0)
        return 0;
    snprintf(draft, sizeof(draft), "%s%s", prefix, strrchr(lease->owner, ',') + 1);
    snprintf(from, sizeof(from), "%.4000s/%s", data, draft);
    rc = extract(request, draft, lease, err);
    if (rc == 0)
        write_origin(from, request->origin);
    if (rc == 0 && rename(from, to) < 0 && access(to, F_OK) < 0)
        rc = error_set_errno(err, errno, "cannot rename the container to %.300s", to);
    if (access(from, F_OK) == 0)
        remove_drafts(request, data, prefix);
    return rc;
}

int container_kept(const struct named_request *request, char *full, size_t size,
                   char origin[NAMED_ORIGIN_SIZE], struct error *err)
{
    char data[4096], path[8192];

    origin[0] = '\0';
    snprintf(full, size, "megatron_%s", request->name);
    if (find_data(request, data, sizeof(data), err) < 0)
        return -1;
    snprintf(path, sizeof(path), "%.4000s/%s", data, full);
    if (access(path, F_OK) < 0)
        return 0;
    snprintf(path, sizeof(path), "%.4000s/%s/" ORIGIN_FILE, data, full);
    small_file_read(path, origin, NAMED_ORIGIN_SIZE);
    origin[strcspn(origin, "\n")] = '\0';
    return 1;
}

int container_keep(const struct named_request *request, char *full, size_t size, struct error *err)
{
    struct lease_watch watch = {0};
    struct lease lease;
    struct utsname host;
    char data[4096], path[8192];
    double begun = seconds_now();
    int taken, rc;

    snprintf(full, size, "megatron_%s", request->name);
    uname(&host);
    if (find_data(request, data, sizeof(data), err) < 0)
        return -1;
    snprintf(path, sizeof(path), "%s/%s", data, full);
    if (access(path, F_OK) == 0)
        return 0;
    /* By host: Enroot's containers may be on the node's own disk. */
    snprintf(path, sizeof(path), "%s/containers", request->cache->directory);
    if (make_directories(path, err) < 0)
        return -1;
    snprintf(path, sizeof(path), "%s/containers/%s.%s", request->cache->directory, request->name,
             host.nodename);
    while ((taken = lease_take(&lease, path, request->patience, &watch, err)) == 0) {
        if (is_stopped(request->stop))
            return error_set(err, STOPPED);
        if (seconds_now() - begun > request->timeout)
            return error_set(err, "the container %s is being made for over %.0f seconds",
                             request->name, request->timeout);
        seconds_sleep(0.2);
    }
    if (taken < 0)
        return -1;
    rc = make(request, data, full, host.nodename, &lease, err);
    lease_release(&lease);
    return rc;
}
