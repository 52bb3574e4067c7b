/* SPDX-License-Identifier: Apache-2.0 */
/* What container/ parses: image names and mounts. */
#include "container.h"
#include "container/mounts.h"
#include "container/reference.h"

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
         "evaluate it; choose another name or tag"},
        {"docker://$oauthtoken@nvcr.io#$(id)", 0, NULL,
         "image: the character $ in the name of an image is not supported, since Enroot would "
         "evaluate it; choose another name or tag"},
        {"docker://me@nvcr.io#nvidia/pytorch:25.01-py3", IMAGE_DOCKER, "", NULL},
        {"docker://a/b@sha256:" HEX, IMAGE_DOCKER, "sha256-" HEX, NULL},
        {"docker://a/b@sha256:12", 0, NULL,
         "image=docker://a/b@sha256:12: its digest is invalid; write @sha256:<64 hex digits>"},
        {"dockerd://mine", IMAGE_DOCKERD, "", NULL},
        {"podman://mine:1", IMAGE_PODMAN, "", NULL},
        {"/images/a b,c.sqsh", IMAGE_FILE, "", NULL},
        {"./x.sqsh", IMAGE_FILE, "", NULL},
        {"/images/$(touch x).sqsh", 0, NULL,
         "image: the character $ in the name of an image is not supported, since Enroot would "
         "evaluate it; rename the file or make a symbolic link"},
        {"/images/a'b.sqsh", 0, NULL,
         "image: the character ' in the name of an image is not supported, since Enroot would "
         "evaluate it; rename the file or make a symbolic link"},
        {"/images/a\nb.sqsh", 0, NULL,
         "image: the name of the image contains a control character; remove it"},
        {"ubuntu:22.04", 0, NULL,
         "image=ubuntu:22.04 is neither a path nor a registry reference; write "
         "docker://ubuntu:22.04 or "
         "./ubuntu:22.04"},
        {"http://x/y", 0, NULL,
         "image=http://x/y: unknown scheme; use docker://, dockerd://, podman:// or a path"},
        {"docker://", 0, NULL,
         "image=docker:// has no image name; write docker://[REGISTRY#]IMAGE[:TAG]"},
        {"docker://a b", 0, NULL,
         "image=docker://a b: a registry reference must not contain spaces; remove them"},
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
        {"a:/b", NULL, "m: the source \"a\" is not an absolute path; begin it with /"},
        {"/a:b", NULL, "m: the target \"b\" is not an absolute path; begin it with /"},
        {"/a:/b,/c:/b/", NULL, "m: the target /b is given twice; drop one of the mounts"},
        {"/a:/b/c,/c:/b/./c", NULL, "m: the target /b/c is given twice; drop one of the mounts"},
        {"/a:/b,/c://b", NULL, "m: the target /b is given twice; drop one of the mounts"},
        {"/a:/b,/c:/b/.", NULL, "m: the target /b is given twice; drop one of the mounts"},
        {"/a:/b/../c", NULL,
         "m: the target /b/../c must not contain ..; write the path without it"},
        {"/a:/./", NULL, "m: cannot mount over / of the image; choose another target"},
        {"/a:/", NULL, "m: cannot mount over / of the image; choose another target"},
        {"/a:/b:fast", NULL,
         "m: unknown mount flag \"fast\"; use ro, rw, nosuid, nodev, noexec, private, slave or "
         "x-create=dir|file, joined by +"},
        {"/a:/b:ro:x", NULL,
         "m: too many colons before \"x\": a mount is SRC:DST[:FLAGS]; write \\: for a colon in a "
         "path"},
        {"/a:/b:", NULL, "m: no mount flags after /b:; add flags such as ro, or drop the colon"},
        {"/a:/b:,/c:/d", NULL,
         "m: no mount flags after /b:; add flags such as ro, or drop the colon"},
        {"/a:/b:ro+", NULL, "m: the mount flags \"ro+\" end with +; add a flag, or drop the +"},
        {"/a:", NULL, "m: the target \"\" is not an absolute path; begin it with /"},
        {"/a:/b,", NULL, "m ends with a comma; drop it"},
        {"/a\n:/b", NULL, "m: the source contains a control character; remove it"},
        {"", NULL, "m is empty; write SRC:DST[:FLAGS], such as /data:/data:ro"},
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

int main(void)
{
    test_references();
    test_mounts();
    return done_testing();
}
