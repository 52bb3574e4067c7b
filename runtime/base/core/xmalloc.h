/* SPDX-License-Identifier: Apache-2.0 */
/* The program's policy for small allocations, that of git and redis: one that fails ends the
 * process with one clear line, so that no caller has an error path for it.
 *
 *     char *name = xasprintf("%s.idx", prefix);
 *     struct row *rows = xcalloc(count, sizeof(*rows));
 *
 * A size that comes from a file or from another process is bounded before it gets here, and memory
 * that is planned for a run (arenas, buffers of a size that the user chose) is allocated with
 * malloc, so that its error can say what it was for. Not for lib/, container/ and spank/, which run
 * inside Slurm's daemons, nor for a process that must outlive others. Everything is released with
 * free(). */
#ifndef MEGATRON_XMALLOC_H
#define MEGATRON_XMALLOC_H

#include <stdarg.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull));

/* Zeroed; the product may not overflow. */
void *xcalloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull));

/* 'old' may be NULL; the product may not overflow. */
void *xrealloc(void *old, size_t count, size_t size) __attribute__((returns_nonnull));

char *xstrdup(const char *text) __attribute__((malloc, returns_nonnull));

/* At most 'length' bytes of 'text'. */
char *xstrndup(const char *text, size_t length) __attribute__((malloc, returns_nonnull));

char *xasprintf(const char *format, ...)
    __attribute__((format(printf, 1, 2), malloc, returns_nonnull));
char *xvasprintf(const char *format, va_list arguments)
    __attribute__((format(printf, 1, 0), malloc, returns_nonnull));

#ifdef __cplusplus
}
#endif

#endif
