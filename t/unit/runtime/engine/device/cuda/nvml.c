/* SPDX-License-Identifier: Apache-2.0 */
/* What NVML reports becomes lines with a remedy, and so does the fact that nothing was checked;
 * nothing else does. */
#include "engine/device/cuda/nvml.h"
#include "tap.h"

#include <stdlib.h>

static const char *const variables[] = {"FAKE_INIT",   "FAKE_HANDLE",  "FAKE_ECC",   "FAKE_PENDING",
                                        "FAKE_FAILED", "FAKE_REASONS", "FAKE_LINKS", "FAKE_DOWN"};

static void test_reports(const char *library)
{
    static const struct {
        const char *name;
        const char *set[2][2];
        int rc, lines;
        const char *part; /* of the lines or the error */
    } rows[] = {
        {"a good GPU", {{"FAKE_LINKS", "18"}}, 0, 0, ""},
        {"no links at all", {{NULL}}, 0, 0, ""},
        {"idle and at its power limit", {{"FAKE_REASONS", "5"}}, 0, 0, ""},
        {"memory errors", {{"FAKE_ECC", "3"}}, 0, 1, "3 memory errors"},
        {"a reset is due", {{"FAKE_PENDING", "1"}}, 0, 1, "at the next reset"},
        {"no spare rows", {{"FAKE_FAILED", "1"}, {"FAKE_PENDING", "1"}}, 0, 1, "replaced"},
        {"heat", {{"FAKE_REASONS", "72"}}, 0, 1, "hardware limit"},
        {"heat and the power brake", {{"FAKE_REASONS", "160"}}, 0, 2, "power brake"},
        {"a slowdown without a reason", {{"FAKE_REASONS", "8"}}, 0, 1, "heat or power"},
        {"links down",
         {{"FAKE_LINKS", "18"}, {"FAKE_DOWN", "2"}},
         0,
         1,
         "2 of its 18 NVLinks are down (the first is link 16)"},
        {"links that nobody uses", {{"FAKE_LINKS", "4"}, {"FAKE_DOWN", "4"}}, 0, 0, ""},
        {"no driver reached",
         {{"FAKE_INIT", "9"}},
         0,
         1,
         "its health is not checked: cannot initialize NVML: Driver Not Loaded; check "
         "nvidia-smi\n"},
        {"a GPU that CUDA alone finds",
         {{"FAKE_HANDLE", "6"}},
         0,
         1,
         "its health is not checked: NVML cannot find the GPU at 0000:53:00.0: Not Found; "
         "check nvidia-smi\n"},
        {"kernel and libraries differ", {{"FAKE_INIT", "18"}}, -1, 0, "different versions"},
        {"a lost GPU", {{"FAKE_HANDLE", "15"}}, -1, 0, "fallen off the bus"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct error err = {.text = ""};
        char text[1024];
        int rc, lines = 0;

        for (size_t v = 0; v < sizeof(variables) / sizeof(*variables); v++)
            unsetenv(variables[v]);
        for (size_t s = 0; s < 2 && rows[i].set[s][0]; s++)
            setenv(rows[i].set[s][0], rows[i].set[s][1], 1);
        rc = nvml_check(library, "0000:53:00.0", 1, text, sizeof(text), &err);
        for (const char *c = text; *c; c++)
            lines += *c == '\n';
        if (!ok(rc == rows[i].rc && lines == rows[i].lines &&
                    strstr(rc ? err.text : text, rows[i].part),
                "%s", rows[i].name))
            diag("got %d, \"%s\", \"%s\"", rc, text, err.text);
    }
}

static void test_libraries(void)
{
    static const char remedy[] =
        "; install the driver package with this library, or make it "
        "available in the container (NVIDIA_DRIVER_CAPABILITIES=compute,utility)\n";
    static const struct {
        const char *name, *library, *why;
    } rows[] = {
        {"a missing library", "/nonexistent/libnvidia-ml.so.1",
         "/nonexistent/libnvidia-ml.so.1: cannot open shared object file: No such file or "
         "directory"},
        {"a library that is another one", "libm.so.6",
         "libm.so.6 has no nvmlInit_v2, it is not the driver's library"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct error err;
        char text[1024], expected[1024];

        snprintf(expected, sizeof(expected), "its health is not checked: %s%s", rows[i].why,
                 remedy);
        ok(nvml_check(rows[i].library, "0000:53:00.0", 1, text, sizeof(text), &err) == 0,
           "%s is no error", rows[i].name);
        is(text, expected, "but a line");
        ok(nvml_check(rows[i].library, "0000:53:00.0", 0, text, sizeof(text), &err) == 0 &&
               text[0] == '\0',
           "which the first rank of a node reports for all");
    }
}

static void test_bounds(const char *library)
{
    char text[1024], name[512] = "/nonexistent/";
    struct error err;

    setenv("FAKE_HANDLE", "0", 1);
    setenv("FAKE_ECC", "3", 1);
    is_int(nvml_check(library, "0000:53:00.0", 1, text, 64, &err), 0,
           "a text too short for the line");
    is(text, "", "holds no half line");
    memset(name + strlen(name), 'x', sizeof(name) - strlen(name) - 1);
    is_int(nvml_check(name, "0000:53:00.0", 1, text, sizeof(text), &err), 0,
           "a name of any length");
    ok(strstr(text, "its health is not checked: /nonexistent/xxx") == text &&
           strstr(text, "utility)\n"),
       "is in the line as far as it fits");
}

int main(int argc, char **argv)
{
    char library[4096];

    (void)argc;
    snprintf(library, sizeof(library), "%s", argv[0]);
    if (!strrchr(library, '/'))
        return 1;
    snprintf(strrchr(library, '/') + 1, 16, "fake_nvml.so");
    test_reports(library);
    test_libraries();
    test_bounds(library);
    return done_testing();
}
