/* SPDX-License-Identifier: Apache-2.0 */
/* A strict parser for NCCL's small XML files: elements and attributes, comments, a declaration; no
 * text, no entities except XML's five, no DTD. Memory is bounded, and all input is checked. It is
 * not expat's job: libc is the only library of a plugin that slurmd loads. */
#ifndef MEGATRON_PLACEMENT_XML_H
#define MEGATRON_PLACEMENT_XML_H

#include <stddef.h>
#include "lib/error.h"

enum { XML_ATTRIBUTES = 32, XML_DEPTH = 64, XML_VALUE = 512 };

struct xml_element {
    char name[64];
    struct {
        char name[64];
        char value[XML_VALUE];
    } attributes[XML_ATTRIBUTES];
    size_t attribute_count;
};

/* The value of an attribute, or NULL. */
const char *xml_attribute(const struct xml_element *element, const char *name);

/* Called for each element before (open = 1) and after (open = 0, name only) its contents. Returns
 * 0, or -1 with a sentence in 'err' to stop. */
typedef int xml_handler(void *context, const struct xml_element *element, int open,
                        struct error *err);

/* Parse 'size' bytes. 'name' is the file name for errors. Returns 0 or -1. */
int xml_read(const char *name, const char *text, size_t size, xml_handler *handler, void *context,
             struct error *err);

#endif
