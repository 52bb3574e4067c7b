/* SPDX-License-Identifier: Apache-2.0 */
/* An error on its way from the function that detects it to the one place that prints it:
 *
 *     if (fd < 0)
 *         return error_set_errno(err, errno, "cannot open %s", path);
 *     if (read_head(fd, &head, err) < 0)
 *         return error_prefix(err, "%s", path);
 */
#ifndef MEGATRON_ERROR_H
#define MEGATRON_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

/* The kind of error, for code that must decide what to do next. Code never inspects the text. The
 * exit codes are those of the program; the plugin ends a client of Slurm with 1 always. */
enum error_code {
    ERROR_FAILURE = 0, /* anything not listed below; another attempt may succeed. Exit code 1 */
    ERROR_USAGE,       /* an option, path or input is wrong: every attempt fails. Exit code 2 */
    ERROR_BUSY,        /* another process uses a resource; a retry may succeed. Exit code 1 */
    ERROR_RANK,        /* a rank failed or is lost, and the text already names it. Exit code 1 */
    ERROR_VOCABULARY,  /* data contain tokens that the model does not know. Exit code 2 */
    ERROR_DAMAGED,     /* a checkpoint is damaged; another one may be intact. Exit code 1 */
    ERROR_NO_CACHE,    /* no directory for the index cache is writable. Exit code 2 */
};

/* Size of a sentence, for callers that copy it. */
enum { ERROR_TEXT = 1024 };

/* One sentence for the user: what is wrong, where, and what to do. No newline, no program name. */
struct error {
    char text[ERROR_TEXT];
    enum error_code code;
    int advice; /* how many bytes at the end of 'text' are a general remedy, as described below */
    int quiet;  /* another process prints this error, see error_silence */
};

/* General remedies: what a user can usually do about an errno value (ENOSPC: free disk space), and
 * about a failed allocation, which is a format that ends with "out of memory". They follow the text
 * after "; ". A specific remedy is better: error_append(err, "; ...") replaces a general one. */

/* Format a sentence into 'err' (which may be NULL), with a code and, if 'number' is an errno value
 * rather than 0, followed by ": ", its text and its general remedy. Always returns -1, so that a
 * function can end with `return error_set(err, ...)`. Text that does not fit is cut and ends with
 * "...". */
int error_format(struct error *err, enum error_code code, int number, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define error_set(err, ...)                          error_format(err, ERROR_FAILURE, 0, __VA_ARGS__)
#define error_set_code(err, code, ...)               error_format(err, code, 0, __VA_ARGS__)
#define error_set_errno(err, number, ...)            error_format(err, ERROR_FAILURE, number, __VA_ARGS__)
#define error_set_code_errno(err, code, number, ...) error_format(err, code, number, __VA_ARGS__)

/* A mistake in the program itself: "internal error: ", the formatted text, and a request to report
 * it. */
int error_bug(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Add a general remedy, unless 'err' has a remedy already: text after "; ". For a place that many
 * errors pass, such as a reader of files: "copy the file again". 'words' is an imperative clause.
 * Returns -1. */
int error_advise(struct error *err, const char *words);

/* Append formatted text to 'err'; the code does not change. A text that begins with ";" is a remedy
 * and replaces a general one; any other goes before it. If both do not fit, the former text is cut.
 * Returns -1. */
int error_append(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prefix the text in 'err' with formatted text and ": "; the code does not change. Returns -1. */
int error_prefix(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Many processes have this error in common, and another one prints it: this one ends with the same
 * exit code and prints nothing. A prefix or more text does not change that; error_set does. Returns
 * -1. */
int error_silence(struct error *err);

#ifdef __cplusplus
}
#endif

#endif
