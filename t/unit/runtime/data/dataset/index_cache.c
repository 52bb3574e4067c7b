/* SPDX-License-Identifier: Apache-2.0 */
/* The index cache: many processes at once, builders that die, damaged files. */
#include "tap.h"
#include "corpus.h"
#include "data/dataset/index_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

static int *builds; /* shared between the processes: the number of builds */

static void take_over(const char *how);

static int build(void *arg, struct index_writer *writer, struct error *err)
{
    struct index_layout layout = {.array = {{.count = 1000, .width = 4}}, .value = {42}};
    uint32_t numbers[1000];

    __atomic_add_fetch(builds, 1, __ATOMIC_SEQ_CST);
    if (index_writer_layout(writer, &layout, err) < 0)
        return -1;
    for (uint32_t i = 0; i < 1000; i++)
        numbers[i] = i * i;
    usleep(200000);
    if (arg && strcmp(arg, "fails") == 0)
        return error_set(err, "no luck");
    if (arg && strcmp(arg, "dies") == 0)
        raise(SIGKILL);
    if (arg && *builds == 1)
        take_over(arg);
    return index_writer_write(writer, 0, 0, 1000, numbers, err);
}

static struct index_file *get(const char *directory, const char *how, double deadline,
                              struct error *err)
{
    const struct index_place place = {.directories = {directory}, .deadline = deadline};
    struct index_request request = {
        .place = &place,
        .kind = "test",
        .description = "what it is made from",
        .build = build,
        .arg = (void *)how,
    };

    return index_file_get(&request, err);
}

static int is_good(const struct index_file *file)
{
    uint32_t number = 0;

    return file && index_file_layout(file)->value[0] == 42 &&
           index_file_read(file, 0, 999, 1, &number, NULL) == 0 && number == 999 * 999 &&
           index_file_read(file, 0, 999, 2, &number, NULL) == -1;
}

static void test_many(void)
{
    enum { PROCESSES = 40 };
    const char *directory = scratch_path("many/deep");
    int good = 0, status;

    *builds = 0;
    fflush(stdout);
    for (int i = 0; i < PROCESSES; i++)
        if (fork() == 0) {
            struct error err;

            _exit(is_good(get(directory, NULL, 30, &err)) ? 0 : 1);
        }
    while (wait(&status) > 0)
        good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    is_int(good, PROCESSES, "all processes get the file");
    is_int(*builds, 1, "exactly one process built it");
    is_int(count_names(directory), 1, "nothing else is left");
}

static void test_builder_dies(void)
{
    const char *directory = scratch_path("dies");
    struct index_file *file;
    struct error err = {.text = ""};
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        get(directory, "dies", 30, &err);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    is_int(count_names(directory), 2, "a builder that was killed leaves its lock and its file");
    file = get(directory, NULL, 30, &err);
    ok(is_good(file), "the next process builds at once");
    index_file_close(file);
    is_int(count_names(directory), 1, "and removes what was left");
}

/* A builder that was stopped for so long that others assumed it was dead. */
static void take_over(const char *how)
{
    const char *directory = scratch_path("stopped");
    struct error err;

    scratch_remove_below(directory);
    mkdir(directory, 0777);
    if (strcmp(how, "another process builds it") == 0)
        index_file_close(get(directory, NULL, 30, &err));
}

static void test_builder_stops(void)
{
    static const char *const rows[] = {"nobody builds", "another process builds it"};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *directory = scratch_path("stopped");
        struct error err = {.text = ""};
        struct index_file *file;

        *builds = 0;
        file = get(directory, rows[i], 30, &err);
        if (!ok(is_good(file), "a builder whose lock was broken, and %s, has a file", rows[i]))
            diag("%s", err.text);
        is_int(*builds, 2, "and was built again");
        is_int(count_names(directory), 1, "and nothing else is left");
        index_file_close(file);
        scratch_remove_below(directory);
    }
}

static void test_builder_fails(void)
{
    const char *directory = scratch_path("fails");
    struct error err = {.text = ""};
    struct index_file *file = get(directory, "fails", 30, &err);

    ok(!file, "a builder that fails");
    is(err.text, "no luck", "reports why");
    is_int(count_names(directory), 0, "and leaves nothing");
}

#define HOLDER "elsewhere,7,0000000000000001,0000000000000001"

static void test_deadline(void)
{
    const char *directory = scratch_path("late");
    char path[256], lock[300] = "";
    struct error err = {.text = ""};
    struct index_file *file;
    struct dirent *entry;
    DIR *stream;

    file = get(directory, NULL, 30, &err);
    ok(is_good(file), "a file");
    index_file_close(file);
    stream = opendir(directory);
    while ((entry = readdir(stream)))
        if (entry->d_name[0] != '.')
            snprintf(path, sizeof(path), "%.100s/%.128s", directory, entry->d_name);
    closedir(stream);
    snprintf(lock, sizeof(lock), "%s.lock", path);
    unlink(path);
    write_file(lock, HOLDER " 3\n", sizeof(HOLDER " 3\n") - 1);
    ok(!get(directory, NULL, 0.3, &err), "a lock of another host that stays");
    ok(strstr(err.text, HOLDER ";") && strstr(err.text, "after 0 s"),
       "is named after the deadline");
    unlink(lock);
}

/* Change one thing in a valid file; it is rebuilt. */
static void test_damage(void)
{
    static const struct {
        const char *name;
        int at, cut;
    } rows[] = {{"magic", 0, -1},  {"size", 9, -1},   {"count", 17, -1},      {"width", 30, -1},
                {"text", 130, -1}, {"cut", -1, 9000}, {"cut header", -1, 50}, {"empty", -1, 0}};
    const char *directory = scratch_path("damage");
    char path[512];
    struct error err = {.text = ""};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct index_file *file = get(directory, NULL, 30, &err);
        int fd;

        snprintf(path, sizeof(path), "%s", index_file_path(file));
        index_file_close(file);
        fd = open(path, O_RDWR);
        if (rows[i].at >= 0 && pwrite(fd, "\xff", 1, rows[i].at) != 1)
            diag("cannot damage");
        if (rows[i].cut >= 0 && ftruncate(fd, rows[i].cut) < 0)
            diag("cannot cut");
        close(fd);
        *builds = 0;
        file = get(directory, NULL, 30, &err);
        ok(is_good(file) && *builds == 1, "%s damaged: rebuilt", rows[i].name);
        index_file_close(file);
    }
}

static void test_cut_later(void)
{
    struct error err = {.text = ""};
    struct index_file *file = get(scratch_path("later"), NULL, 30, &err);
    uint32_t number;

    ok(truncate(index_file_path(file), 8192 + 100) == 0 &&
           index_file_read(file, 0, 3, 1, &number, &err) == 0 && number == 9,
       "a file that is truncated during use: the rest is readable");
    ok(index_file_read(file, 0, 500, 1, &number, &err) == -1 && strstr(err.text, "was truncated"),
       "and an error past its end");
    index_file_close(file);
}

static void test_closed_directory(void)
{
    struct index_place place = {.directories = {"/proc/nothing/here", scratch_path("second")},
                                .deadline = 5};
    struct index_request request = {
        .place = &place,
        .kind = "test",
        .description = "x",
        .build = build,
    };
    struct error err = {.text = ""};
    struct index_file *file = index_file_get(&request, &err);

    ok(is_good(file) && strstr(index_file_path(file), "second"), "the second directory serves");
    index_file_close(file);
    place.directories[1] = NULL;
    ok(!index_file_get(&request, &err) && err.code == ERROR_NO_CACHE,
       "without one, an error with its own code");
}

int main(void)
{
    builds = mmap(NULL, sizeof(*builds), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    scratch_make();
    test_many();
    test_builder_dies();
    test_builder_stops();
    test_builder_fails();
    test_deadline();
    test_damage();
    test_cut_later();
    test_closed_directory();
    scratch_remove();
    return done_testing();
}
