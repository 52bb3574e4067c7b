/* How far an import is: what it wrote, how fast, and how long it still takes. */
#ifndef MEGATRON_PROGRESS_H
#define MEGATRON_PROGRESS_H

#include <stddef.h>
#include <sys/types.h>
#include "download.h"
#include "scratch.h"

/* How often something is said, in seconds. */
enum { PROGRESS_SECONDS = 5 };

struct progress {
    const char *draft;               /* the unfinished image */
    const struct scratch *scratch;   /* where the layers were unpacked */
    const struct download *download; /* NULL where it cannot be watched */
    int uncompressed;                /* the image will have the size of what was unpacked */
    double unpacking;                /* when that began; 0: not yet */
    double total, writing;           /* known once the image is being written */
    double unpacked, next_look;      /* until then: bytes of the layers, looked at now and then */
};

/* One line about the import that has run for 'elapsed' seconds and has said 'errors' so far. */
void progress_line(struct progress *progress, const char *errors, double elapsed, char *line,
                   size_t size);

/* The same of process 'child', which has summed up a file of 'size' bytes for so long and then
 * waits for the disk. */
void progress_of_sum(pid_t child, double size, double elapsed, char *line, size_t length);

/* One line about 'bytes' of 'total' that took so long: "1.2 GB of 5.5 GB, 200.0 MB/s (6 s, about
 * 22 s left)". 'before' of them were there already. */
void progress_of_bytes(double bytes, double before, double total, double elapsed, char *line,
                       size_t size);

/* "1.2 GB" */
void format_size(double bytes, char *text, size_t size);

/* Tell 'say' (which may be NULL: nobody) one line, as printf has it. */
void progress_say(void (*say)(void *argument, const char *line), void *argument, const char *format,
                  ...) __attribute__((format(printf, 3, 4)));

#endif
