/* SPDX-License-Identifier: Apache-2.0 */
/* A random text that nobody can guess: the secret of a step. */
#ifndef MEGATRON_TOKEN_H
#define MEGATRON_TOKEN_H

enum { TOKEN_TEXT = 65 };

/* Write 64 hexadecimal digits from the kernel's random numbers to 'text'. Returns 0, or -1 with
 * errno set and an empty text. */
int token_create(char text[TOKEN_TEXT]);

#endif
