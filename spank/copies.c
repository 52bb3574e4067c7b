/* SPDX-License-Identifier: Apache-2.0 */
#include "copies.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

/* Is this object the plugin? Slurm's plugins have a name of their own, whatever the file is
 * called. */
static bool is_plugin(const char *path, const char *name)
{
    void *object = path[0] ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    const char *found = object ? dlsym(object, "plugin_name") : NULL;
    bool same = found && strcmp(found, name) == 0;

    if (object)
        dlclose(object);
    return same;
}

/* Objects are linked in the order in which they were loaded. */
bool copies_find(const char *name, char *first, char *second, size_t size)
{
    struct link_map *own = NULL;
    Dl_info info;

    first[0] = '\0';
    if (!dladdr1(name, &info, (void **)&own, RTLD_DL_LINKMAP) || !own)
        return false;
    snprintf(second, size, "%s", own->l_name);
    for (struct link_map *object = own->l_prev; object; object = object->l_prev)
        if (is_plugin(object->l_name, name))
            snprintf(first, size, "%s", object->l_name);
    return first[0] != '\0';
}
