/* Choices made by timing: merged between stages, taken from the run before, kept for the next. The
 * device is the CPU's with choices of the test's own. */
#include "choices.h"
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

static void test_run(struct parallel *parallel, struct device *device)
{
    char directory[] = "/tmp/megatron-choices.XXXXXX", path[64];
    struct error err = {""};
    FILE *file;
    int again = 1;

    is_int(choices_restore(parallel, device, "/nonexistent", &err), 0,
           "a device that chooses nothing has nothing to restore");
    device->choices = choices;
    device->choose = choose;
    if (!mkdtemp(directory))
        return;
    is_int(choices_restore(parallel, device, directory, &err), 0, "the first run finds nothing");
    is(chosen, "", "and takes nothing");
    snprintf(chosen, sizeof(chosen), "for us\na 1\n");
    is_int(choices_agree(parallel, device, 1, &again, &err), 0, "one rank agrees with itself");
    is_int(again, 0, "and keeps its plans");
    is_int(remembered, 1, "for later runs, too");
    is_int(choices_keep(parallel, device, directory, &err), 0, "the choices are kept");
    snprintf(chosen, sizeof(chosen), "for us\na 2\n");
    is_int(choices_restore(parallel, device, directory, &err), 1, "the next run finds them");
    is(chosen, "for us\na 1\n", "and takes them");
    is_int(remembered, 0, "for itself");
    snprintf(path, sizeof(path), "%s/algorithms.txt", directory);
    file = fopen(path, "w");
    if (file) {
        fputs("for others\na 3\n", file);
        fclose(file);
    }
    fflush(stderr);
    if (!freopen("/dev/null", "w", stderr)) /* the warning is for people */
        return;
    is_int(choices_restore(parallel, device, directory, &err), 0,
           "choices of another GPU are no error");
    is(chosen, "for us\na 1\n", "and not taken");
    unlink(path);
    rmdir(directory);
}

int main(void)
{
    struct device_options options = {.threads = 1};
    struct comm_options world = {.size = 1, .deadline = 10};
    struct layout layout = {.tp = 1, .cp = 1, .dp = 1, .pp = 1};
    struct parallel parallel;
    struct error err;

    test_texts();
    world.device = device_open("cpu", &options, &err);
    if (ok(world.device != NULL, "a device")) {
        struct comm *comm = comm_open("self", &world, &err);

        if (ok(comm && parallel_create(&parallel, comm, &layout, &err) == 0, "a rank"))
            test_run(&parallel, world.device);
        parallel_destroy(&parallel);
        comm_close(comm);
        device_close(world.device);
    }
    return done_testing();
}
