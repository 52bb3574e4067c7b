/* What container/ parses: image names, mounts, Enroot's error output. */
#include "container.h"
#include "enroot.h"
#include "mounts.h"
#include "process.h"
#include "reference.h"

static void test_references(void)
{
    static const struct {
        const char *text;
        enum image_scheme scheme;
        const char *pinned, *error;
    } rows[] = {
        {"docker://ubuntu:22.04", IMAGE_DOCKER, "", NULL},
        {"docker://$oauthtoken@nvcr.io#nvidia/pytorch:25.01-py3", IMAGE_DOCKER, "", NULL},
        {"docker://$HOME@nvcr.io#nvidia/pytorch:25.01-py3", 0, NULL,
         "image: the character $ in the name of an image is not supported, since Enroot would "
         "evaluate "
         "it"},
        {"docker://$oauthtoken@nvcr.io#$(id)", 0, NULL,
         "image: the character $ in the name of an image is not supported, since Enroot would "
         "evaluate "
         "it"},
        {"docker://me@nvcr.io#nvidia/pytorch:25.01-py3", IMAGE_DOCKER, "", NULL},
        {"docker://a/b@sha256:" HEX, IMAGE_DOCKER, "sha256-" HEX, NULL},
        {"docker://a/b@sha256:12", 0, NULL,
         "image=docker://a/b@sha256:12: a digest has the form @sha256:<64 hex digits>"},
        {"dockerd://mine", IMAGE_DOCKERD, "", NULL},
        {"podman://mine:1", IMAGE_PODMAN, "", NULL},
        {"/images/a b,c.sqsh", IMAGE_FILE, "", NULL},
        {"./x.sqsh", IMAGE_FILE, "", NULL},
        {"/images/$(touch x).sqsh", 0, NULL,
         "image: the character $ in the name of an image is not supported, since Enroot would "
         "evaluate "
         "it; "
         "rename the file or make a link"},
        {"/images/a'b.sqsh", 0, NULL,
         "image: the character ' in the name of an image is not supported, since Enroot would "
         "evaluate "
         "it; "
         "rename the file or make a link"},
        {"/images/a\nb.sqsh", 0, NULL, "image: the name of the image contains a control character"},
        {"ubuntu:22.04", 0, NULL,
         "image=ubuntu:22.04 is neither a path nor a registry reference; write "
         "docker://ubuntu:22.04 or "
         "./ubuntu:22.04"},
        {"http://x/y", 0, NULL,
         "image=http://x/y: unknown scheme; use docker://, dockerd://, podman:// or a path"},
        {"docker://", 0, NULL,
         "image=docker:// has no image name; write docker://[REGISTRY#]IMAGE[:TAG]"},
        {"docker://a b", 0, NULL,
         "image=docker://a b: a registry reference must not contain spaces"},
        {"", 0, NULL, "image needs an image: docker://IMAGE[:TAG] or /path/image.sqsh"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct image_reference reference;
        int rc = image_reference_parse("image", rows[i].text, &reference, &err);

        is_int(rc, rows[i].error ? -1 : 0, rows[i].error ? "refused" : rows[i].text);
        if (rows[i].error)
            is(err.text, rows[i].error, "sentence");
        else
            ok(reference.scheme == rows[i].scheme && strcmp(reference.pinned, rows[i].pinned) == 0,
               "scheme and digest");
    }
}

static void test_mounts(void)
{
    static const struct {
        const char *text, *lines, *error;
    } rows[] = {
        {"/a:/b", "/a /b none x-create=auto,rbind\n", NULL},
        {"/a", "/a /a none x-create=auto,rbind\n", NULL},
        {"/a:/b:ro,/c/:/d/:rw+nosuid",
         "/a /b none x-create=auto,rbind,ro\n/c /d none x-create=auto,rbind,rw,nosuid\n", NULL},
        {"/with space:/a\\,b\\:c", "/with\\040space /a,b:c none x-create=auto,rbind\n", NULL},
        {"/back\\\\slash:/$(id)", "/back\\134slash /$(id) none x-create=auto,rbind\n", NULL},
        {"a:/b", NULL, "m: the source \"a\" is not an absolute path"},
        {"/a:b", NULL, "m: the target \"b\" is not an absolute path"},
        {"/a:/b,/c:/b/", NULL, "m: the target /b is given twice"},
        {"/a:/b/c,/c:/b/./c", NULL, "m: the target /b/c is given twice"},
        {"/a:/b,/c://b", NULL, "m: the target /b is given twice"},
        {"/a:/b,/c:/b/.", NULL, "m: the target /b is given twice"},
        {"/a:/b/../c", NULL, "m: the target /b/../c must not contain .."},
        {"/a:/./", NULL, "m: cannot mount over / of the image"},
        {"/a:/", NULL, "m: cannot mount over / of the image"},
        {"/a:/b:fast", NULL,
         "m: unknown mount flag \"fast\"; use ro, rw, nosuid, nodev, noexec, private, slave or "
         "x-create=dir|file, joined by +"},
        {"/a:/b:ro:x", NULL,
         "m: more than SRC:DST:FLAGS before \"x\"; write \\: for a colon in a path"},
        {"/a:/b:", NULL, "m: no mount flags after /b:"},
        {"/a:/b:,/c:/d", NULL, "m: no mount flags after /b:"},
        {"/a:/b:ro+", NULL, "m: no mount flag after the last +"},
        {"/a:", NULL, "m: the target \"\" is not an absolute path"},
        {"/a:/b,", NULL, "m ends with a comma"},
        {"/a\n:/b", NULL, "m: the source contains a control character"},
        {"", NULL, "m needs SRC:DST[:FLAGS]"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct container_mounts mounts;
        char lines[1024] = "", line[512];
        int rc = mounts_parse("m", rows[i].text, &mounts, &err);

        is_int(rc, rows[i].error ? -1 : 0, rows[i].error ? "refused" : rows[i].text);
        if (rows[i].error) {
            is(err.text, rows[i].error, "sentence");
        } else {
            for (size_t k = 0; k < mounts.count; k++) {
                ok(mount_format(&mounts.items[k], line, sizeof(line)) == 0, "format");
                strncat(lines, line, sizeof(lines) - strlen(lines) - 1);
                strncat(lines, "\n", sizeof(lines) - strlen(lines) - 1);
            }
            is(lines, rows[i].lines, "lines of fstab");
        }
        mounts_clear(&mounts);
    }
}

static void test_explanations(void)
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
        {"", ""},
    };
    char line[200];

    for (size_t i = 0; i < sizeof(complaints) / sizeof(complaints[0]); i++) {
        process_complaint(complaints[i][0], line, sizeof(line));
        is(line, complaints[i][1], "the most informative line");
    }
    enroot_explain("import of docker://x", 7, "curl: (7) Connection refused\n", &err);
    is(err.text,
       "import of docker://x failed (exit code 7): curl: (7) Connection refused; check that "
       "the registry is running and its name is correct",
       "a registry that is not there");
    enroot_explain("import", 1, "[ERROR] URL x returned error code: 401 Unauthorized\n", &err);
    ok(strstr(err.text, "credentials") != NULL, "a registry that wants to know who");
    enroot_explain("asking", 125, "Error: inspecting object: x:1: image not known\n", &err);
    ok(strstr(err.text, "name and tag") != NULL, "an image that podman does not have");
    enroot_explain("start of x", 1, "[ERROR] Could not acquire rootfs lock\n", &err);
    ok(strstr(err.text, "ENROOT_DATA_PATH") != NULL, "nodes that wait for each other");
    is_int(err.code, ERROR_BUSY, "may try again");
    enroot_explain("import", 1, "enroot-aufs2ovlfs: failed to set capabilities: x\n", &err);
    ok(strstr(err.text, "enroot+caps") != NULL, "an Enroot with which only root can import");
}

int main(void)
{
    test_references();
    test_mounts();
    test_explanations();
    return done_testing();
}
