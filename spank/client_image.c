/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "container/squashfs.h"
#include "image.h"

extern char **environ;

/* Pyxis starts containers too; only one of the two may do so. */
static bool pyxis_has_image(struct plugin *plugin)
{
    /* The second variable passes an option of the job on to its steps. */
    return getenv("PYXIS_CONTAINER_IMAGE") || getenv("_SLURM_SPANK_OPTION_pyxis_container_image") ||
           client_has_option(plugin, "--container-image");
}

static void say_import(void *argument, const char *line)
{
    (void)argument;
    slurm_spank_log("megatron: %s", line);
}

static void warn_image_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), reason = errno;
    struct error why;

    if (fd < 0 && reason == ENOENT)
        plugin_warn("the image %s does not exist on this host; the nodes must have it", path);
    else if (fd < 0)
        plugin_warn("cannot read the image %s on this host: %s; check that "
                    "the nodes can",
                    path, strerror(reason));
    else if (squashfs_check(fd, path, NULL, &why) < 0)
        plugin_warn("on this host, %s; the nodes will reject such a file", why.text);
    if (fd >= 0)
        close(fd);
}

/* What is missing here may still be available on the nodes, which check again. */
static void warn_missing(const struct image_settings *image)
{
    if (image->reference.scheme == IMAGE_FILE)
        warn_image_file(image->reference.text);
    for (size_t i = 0; i < image->mounts.count; i++) {
        const char *source = image->mounts.items[i].source;

        if (access(source, F_OK) == 0)
            continue;
        if (errno == ENOENT)
            plugin_warn("the mount source %s does not exist on this host; the "
                        "nodes must have it",
                        source);
        else
            plugin_warn("cannot access the mount source %s on this host: "
                        "%s; check that the nodes can",
                        source, strerror(errno));
    }
}

int client_image(struct plugin *plugin, struct error *err)
{
    const struct image_settings *image = &plugin->settings.image;

    if (!image->used)
        return 0;
    if (pyxis_has_image(plugin))
        return error_set(err,
                         "--megatron-image and --container-image cannot be used together; drop one "
                         "of them (or use --megatron-image=none)");
    if (plugin->settings.check)
        return 0;
    warn_missing(image);
    if (image->reference.scheme != IMAGE_DOCKERD && image->reference.scheme != IMAGE_PODMAN)
        return 0;
    return image_import_from_daemon(image, &plugin->config, (const char *const *)environ,
                                    say_import, err);
}
