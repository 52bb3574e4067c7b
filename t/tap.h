/* Test Anything Protocol for C tests: count, compare, say. A test is one program whose name ends
 * in .t; prove runs it. */
#ifndef MEGATRON_TAP_H
#define MEGATRON_TAP_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* One count for all files of a program: of weak definitions the linker keeps one. */
__attribute__((weak)) int tap_count, tap_failed;

__attribute__((format(printf, 2, 3), unused)) static int ok(int good, const char *format, ...)
{
    va_list args;

    printf("%sok %d - ", good ? "" : "not ", ++tap_count);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
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

/* Compare strings; show both where they differ. */
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

/* Leave out the whole test with a reason. Use before any other call: `return skip_all("...")`. */
__attribute__((unused)) static int skip_all(const char *reason)
{
    printf("1..0 # SKIP %s\n", reason);
    return 0;
}

/* The last call: prints the plan; its value is main()'s. */
__attribute__((unused)) static int done_testing(void)
{
    printf("1..%d\n", tap_count);
    return tap_failed > 0;
}

#endif
