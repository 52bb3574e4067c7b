/* SPDX-License-Identifier: Apache-2.0 */
/* The one channel for warnings and notes. Every layer reports through it; nothing below the
 * commands writes to stderr directly. The format is "megatron: warning: TEXT" or "megatron: note:
 * TEXT". */
#ifndef MEGATRON_LOG_H
#define MEGATRON_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

/* One sentence, without newline and without the level's name: a note is something that the user may
 * want to know; a warning says that something is wrong or surprising, but the work continues. Safe
 * to call from any thread. */
void log_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same for a rank that ends all others; the format is "megatron: TEXT". All other errors travel
 * up to main() in a struct error. */
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Wait until the launcher has read standard error, for at most two seconds, and a moment longer for
 * it to forward what it read: srun --kill-on-bad-exit and mpirun drop output that is still on its
 * way when they end the other ranks. For a rank that is about to exit with an error. Returns at
 * once if standard error is a file or a terminal. */
void log_drain(void);

#ifdef __cplusplus
}
#endif

#endif
