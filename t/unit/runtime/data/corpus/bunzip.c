/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder of bzip2 against the program: runs, all bytes, several streams, damage in every part.
 */
#include "config.h"
#include "data/corpus/source.h"
#include "tap.h"

#include <stdlib.h>
#include <unistd.h>

static char directory[] = "/tmp/bunzip.XXXXXX";
static uint64_t seed = 7;

static uint32_t random_below(uint32_t limit)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % limit;
}

static void put(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "w");

    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        perror(path);
}

static size_t get(const char *path, unsigned char *data, size_t room)
{
    FILE *file = fopen(path, "r");
    size_t size = file ? fread(data, 1, room, file) : 0;

    if (file)
        fclose(file);
    return size;
}

/* Read a file from the first block after the byte 'begin' on. Returns its size, or -1 with the
 * error. */
static ssize_t read_from(const char *path, int64_t begin, unsigned char *to, size_t room,
                         struct error *err)
{
    struct source *source = source_open(path, CODEC_BZIP2, -1, begin, SOURCE_TO_END, err);
    ssize_t count = source ? 1 : -1;
    size_t have = 0;

    while (count > 0 && have < room) {
        count = source_read(source, to + have, room - have, err);
        have += count > 0 ? (size_t)count : 0;
    }
    source_close(source);
    return count < 0 ? -1 : (ssize_t)have;
}

static ssize_t read_all(const char *path, unsigned char *to, size_t room, struct error *err)
{
    return read_from(path, 0, to, room, err);
}

int main(void)
{
    enum { SIZE = 1200000, ROOM = 4 << 20 };
    unsigned char *text = malloc(SIZE), *packed = malloc(ROOM), *out = malloc(ROOM);
    char plain[64], file[64], command[256];
    struct error err = {.text = ""};
    size_t size;
    int silent = 0, unnamed = 0, wrong = 0;

    if (!mkdtemp(directory))
        return 1;
    snprintf(plain, sizeof(plain), "%s/a", directory);
    snprintf(file, sizeof(file), "%s/a.bz2", directory);
    snprintf(command, sizeof(command), "bzip2 -c -1 %s >%s", plain, file);
    for (int kind = 0; kind < 5; kind++) {
        static const char *const names[] = {"nothing", "random bytes", "one byte", "runs", "text"};
        size_t length = kind == 0 ? 0 : SIZE;

        for (size_t i = 0; i < length; i++)
            text[i] = kind == 1   ? (unsigned char)random_below(256)
                      : kind == 2 ? 'x'
                      : kind == 3
                          ? (unsigned char)(i / (1 + i % 300) % 3 + 'a')
                          : (unsigned char)"etaoin shrdlu\n"[random_below(1 + random_below(14))];
        put(plain, text, length);
        if (system(command) != 0)
            return 1;
        ok(read_all(file, out, ROOM, &err) == (ssize_t)length &&
               (length == 0 || memcmp(out, text, length) == 0),
           "%s", names[kind]);
    }
    size = get(file, packed, ROOM / 2);
    for (int i = 1; i < 12; i++) {
        ssize_t have = read_from(file, (int64_t)size * i / 12, out, ROOM, &err);

        wrong += have < 0 || have > SIZE || memcmp(out, text + SIZE - have, (size_t)have) != 0;
    }
    ok(wrong == 0, "from any block on (%d wrong)", wrong);
    packed[size / 2] ^= 1;
    put(file, packed, size);
    ok(read_from(file, (int64_t)size / 3, out, ROOM, &err) < 0, "damage after the first block");
    packed[size / 2] ^= 1;
    memcpy(packed + size, packed, size);
    put(file, packed, 2 * size);
    ok(read_all(file, out, ROOM, &err) == 2 * SIZE && memcmp(out + SIZE, text, SIZE) == 0,
       "two streams");
    for (int i = 0; i < 60; i++) {
        size_t at = i < 20 ? (size_t)i * 2 : random_below((uint32_t)size);
        unsigned char bit = (unsigned char)(1u << random_below(8));

        packed[at] ^= bit;
        put(file, packed, size);
        err.text[0] = '\0';
        if (at != 3 &&
            read_all(file, out, ROOM, &err) >= 0) /* the size of blocks means nothing here */
            silent++;
        unnamed += at != 3 && !strstr(err.text, file);
        packed[at] ^= bit;
    }
    ok(silent == 0, "60 flipped bits are all noticed (%d not)", silent);
    ok(unnamed == 0, "and told with the name of the file");
    for (int i = 0; i < 60; i++) {
        size_t length = i < 20 ? (size_t)i : random_below((uint32_t)size);

        put(file, packed, length);
        silent += read_all(file, out, ROOM, &err) >= 0;
        unnamed += !strstr(err.text, "is truncated");
    }
    ok(silent == 0, "files that are cut are all noticed (%d not)", silent);
    ok(unnamed == 0, "and called truncated (%d not)", unnamed);
    unlink(plain);
    unlink(file);
    rmdir(directory);
    free(text);
    free(packed);
    free(out);
    return done_testing();
}
