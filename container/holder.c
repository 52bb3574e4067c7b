/* SPDX-License-Identifier: Apache-2.0 */
/* The process that keeps a container alive: it writes its PID to standard output and exits when
 * standard input is closed. It is mounted into the image and runs there without a shell, so it must
 * not depend on anything: no libc, no files. The plugin embeds its binary. */
#include "holder.h"

#if defined(__aarch64__)
enum { SYS_READ = 63, SYS_WRITE = 64, SYS_EXIT_GROUP = 94, SYS_GETPID = 172 };

static long call(long number, long a, long b, long c)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;

    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}
#elif defined(__x86_64__)
enum { SYS_READ = 0, SYS_WRITE = 1, SYS_GETPID = 39, SYS_EXIT_GROUP = 231 };

static long call(long number, long a, long b, long c)
{
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
}
#else
#error "the holder knows the system calls of aarch64 and x86_64 only"
#endif

void _start(void);

void _start(void)
{
    struct holder_record record = {HOLDER_WORD, (int)call(SYS_GETPID, 0, 0, 0)};
    long got;
    char byte;

    call(SYS_WRITE, 1, (long)&record, sizeof(record));
    do
        got = call(SYS_READ, 0, (long)&byte, 1);
    while (got > 0 || got == -4); /* EINTR */
    call(SYS_EXIT_GROUP, 0, 0, 0);
    for (;;) {
    }
}
