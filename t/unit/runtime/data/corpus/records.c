/* SPDX-License-Identifier: Apache-2.0 */
/* Every record has exactly one owner, whatever the cuts and the codec: files of random lines are
 * compressed by the usual programs, cut at random places, and put together again. */
#include "config.h"
#include "data/corpus/records.h"
#include "tap.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char directory[] = "/tmp/records.XXXXXX";
static uint64_t seed = 12345;

static uint32_t random_below(uint32_t limit)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % limit;
}

static void write_file(const char *path, const char *data, size_t size)
{
    FILE *file = fopen(path, "w");

    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        perror(path);
}

/* Run 'program' with standard input and output redirected. Returns 1 if it exists and succeeds. */
static int filter(const char *const *argv, const char *in, const char *out)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status = -1, rc;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, in, O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, out, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    rc = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (rc != 0 || waitpid(pid, &status, 0) != pid)
        return 0;
    return status == 0;
}

/* Read 'segments' and write all records, each with an end mark, into a new string. */
static char *collect(const struct corpus_files *files, const struct segment *segments, size_t count,
                     enum record_mode mode, size_t block_size, size_t max_record, size_t *length,
                     int64_t *lines, struct error *err)
{
    char *text = NULL;
    FILE *stream = open_memstream(&text, length);
    struct record_block block = {0};
    struct record_reader *reader =
        record_reader_create(files, segments, count, mode, block_size, max_record);
    int64_t *counts = calloc(count, sizeof(*counts));
    int rc;

    *lines = 0;
    while ((rc = record_reader_next(reader, &block, err)) > 0) {
        struct record_cursor cursor = {0, 0};
        struct record record;

        counts[block.segment] = block.first_line + block.lines;
        if (block.too_long)
            fprintf(stream, "<too long at %lld>\x1e", (long long)block.first_line);
        while (!block.too_long && record_next(mode, &block, &cursor, &record)) {
            fwrite(record.data, 1, record.size, stream);
            fputc('\x1e', stream);
        }
    }
    for (size_t i = 0; i < count; i++)
        *lines += counts[i];
    free(counts);
    record_reader_destroy(reader);
    record_block_clear(&block);
    fclose(stream);
    if (rc < 0) {
        free(text);
        return NULL;
    }
    return text;
}

static char *make_lines(size_t size, size_t longest, size_t *length, int last_newline)
{
    char *text = malloc(size + longest + 1);
    size_t used = 0;

    while (used < size) {
        size_t line = random_below(8) == 0 ? random_below((uint32_t)longest) : random_below(80);

        for (size_t i = 0; i < line; i++)
            text[used++] = (char)('a' + random_below(26));
        text[used++] = '\n';
    }
    *length = used - !last_newline;
    return text;
}

static int64_t size_of(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 ? status.st_size : -1;
}

/* Cut a file at random and compare the records of all pieces with those of the whole. */
static void test_cuts(const char *name, const char *path, const char *expected, size_t length,
                      int64_t lines, int must_cut)
{
    struct corpus_files files;
    struct error err = {.text = ""};
    int good = 1;

    if (corpus_files_find(&files, (const char *const[]){path}, 1, NULL, &err) < 0) {
        ok(0, "%s: %s", name, err.text);
        return;
    }
    ok(source_can_cut(path, files.items[0].codec, files.items[0].size) == must_cut,
       "%s can%s be cut", name, must_cut ? "" : "not");
    /* A file that cannot be cut is read as a whole; only the size of the buffer varies. */
    for (int round = 0; round < repetitions(must_cut ? 12 : 4) && good; round++) {
        struct segment segments[16];
        size_t count = must_cut && round > 0 ? 1 + random_below(15) : 1;
        int64_t size = files.items[0].size;
        size_t got_length = 0;
        int64_t got_lines, begin = 0;
        char *got;

        for (size_t i = 0; i < count; i++) {
            int64_t end = begin + 1 + random_below((uint32_t)(2 * size / (int64_t)count));

            if (end > size || i + 1 == count)
                end = size;
            segments[i] = (struct segment){0, begin, end};
            begin = end;
        }
        got = collect(&files, segments, count, RECORD_LINE, 1000 + random_below(70000), 1 << 20,
                      &got_length, &got_lines, &err);
        good =
            got && got_length == length && memcmp(got, expected, length) == 0 && got_lines == lines;
        if (!good)
            diag("%s in %zu pieces: %zu bytes of %zu, %lld lines of %lld %s", name, count,
                 got_length, length, (long long)got_lines, (long long)lines, err.text);
        free(got);
    }
    ok(good, "%s: every line once, in order, for random cuts", name);
    corpus_files_clear(&files);
}

/* Cut short and damaged files are errors with the file's name. */
static void test_damage(const char *name, const char *path)
{
    int64_t size = size_of(path);
    char *bytes = malloc((size_t)size);
    FILE *file = fopen(path, "r");
    const char *bad = "bad";
    struct segment segment = {0, 0, SOURCE_TO_END};
    struct corpus_files files;
    struct error err = {.text = ""};
    size_t length;
    int64_t lines;
    char *got;

    if (fread(bytes, 1, (size_t)size, file) != (size_t)size)
        perror(path);
    fclose(file);
    write_file(bad, bytes, (size_t)size - 5);
    corpus_files_find(&files, (const char *const[]){bad}, 1, NULL, &err);
    got = collect(&files, &segment, 1, RECORD_LINE, 65536, 1 << 20, &length, &lines, &err);
    ok(!got && strstr(err.text, bad) && strstr(err.text, "truncated"), "%s cut short: %s", name,
       err.text);
    free(got);
    corpus_files_clear(&files);
    for (int64_t i = size / 2; i < size / 2 + 40; i++)
        bytes[i] ^= 0x55;
    write_file(bad, bytes, (size_t)size);
    err.text[0] = '\0';
    corpus_files_find(&files, (const char *const[]){bad}, 1, NULL, &err);
    got = collect(&files, &segment, 1, RECORD_LINE, 65536, 1 << 20, &length, &lines, &err);
    ok(!got && strstr(err.text, bad) && strstr(err.text, "corrupt"), "%s damaged: %s", name,
       err.text);
    free(got);
    corpus_files_clear(&files);
    free(bytes);
}

static void test_codecs(void)
{
    static const struct {
        const char *name;
        const char *argv[6];
        int cut;
    } rows[] = {
        {"plain", {"cat"}, 1},
        {"gzip", {"gzip", "-1"}, 0},
#ifdef HAVE_LZMA
        {"xz of one block", {"xz", "-0", "-T1"}, 0},
        {"xz of many blocks", {"xz", "-0", "--block-size=100000"}, 1},
#endif
#ifdef HAVE_ZSTD
        {"zstd", {"zstd", "-q", "-1"}, 0},
#endif
        {"bzip2", {"bzip2", "-1"}, 1},
    };
    size_t size, length;
    char *text = make_lines(1500000, 30000, &size, 0), *expected;
    const char *plain = "plain";
    struct segment whole = {0, 0, SOURCE_TO_END};
    struct corpus_files files;
    struct error err = {.text = ""};
    int64_t lines;

    write_file(plain, text, size);
    corpus_files_find(&files, (const char *const[]){plain}, 1, NULL, &err);
    expected = collect(&files, &whole, 1, RECORD_LINE, 1 << 20, 1 << 20, &length, &lines, &err);
    corpus_files_clear(&files);
#ifndef HAVE_LZMA
    skip("xz", "built without liblzma");
#endif
#ifndef HAVE_ZSTD
    skip("zstd", "built without libzstd");
#endif
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *packed = "packed";

        if (!filter(rows[i].argv, plain, packed)) {
            skip(rows[i].name, "the program that compresses is not installed");
            continue;
        }
        test_cuts(rows[i].name, packed, expected, length, lines, rows[i].cut);
        if (i > 0)
            test_damage(rows[i].name, packed);
    }
    free(text);
    free(expected);
}

/* Several frames, streams and members put together, as pzstd, pbzip2, bgzip and cat make them. */
struct joining {
    const char *name;
    const char *argv[4];
    int bgzf;    /* give members of gzip the header of BGZF: all, if 1, or all but each n-th */
    int padding; /* zeros at the end */
    int cut;
    size_t damaged_piece; /* so many bytes that a damaged one still has a line; 0: not tried */
};

static const struct joining joinings[] = {
#ifdef HAVE_ZLIB
    {"members of gzip", {"gzip", "-1n"}, 0, 0, 0, 0},
    {"BGZF", {"gzip", "-1n"}, 1, 0, 1, 40000},
    {"BGZF with zeros behind", {"gzip", "-1n"}, 1, 600, 1, 0},
    {"BGZF and gzip", {"gzip", "-1n"}, 6, 0, 1, 0},
#endif
#ifdef HAVE_LZMA
    {"streams of xz", {"xz", "-0"}, 0, 0, 1, 0},
#endif
#ifdef HAVE_ZSTD
    {"frames of zstd", {"zstd", "-q", "-1"}, 0, 0, 1, 300000},
#endif
    {"streams of bzip2", {"bzip2", "-1"}, 0, 0, 1, 300000},
};

enum { GZIP_HEADER = 10, BGZF_EXTRA = 8 };

/* Pack 'size' bytes and append them to 'joined'. */
static int append_packed(FILE *joined, const struct joining *how, const char *text, size_t size,
                         int bgzf)
{
    const char *packed = "packed";
    size_t packed_size, header = bgzf ? GZIP_HEADER : 0, length;
    unsigned char *bytes;
    FILE *file;
    int good;

    write_file("piece", text, size);
    if (!filter(how->argv, "piece", packed))
        return 0;
    packed_size = (size_t)size_of(packed);
    bytes = malloc(packed_size);
    file = fopen(packed, "r");
    good = fread(bytes, 1, packed_size, file) == packed_size;
    fclose(file);
    if (bgzf) {
        length = packed_size + BGZF_EXTRA - 1;
        bytes[3] = 4; /* there is an extra field, which tells the length of the member */
        fwrite(bytes, 1, GZIP_HEADER, joined);
        fwrite((unsigned char[]){6, 0, 'B', 'C', 2, 0, length & 255, length >> 8 & 255}, 1,
               BGZF_EXTRA, joined);
    }
    fwrite(bytes + header, 1, packed_size - header, joined);
    free(bytes);
    return good;
}

/* Make the file "joined" of pieces that end anywhere, also within a line. */
static int join(const struct joining *how, const char *text, size_t size, size_t longest)
{
    FILE *joined = fopen("joined", "w");
    int good = 1;

    for (int i = 1; size > 0 && good; i++) {
        size_t piece = longest / 2 + random_below((uint32_t)longest / 2);

        if (piece > size)
            piece = size;
        good = append_packed(joined, how, text, piece,
                             how->bgzf == 1 || (how->bgzf > 1 && i % how->bgzf != 0));
        text += piece;
        size -= piece;
    }
    for (int i = 0; i < how->padding; i++)
        fputc(0, joined);
    fclose(joined);
    return good;
}

static void test_joined(void)
{
    size_t size, length;
    char *text = make_lines(400000, 9000, &size, 1), *expected;
    struct segment whole = {0, 0, SOURCE_TO_END};
    struct corpus_files files;
    struct error err = {.text = ""};
    int64_t lines;

    write_file("plain", text, size);
    corpus_files_find(&files, (const char *const[]){"plain"}, 1, NULL, &err);
    expected = collect(&files, &whole, 1, RECORD_LINE, 1 << 20, 1 << 20, &length, &lines, &err);
    corpus_files_clear(&files);
    for (size_t i = 0; i < sizeof(joinings) / sizeof(joinings[0]); i++)
        if (join(&joinings[i], text, size, 20000))
            test_cuts(joinings[i].name, "joined", expected, length, lines, joinings[i].cut);
    free(text);
    free(expected);
}

/* Read the file in two segments, for every 24th of it. Returns how often no error was found. */
static int count_unnoticed(const char *path)
{
    struct corpus_files files;
    struct error err = {.text = ""};
    int unnoticed = 0;

    corpus_files_find(&files, (const char *const[]){path}, 1, NULL, &err);
    for (int i = 1; i < 24; i++) {
        int64_t size = files.items[0].size, cut = size * i / 24, lines;
        struct segment segments[2] = {{0, 0, cut}, {0, cut, size}};
        size_t length;
        char *got;

        err.text[0] = '\0';
        got = collect(&files, segments, 2, RECORD_LINE, 4096, 1 << 20, &length, &lines, &err);
        if (got || !strstr(err.text, path)) {
            diag("cut at %lld of %lld: %s", (long long)cut, (long long)size, err.text);
            unnoticed++;
        }
        free(got);
    }
    corpus_files_clear(&files);
    return unnoticed;
}

/* A damaged unit that comes first in its segment is somebody's, too. */
static void test_joined_damage(void)
{
    size_t size;
    char *text = make_lines(1000000, 100, &size, 1);

    for (size_t i = 0; i < sizeof(joinings) / sizeof(joinings[0]); i++) {
        const struct joining *how = &joinings[i];
        char noise[40];
        FILE *file;

        if (how->damaged_piece == 0 || !join(how, text, size, how->damaged_piece))
            continue;
        if (truncate("joined", size_of("joined") - 100) < 0)
            perror("joined");
        ok(count_unnoticed("joined") == 0, "%s cut short: noticed wherever it is cut", how->name);
        if (!join(how, text, size, how->damaged_piece))
            continue;
        memset(noise, 0x55, sizeof(noise));
        file = fopen("joined", "r+");
        fseek(file, (long)size_of("joined") / 2, SEEK_SET);
        fwrite(noise, 1, sizeof(noise), file);
        fclose(file);
        ok(count_unnoticed("joined") == 0, "%s damaged: noticed wherever it is cut", how->name);
    }
    free(text);
}

/* A file that begins with a byte order mark, cut at every place: the same lines. */
static void test_cut_mark(void)
{
    static const char text[] = "\xef\xbb\xbf"
                               "one\ntwo\n";
    struct corpus_files files;
    struct error err = {.text = ""};

    write_file("marked", text, sizeof(text) - 1);
    corpus_files_find(&files, (const char *const[]){"marked"}, 1, NULL, &err);
    for (int64_t at = 1; at < (int64_t)sizeof(text) - 1; at++) {
        struct segment cut[2] = {{0, 0, at}, {0, at, SOURCE_TO_END}};
        size_t length;
        int64_t lines;
        char *got = collect(&files, cut, 2, RECORD_LINE, 64, 1000, &length, &lines, &err);

        is(got, "one\x1etwo\x1e", "a marked file that is cut");
        free(got);
    }
    corpus_files_clear(&files);
}

/* A dump with another tag that begins like <page>, cut at every place, wherever a block ends: the
 * same pages. */
static void test_cut_pages(void)
{
    static const char text[] = "<mediawiki><page><title>A</title><pages/> b<page1 c</page>\n"
                               "<page>d <pagex e</page><page>f</page></mediawiki>";
    struct corpus_files files;
    struct error err = {.text = ""};
    unsigned different = 0;

    write_file("pages", text, sizeof(text) - 1);
    corpus_files_find(&files, (const char *const[]){"pages"}, 1, NULL, &err);
    for (size_t block = 16; block < 80; block++)
        for (int64_t at = 1; at < (int64_t)sizeof(text) - 1; at++) {
            struct segment whole = {0, 0, SOURCE_TO_END};
            struct segment cut[2] = {{0, 0, at}, {0, at, SOURCE_TO_END}};
            size_t length;
            int64_t lines;
            char *one = collect(&files, &whole, 1, RECORD_PAGE, 4096, 4096, &length, &lines, &err);
            char *two = collect(&files, cut, 2, RECORD_PAGE, block, 4096, &length, &lines, &err);

            different += !one || !two || strcmp(one, two) != 0;
            free(one);
            free(two);
        }
    is_int(different, 0, "pages of a dump that is cut");
    corpus_files_clear(&files);
}

/* Records of text: input, mode, expected records. */
static void test_modes(void)
{
    static const struct {
        const char *input, *expected;
        enum record_mode mode;
    } rows[] = {
        {"a\nb\n\n \nc", "a|b|c|", RECORD_LINE},
        {"\xef\xbb\xbf"
         "a\r\nb\r\n",
         "a|b|", RECORD_LINE},
        {"", "", RECORD_LINE},
        {"\n\n\n", "", RECORD_JSON},
        {"a\nb\n\n\nc\n \nd", "a\nb|c|d|", RECORD_BLANK},
        {"\n\na\n\n", "a|", RECORD_BLANK},
        {" \n = One = \n \n text <unk> \n = = Part = = \n more \n = Two = \n \n end\n",
         " = One = \n \n text <unk> \n = = Part = = \n more | = Two = \n \n end|", RECORD_TITLE},
        {"before\n = A = \nx", "before| = A = \nx|", RECORD_TITLE},
        {"a = b = c\n", "a = b = c|", RECORD_TITLE},
        {"all\n\nof it\n", "all\n\nof it\n|", RECORD_FILE},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (size_t block = 1; block < 64; block += 7) {
            const char *path = "text";
            char *got;
            struct corpus_files files;
            struct segment whole = {0, 0, SOURCE_TO_END};
            struct error err = {.text = ""};
            size_t length;
            int64_t lines;

            write_file(path, rows[i].input, strlen(rows[i].input));
            corpus_files_find(&files, (const char *const[]){path}, 1, NULL, &err);
            got = collect(&files, &whole, 1, rows[i].mode, block, 1000, &length, &lines, &err);
            for (size_t k = 0; got && k < length; k++)
                got[k] = got[k] == '\x1e' ? '|' : got[k];
            if (block == 1 || !got || strcmp(got, rows[i].expected) != 0)
                is(got, rows[i].expected, "records of a text");
            free(got);
            corpus_files_clear(&files);
        }
}

static void test_too_long(void)
{
    static const struct {
        enum record_mode mode;
        const char *before, *after, *expected;
    } rows[] = {
        {RECORD_LINE, "a\n", "\nb\n", "a|<too long at 1>|b|"},
        {RECORD_LINE, "", "", "<too long at 0>|"},
        {RECORD_JSON, "\n\n", "\nb", "<too long at 2>|b|"},
        {RECORD_BLANK, "a\n\nb\n", "\nc\n\nd\n", "a|<too long at 2>|d|"},
        {RECORD_TITLE, " = A = \nb\n", "\nc\n = B = \nd\n", "<too long at 0>| = B = \nd|"},
        {RECORD_FILE, "a\n", "\nb\n", "<too long at 0>|"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *path = "text";
        char *got;
        FILE *file = fopen(path, "w");
        struct corpus_files files;
        struct segment whole = {0, 0, SOURCE_TO_END};
        struct error err = {.text = ""};
        size_t length;
        int64_t lines;

        fputs(rows[i].before, file);
        for (int k = 0; k < 100000; k++)
            fputc('x', file);
        fputs(rows[i].after, file);
        fclose(file);
        corpus_files_find(&files, (const char *const[]){path}, 1, NULL, &err);
        got = collect(&files, &whole, 1, rows[i].mode, 100, 5000, &length, &lines, &err);
        for (size_t k = 0; got && k < length; k++)
            got[k] = got[k] == '\x1e' ? '|' : got[k];
        is(got, rows[i].expected, "a record of 100000 bytes where 5000 are allowed");
        free(got);
        corpus_files_clear(&files);
    }
}

static void test_files(void)
{
    static const char *const names[] = {"d/b.jsonl", "d/a.jsonl", "d/e/c.jsonl", "d/.hidden",
                                        "d/x[1].jsonl"};
    static const struct {
        const char *words[2], *expected;
    } rows[] = {
        {{"d"}, "d/a.jsonl d/b.jsonl d/e/c.jsonl d/x[1].jsonl "},
        {{"d/*.jsonl"}, "d/a.jsonl d/b.jsonl d/x[1].jsonl "},
        {{"d/b.jsonl", "d/a.jsonl"}, "d/b.jsonl d/a.jsonl "},
        {{"d/x[1].jsonl"}, "d/x[1].jsonl "},
        {{"d/z*"}, "no file matches d/z*; check the pattern and its directories"},
        {{"d/none"}, "cannot read d/none: No such file or directory; check the path"},
        {{"-", "d"}, "standard input must be the only input; drop the other files, or the -"},
        {{"empty"}, "directory empty contains no files; name one with input files"},
        {{"/dev/null"}, "/dev/null is neither a file nor a directory; use --input - for a pipe"},
    };

    mkdir("d", 0755);
    mkdir("d/e", 0755);
    mkdir("empty", 0755);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        write_file(names[i], "x", 1);
    ok(symlink("nowhere", "d/y.jsonl") == 0 && mkfifo("d/z", 0600) == 0, "no files, too");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct corpus_files files;
        struct error err = {.text = ""};
        char got[sizeof(err.text)] = "";
        size_t count = rows[i].words[1] ? 2 : 1;

        if (corpus_files_find(&files, rows[i].words, count, NULL, &err) < 0)
            snprintf(got, sizeof(got), "%s", err.text);
        else
            for (size_t k = 0; k < files.count; k++)
                snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s ", files.items[k].path);
        is(got, rows[i].expected, rows[i].words[0]);
        corpus_files_clear(&files);
    }
}

static void clean_up(void)
{
    const char *const argv[] = {"rm", "-rf", directory, NULL};
    pid_t pid;

    if (posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ) == 0)
        waitpid(pid, NULL, 0);
}

int main(void)
{
    if (!mkdtemp(directory) || chdir(directory) < 0)
        return skip_all("no temporary directory");
    test_files();
    test_cut_mark();
    test_cut_pages();
    test_modes();
    test_too_long();
    test_codecs();
    test_joined();
    test_joined_damage();
    clean_up();
    return done_testing();
}
