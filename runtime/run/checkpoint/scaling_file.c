/* SPDX-License-Identifier: Apache-2.0 */
#include "scaling_file.h"
#include "lib/checksum.h"
#include "directory.h"
#include "lib/file.h"
#include "engine/model/fp8_layers.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT = 1 << 30 }; /* bytes */

const char *scaling_recipe_name(int delayed, int blocks)
{
    return delayed ? "delayed" : blocks ? "blockwise" : "tensorwise";
}

const char *scaling_algorithm_name(int most_recent)
{
    return most_recent ? "most_recent" : "max";
}

int64_t scaling_file_longest(int64_t count)
{
    return (LIMIT - SCALING_HEADER) / (int64_t)sizeof(float) / count - 1;
}

int scaling_same_scales(const struct scaling_found *found, const struct scaling_rules *rules)
{
    return found->margin == rules->margin && found->most_recent == rules->most_recent;
}

/* The caller has set it to spaces. */
static void write_header(char *header, const struct scaling_rules *rules, uint64_t checksum)
{
    char text[SCALING_HEADER + 1], more[48] = "";

    if (rules->delayed)
        snprintf(more, sizeof(more), " margin %d algorithm %s", rules->margin,
                 scaling_algorithm_name(rules->most_recent));
    snprintf(text, sizeof(text),
             "megatron fp8 scales 1 %s %s count %" PRId64 " history %" PRId64
             " checksum %016" PRIx64 "%s\n",
             rules->hybrid ? "hybrid" : "e4m3", scaling_recipe_name(rules->delayed, rules->blocks),
             rules->count, rules->length, checksum, more);
    memcpy(header, text, strlen(text));
}

int scaling_file_write(const char *directory, const struct scaling_rules *rules, const float *kept,
                       struct index_scales *record, struct error *err)
{
    size_t numbers = (size_t)(rules->count * (1 + rules->length));
    size_t row = (size_t)rules->count, size = SCALING_HEADER + numbers * sizeof(float);
    char *bytes = malloc(size);
    float *to;
    int32_t position;
    int rc;

    if (!bytes)
        return error_set(err, "out of memory");
    to = (float *)(void *)(bytes + SCALING_HEADER);
    memcpy(&position, kept, sizeof(position));
    memcpy(to, kept + 1, row * sizeof(float));
    for (int64_t i = 0; i < rules->length; i++)
        memcpy(to + row + (size_t)i * row,
               kept + 1 + row + (size_t)((position + i) % rules->length) * row,
               row * sizeof(float));
    memset(bytes, ' ', SCALING_HEADER);
    write_header(bytes, rules, checksum_of(to, numbers * sizeof(float)));
    *record = (struct index_scales){(int64_t)size, checksum_of(bytes, size)};
    rc = directory_write(directory, SCALING_NAME, bytes, size, err);
    free(bytes);
    return rc;
}

/* Check everything in the file; '*count' is the number of its tensors. */
static int check(const struct file_bytes *bytes, const char *path,
                 const struct index_scales *record, struct scaling_found *found, int64_t *count,
                 struct error *err)
{
    char format[16], recipe[16] = "", algorithm[16] = "", header[SCALING_HEADER + 1] = "";
    uint64_t sum;
    size_t numbers;
    int words;

    if (bytes->length >= SCALING_HEADER)
        memcpy(header, bytes->data, SCALING_HEADER);
    words = sscanf(header,
                   "megatron fp8 scales 1 %15s %15s count %" SCNd64 " history %" SCNd64
                   " checksum %" SCNx64 " margin %d algorithm %15s",
                   format, recipe, count, &found->length, &sum, &found->margin, algorithm);
    if (words != (strcmp(recipe, "delayed") == 0 ? 7 : 5) || *count <= 0 || found->length <= 0 ||
        found->length > scaling_file_longest(*count))
        return error_set(err, "%s is not a file of fp8 scales", path);
    numbers = (size_t)(*count * (1 + found->length));
    if (bytes->length != SCALING_HEADER + numbers * sizeof(float) ||
        checksum_of(bytes->data + SCALING_HEADER, numbers * sizeof(float)) != sum ||
        (size_t)record->bytes != bytes->length ||
        record->checksum != checksum_of(bytes->data, bytes->length))
        return error_set(err, "%s has a wrong size or checksum", path);
    found->present = 1;
    found->hybrid = strcmp(format, "hybrid") == 0;
    found->delayed = strcmp(recipe, "delayed") == 0;
    found->blocks = strcmp(recipe, "blockwise") == 0;
    found->most_recent = strcmp(algorithm, scaling_algorithm_name(1)) == 0;
    return 0;
}

/* Align the last steps of both histories; the entry to replace next is the first. */
static void take_over(const struct scaling_rules *rules, const struct scaling_found *found,
                      const char *numbers, float *kept)
{
    int64_t taken = found->length < rules->length ? found->length : rules->length;
    size_t row = (size_t)rules->count * sizeof(float);

    if (scaling_same_scales(found, rules))
        memcpy(kept + 1, numbers, row);
    memcpy(kept + 1 + rules->count * (1 + rules->length - taken),
           numbers + row * (size_t)(1 + found->length - taken), row * (size_t)taken);
}

int scaling_file_read(const char *directory, const struct index_scales *record,
                      const struct scaling_rules *rules, float *kept, struct scaling_found *found,
                      struct error *err)
{
    struct file_bytes bytes;
    char path[PATH_MAX];
    int64_t count = 0;
    int rc;

    *found = (struct scaling_found){0};
    if (kept)
        memset(kept, 0, (size_t)fp8_layers_kept(rules) * sizeof(*kept));
    if (record->bytes == 0)
        return 0;
    if (directory_path(path, err, "%s/" SCALING_NAME, directory) < 0)
        return -1;
    if (file_read(path, LIMIT, &bytes, err) < 0)
        return index_fault(errno, err);
    rc = check(&bytes, path, record, found, &count, err);
    if (rc == 0 && kept && count != rules->count)
        rc = error_set(err, "%s has %" PRId64 " tensors instead of %" PRId64, path, count,
                       rules->count);
    if (rc == 0 && kept && rules->delayed && found->delayed && found->hybrid == rules->hybrid)
        take_over(rules, found, bytes.data + SCALING_HEADER, kept);
    file_bytes_clear(&bytes);
    return rc < 0 ? index_damaged(err) : 0;
}
