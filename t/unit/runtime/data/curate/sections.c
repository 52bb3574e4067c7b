/* SPDX-License-Identifier: Apache-2.0 */
/* Files partitioned by bucket: what jobs write into buckets is what the jobs of the buckets read.
 */
#include "config.h"
#include "data/curate/hash.h"
#include "data/curate/spread.h"
#include "tap.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUCKETS = 7, CHUNKS = 3, ENTRIES = 2000 };

static char directory[] = "/tmp/sections-XXXXXX";

/* Hash number 'i' of a chunk. */
static struct spread_entry entry_of(size_t chunk, size_t i)
{
    return (struct spread_entry){hash_mix(chunk * ENTRIES + i), (uint32_t)(i * 3), (uint32_t)i};
}

static void write_chunk(struct jobs *engine, size_t chunk)
{
    struct job job = {.engine = engine, .phase = "hashes", .number = chunk};
    struct spread *spread = spread_create(&job, BUCKETS, NULL);
    int rc = 0;

    for (size_t i = 0; i < chunk * ENTRIES; i++) {
        struct spread_entry entry = entry_of(chunk, i);

        rc |= spread_add(spread, &entry, NULL);
    }
    ok(rc == 0 && spread_finish(spread, NULL) == 0, "chunk %zu is written", chunk);
}

static void read_buckets(const struct jobs *engine)
{
    size_t count = 0, wrong = 0;

    for (size_t bucket = 0; bucket < BUCKETS; bucket++)
        for (size_t chunk = 0; chunk < CHUNKS; chunk++) {
            struct bytes bytes = {0};
            struct spread_entry entry, expected;
            int64_t last = -1;

            if (sections_read(engine, "hashes", "hashes", chunk, bucket, &bytes, NULL) < 0)
                wrong++;
            for (size_t at = 0; at + sizeof(entry) <= bytes.size; at += sizeof(entry)) {
                memcpy(&entry, bytes.data + at, sizeof(entry));
                expected = entry_of(chunk, entry.document);
                wrong += memcmp(&entry, &expected, sizeof(entry)) != 0 ||
                         section_of(entry.hash, BUCKETS) != bucket ||
                         (int64_t)entry.document <= last;
                last = entry.document;
                count++;
            }
            bytes_clear(&bytes);
        }
    is_int((long long)wrong, 0, "each entry is in the bucket of its hash, in the order of writing");
    is_int((long long)count, (0 + 1 + 2) * ENTRIES, "  and none is missing");
}

/* Footer and tables are checked before they are believed. */
static void read_damaged(const struct jobs *engine, const char *path)
{
    struct bytes bytes = {0};
    struct error err = {.text = ""};
    struct stat status;

    stat(path, &status);
    is_int(truncate(path, status.st_size - 8), 0, "a file loses its end");
    ok(sections_read(engine, "hashes", "hashes", 2, 0, &bytes, &err) < 0, "%s", err.text);
    is_int(truncate(path, 3), 0, "  and more");
    ok(sections_read(engine, "hashes", "hashes", 2, 0, &bytes, &err) < 0, "%s", err.text);
    ok(sections_read(engine, "hashes", "hashes", 9, 0, &bytes, &err) < 0, "%s", err.text);
    bytes_clear(&bytes);
}

int main(void)
{
    struct jobs engine = {0};
    char path[256], command[256];

    if (!mkdtemp(directory))
        return 1;
    snprintf(engine.directory, sizeof(engine.directory), "%s", directory);
    snprintf(path, sizeof(path), "%s/hashes", directory);
    mkdir(path, 0777);
    for (size_t chunk = 0; chunk < CHUNKS; chunk++)
        write_chunk(&engine, chunk);
    read_buckets(&engine);
    snprintf(path, sizeof(path), "%s/hashes/hashes-2", directory);
    read_damaged(&engine, path);
    snprintf(command, sizeof(command), "rm -r '%s'", directory);
    is_int(system(command), 0, "no drafts are left open");
    return done_testing();
}
