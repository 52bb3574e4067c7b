/* SPDX-License-Identifier: Apache-2.0 */
/* The importer as a program: what it prints, and how that is handled. */
#include "container.h"
#include "lib/file.h"
#include "container/importer.h"

#include <string.h>
#include <sys/stat.h>

static char lines[1024];

static void add_line(void *argument, const char *line)
{
    (void)argument;
    snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "<%s>", line);
}

static void test_get(void)
{
    static const struct {
        const char *script, *path, *lines, *error;
        int64_t timeout;
    } rows[] = {
        {"echo /some/image.sqsh", "/some/image.sqsh", "", NULL, 60},
        {"echo 'half way' >&2; echo /i.sqsh", "/i.sqsh", "<half way>", NULL, 60},
        {"echo 'megatron: note: a' >&2; echo 'megatron: warning: b' >&2; echo /i", "/i",
         "<a><warning: b>", NULL, 60},
        {"echo progress >&2; echo 'error: no such image' >&2; exit 3", "", "<progress>",
         "get docker://x` failed (exit code 3): no such image", 60},
        {"exit 4", "", "", "get docker://x` failed (exit code 4)", 60},
        {"kill -KILL $$", "", "", "get docker://x` was killed by signal 9; it probably ran out",
         60},
        {"echo image.sqsh", "", "", "printed \"image.sqsh\" instead of the path", 60},
        {"echo /a; echo /b", "", "", "printed \"/a...\" instead of the path", 60},
        {":", "", "", "printed \"\" instead of the path", 60},
        {"[ \"$1 $2 $#\" = 'get docker://x 2' ] && echo /right", "/right", "", NULL, 60},
        {"exec sleep 60", "", "", "took longer than 1 seconds; raise it", 1},
    };
    char program[256], script[512];
    const struct importer base = {
        .program = program, .uri = "docker://x", .timeout_remedy = "raise it", .say = add_line};

    snprintf(program, sizeof(program), "%s/importer", directory);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct importer importer = base;
        char path[256] = "";
        int rc;

        snprintf(script, sizeof(script), "#!/bin/sh\n%s\n", rows[i].script);
        unlink(program);
        write_file(program, script, strlen(script));
        chmod(program, 0700);
        lines[0] = '\0';
        importer.timeout = rows[i].timeout;
        rc = importer_get(&importer, path, sizeof(path), &err);
        is_int(rc, rows[i].error ? -1 : 0, rows[i].script);
        is(rc == 0 ? path : "", rows[i].path, "path");
        is(lines, rows[i].lines, "lines that are relayed");
        if (rows[i].error)
            ok(strstr(err.text, rows[i].error) != NULL, "error: %s", err.text);
    }
    unlink(program);
    is_int(importer_get(&base, script, sizeof(script), &err), -1, "no importer");
    ok(strstr(err.text, "cannot run the image importer") != NULL &&
           strstr(err.text, "install megatron on this host") != NULL,
       "error: %s", err.text);
}

static void test_stop(void)
{
    static const char script[] = "#!/bin/sh\ntrap 'echo x >\"${0%/*}/undone\"; exit' TERM\n"
                                 "sleep 60 & wait\n";
    stop_flag stop = 1;
    char program[256], path[256];
    const struct importer importer = {
        .program = program, .uri = "docker://x", .timeout = 60, .stop = &stop};

    snprintf(program, sizeof(program), "%s/importer", directory);
    write_file(program, script, strlen(script));
    chmod(program, 0700);
    is_int(importer_get(&importer, path, sizeof(path), &err), -1, "a step that ends");
    is(err.text, STOPPED, "stops the importer");
    unlink(program);
}

int main(void)
{
    if (!mkdtemp(directory))
        return 1;
    test_get();
    test_stop();
    return finish();
}
