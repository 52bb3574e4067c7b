/* SPDX-License-Identifier: Apache-2.0 */
/* Directories, and errors that may pass. */
#include "base/core/storage.h"
#include "../../data/dataset/corpus.h"
#include "lib/file.h"
#include "tap.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_directories(void)
{
    struct error err = {.text = ""};
    size_t existing;

    is_int(file_make_directories(scratch_path("a/b/c"), 0777), 0, "directories and their parents");
    is_int(file_make_directories(scratch_path("a/b/c/"), 0777), 0, "which exist, with a slash");
    is_int(file_make_directories("/", 0777), 0, "the root");
    ok(file_free_space("/") > 0, "free space");
    ok(file_free_space(scratch_path("nowhere")) == -1 && errno == ENOENT,
       "of a path that does not exist");
    write_file(scratch_path("plain"), "x", 1);
    ok(file_make_directories(scratch_path("plain/x"), 0777) == -1 && errno == ENOTDIR,
       "below a file there are none");
    ok(file_make_directories(scratch_path("plain"), 0777) == -1 && errno == ENOTDIR,
       "a file is not a directory");
    existing = file_existing_length(scratch_path("a/new/er/est"));
    is_int((int)existing, (int)strlen(scratch_path("a/")), "what exists of a path");
    is_int((int)file_existing_length(scratch_path("a/b")), (int)strlen(scratch_path("a/b")),
           "  all of it");
    is_int((int)file_existing_length("no-slash/below"), 0, "  nothing");
    file_make_directories(scratch_path("a/new/er/est"), 0777);
    write_file(scratch_path("a/new/kept"), "x", 1);
    file_remove_created(scratch_path("a/new/er/est"), existing);
    ok(access(scratch_path("a/new/er"), F_OK) < 0 && access(scratch_path("a/new/kept"), F_OK) == 0,
       "new directories are removed as far as they are empty");
    unlink(scratch_path("a/new/kept"));
    file_remove_created(scratch_path("a/new"), existing);
    ok(access(scratch_path("a/new"), F_OK) < 0 && access(scratch_path("a"), F_OK) == 0,
       "  and no older ones");
    is_int(file_sync_directory(scratch_path("a"), &err), 0, "a directory is synced");
    is_int(file_sync_parent(scratch_path("a/b"), &err), 0, "so is the one that holds a path");
    is_int(file_sync_parent("no-slash", &err), 0, "and the current one");
    ok(file_sync_directory(scratch_path("missing"), &err) == -1 && strstr(err.text, "cannot open"),
       "a missing one is an error");
    file_refresh_directory(scratch_path("missing"));
    file_refresh_directory(scratch_path("a"));
}

static void test_may_pass(void)
{
    static const struct {
        int number, passes;
    } rows[] = {{ENOENT, 0}, {ENOTDIR, 0}, {EACCES, 0}, {EISDIR, 0}, {0, 0},
                {EIO, 1},    {ESTALE, 1},  {ENOSPC, 1}, {EMFILE, 1}, {ENOMEM, 1}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ok(file_error_may_pass(rows[i].number) == rows[i].passes, "%s: %s",
           strerror(rows[i].number), rows[i].passes ? "may pass" : "stays");
}

int main(void)
{
    scratch_make();
    test_directories();
    test_may_pass();
    scratch_remove();
    return done_testing();
}
