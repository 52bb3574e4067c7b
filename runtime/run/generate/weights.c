/* SPDX-License-Identifier: Apache-2.0 */
#include "generator.h"
#include "run/checkpoint/checkpoint.h"
#include "run/exchange/hf.h"
#include "base/core/log.h"

#include <string.h>

static void say(const char *text)
{
    log_note("%s", text + strspn(text, " "));
}

int weights_load(const char *directory, const struct origin *origin, struct model *model,
                 const struct parallel *parallel, struct device *device, struct error *err)
{
    struct checkpoint_config config = {.load = directory,
                                       .step = -1,
                                       .must_find = 1,
                                       .finetune = 1,
                                       .model = &origin->model,
                                       .say = say};
    struct checkpoint_arrays none = {0};
    struct checkpoint_loaded loaded;
    struct checkpoint *checkpoint;
    int rc;

    if (origin->kind == ORIGIN_HF)
        return hf_load(directory, &origin->model, model, device, err);
    checkpoint = checkpoint_create(&config, model, parallel, device, &none, err);
    rc = checkpoint ? checkpoint_load(checkpoint, &loaded, err) : -1;
    checkpoint_destroy(checkpoint);
    return rc < 0 ? -1 : 0;
}
