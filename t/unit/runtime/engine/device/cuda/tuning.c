/* SPDX-License-Identifier: Apache-2.0 */
/* The file of tuning results: entries are found again, by this process and by others; invalid lines
 * are ignored, one by one. */
#include "config.h"

#include "tap.h"
#include "lib/clock.h"
#include "engine/device/cuda/tuning.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[64] = "/tmp/megatron-tuning.XXXXXX";

static void write_file(const char *name, const char *text)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    file = fopen(path, "w");
    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

static void test_files(void)
{
    static const struct {
        const char *text, *key, *value; /* NULL: not found */
    } rows[] = {
        {"", "a", NULL},
        {"a 1\n", "a", "1"},
        {"a 1\nb 2\n", "b", "2"},
        {"a 1\nb 2", "b", NULL},      /* truncated */
        {"a\nb 2\n", "a", NULL},      /* no value */
        {"a\nb 2\n", "b", "2"},       /* the next line is still valid */
        {"\n\n  \nb 2\n", "b", "2"},  /* empty lines */
        {"a 1\na 2\n", "a", "1"},     /* the first one counts */
        {"a 1 and more\n", "a", "1"}, /* further words are for people */
        {"\x01\x02\xff\nb 2\n", "b", "2"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tuning *tuning;
        const char *value;

        write_file("rows", rows[i].text);
        tuning = tuning_open(directory, NULL, "rows");
        value = tuning_get(tuning, rows[i].key);
        ok(rows[i].value ? value && strcmp(value, rows[i].value) == 0 : !value, "file %zu", i);
        tuning_destroy(tuning);
    }
}

static void test_two_processes(void)
{
    struct tuning *a = tuning_open(directory, NULL, "shared"),
                  *b = tuning_open(directory, NULL, "shared"), *c;
    struct error err;

    tuning_put(a, "x", "1");
    tuning_put(b, "y", "2");
    is(tuning_get(a, "x"), "1", "get");
    ok(!tuning_get(a, "y"), "another process's entry is not visible before it is saved");
    is_int(tuning_save(a, &err), 0, "save");
    is_int(tuning_save(b, &err), 0, "save the other");
    tuning_put(a, "x", "3");
    is(tuning_get(a, "x"), "3", "put again");
    c = tuning_open(directory, NULL, "shared");
    is(tuning_get(c, "x"), "1", "found by a third");
    is(tuning_get(c, "y"), "2", "found by a third, of the other");
    tuning_destroy(a), tuning_destroy(b), tuning_destroy(c);
}

/* Candidates that a process died on are not tried again; those that others are trying are, and
 * their results stay. */
static void test_trying(void)
{
    struct tuning *a = tuning_open(directory, NULL, "trying"),
                  *b = tuning_open(directory, NULL, "trying"), *c;

    is_int(tuning_try(b, "x"), 0, "try");
    is_int((tuning_put(a, "w", "1"), tuning_save(a, NULL)), 0, "another process saves");
    ok(!tuning_get(a, "x"), "a key that is being tried has no value");
    c = tuning_open(directory, NULL, "trying");
    is_int(tuning_try(c, "x"), -1, "what was being tried before is left alone");
    is_int((tuning_put(b, "x", "2"), tuning_save(b, NULL)), 0, "a value is found");
    is_int((tuning_put(a, "v", "3"), tuning_save(a, NULL)), 0, "the other one saves again");
    is(tuning_get(a, "x"), "2", "and sees it");
    is_int((tuning_put(c, "u", "4"), tuning_save(c, NULL)), 0, "so does the third");
    is(tuning_get(c, "x"), "2", "which sees it, too");
    tuning_destroy(c);
    is_int(tuning_try(b, "y"), 0, "try another");
    is_int((tuning_put(a, "u", "5"), tuning_save(a, NULL)), 0, "seen by a process that runs");
    is_int(tuning_try(a, "y"), 0, "which may try it, too");
    tuning_destroy(a), tuning_destroy(b);
}

/* A trial after which nothing was chosen leaves a record, which any value replaces. */
static void test_untried(void)
{
    struct tuning *a = tuning_open(directory, NULL, "untried"), *b;

    is_int(tuning_try(a, "x"), 0, "try");
    is_int((tuning_untry(a, "x"), tuning_save(a, NULL)), 0, "nothing is chosen");
    b = tuning_open(directory, NULL, "untried");
    ok(!tuning_get(b, "x"), "the key has no value");
    is_int(tuning_try(b, "x"), 0, "and may be tried again");
    is_int((tuning_put(b, "x", "1"), tuning_save(b, NULL)), 0, "a value is found");
    tuning_untry(b, "x"); /* there is no trial to end */
    is(tuning_get(b, "x"), "1", "the value stays");
    is_int((tuning_put(a, "y", "2"), tuning_save(a, NULL)), 0, "the first process saves");
    tuning_destroy(a), tuning_destroy(b);
    a = tuning_open(directory, NULL, "untried");
    is(tuning_get(a, "x"), "1", "the file has the value");
    is(tuning_get(a, "y"), "2", "and the other one");
    tuning_destroy(a);
}

/* Does saving replace the file? */
static int replaces(struct tuning *tuning, const char *name)
{
    struct stat before = {0}, after = {0};
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    stat(path, &before);
    if (tuning_save(tuning, NULL) || stat(path, &after))
        return -1;
    return before.st_ino != after.st_ino || before.st_mtim.tv_nsec != after.st_mtim.tv_nsec;
}

/* All ranks of a job find the same results at about the same time: one writes them. */
static void test_many(void)
{
    struct tuning *a, *b, *c;

    write_file("many", "bad 1\n");
    a = tuning_open(directory, NULL, "many"), b = tuning_open(directory, NULL, "many");
    is_int(tuning_try(a, "x"), 0, "one rank tries");
    is_int((tuning_put(b, "x", "trying"), replaces(b, "many")), 0, "another one need not say it");
    tuning_put(a, "x", "1");
    is_int(replaces(a, "many"), 1, "what the first one finds is written");
    tuning_put(b, "x", "2");
    is_int(replaces(b, "many"), 0, "what the other one finds is not");
    is(tuning_get(b, "x"), "2", "but it is used");
    tuning_put(a, "bad", "2");
    is_int(replaces(a, "many"), 1, "what could not be used is replaced");
    tuning_put(b, "bad", "3");
    is_int(replaces(b, "many"), 0, "once");
    tuning_put(b, "y", "4");
    is_int(replaces(b, "many"), 1, "what is new in one of them is written");
    c = tuning_open(directory, NULL, "many");
    is(tuning_get(c, "y"), "4", "found by a third");
    is(tuning_get(c, "x"), "1", "in addition to the first one's results");
    tuning_destroy(a), tuning_destroy(b), tuning_destroy(c);
}

static void is_in_file(const char *name, const char *key, const char *value, const char *text)
{
    struct tuning *tuning = tuning_open(directory, NULL, name);
    const char *found = tuning_get(tuning, key);

    is(found ? found : "nothing", value, text);
    tuning_destroy(tuning);
}

/* What ranks agree on is in the file for the next run, whichever rank was first. */
static void test_agreed(void)
{
    static const char text[] = "for agreed\np 1\nq trying\n";
    struct tuning *a = tuning_open(directory, NULL, "agreed"),
                  *b = tuning_open(directory, NULL, "agreed"), *c;

    tuning_put(a, "p", "1"), tuning_put(b, "p", "2"), tuning_put(b, "x", "1");
    tuning_save(b, NULL), tuning_save(a, NULL);
    is_in_file("agreed", "p", "2", "one rank is the first");
    c = tuning_open(directory, NULL, "agreed");
    is_int(tuning_take(c, text, 0, NULL), 0, "they agree on what the other one found");
    is_int(replaces(c, "agreed"), 0, "one that is not to keep it does not");
    is_int(tuning_take(a, text, 1, NULL) || tuning_take(b, text, 1, NULL), 0, "others are");
    is_int(replaces(b, "agreed"), 1, "it replaces what was there");
    is_int(replaces(a, "agreed"), 0, "once");
    tuning_put(c, "y", "1"), tuning_save(c, NULL);
    is_in_file("agreed", "p", "1", "it is what the next run finds");
    is_in_file("agreed", "x", "1", "beside what was there");
    tuning_destroy(c);
    c = tuning_open(directory, NULL, "agreed");
    is_int(tuning_try(c, "q"), 0, "a trial is nothing to agree on");
    write_file("agreed",
               "p 3\np 1\nx 2\n"); /* by one that had read it before; the first p counts */
    tuning_put(a, "z", "1"), tuning_save(a, NULL);
    is_in_file("agreed", "p", "1", "what gets lost is there again with what comes next");
    is_in_file("agreed", "x", "2", "and not what was not agreed on");
    tuning_put(a, "p", "4"), tuning_put(a, "w", "1"), tuning_save(a, NULL);
    is_in_file("agreed", "p", "1", "one that cannot use it does not force its own on the others");
    tuning_destroy(a), tuning_destroy(b), tuning_destroy(c);
}

/* The file may be cleared at any time. */
static void test_cleared(void)
{
    struct tuning *tuning = tuning_open(directory, NULL, "cleared");
    char path[128];

    snprintf(path, sizeof(path), "%s/cleared", directory);
    tuning_try(tuning, "x");
    tuning_put(tuning, "x", "7"), tuning_save(tuning, NULL);
    unlink(path);
    tuning_put(tuning, "y", "8"), tuning_save(tuning, NULL);
    is_in_file("cleared", "x", "7", "what this process knows is written again");
    is_in_file("cleared", "y", "8", "with what it finds");
    tuning_destroy(tuning);
}

/* A process that had read the file earlier may write an outdated record: a record of a trial does
 * not replace a result that this process has. */
static void test_overwritten(void)
{
    struct tuning *tuning = tuning_open(directory, NULL, "overwritten"), *other;

    tuning_try(tuning, "x");
    tuning_put(tuning, "x", "7"), tuning_save(tuning, NULL);
    write_file("overwritten", "x trying\n");
    tuning_put(tuning, "y", "8"), tuning_save(tuning, NULL);
    is_in_file("overwritten", "x", "7", "what was found takes the place of a trial again");
    other = tuning_open(directory, NULL, "overwritten");
    tuning_get(other, "x");
    write_file("overwritten", "x trying\n");
    tuning_put(other, "z", "9"), tuning_save(other, NULL);
    is_in_file("overwritten", "x", "nothing", "but not what others found: they may have a reason");
    tuning_destroy(tuning), tuning_destroy(other);
}

/* A process that is currently trying looks to others as if it had died: their provisional results
 * are replaced. */
static void test_provisional(void)
{
    struct tuning *a = tuning_open(directory, NULL, "provisional"), *b, *c;

    is_int(tuning_try(a, "x") || tuning_try(a, "y"), 0, "one process tries");
    b = tuning_open(directory, NULL, "provisional");
    is_int(tuning_try(b, "x"), -1, "which another one takes for dead");
    tuning_put(b, "x", "1?"), tuning_put(b, "y", "1?");
    is_int(replaces(b, "provisional"), 1, "and leaves what it finds");
    c = tuning_open(directory, NULL, "provisional");
    is(tuning_get(c, "x"), "1?", "for others to use");
    tuning_put(a, "w", "2"), tuning_save(a, NULL);
    is_in_file("provisional", "x", "1?", "until the first one finds something");
    tuning_put(a, "x", "2");
    is_int(replaces(a, "provisional"), 1, "which takes its place");
    tuning_put(b, "z", "1"), tuning_put(c, "v", "1");
    tuning_save(b, NULL), tuning_save(c, NULL);
    is_in_file("provisional", "x", "2", "and stays there");
    is(tuning_get(b, "x"), "1?", "each uses its own");
    tuning_put(a, "y", "3?");
    is_int(replaces(a, "provisional"), 0, "of two provisional ones the first will do");
    tuning_destroy(a), tuning_destroy(b), tuning_destroy(c);
}

enum { WRITERS = 6, LINES = 12 };

/* Seconds, less than a process waits for the lock before it gives up. */
static const double LONG_WAIT = 2;

/* Put a line and save it, again and again. */
static void write_lines(int writer)
{
    struct tuning *tuning = tuning_open(directory, NULL, "writers");
    int failed = 0, late = 0;
    char key[32];

    for (int i = 0; i < LINES; i++) {
        double began = clock_now();

        snprintf(key, sizeof(key), "%d:%d", writer, i);
        tuning_put(tuning, key, "1");
        failed |= tuning_save(tuning, NULL);
        late |= clock_now() - began > LONG_WAIT;
    }
    _exit(failed ? 1 : late ? 2 : 0);
}

/* Jobs with different models find different results at the same time. */
static void test_writers(void)
{
    struct tuning *tuning;
    int status, failed = 0, late = 0, lost = 0;
    char key[32];

    fflush(stdout);
    for (int i = 0; i < WRITERS; i++)
        if (fork() == 0)
            write_lines(i);
    while (wait(&status) > 0) {
        int waited = WIFEXITED(status) && WEXITSTATUS(status) == 2;

        late |= waited;
        failed |= waited ? 0 : status;
    }
    is_int(failed, 0, "many processes save");
    tuning = tuning_open(directory, NULL, "writers");
    for (int i = 0; i < WRITERS * LINES; i++) {
        snprintf(key, sizeof(key), "%d:%d", i / LINES, i % LINES);
        lost += tuning_get(tuning, key) == NULL;
    }
    if (late && lost > 0)
        skip("and no line gets lost", "a process waited long for the lock, and may have given up");
    else
        is_int(lost, 0, "and no line gets lost");
    tuning_destroy(tuning);
}

/* A process that never releases the lock does not block others forever. */
static void test_held(void)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct tuning *tuning = tuning_open(directory, NULL, "held");
    char path[128], key[32];
    int fd;

    snprintf(path, sizeof(path), "%s/.tuning.lock", directory);
    fd = open(path, O_RDWR);
    is_int(fcntl(fd, F_OFD_SETLK, &whole), 0, "the lock is held");
    alarm(20); /* well over one wait for the lock, and far less than twenty of them */
    for (int i = 0; i < 20; i++) {
        snprintf(key, sizeof(key), "x%d", i);
        tuning_put(tuning, key, "1"), tuning_save(tuning, NULL);
    }
    alarm(0);
    is_in_file("held", "x19", "1", "what is found is written without it");
    close(fd);
    tuning_destroy(tuning);
}

static void test_places(void)
{
    struct tuning *none = tuning_open(NULL, NULL, "x"), *deep, *bad;
    char path[128];
    struct error err;

    tuning_put(none, "x", "1");
    is(tuning_get(none, "x"), "1", "without a directory results live as long as the process");
    is_int(tuning_save(none, &err), 0, "and saving does nothing");
    is_int(tuning_try(none, "y"), -1, "nothing is tried that nobody would hear of");
    snprintf(path, sizeof(path), "%s/a/b/c", directory);
    deep = tuning_open(path, NULL, "x");
    tuning_put(deep, "x", "1");
    is_int(tuning_save(deep, &err), 0, "directories are made");
    write_file("file", "");
    snprintf(path, sizeof(path), "%s/file/d", directory);
    bad = tuning_open(path, NULL, "x");
    tuning_put(bad, "x", "1");
    ok(tuning_save(bad, &err) == -1 && strstr(err.text, "cannot write "),
       "a failed write is an error");
    tuning_destroy(none), tuning_destroy(deep), tuning_destroy(bad);
}

/* What one process used is what another one takes; the rest of the file is not included. */
static void test_text(void)
{
    struct tuning *one, *two;
    struct error err = {.text = ""};
    char *text;

    write_file("rows", "a 1\nb 2\nc 3\n");
    one = tuning_open(directory, NULL, "rows");
    tuning_get(one, "b");
    tuning_put(one, "d", "4,fast");
    tuning_try(one, "e");
    text = tuning_text(one);
    is(text, "for rows\nb 2\nd 4,fast\n", "the text contains what was used");
    two = tuning_open(NULL, NULL, "rows");
    tuning_put(two, "b", "9");
    is_int(tuning_take(two, text, 0, &err), 0, "and can be taken");
    free(text);
    text = tuning_text(two);
    is(text, "for rows\nb 2\nd 4,fast\n", "and handed on, used or not");
    is(tuning_get(two, "b"), "2", "replacing what was known");
    is(tuning_get(two, "d"), "4,fast", "or was not");
    tuning_destroy(two);
    two = tuning_open(NULL, NULL, "other");
    is_int(tuning_take(two, text, 0, &err), -1, "but not for another GPU");
    is(err.text, "the saved choices of algorithms are for rows, and this is other",
       "and it is reported");
    ok(!tuning_get(two, "b"), "nothing of it is taken then");
    is_int(tuning_take(two, "b 2\n", 0, &err), -1, "nor is a text of unknown origin");
    is_int(tuning_take(two, "", 0, &err), -1, "or an empty one");
    free(text);
    tuning_destroy(one);
    tuning_destroy(two);
}

/* Values that come with the program: used, but never copied into the user's file, which overrides
 * them. */
static void test_shipped(void)
{
    char path[128], line[128] = "";
    struct tuning *one;
    FILE *file;

    snprintf(path, sizeof(path), "%s/installed", directory);
    mkdir(path, 0755);
    write_file("installed/gpu", "# measured\na 1\nb 2\nc trying\nd 4\ncut");
    write_file("gpu", "b 3\n");
    one = tuning_open(directory, path, "gpu");
    is(tuning_get(one, "a"), "1", "an installed value is used");
    is(tuning_get(one, "b"), "3", "the user's own value comes first");
    ok(!tuning_get(one, "c") && !tuning_get(one, "#"), "what is no value is not");
    tuning_put(one, "d", "5");
    tuning_put(one, "e", "6");
    is_int(tuning_save(one, NULL), 0, "new values are saved");
    tuning_put(one, "f", "7");
    is_int(tuning_save(one, NULL), 0, "and newer ones");
    tuning_destroy(one);
    snprintf(path, sizeof(path), "%s/gpu", directory);
    file = fopen(path, "r");
    if (file && fread(line, 1, sizeof(line) - 1, file) > 0)
        fclose(file);
    is(line, "b 3\nd 5\ne 6\nf 7\n", "without the installed ones");
    one = tuning_open(NULL, directory, "gpu");
    is(tuning_get(one, "d"), "5", "installed values do not need a directory of one's own");
    tuning_destroy(one);
}

/* Thousands of entries, as in the installed file, and keys that are not among them. */
static void test_large(void)
{
    enum { COUNT = 3000 };
    struct tuning *tuning = tuning_open(directory, NULL, "large");
    int right = 0, absent = 0;

    for (int i = 0; i < COUNT; i++) {
        char key[32], value[32];

        snprintf(key, sizeof(key), "gemm:%dx%d", i, 7 * i);
        snprintf(value, sizeof(value), "%d", i);
        tuning_put(tuning, key, value);
    }
    is_int(tuning_save(tuning, NULL), 0, "thousands of entries are saved");
    tuning_destroy(tuning);
    tuning = tuning_open(directory, NULL, "large");
    for (int i = 0; i < COUNT; i++) {
        char key[32];
        const char *value;

        snprintf(key, sizeof(key), "gemm:%dx%d", i, 7 * i);
        value = tuning_get(tuning, key);
        right += value && atoi(value) == i;
        snprintf(key, sizeof(key), "gemm:%dx%d", i, 7 * i + 1);
        absent += !tuning_get(tuning, key);
    }
    is_int(right, COUNT, "  and found again, each with its value");
    is_int(absent, COUNT, "  and no others");
    tuning_destroy(tuning);
}

int main(void)
{
    char command[128];

    if (!mkdtemp(directory))
        return skip_all("no temporary directory");
    test_files();
    test_two_processes();
    test_trying();
    test_untried();
    test_many();
    test_agreed();
    test_cleared();
    test_overwritten();
    test_provisional();
    test_writers();
    test_held();
    test_places();
    test_text();
    test_shipped();
    test_large();
    snprintf(command, sizeof(command), "%s/a/b/c/x", directory);
    unlink(command);
    for (const char *const *name = (const char *const[]){"a/b/c/.tuning.lock",
                                                         "a/b/c",
                                                         "a/b",
                                                         "a",
                                                         "rows",
                                                         "shared",
                                                         "trying",
                                                         "untried",
                                                         "many",
                                                         "agreed",
                                                         "cleared",
                                                         "overwritten",
                                                         "provisional",
                                                         "writers",
                                                         "held",
                                                         "large",
                                                         "file",
                                                         "installed/gpu",
                                                         "installed",
                                                         "gpu",
                                                         ".tuning.lock",
                                                         "",
                                                         NULL};
         *name; name++) {
        snprintf(command, sizeof(command), "%s/%s", directory, *name);
        remove(command);
    }
    return done_testing();
}
