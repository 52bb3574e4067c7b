/* Where work on the image of a step may be left unfinished. */
#ifndef MEGATRON_IMAGE_PLACES_H
#define MEGATRON_IMAGE_PLACES_H

struct image_places {
    char temporary[1024]; /* on the node; "" where nothing was begun */
    char cache[1024];     /* "" where this node only waits for it, or uses none */
};

#endif
