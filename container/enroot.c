/* SPDX-License-Identifier: Apache-2.0 */
#include "enroot.h"
#include "process.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first release that prints digests and starts squashfs files directly. */
enum { OLDEST_MAJOR = 4, OLDEST_MINOR = 0 };

static bool same_name(const char *a, const char *b)
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
    char what[64], program[4096];

    if (process_find("enroot", call->path, program, sizeof(program)) < 0)
        return error_set(err, "enroot is not installed in %.300s; install Enroot %d.%d or newer",
                         call->path ? call->path : "(no PATH)", OLDEST_MAJOR, OLDEST_MINOR);
    if (process_run(&request, result, err) < 0)
        return -1;
    if (is_stopped(call->stop))
        return error_set(err, STOPPED);
    if (result->timed_out)
        return error_set(err,
                         "`enroot %s` took longer than %.0f seconds; check the load of this node, "
                         "and that the home directory and ENROOT_*_PATH respond",
                         question, timeout);
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

#define NAME    "check the image's name and tag"
#define HOST    "check the registry's name and the network"
#define RUNNING "check that the registry is running and its name is correct"
#define SPACE                                                                              \
    "free some space, or set MEGATRON_IMAGE_CACHE, ENROOT_CACHE_PATH or ENROOT_TEMP_PATH " \
    "to another directory"
#define COMPRESSOR                                                                     \
    "mksquashfs on this node cannot compress like that: set ENROOT_SQUASH_OPTIONS to " \
    "\"-comp zstd -noD -exit-on-error\", for all users in /etc/enroot/enroot.conf.d"
#define SQUASHFUSE                                                                           \
    "squashfuse on this node cannot read the image's compression: install one that can, or " \
    "import "                                                                                \
    "the image again with ENROOT_SQUASH_OPTIONS set to \"-comp zstd -noD -exit-on-error\""
#define FUSE       "the administrator must let users open /dev/fuse (chmod 0666)"
#define NAMESPACES "user namespaces are disabled; see sysctl user.max_user_namespaces"
#define PULLS                                                                                   \
    "the registry limits how often images are pulled; " CREDENTIALS ", or use a mirror of the " \
    "registry"
#define PROXY  "the proxy requires a password; set https_proxy to http://USER:PASSWORD@HOST:PORT"
#define SERVER "the registry has a problem; try again later, or ask its administrator"
#define TLS                                                                     \
    "the TLS connection to the registry failed; for a plain HTTP registry set " \
    "ENROOT_ALLOW_HTTP=yes"
#define SLOW                                                                                       \
    "the registry or the proxy (https_proxy) did not answer in time; check the network, or raise " \
    "ENROOT_CONNECT_TIMEOUT or ENROOT_TRANSFER_TIMEOUT"

/* Enroot prints "returned error code: 404 Not Found"; curl, which it runs for each layer, "curl:
 * (22) The requested URL returned error: 404". */
static const struct {
    const char *sign, *remedy;
} remedies[] = {
    {"Connection refused", RUNNING},
    {"Could not resolve host", HOST},
    {"could not resolve host", HOST},
    {"returned error code: 429", PULLS},
    {"returned error: 429", PULLS},
    {"toomanyrequests", PULLS},
    {"returned error code: 407", PROXY},
    {"returned error: 407", PROXY},
    {"CONNECT tunnel failed, response 407", PROXY},
    {"HTTP code 407 from proxy", PROXY},
    {"returned error code: 5", SERVER},
    {"returned error: 5", SERVER},
    {"curl: (28)", SLOW},
    {"returned error code: 401", CREDENTIALS},
    {"returned error: 401", CREDENTIALS},
    {"returned error code: 403", CREDENTIALS},
    {"returned error: 403", CREDENTIALS},
    {"Unauthorized", CREDENTIALS},
    {"returned error code: 404", NAME},
    {"returned error: 404", NAME},
    {"Not Found", NAME},
    {"No such image", NAME},
    {"image not known", NAME},
    {"Compressor \"", COMPRESSOR},
    {"Squashfs image uses", SQUASHFUSE},
    {"No space left", SPACE},
    {"Disk quota exceeded", SPACE},
    {"/dev/fuse", FUSE},
    {"fuse: failed to open", FUSE},
    {"Command not found: squashfuse", "install squashfuse on the compute nodes"},
    {"squashfuse: command not found", "install squashfuse on the compute nodes"},
    {"Command not found: fuse-overlayfs", "install fuse-overlayfs on the compute nodes"},
    {"fuse-overlayfs: command not found", "install fuse-overlayfs on the compute nodes"},
    {"unshare failed", NAMESPACES},
    {"failed to create user namespace", NAMESPACES},
    {"failed to set capabilities",
     "install the package enroot+caps: its programs have the capabilities that users need to "
     "import images"},
    {LOCKED, "too many nodes start this container at once, or one of them hangs; set "
             "ENROOT_DATA_PATH to a node-local directory"},
    {"Command not found", "install the missing program on this node"},
};

/* Exit codes of curl, which Enroot passes through. */
static const struct {
    int status;
    const char *remedy;
} curl_codes[] = {
    {6, HOST}, {7, RUNNING}, {28, SLOW}, {35, TLS}, {60, TLS},
};

/* Does a line that is not progress contain 'sign'? */
static bool has_sign(const char *errors, const char *sign)
{
    for (const char *line = errors; *line; line += strspn(line, "\r\n")) {
        size_t length = strcspn(line, "\r\n");

        if (strncmp(line, "[INFO]", 6) != 0 && memmem(line, length, sign, strlen(sign)))
            return true;
        line += length;
    }
    return false;
}

static const char *find_remedy(int status, const char *errors)
{
    for (size_t i = 0; i < sizeof(remedies) / sizeof(remedies[0]); i++)
        if (has_sign(errors, remedies[i].sign))
            return remedies[i].remedy;
    for (size_t i = 0; i < sizeof(curl_codes) / sizeof(curl_codes[0]); i++)
        if (status == curl_codes[i].status)
            return curl_codes[i].remedy;
    return NULL;
}

/* If a registry denies access, Enroot exits without a message. */
static bool was_refused(const char *errors)
{
    const char *asked = strstr(errors, "Authenticating with user");

    return asked && !strstr(asked, "Authentication succeeded") && !strstr(asked, "[ERROR]") &&
           !strstr(asked, "curl: ");
}

int enroot_explain(const char *what, int status, const char *errors, struct error *err)
{
    char line[400], code[32] = "";
    const char *remedy = find_remedy(status, errors);

    process_complaint(errors, line, sizeof(line));
    if (!remedy && status == 1 && was_refused(errors)) {
        snprintf(line, sizeof(line), "the registry denied access");
        remedy = CREDENTIALS;
    }
    if (process_check_signal(what, status, err) < 0)
        return -1;
    if (status >= 0)
        snprintf(code, sizeof(code), " (exit code %d)", status);
    error_set_code(err, strstr(errors, LOCKED) ? ERROR_BUSY : ERROR_FAILURE, "%s failed%s%s%s%s%s",
                   what, code, line[0] ? ": " : "", line, remedy ? "; " : "", remedy ? remedy : "");
    return error_advise(err, "run enroot by hand on this node to see all of its messages");
}
