/* SPDX-License-Identifier: Apache-2.0 */
#include "image_settings.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "lib/parse.h"
#include "settings.h"

enum { TIMEOUT_DEFAULT = 3600, TIMEOUT_MAX = 7 * 86400, NAME_MAX_LENGTH = 64 };

/* Options that need an image. */
static const enum option_id needs_image[] = {
    OPTION_MOUNTS,     OPTION_WORKDIR,        OPTION_CONTAINER_ENV, OPTION_MOUNT_HOME,
    OPTION_ENTRYPOINT, OPTION_CONTAINER_NAME, OPTION_READONLY,      OPTION_REMAP_ROOT,
};

static int check_without_image(const struct settings *settings, struct error *err)
{
    for (size_t i = 0; i < sizeof(needs_image) / sizeof(needs_image[0]); i++)
        if (settings->given[needs_image[i]])
            return error_set(
                err, "--megatron-%s needs --megatron-image; add an image, or drop the option",
                option_table[needs_image[i]].name);
    return 0;
}

static int check_container_name(const char *what, const char *name, struct error *err)
{
    if (strlen(name) > NAME_MAX_LENGTH)
        return error_set(err, "%s: the name is longer than %d characters; use a shorter one", what,
                         NAME_MAX_LENGTH);
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._+-", *c))
            return error_set(err, "%s=%s: use letters, digits and ._+-", what, name);
    if (strstr(name, ".draft."))
        return error_set(err, "%s=%s: a name must not contain .draft.; choose another one", what,
                         name);
    if (!isalnum((unsigned char)name[0]))
        return error_set(err,
                         "%s=%s: a name must begin with a letter or a digit; choose another one",
                         what, name);
    return 0;
}

static int check_names(const char *what, const char *list, struct error *err)
{
    for (const char *c = list; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_' && *c != ',')
            return error_set(err, "%s=%.100s: separate the names of variables by commas", what,
                             list);
    return 0;
}

static int resolve_texts(struct image_settings *image, const struct settings *settings,
                         const struct config *config, struct error *err)
{
    const char *mounts = settings_word(settings, config, OPTION_MOUNTS);
    const char *timeout = settings_word(settings, config, OPTION_IMPORT_TIMEOUT);
    char name[64];

    image->workdir = settings_word(settings, config, OPTION_WORKDIR);
    image->keep = settings_word(settings, config, OPTION_CONTAINER_ENV);
    image->container = settings_word(settings, config, OPTION_CONTAINER_NAME);
    image->timeout = TIMEOUT_DEFAULT;
    if (mounts &&
        mounts_parse(settings_name(settings, OPTION_MOUNTS, name), mounts, &image->mounts, err) < 0)
        return -1;
    if (image->workdir && image->workdir[0] != '/')
        return error_set(err, "%s=%.200s is not an absolute path; begin it with /",
                         settings_name(settings, OPTION_WORKDIR, name), image->workdir);
    if (image->keep &&
        check_names(settings_name(settings, OPTION_CONTAINER_ENV, name), image->keep, err) < 0)
        return -1;
    if (image->container &&
        check_container_name(settings_name(settings, OPTION_CONTAINER_NAME, name), image->container,
                             err) < 0)
        return -1;
    if (!timeout)
        return 0;
    return parse_int64(settings_name(settings, OPTION_IMPORT_TIMEOUT, name), timeout, 1,
                       TIMEOUT_MAX, &image->timeout, err);
}

static int resolve_image(struct image_settings *image, const struct settings *settings,
                         const struct config *config, struct error *err)
{
    if (resolve_texts(image, settings, config, err) < 0 ||
        settings_resolve_switch(settings, config, OPTION_MOUNT_HOME, &image->mount_home, err) < 0 ||
        settings_resolve_switch(settings, config, OPTION_ENTRYPOINT, &image->entrypoint, err) < 0 ||
        settings_resolve_switch(settings, config, OPTION_READONLY, &image->readonly, err) < 0 ||
        settings_resolve_switch(settings, config, OPTION_REMAP_ROOT, &image->remap_root, err) < 0)
        return -1;
    return 0;
}

int image_settings_resolve(struct image_settings *image, const struct settings *settings,
                           const struct config *config, struct error *err)
{
    const char *text = settings_word(settings, config, OPTION_IMAGE);
    char name[64];

    image_settings_clear(image);
    /* "none" cancels an image that the job or the administrator requested. */
    if (!text || strcmp(text, "none") == 0)
        return text ? 0 : check_without_image(settings, err);
    image->used = true;
    if (image_reference_parse(settings_name(settings, OPTION_IMAGE, name), text, &image->reference,
                              err) < 0)
        return -1;
    return resolve_image(image, settings, config, err);
}

int image_settings_check_defaults(const struct config *config, struct error *err)
{
    const struct settings none = {0};
    struct image_settings image = {0};
    int rc = resolve_image(&image, &none, config, err);

    image_settings_clear(&image);
    return rc;
}

bool image_settings_keeps(const struct image_settings *image, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = image->keep; at && *at;
         at += strcspn(at, ",") + (strchr(at, ',') != NULL))
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

void image_settings_clear(struct image_settings *image)
{
    mounts_clear(&image->mounts);
    memset(image, 0, sizeof(*image));
}
