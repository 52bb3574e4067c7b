/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "wiki_words.h"
#include "data/corpus/wiki.h"
#include "data/corpus/corpus.h"

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIPE_ROOM 65536

int wiki_words_options(const struct wiki_words *words, struct wiki_options *options,
                       struct error *err)
{
    memset(options, 0, sizeof(*options));
    options->style = words->style;
    options->math = words->math;
    options->tables = words->tables;
    options->no_title = words->no_title;
    options->redirects = words->redirects;
    options->min_length = words->min_length;
    /* WikiExtractor keeps them. */
    options->disambiguations =
        words->disambiguations >= 0 ? words->disambiguations : words->style == WIKI_EXTRACTOR;
    if (words->style == WIKI_EXTRACTOR && (words->math || words->tables || words->no_title))
        return error_set_code(err, ERROR_USAGE,
                              "--wiki-math, --wiki-tables and --wiki-no-title require --wiki-style "
                              "clean; change it, or drop them");
    if (words->namespaces && wiki_options_namespaces(options, words->namespaces, err) < 0)
        return error_prefix(err, "--wiki-namespaces");
    return 0;
}

int wiki_words_given(const struct options_result *result, struct error *err)
{
    static const char *const names[] = {"wiki-style",           "wiki-math",       "wiki-tables",
                                        "wiki-no-title",        "wiki-namespaces", "wiki-redirects",
                                        "wiki-disambiguations", "wiki-min-length"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (options_given(result, names[i]))
            return error_set_code(err, ERROR_USAGE,
                                  "--%s requires --input-format mediawiki; add it", names[i]);
    return 0;
}

static int is_dump(const char *path)
{
    struct source *source = source_open(path, CODEC_UNKNOWN, -1, 0, SOURCE_TO_END, NULL);
    char begin[4096];
    size_t have = 0;
    ssize_t more = 1;

    while (source && have < sizeof(begin) && more > 0) {
        more = source_read(source, begin + have, sizeof(begin) - have, NULL);
        have += more > 0 ? (size_t)more : 0;
    }
    source_close(source);
    return mediawiki_is_dump(begin, have);
}

/* Look at the data that waits in a pipe without consuming it. For .bz2 that is rarely enough: its
 * blocks are larger than a pipe's buffer. */
static int is_dump_on_pipe(void)
{
    int ends[2], file = -1, answer = 0;
    ssize_t waiting;
    char path[64];

    if (pipe(ends) < 0)
        return 0;
    waiting = tee(STDIN_FILENO, ends[1], PIPE_ROOM, 0);
    if (waiting > 0)
        file = memfd_create("start", MFD_CLOEXEC);
    if (file >= 0 && splice(ends[0], NULL, file, NULL, (size_t)waiting, 0) > 0) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
        answer = is_dump(path);
    }
    if (file >= 0)
        close(file);
    close(ends[0]);
    close(ends[1]);
    return answer;
}

static int is_dump_on_input(void)
{
    struct stat status;

    if (fstat(STDIN_FILENO, &status) < 0)
        return 0;
    /* Open the file again, so that standard input is still read from its start. */
    if (S_ISREG(status.st_mode))
        return is_dump("/proc/self/fd/0");
    return S_ISFIFO(status.st_mode) && is_dump_on_pipe();
}

/* Is the first file of a directory a dump? */
static int is_dump_in(const char *directory)
{
    struct dirent **names = NULL;
    int count = scandir(directory, &names, NULL, alphasort), answer = 0, found = 0;

    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        struct stat status;

        snprintf(path, sizeof(path), "%s/%s", directory, names[i]->d_name);
        if (!found && names[i]->d_name[0] != '.' && stat(path, &status) == 0 &&
            S_ISREG(status.st_mode)) {
            answer = is_dump(path);
            found = 1;
        }
        free(names[i]);
    }
    free(names);
    return answer;
}

int wiki_words_detect(const char *const *inputs, size_t count)
{
    struct stat status;
    glob_t found;
    int answer = 0;

    if (count == 0)
        return 0;
    if (strcmp(inputs[0], "-") == 0)
        return is_dump_on_input();
    if (stat(inputs[0], &status) == 0)
        return S_ISDIR(status.st_mode)   ? is_dump_in(inputs[0])
               : S_ISREG(status.st_mode) ? is_dump(inputs[0])
                                         : 0;
    if (glob(inputs[0], 0, NULL, &found) != 0)
        return 0;
    if (found.gl_pathc > 0 && stat(found.gl_pathv[0], &status) == 0 && S_ISREG(status.st_mode))
        answer = is_dump(found.gl_pathv[0]);
    globfree(&found);
    return answer;
}
