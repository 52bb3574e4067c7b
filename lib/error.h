/* Error text on its way from the place that knows what went wrong to the one place that prints it.
 */
#ifndef MEGATRON_ERROR_H
#define MEGATRON_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

/* One sentence for the user: what was wrong, where, and what to do. No newline, no program name. */
struct error {
    char text[1024];
};

/* Format a sentence into 'err' (which may be NULL). Always returns -1, so that a function can end
 * with `return error_set(err, ...)`. Text that does not fit is cut and ends with "...". */
int error_set(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Like error_set, with ": " and the text of errno value 'number' behind the sentence. */
int error_set_errno(struct error *err, int number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Put a formatted text and ": " before what 'err' says already. Returns -1. */
int error_prefix(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif

#endif
