/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files, directories and locks (lib/file.h), and loops over threads (core/threads.h). */
#include "tap.h"
#include "../runtime/data/dataset/corpus.h"
#include "lib/file.h"
#include "base/core/storage.h"
#include "base/core/threads.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int holds(const char *path, const char *text)
{
    struct file_bytes bytes;
    int same = file_read(path, 1000, &bytes, NULL) == 0 && strcmp(bytes.data, text) == 0;

    file_bytes_clear(&bytes);
    return same;
}

static void test_write(void)
{
    static const struct {
        const char *name;
        unsigned flags;
        const char *after;
    } rows[] = {
        {"replaced", 0, "new"},
        {"by its only writer", FILE_SINGLE_WRITER, "new"},
        {"replaced, and its directory synced", FILE_SYNC_DIRECTORY, "new"},
        {"kept", FILE_KEEP, "old"},
        {"kept by its only writer", FILE_KEEP | FILE_SINGLE_WRITER, "old"},
    };
    struct error err = {.text = ""};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *path = scratch_path("write/file");

        file_make_directories(scratch_path("write"), 0777);
        is_int(file_write_whole(path, "old", 3, rows[i].flags, &err), 0, rows[i].name);
        is_int(file_write_whole(path, "new", 3, rows[i].flags, &err), 0, "  written again");
        ok(holds(path, rows[i].after), "  holds \"%s\"", rows[i].after);
        is_int(count_names(scratch_path("write")), 1, "  and no draft is left");
        scratch_remove_below(scratch_path("write"));
    }
}

/* What is not a regular file is not replaced by one: as root, /dev/null would be gone. */
static void test_write_through(void)
{
    const char *pipe = scratch_path("through/pipe"), *link = scratch_path("through/link");
    const char *file = scratch_path("through/file");
    char text[8] = "", path[32];
    struct error err = {.text = ""};
    struct stat found;
    int fd;

    file_make_directories(scratch_path("through"), 0777);
    is_int(mkfifo(pipe, 0600), 0, "a pipe");
    fd = open(pipe, O_RDWR | O_NONBLOCK);
    is_int(file_write_whole(pipe, "new", 3, 0, &err), 0, "  is written to");
    is_int(read(fd, text, sizeof(text)), 3, "  as a whole");
    ok(strcmp(text, "new") == 0 && lstat(pipe, &found) == 0 && S_ISFIFO(found.st_mode),
       "  and is still a pipe");
    close(fd);
    is_int(symlink("/dev/full", link), 0, "a link to a device that is full");
    ok(file_write_whole(link, "new", 3, 0, &err) == -1 && strstr(err.text, "No space left"),
       "  is an error");
    is_int(unlink(link) | symlink("file", link), 0, "a link to a file");
    is_int(file_write_whole(file, "old", 3, 0, &err) | file_write_whole(link, "new", 3, 0, &err), 0,
           "  is followed");
    ok(holds(file, "new") && lstat(link, &found) == 0 && S_ISLNK(found.st_mode),
       "  and is still a link");
    /* Like /dev/stdout, which a failing test would replace. */
    fd = open(file, O_WRONLY | O_APPEND);
    snprintf(path, sizeof(path), "/dev/fd/%d", fd);
    is_int(file_write_whole(path, "er", 2, 0, &err), 0, "a descriptor of a file");
    close(fd);
    ok(holds(file, "newer"), "  is appended to");
    is_int(count_names(scratch_path("through")), 3, "no draft is left");
}

static void test_write_fails(void)
{
    struct error err = {.text = ""};
    char *longer = malloc(PATH_MAX + 8);

    memset(longer, 'x', PATH_MAX + 7);
    longer[PATH_MAX + 7] = '\0';
    ok(file_write_whole(scratch_path("none/file"), "x", 1, 0, &err) == -1 &&
           strstr(err.text, "cannot write ") && strstr(err.text, "No such file"),
       "no directory to write to");
    ok(file_write_whole(longer, "x", 1, 0, &err) == -1 && strstr(err.text, "too long"),
       "a path that is too long");
    file_make_directories(scratch_path("taken/name/below"), 0777);
    ok(file_write_whole(scratch_path("taken/name"), "x", 1, 0, &err) == -1 &&
           strstr(err.text, "cannot write "),
       "a name that a directory has");
    is_int(count_names(scratch_path("taken")), 1, "leaves no draft");
    free(longer);
}

static void test_read(void)
{
    struct file_bytes bytes;
    struct error err = {.text = ""};
    int ends[2];

    write_file(scratch_path("ten"), "0123456789", 10);
    ok(file_read(scratch_path("ten"), 10, &bytes, &err) == 0 && bytes.length == 10, "all of it");
    file_bytes_clear(&bytes);
    ok(file_read(scratch_path("ten"), 9, &bytes, &err) == -1 && errno == EFBIG &&
           strstr(err.text, "limit of 9 bytes"),
       "more than the limit");
    ok(file_read(scratch_path("none"), 9, &bytes, &err) == -1 && errno == ENOENT && !bytes.data,
       "no file");
    if (pipe(ends) == 0 && write(ends[1], "from a pipe", 11) == 11)
        close(ends[1]);
    ok(file_read_fd(ends[0], "pipe", 100, &bytes, &err) == 0 && bytes.length == 11, "a pipe");
    file_bytes_clear(&bytes);
    close(ends[0]);
}

static void test_read_text(void)
{
    static const struct {
        const char *content;
        size_t size;
        int text, line;
        const char *first;
    } rows[] = {
        {"efa\n", 16, 4, 3, "efa"},          {"0x1d0f", 16, 6, 6, "0x1d0f"},
        {"one\ntwo\n", 16, 8, 3, "one"},     {"", 16, 0, 0, ""},
        {"longer than it", 5, 4, 4, "long"},
    };
    const char *path = scratch_path("text");
    char text[16];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        file_write_whole(path, rows[i].content, strlen(rows[i].content), 0, NULL);
        is_int(file_read_text(path, text, rows[i].size), rows[i].text, "a text");
        ok(strncmp(text, rows[i].content, rows[i].size - 1) == 0, "  as far as it fits");
        is_int(file_read_line(path, text, rows[i].size), rows[i].line, "  its first line");
        is(text, rows[i].first, "  without the end");
    }
    unlink(path);
    strcpy(text, "before");
    ok(file_read_text(path, text, sizeof(text)) == -1 && text[0] == '\0', "no file: an empty text");
    ok(symlink("/proc/self/comm", path) == 0 && file_read_line(path, text, sizeof(text)) == -1,
       "a symbolic link is not followed");
    unlink(path);
    ok(mkfifo(path, 0600) == 0 && file_read_text(path, text, sizeof(text)) <= 0,
       "a pipe without a writer is not waited for");
}

static void test_lock(void)
{
    const char *path = scratch_path("lock");
    int first = open(path, O_RDWR | O_CREAT, 0666), second = open(path, O_RDWR), status;
    pid_t child;

    is_int(file_lock(first, 0), 0, "a lock");
    is_int(file_lock(second, 0.01), 1, "that another descriptor has to wait for");
    child = fork();
    if (child == 0)
        _exit(file_lock(open(path, O_RDWR), 0.01));
    waitpid(child, &status, 0);
    is_int(WEXITSTATUS(status), 1, "another process, too");
    close(first);
    is_int(file_lock(second, 0), 0, "until it is closed");
    close(second);
    ok(file_lock(-1, 0) == -1 && errno == EBADF, "no file");
}

enum { TASKS = 1000 };

static int count_task(void *context, int64_t i, struct error *err)
{
    int *counts = context;

    __atomic_add_fetch(&counts[i], 1, __ATOMIC_RELAXED);
    return i == TASKS / 2 && counts[TASKS] ? error_set_code(err, ERROR_USAGE, "task %d", (int)i)
                                           : 0;
}

static void test_loop(void)
{
    static const int threads[] = {0, 1, 2, 7, 2000};

    for (size_t k = 0; k < sizeof(threads) / sizeof(threads[0]); k++) {
        int counts[TASKS + 1] = {0}, once = 0, most = 0;
        struct error err = {.text = ""};

        is_int(threads_loop(threads[k], TASKS, count_task, counts, &err), 0, "a loop over threads");
        for (int i = 0; i < TASKS; i++)
            once += counts[i] == 1;
        is_int(once, TASKS, "  runs every task once");
        memset(counts, 0, sizeof(counts));
        counts[TASKS] = 1;
        ok(threads_loop(threads[k], TASKS, count_task, counts, &err) == -1 &&
               strcmp(err.text, "task 500") == 0 && err.code == ERROR_USAGE,
           "  and returns the error of the task that fails, with its code");
        for (int i = 0; i < TASKS; i++)
            most = counts[i] > most ? counts[i] : most;
        is_int(most, 1, "  none runs twice");
    }
    is_int(threads_loop(4, 0, count_task, NULL, NULL), 0, "no tasks");
}

int main(void)
{
    scratch_make();
    test_write();
    test_write_through();
    test_write_fails();
    test_read();
    test_read_text();
    test_lock();
    test_loop();
    scratch_remove();
    return done_testing();
}
