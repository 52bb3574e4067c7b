/* SPDX-License-Identifier: Apache-2.0 */
/* The Test Anything Protocol for tests in C. A test is one program whose name ends in .t; prove
 * runs it. */
#ifndef MEGATRON_TAP_H
#define MEGATRON_TAP_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* One counter for all files of a program: the linker keeps one of several weak definitions. */
__attribute__((weak)) int tap_count, tap_failed;

__attribute__((format(printf, 2, 3), unused)) static int ok(int good, const char *format, ...)
{
    va_list args;

    printf("%sok %d - ", good ? "" : "not ", ++tap_count);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    fflush(stdout); /* a child that flushes must not print it again */
    if (!good)
        tap_failed++;
    return good;
}

__attribute__((format(printf, 1, 2), unused)) static void diag(const char *format, ...)
{
    va_list args;

    printf("# ");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
}

/* Compare strings; print both if they differ. */
__attribute__((unused)) static int is(const char *got, const char *expected, const char *name)
{
    int good = ok(got && strcmp(got, expected) == 0, "%s", name);

    if (!good)
        diag("got \"%s\", expected \"%s\"", got ? got : "(null)", expected);
    return good;
}

__attribute__((unused)) static int is_int(long long got, long long expected, const char *name)
{
    int good = ok(got == expected, "%s", name);

    if (!good)
        diag("got %lld, expected %lld", got, expected);
    return good;
}

/* The number of repetitions of a random test: fewer in a build with sanitizers, which is several
 * times slower. The plain build looks for wrong results, this one for invalid memory accesses. */
__attribute__((unused)) static int repetitions(int plain)
{
#ifdef __SANITIZE_ADDRESS__
    return (plain + 5) / 6;
#else
    return plain;
#endif
}

/* A test that cannot run here. Every test that is skipped conditionally calls this, so that the
 * output of prove names what was not tested and why. */
__attribute__((unused)) static void skip(const char *name, const char *reason)
{
    printf("ok %d - %s # SKIP %s\n", ++tap_count, name, reason);
}

/* The whole program cannot run here. Call it before the first test: `return skip_all("...")`. */
__attribute__((unused)) static int skip_all(const char *reason)
{
    printf("1..0 # SKIP %s\n", reason);
    return 0;
}

/* The last call: prints the plan. main() returns its value. */
__attribute__((unused)) static int done_testing(void)
{
    printf("1..%d\n", tap_count);
    return tap_failed > 0;
}

#endif
