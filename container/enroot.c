#include "enroot.h"
#include "process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first release that prints digests and starts squashfs files directly. */
enum { OLDEST_MAJOR = 4, OLDEST_MINOR = 0 };

static int same_name(const char *a, const char *b)
{
    size_t length = strcspn(a, "=");

    return strncmp(a, b, length) == 0 && (b[length] == '=' || b[length] == '\0');
}

const char **enroot_environment(const char *const *base, const char *const *settings)
{
    size_t base_count = 0, count = 0, used = 0;
    const char **result;

    while (base[base_count])
        base_count++;
    while (settings[count])
        count++;
    result = calloc(base_count + count + 1, sizeof(*result));
    if (!result)
        return NULL;
    for (size_t i = 0; i < base_count; i++) {
        size_t k = 0;

        while (k < count && !same_name(settings[k], base[i]))
            k++;
        if (k == count)
            result[used++] = base[i];
    }
    for (size_t k = 0; k < count; k++)
        result[used++] = settings[k];
    return result;
}

const char *environment_value(const char *const *environment, const char *name)
{
    size_t length = strlen(name);

    for (; *environment; environment++)
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
            return *environment + length + 1;
    return NULL;
}

const char *enroot_temporary(const char *const *environment)
{
    static const char *const names[] = {"ENROOT_TEMP_PATH", "TMPDIR"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *named = environment_value(environment, names[i]);

        if (named && named[0] == '/' && access(named, W_OK) == 0)
            return named;
    }
    return "/tmp";
}

/* Run a short command. Returns 0 or -1. */
static int ask(const struct enroot_call *call, const char *question, double timeout,
               struct process_result *result, struct error *err)
{
    const char *const argv[] = {"enroot", question, NULL};
    const struct process_request request = {.argv = argv,
                                            .environment = call->environment,
                                            .path = call->path,
                                            .timeout = timeout,
                                            .tick = call->tick,
                                            .argument = call->argument,
                                            .stop = call->stop};
    char what[64];

    if (process_run(&request, result, err) < 0)
        return error_set(err, "enroot is not installed in %.300s; install Enroot %d.%d or newer",
                         call->path ? call->path : "(no PATH)", OLDEST_MAJOR, OLDEST_MINOR);
    if (is_stopped(call->stop))
        return error_set(err, STOPPED);
    if (result->timed_out)
        return error_set(err, "enroot %s took longer than %.0f seconds", question, timeout);
    snprintf(what, sizeof(what), "enroot %s", question);
    return result->status == 0 ? 0 : enroot_explain(what, result->status, result->errors, err);
}

int enroot_check(const struct enroot_call *call, struct error *err)
{
    struct process_result result;
    int major = 0, minor = 0;

    if (ask(call, "version", 20, &result, err) < 0)
        return -1;
    if (sscanf(result.output, "%d.%d", &major, &minor) != 2 || major < OLDEST_MAJOR)
        return error_set(err, "enroot is version %.20s; install %d.%d or newer",
                         strtok(result.output, "\n") ? result.output : "(unknown)", OLDEST_MAJOR,
                         OLDEST_MINOR);
    return 0;
}

int enroot_info(const struct enroot_call *call, char *info, size_t size, struct error *err)
{
    struct process_result result;

    if (ask(call, "info", 60, &result, err) < 0)
        return -1;
    snprintf(info, size, "%s", result.output);
    return 0;
}

int enroot_setting(const char *info, const char *name, char *value, size_t size)
{
    size_t length = strlen(name);

    for (const char *line = info; line; line = strchr(line, '\n')) {
        line += strspn(line, "\n ");
        if (strncmp(line, name, length) != 0 || line[length] != '=')
            continue;
        snprintf(value, size, "%.*s", (int)strcspn(line + length + 1, "\n"), line + length + 1);
        return 0;
    }
    return -1;
}

/* Nodes that share a container configure it one after another; Enroot prints this after waiting too
 * long for its turn. */
#define LOCKED "Could not acquire rootfs lock"

#define CREDENTIALS \
    "add credentials for the registry to .credentials in ENROOT_CONFIG_PATH or ~/.config/enroot"

static const struct {
    const char *sign, *remedy;
} remedies[] = {
    {"Connection refused", "check that the registry is running and its name is correct"},
    {"Could not resolve host", "check the registry's name and the network"},
    {"could not resolve host", "check the registry's name and the network"},
    {"code: 401", CREDENTIALS},
    {"code: 403", CREDENTIALS},
    {"Unauthorized", CREDENTIALS},
    {"code: 404", "check the image's name and tag"},
    {"Not Found", "check the image's name and tag"},
    {"No such image", "check the image's name and tag"},
    {"image not known", "check the image's name and tag"},
    {"No space left",
     "free some space, or set MEGATRON_IMAGE_CACHE or ENROOT_TEMP_PATH to another directory"},
    {"Disk quota exceeded", "free some space, or set MEGATRON_IMAGE_CACHE to another directory"},
    {"/dev/fuse", "the administrator must let users open /dev/fuse (chmod 0666)"},
    {"fuse: failed to open", "the administrator must let users open /dev/fuse (chmod 0666)"},
    {"squashfuse", "install squashfuse on the compute nodes"},
    {"fuse-overlayfs", "install fuse-overlayfs on the compute nodes"},
    {"unshare", "user namespaces are disabled; see sysctl user.max_user_namespaces"},
    {"failed to create user namespace",
     "user namespaces are disabled; see sysctl user.max_user_namespaces"},
    {"failed to set capabilities",
     "install the package enroot+caps: its programs have the capabilities that users need to "
     "import images"},
    {LOCKED, "too many nodes start this container at once, or one of them hangs; set "
             "ENROOT_DATA_PATH to a node-local directory"},
    {"Command not found", "install the missing program on this node"},
};

static const char *find_remedy(const char *errors)
{
    for (size_t i = 0; i < sizeof(remedies) / sizeof(remedies[0]); i++)
        if (strstr(errors, remedies[i].sign))
            return remedies[i].remedy;
    return NULL;
}

/* If a registry denies access, Enroot exits without a message. */
static int was_refused(const char *errors)
{
    const char *asked = strstr(errors, "Authenticating with user");

    return asked && !strstr(asked, "Authentication succeeded") && !strstr(asked, "[ERROR]") &&
           !strstr(asked, "curl: ");
}

int enroot_explain(const char *what, int status, const char *errors, struct error *err)
{
    char line[400];
    const char *remedy = find_remedy(errors);

    process_complaint(errors, line, sizeof(line));
    if (!remedy && status == 1 && was_refused(errors)) {
        snprintf(line, sizeof(line), "the registry denied access");
        remedy = CREDENTIALS;
    }
    if (status > 128 && status < 160)
        return error_set(err, "%s was killed by signal %d", what, status - 128);
    /* Enroot passes curl's exit codes through. */
    if (!remedy && status == 6)
        remedy = "check the registry's name and the network";
    if (!remedy && status == 7)
        remedy = "check that the registry is running and its name is correct";
    if (!remedy && (status == 35 || status == 60))
        remedy = "the TLS connection to the registry failed; for a plain HTTP registry set "
                 "ENROOT_ALLOW_HTTP=yes";
    return error_set_code(err, strstr(errors, LOCKED) ? ERROR_BUSY : ERROR_FAILURE,
                          "%s failed (exit code %d)%s%s%s%s", what, status, line[0] ? ": " : "",
                          line, remedy ? "; " : "", remedy ? remedy : "");
}
