/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "sections.h"
#include "data/jobs/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECTIONS_MAGIC 0x3154434553544144ull /* "DATSECT1" */

struct footer {
    uint64_t runs, buckets, magic;
};

int sections_create(struct sections *sections, struct job *job, const char *name, size_t buckets,
                    struct error *err)
{
    memset(sections, 0, sizeof(*sections));
    sections->buckets = buckets;
    sections->file = lines_create(job, name, 0, err);
    return sections->file ? 0 : -1;
}

void sections_next(struct sections *sections)
{
    bytes_put_u64(&sections->table, (uint64_t)lines_at(sections->file));
}

int sections_put(struct sections *sections, const void *data, size_t size, struct error *err)
{
    return lines_put(sections->file, data, size, err);
}

int sections_finish(struct sections *sections, struct error *err)
{
    struct footer footer = {sections->table.size / 8 / (sections->buckets + 1), sections->buckets,
                            SECTIONS_MAGIC};
    struct lines *file = sections->file;
    int64_t size;
    int rc = lines_put(file, sections->table.data, sections->table.size, err);

    if (rc == 0)
        rc = lines_put(file, &footer, sizeof(footer), err);
    if (rc == 0) {
        sections->file = NULL;
        rc = lines_finish(file, &size, err);
    }
    sections_abandon(sections);
    return rc;
}

void sections_abandon(struct sections *sections)
{
    lines_abandon(sections->file);
    bytes_clear(&sections->table);
    sections->file = NULL;
}

/* Read the section of one run. 'table' is the offset of the run's table. */
static int read_section(int fd, const char *path, int64_t table, size_t bucket, struct bytes *bytes,
                        struct error *err)
{
    uint64_t ends[2];
    size_t size;
    int rc =
        disk_pread(fd, ends, sizeof(ends), table + (int64_t)(bucket * sizeof(*ends)), path, err);

    if (rc != 0 || ends[1] < ends[0] || ends[1] > (uint64_t)table)
        return rc < 0 ? -1 : jobs_damaged(path, err);
    size = (size_t)(ends[1] - ends[0]);
    if (bytes_reserve(bytes, size) < 0)
        return error_set(err, "bucket %zu: out of memory", bucket);
    rc = disk_pread(fd, bytes->data + bytes->size, size, (int64_t)ends[0], path, err);
    bytes->size += size;
    return rc > 0 ? jobs_damaged(path, err) : rc;
}

int sections_read(const struct jobs *engine, const char *phase, const char *name, size_t number,
                  size_t bucket, struct bytes *bytes, struct error *err)
{
    char path[DISK_PATH];
    struct footer footer = {0, 0, 0};
    struct stat status;
    int fd, rc;

    if (jobs_path(engine, phase, name, number, path, err) < 0)
        return -1;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(err, errno, "cannot open %s", path);
    rc = fstat(fd, &status) < 0 || status.st_size < (int64_t)sizeof(footer)
             ? 1
             : disk_pread(fd, &footer, sizeof(footer), status.st_size - (int64_t)sizeof(footer),
                          path, err);
    if (rc == 0 && (footer.magic != SECTIONS_MAGIC || bucket >= footer.buckets ||
                    footer.buckets > SECTIONS_MOST || footer.runs > (uint64_t)status.st_size / 8 ||
                    footer.runs * (footer.buckets + 1) * 8 > (uint64_t)status.st_size))
        rc = 1;
    if (rc > 0)
        rc = jobs_damaged(path, err);
    for (uint64_t run = 0; rc == 0 && run < footer.runs; run++) {
        int64_t table = status.st_size - (int64_t)sizeof(footer) -
                        (int64_t)((footer.runs - run) * (footer.buckets + 1) * 8);

        rc = read_section(fd, path, table, bucket, bytes, err);
    }
    close(fd);
    return rc;
}
