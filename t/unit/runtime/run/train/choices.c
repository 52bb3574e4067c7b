/* SPDX-License-Identifier: Apache-2.0 */
/* Choices made by timing: merged between stages, taken from the previous run, saved for the next.
 * The device is the CPU with the test's own choices. */
#include "run/train/choices.h"
#include "tap.h"

#include <stdlib.h>
#include <unistd.h>

static void test_texts(void)
{
    static const struct {
        const char *one, *two, *merged;
        int differ; /* does 'two' differ from what was merged? */
    } rows[] = {
        {"", "", "", 0},
        {"a 1\n", "", "a 1\n", 0},
        {"", "a 1\n", "a 1\n", 0},
        {"a 1\n", "a 1\n", "a 1\n", 0},
        {"a 1\n", "a 2\n", "a 1\n", 1},
        {"a 1\n", "a 11\n", "a 1\n", 1},
        {"a 1\nb 2\n", "b 2\n", "a 1\nb 2\n", 0},
        {"a 1\n", "aa 1\nb 2\n", "a 1\naa 1\nb 2\n", 0},
        {"a 1", "b 2", "a 1\nb 2\n", 1},
        {"\n\na 1\n", "\n", "a 1\n", 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char *merged = choices_merge((const char *const[]){rows[i].one, rows[i].two}, 2), name[32];

        snprintf(name, sizeof(name), "merge, row %zu", i);
        is(merged, rows[i].merged, name);
        snprintf(name, sizeof(name), "differ, row %zu", i);
        is_int(choices_differ(rows[i].two, merged), rows[i].differ, name);
        free(merged);
    }
}

static char chosen[256];
static int remembered;

static char *choices(struct device *device, struct error *err)
{
    (void)device;
    (void)err;
    return strdup(chosen);
}

static int choose(struct device *device, const char *text, int remember, struct error *err)
{
    (void)device;
    remembered = remember;
    if (strncmp(text, "for us\n", 7) != 0)
        return error_set(err, "these are not for us");
    snprintf(chosen, sizeof(chosen), "%s", text);
    return 0;
}

static char directory[] = "/tmp/megatron-choices.XXXXXX";

static void make_path(char path[128], const char *name)
{
    snprintf(path, 128, "%s/%s", directory, name);
}

static void write_file(const char *name, const char *text)
{
    char path[128];
    FILE *file;

    make_path(path, name);
    file = fopen(path, "w");
    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

static void is_file(const char *name, const char *text, const char *what)
{
    char path[128], found[256] = "";
    FILE *file;

    make_path(path, name);
    file = fopen(path, "r");
    if (file) {
        found[fread(found, 1, sizeof(found) - 1, file)] = '\0';
        fclose(file);
    }
    is(found, text, what);
}

/* Capture messages to the user; 'catch_end' returns them. */
static FILE *caught;
static int usual;

static void catch_begin(void)
{
    fflush(stderr);
    caught = tmpfile();
    usual = dup(STDERR_FILENO);
    dup2(fileno(caught), STDERR_FILENO);
}

static const char *catch_end(void)
{
    static char text[1024];

    fflush(stderr);
    dup2(usual, STDERR_FILENO);
    close(usual);
    rewind(caught);
    text[fread(text, 1, sizeof(text) - 1, caught)] = '\0';
    fclose(caught);
    return text;
}

/* Restore the choices, 'taken', or "" if nothing is restored. */
static void restore(struct parallel *parallel, struct device *device, const char *taken,
                    const char *what)
{
    struct error err = {.text = ""};
    char *restored = NULL;

    is_int(choices_restore(parallel, device, directory, &restored, &err), 0, what);
    is(restored ? restored : "", taken, "  with the expected choices");
    free(restored);
}

static void test_run(struct parallel *parallel, struct device *device)
{
    struct error err = {.text = ""};
    int again = 1;

    restore(parallel, device, "", "a device that chooses nothing has nothing to restore");
    device->choices = choices;
    device->choose = choose;
    snprintf(chosen, sizeof(chosen), "for us\n");
    restore(parallel, device, "", "the first run finds nothing");
    is(chosen, "for us\n", "and takes nothing");
    snprintf(chosen, sizeof(chosen), "for us\na 1\n");
    is_int(choices_agree(parallel, device, NULL, 1, &again, &err), 0,
           "one rank agrees with itself");
    is_int(again, 0, "and keeps its plans");
    is_int(remembered, 1, "for later runs, too");
    is_int(choices_keep(parallel, device, directory, &err), 0, "the choices are kept");
    snprintf(chosen, sizeof(chosen), "for us\na 2\n");
    restore(parallel, device, "for us\na 1\n", "the next run finds them");
    is(chosen, "for us\na 1\n", "and takes them");
    is_int(remembered, 0, "for itself");
}

/* Switching from one GPU model or library version to another and back loses nothing. */
static void test_others(struct parallel *parallel, struct device *device)
{
    struct error err = {.text = ""};
    char expected[256];

    write_file("algorithms.txt", "for others\na 3\n");
    snprintf(chosen, sizeof(chosen), "for us\na 1\n");
    catch_begin();
    restore(parallel, device, "", "choices of another GPU are no error");
    snprintf(expected, sizeof(expected),
             "megatron: warning: %s/algorithms.txt: these are not for us; the run continues, but "
             "results may not be bit-identical\n",
             directory);
    is(catch_end(), expected, "but are spoken of");
    is(chosen, "for us\na 1\n", "and not taken");
    is_int(choices_keep(parallel, device, directory, &err), 0, "the new ones are kept");
    is_file("algorithms.txt", "for us\na 1\n", "in the place of the old ones");
    is_file("algorithms-others.txt", "for others\na 3\n", "which stay");
    write_file("algorithms-us.txt", "for us\na 4\n");
    restore(parallel, device, "for us\na 1\n", "the next run finds the newest");
    write_file("algorithms.txt", "for others\na 3\n");
    catch_begin();
    restore(parallel, device, "for us\na 4\n", "a run that goes back finds what was set aside");
    is(catch_end(), "", "and has nothing to say");
    choices_keep(parallel, device, directory, &err);
    is_file("algorithms.txt", "for us\na 4\n", "it keeps it");
    write_file("algorithms.txt", "nothing to read\n");
    choices_keep(parallel, device, directory, &err);
    is_file("algorithms-unknown.txt", "nothing to read\n", "nor does what is not understood go");
}

/* A choice that the previous run did not make: its name contains the version of the candidates. */
static void test_new(struct parallel *parallel, struct device *device)
{
    static const struct {
        const char *restored, *chosen, *key; /* NULL: no message */
    } rows[] = {
        {NULL, "for us\na 1\n", NULL},
        {"for us\na 1\n", "for us\na 1\n", NULL},
        {"for us\na 1\nb 2\n", "for us\na 1\n", NULL},
        {"for us\nflash:1 1\n", "for us\nflash:1 1\nflash:2 1\n", "flash:2"},
        {"for us\na 1\n", "for us\na 2\n", "a"},
    };
    struct error err = {.text = ""};

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char words[128];
        const char *said;
        int again;

        snprintf(chosen, sizeof(chosen), "%s", rows[i].chosen);
        catch_begin();
        choices_agree(parallel, device, rows[i].restored, 0, &again, &err);
        said = catch_end();
        snprintf(words, sizeof(words),
                 "megatron: warning: algorithms.txt contains no usable algorithm for %s:",
                 rows[i].key ? rows[i].key : "");
        ok(rows[i].key ? strstr(said, words) != NULL : !said[0], "row %zu of new choices", i);
    }
}

/* Links in place of comm_host_broadcast: what rank 0 sends to rank 1, a size, then a text without
 * an end. Rank 0 sends to nobody. */
int __wrap_comm_host_broadcast(struct comm *comm, void *data, size_t bytes, int root,
                               struct error *err);

static int64_t sent_size;

int __wrap_comm_host_broadcast(struct comm *comm, void *data, size_t bytes, int root,
                               struct error *err)
{
    (void)root, (void)err;
    if (comm->rank == 0)
        return 0;
    if (bytes == sizeof(sent_size) && sent_size != sizeof(sent_size))
        memcpy(data, &sent_size, sizeof(sent_size));
    else
        memset(data, 'x', bytes);
    return 0;
}

static size_t chosen_length;

static int measure(struct device *device, const char *text, int remember, struct error *err)
{
    (void)device, (void)remember, (void)err;
    chosen_length = strlen(text);
    return 0;
}

static void test_received(const struct parallel *own, struct device *device)
{
    static const struct {
        int64_t size;
        int rc;
    } rows[] = {{-1, -1}, {INT64_MIN, -1}, {INT64_MAX, -1}, {(64 << 20) + 1, -1}, {0, 0}, {20, 0}};
    struct parallel parallel = *own;
    struct comm comm = *own->comm;

    comm.rank = 1;
    parallel.comm = &comm;
    device->choose = measure;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct error err = {.text = ""};
        char *restored = NULL;

        sent_size = rows[i].size;
        chosen_length = 0;
        is_int(choices_restore(&parallel, device, directory, &restored, &err), rows[i].rc,
               "a text of a size that rank 0 sends");
        is_int((long long)chosen_length, rows[i].rc == 0 && rows[i].size > 0 ? rows[i].size - 1 : 0,
               "  which has an end");
        free(restored);
    }
    device->choose = choose;
}

int main(void)
{
    struct device_options options = {.threads = 1};
    struct comm_options world = {.size = 1, .deadline = 10};
    struct layout layout = {.tp = 1, .cp = 1, .dp = 1, .pp = 1};
    struct parallel parallel;
    struct error err;
    char path[128];

    if (!mkdtemp(directory))
        return skip_all("no temporary directory");
    test_texts();
    world.device = device_open("cpu", &options, &err);
    if (ok(world.device != NULL, "a device")) {
        struct comm *comm = comm_open("self", &world, &err);

        if (ok(comm && parallel_create(&parallel, comm, &layout, &err) == 0, "a rank")) {
            test_run(&parallel, world.device);
            test_others(&parallel, world.device);
            test_new(&parallel, world.device);
            test_received(&parallel, world.device);
        }
        parallel_destroy(&parallel);
        comm_close(comm);
        device_close(world.device);
    }
    for (const char *const *name =
             (const char *const[]){"algorithms.txt", "algorithms-us.txt", "algorithms-others.txt",
                                   "algorithms-unknown.txt", NULL};
         *name; name++) {
        make_path(path, *name);
        unlink(path);
    }
    rmdir(directory);
    return done_testing();
}
