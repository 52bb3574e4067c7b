/* SPDX-License-Identifier: Apache-2.0 */
/* Growable arrays and the allocations that end the process. */
#include "base/core/list.h"
#include "tap.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct point {
    int x, y;
};

struct points {
    struct point *items;
    size_t count, room;
};

static void test_list(void)
{
    LIST(int) numbers = {0};
    struct points points = {0};
    const int more[] = {7, 8, 9};
    bool equal = true;

    for (int i = 0; i < 1000; i++)
        *list_add(&numbers) = i;
    for (int i = 0; i < 1000; i++)
        equal = equal && numbers.items[i] == i;
    ok(equal && numbers.count == 1000, "1,000 numbers are kept in their order");
    list_append(&numbers, more, 3);
    ok(numbers.count == 1003 && numbers.items[1000] == 7 && numbers.items[1002] == 9,
       "an array is appended");
    list_free(&numbers);
    ok(!numbers.items && numbers.count == 0, "a released list is empty");
    *list_add(&numbers) = 5;
    is_int(numbers.items[0], 5, "and can be used again");
    list_free(&numbers);

    *list_add(&points) = (struct point){1, 2};
    list_reserve(&points, 100);
    ok(points.room >= 101 && points.count == 1 && points.items[0].y == 2,
       "a struct with the same members is a list, too; room is made without adding");
    list_free(&points);
}

/* What a child prints before it ends with code 1; any other end gives "". */
static const char *last_words(void (*run)(void))
{
    static char text[400];
    ssize_t length;
    int ends[2], status;

    if (pipe(ends) != 0)
        return "";
    if (fork() == 0) {
        dup2(ends[1], STDERR_FILENO);
        run();
        _exit(0);
    }
    close(ends[1]);
    length = read(ends[0], text, sizeof(text) - 1);
    close(ends[0]);
    wait(&status);
    text[length > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 1 ? length : 0] = '\0';
    return text;
}

static void ask_too_much(void)
{
    free(xrealloc(NULL, SIZE_MAX / 4, 8));
}

static void grow_too_much(void)
{
    LIST(int) list = {.count = 3};

    list_reserve(&list, SIZE_MAX);
    free(list.items);
}

int main(void)
{
    char *text = xasprintf("%s-%d", "a", 7), *copy = xstrdup(text), *part = xstrndup(text, 1);

    is(text, "a-7", "formatted");
    is(copy, "a-7", "copied");
    is(part, "a", "copied in part");
    free(text);
    free(copy);
    free(part);
    free(xmalloc(0));
    free(xcalloc(0, 8));
    test_list();
    ok(strncmp(last_words(ask_too_much), "megatron: out of memory: ", 25) == 0,
       "a product that overflows ends the process");
    ok(strncmp(last_words(grow_too_much), "megatron: out of memory: ", 25) == 0,
       "so does a list of more elements than can be");
    return done_testing();
}
