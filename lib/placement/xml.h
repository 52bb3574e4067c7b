/* A strict reader for the small XML files that NCCL reads: elements and attributes, comments, a
 * declaration; no text, no entities but the five of XML, no DTD. Memory is bounded, input is
 * checked to its last byte. */
#ifndef MEGATRON_PLACEMENT_XML_H
#define MEGATRON_PLACEMENT_XML_H

#include <stddef.h>
#include "error.h"

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

/* Called for each element before (open = 1) and after (open = 0, name only) what is in it. Returns
 * 0, or -1 to stop with the sentence it put into 'err'. */
typedef int xml_handler(void *context, const struct xml_element *element, int open,
                        struct error *err);

/* Read 'size' bytes. 'name' stands for the file in errors. Returns 0 or -1. */
int xml_read(const char *name, const char *text, size_t size, xml_handler *handler, void *context,
             struct error *err);

#endif
