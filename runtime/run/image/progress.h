/* SPDX-License-Identifier: Apache-2.0 */
/* The progress of an import: bytes written, rate, and time left. */
#ifndef MEGATRON_PROGRESS_H
#define MEGATRON_PROGRESS_H

#include <stddef.h>
#include <sys/types.h>
#include "download.h"
#include "container/scratch.h"
#include "import.h"

/* Seconds between two reports. */
enum { PROGRESS_SECONDS = 5 };

struct progress {
    const char *draft;               /* the unfinished image */
    const struct scratch *scratch;   /* where the layers were unpacked */
    const struct download *download; /* NULL if it cannot be watched */
    int uncompressed;                /* the image will be as large as the unpacked layers */
    double unpacking;                /* when unpacking started; 0: not yet */
    double total, writing;           /* set once the image is being written */
    double unpacked, next_look;      /* until then: bytes of the layers, and when to count again */
};

/* One line about the import, which has run for 'elapsed' seconds and printed 'errors' so far. */
void progress_line(struct progress *progress, const char *errors, double elapsed, char *line,
                   size_t size);

/* The same for process 'child', which computes the checksum of a file of 'size' bytes and then
 * waits for the disk. */
void progress_of_sum(pid_t child, double size, double elapsed, char *line, size_t length);

/* One line about 'bytes' of 'total' after 'elapsed' seconds: "1.2 GB of 5.5 GB, 200.0 MB/s (6 s,
 * about 22 s left)". */
void progress_of_bytes(double bytes, double total, double elapsed, char *line, size_t size);

/* "1.2 GB" */
void format_size(double bytes, char *text, size_t size);

/* Format one line as printf does and pass it to 'say', which may be NULL. */
void progress_say(void (*say)(void *argument, const char *line), void *argument, const char *format,
                  ...) __attribute__((format(printf, 3, 4)));

/* Report progress to the user, and send a heartbeat, if the request has callbacks for them. */
#define image_say(request, ...) progress_say((request)->say, (request)->argument, __VA_ARGS__)
void image_beat(const struct image_request *request);

#endif
