/* SPDX-License-Identifier: Apache-2.0 */
#include "hwloc_api.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define X(result, name, parameters) {"hwloc_" #name, offsetof(struct hwloc_api, name)},
    HWLOC_FUNCTIONS(X)
#undef X
};

int hwloc_api_open(struct hwloc_api *api, const char *library, struct error *err)
{
    memset(api, 0, sizeof(*api));
    api->handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!api->handle)
        return error_set(err, "cannot load %s: %s; install libhwloc15 on the compute nodes",
                         library, dlerror());
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *symbol = dlsym(api->handle, functions[i].name);

        if (!symbol) {
            hwloc_api_close(api);
            return error_set(err, "%s has no %s; install hwloc 2.1 or newer", library,
                             functions[i].name);
        }
        memcpy((char *)api + functions[i].offset, &symbol, sizeof(symbol));
    }
    if (api->get_api_version() >> 16 != HWLOC_API_VERSION >> 16) {
        unsigned version = api->get_api_version();

        hwloc_api_close(api);
        return error_set(err, "%s has version %u.%u; install hwloc %u.x", library, version >> 16,
                         version >> 8 & 0xff, HWLOC_API_VERSION >> 16);
    }
    return 0;
}

void hwloc_api_close(struct hwloc_api *api)
{
    if (api->handle)
        dlclose(api->handle);
    memset(api, 0, sizeof(*api));
}

void hwloc_api_share(struct hwloc_api *api)
{
    void *again = api->handle ? dlopen(HWLOC_LIBRARY, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD) : NULL;

    if (again)
        dlclose(again);
}
