/* SPDX-License-Identifier: Apache-2.0 */
/* How Enroot is run, and what is said when it fails. */
#include "container.h"
#include "container/enroot.h"
#include "container/process.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

static void test_complaints(void)
{
    static const char *const complaints[][2] = {
        {"[INFO] x\nplain\n[ERROR] /etc/enroot/hooks.d/98-nvidia.sh exited with return code 1\n",
         "/etc/enroot/hooks.d/98-nvidia.sh exited with return code 1: plain"},
        {"plain\n[WARN] slow\n", "plain"},
        {"[WARN] slow\n", "slow"},
        {"[WARN] slow\n[ERROR] hook exited with return code 1\n", "hook exited with return code 1"},
        {"[ERROR] bad value\n[ERROR] hook exited with return code 1\n", "bad value"},
        {"[INFO] x\n[ERROR] hook exited with return code 1\n", "hook exited with return code 1"},
        {"[ERROR] one\n[ERROR] two\nthree\n", "two"},
        {"mksquashfs: Compressor \"lzo\" is not supported!\nmksquashfs: Compressors available:\n"
         "\tgzip (default)\n\tzstd\n",
         "mksquashfs: Compressor \"lzo\" is not supported!"},
        {"Usage:\n\tx FILE\n", "Usage:"},
        {"", ""},
    };
    char line[200];

    for (size_t i = 0; i < sizeof(complaints) / sizeof(complaints[0]); i++) {
        process_complaint(complaints[i][0], line, sizeof(line));
        is(line, complaints[i][1], "the line that tells most");
    }
}

static void test_explanations(void)
{
    static const struct {
        const char *errors, *remedy; /* NULL: none */
        int status;
    } rows[] = {
        {"curl: (7) Connection refused\n", "check that the registry is running", 7},
        {"[ERROR] URL x returned error code: 401 Unauthorized\n", "add credentials", 1},
        {"[ERROR] URL x returned error code: 429 \n", "or use a mirror", 1},
        {"curl: (22) The requested URL returned error: 429\n", "or use a mirror", 22},
        {"curl: (56) CONNECT tunnel failed, response 407\n", "set https_proxy", 56},
        {"[ERROR] URL x returned error code: 407 Proxy Authentication Required\n",
         "set https_proxy", 1},
        {"[ERROR] URL x returned error code: 503 Service Unavailable\n", "try again later", 1},
        {"curl: (22) The requested URL returned error: 502 Bad Gateway\n", "try again later", 22},
        {"curl: (28) Connection timed out after 10001 milliseconds\n", "did not answer in time",
         28},
        {"", "did not answer in time", 28},
        {"", "ENROOT_ALLOW_HTTP", 35},
        {"[INFO] Fetching image manifest\n", "name and the network", 6},
        {"Error: inspecting object: x:1: image not known\n", "name and tag", 125},
        {"[ERROR] Could not acquire rootfs lock\n", "ENROOT_DATA_PATH", 1},
        {"enroot-aufs2ovlfs: failed to set capabilities: x\n", "enroot+caps", 1},
        {"[ERROR] Command not found: squashfuse\n", "install squashfuse", 1},
        {"[WARN] /bin/bash: line 9: squashfuse: command not found\n[ERROR] Failed to mount: /x\n",
         "install squashfuse", 1},
        {"[ERROR] Command not found: fuse-overlayfs\n", "install fuse-overlayfs", 1},
        {"[ERROR] Command not found: jq\n", "install the missing program", 1},
        {"unshare: unshare failed: Operation not permitted\n", "max_user_namespaces", 1},
        {"enroot-mksquashovlfs: Compressor \"lzo\" is not supported!\n",
         "set ENROOT_SQUASH_OPTIONS to", 1},
        {"Squashfs image uses lzo compression, this version supports only zlib, xz, zstd.\n[ERROR] "
         "Failed "
         "to mount: /x\n",
         "squashfuse on this node cannot read", 1},
        {"write: No space left on device\n", "ENROOT_CACHE_PATH or ENROOT_TEMP_PATH", 1},
        {"write: Disk quota exceeded\n", "ENROOT_CACHE_PATH or ENROOT_TEMP_PATH", 1},
        {"", "out of memory", 137},
        {"", "run it again, and see dmesg", 143},
        /* Words of a name, of progress or of another error are no sign: a general remedy. */
        {"[INFO] Extracting squashfuse, returned error: 404\n[ERROR] No such file\n",
         "; run enroot by hand", 1},
        {"[ERROR] No such file or directory: /home/me/unshare.sqsh\n", "; run enroot by hand", 1},
        {"[WARN] squashfuse: corrupted image\n[ERROR] Failed to mount: /x\n",
         "; run enroot by hand", 1},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        is_int(enroot_explain("import", rows[i].status, rows[i].errors, &err), -1, "an error");
        ok(strstr(err.text, rows[i].remedy) != NULL, "remedy: %s", err.text);
    }
    enroot_explain("import of docker://x", 7, "curl: (7) Connection refused\n", &err);
    is(err.text,
       "import of docker://x failed (exit code 7): curl: (7) Connection refused; check that "
       "the registry is running and its name is correct",
       "a registry that is not there");
    enroot_explain("start of x", 1, "[ERROR] Could not acquire rootfs lock\n", &err);
    is_int(err.code, ERROR_BUSY, "a locked container is tried again");
}

/* A missing program and a lack of descriptors have different remedies. */
static void test_check(void)
{
    static const char script[] = "#!/bin/sh\necho 4.1.0\n";
    const struct enroot_call call = {.path = directory};
    struct rlimit limit, none;
    char program[256];

    is_int(enroot_check(&call, &err), -1, "no enroot");
    ok(strstr(err.text, "enroot is not installed in") != NULL, "error: %s", err.text);
    snprintf(program, sizeof(program), "%s/enroot", directory);
    write_file(program, script, strlen(script));
    chmod(program, 0700);
    is_int(enroot_check(&call, &err), 0, "enroot 4.1");
    getrlimit(RLIMIT_NOFILE, &limit);
    none = limit;
    none.rlim_cur = 3;
    setrlimit(RLIMIT_NOFILE, &none);
    is_int(enroot_check(&call, &err), -1, "no free descriptors");
    setrlimit(RLIMIT_NOFILE, &limit);
    ok(strstr(err.text, "Too many open files; check the limit on open files") != NULL, "error: %s",
       err.text);
    process_not_started("enroot", EAGAIN, &err);
    ok(strstr(err.text, "check the limit on processes (ulimit -u") != NULL, "error: %s", err.text);
}

int main(void)
{
    if (!mkdtemp(directory))
        return 1;
    test_complaints();
    test_explanations();
    test_check();
    return finish();
}
