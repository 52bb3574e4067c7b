/* SPDX-License-Identifier: Apache-2.0 */
/* The file is LevelDB's log format: blocks of 32 KiB, in which records (protocol buffers of type
 * Record) are stored whole or in parts, each with a checksum, its length and its kind. */
#include "config.h"
#include "wandb_file.h"
#include "append_file.h"
#include "lib/clock.h"
#include "base/core/crc.h"
#include "base/core/storage.h"
#include "base/core/xmalloc.h"
#include "message.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 32768, HEAD = 7, ID_LENGTH = 8 };

/* Kinds of parts. */
enum { PART_WHOLE = 1, PART_FIRST, PART_MIDDLE, PART_LAST };

/* Fields of Record. */
enum {
    RECORD_NUMBER = 1,
    RECORD_HISTORY = 2,
    RECORD_RUN = 17,
    RECORD_EXIT = 18,
    RECORD_HEADER = 21
};

struct wandb_file {
    struct append_file *records;
    size_t at; /* in the file */
    uint64_t number;
    double began;
    char directory[1024];
    /* The step that is being collected. */
    struct message items;
    int64_t step;
    int open;
};

static void add_part(struct wandb_file *file, int kind, const unsigned char *data, size_t size)
{
    const unsigned char type = (unsigned char)kind;
    uint32_t sum = crc32_of(crc32_of(0, &type, 1), data, size);
    unsigned char part[BLOCK];

    for (int i = 0; i < 4; i++)
        part[i] = (unsigned char)(sum >> (8 * i));
    part[4] = (unsigned char)size;
    part[5] = (unsigned char)(size >> 8);
    part[6] = type;
    memcpy(part + HEAD, data, size);
    append_file_add(file->records, part, HEAD + size);
    file->at += HEAD + size;
}

static void add_record(struct wandb_file *file, unsigned kind, const struct message *content)
{
    static const unsigned char zeros[HEAD];
    struct message record = {{0}, 0};
    size_t done = 0;

    put_number(&record, RECORD_NUMBER, ++file->number);
    put_message(&record, kind, content);
    do {
        size_t room = BLOCK - file->at % BLOCK, part = record.size - done;

        if (room < HEAD) { /* too little for a part: the block ends with zeros */
            append_file_add(file->records, zeros, room);
            file->at += room;
            continue;
        }
        if (part > room - HEAD)
            part = room - HEAD;
        add_part(file,
                 done == 0                    ? part == record.size ? PART_WHOLE : PART_FIRST
                 : done + part == record.size ? PART_LAST
                                              : PART_MIDDLE,
                 record.data + done, part);
        done += part;
    } while (done < record.size);
}

/* A random name of letters and digits, as the client gives to runs. */
static void make_id(char id[ID_LENGTH + 1])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    unsigned char random[ID_LENGTH];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        for (int i = 0; i < ID_LENGTH; i++)
            random[i] = (unsigned char)((getpid() >> i) + time(NULL) * (i + 1));
    for (int i = 0; i < ID_LENGTH; i++)
        id[i] = letters[random[i] % (sizeof(letters) - 1)];
    id[ID_LENGTH] = '\0';
}

static void add_run(struct wandb_file *file, const struct wandb_names *names, const char *id)
{
    struct message run = {{0}, 0}, began = {{0}, 0}, header = {{0}, 0}, version = {{0}, 0};
    char host[128] = "";

    gethostname(host, sizeof(host) - 1);
    put_text(&version, 1, "megatron " PACKAGE_VERSION);
    put_text(&version, 2, "0.0.1"); /* the oldest client that may read it: any */
    put_message(&header, 1, &version);
    add_record(file, RECORD_HEADER, &header);
    put_text(&run, 1, id);
    if (names->entity)
        put_text(&run, 2, names->entity);
    put_text(&run, 3, names->project);
    put_text(&run, 8, names->name);
    put_text(&run, 13, host);
    put_number(&began, 1, (uint64_t)time(NULL));
    put_message(&run, 17, &began);
    add_record(file, RECORD_RUN, &run);
}

static int open_file(struct wandb_file *file, const char *directory, const char *id,
                     struct error *err)
{
    static const unsigned char magic[HEAD] = {':', 'W', '&', 'B', 0xE1, 0xBE, 0};
    time_t now = time(NULL);
    char path[1200], when[32];
    struct tm parts;

    strftime(when, sizeof(when), "%Y%m%d_%H%M%S", gmtime_r(&now, &parts));
    snprintf(file->directory, sizeof(file->directory), "%.900s/wandb/offline-run-%s-%s", directory,
             when, id);
    snprintf(path, sizeof(path), "%s/files", file->directory);
    if (file_make_directories(path, 0777) < 0)
        return error_set_errno(err, errno, "--wandb-save-dir: cannot create %s", path);
    snprintf(path, sizeof(path), "%s/run-%s.wandb", file->directory, id);
    file->records = append_file_open(path, 1, err);
    if (!file->records)
        return error_prefix(err, "--wandb-save-dir");
    append_file_add(file->records, magic, sizeof(magic));
    file->at = sizeof(magic);
    return 0;
}

struct wandb_file *wandb_file_create(const char *directory, const struct wandb_names *names,
                                     struct error *err)
{
    struct wandb_file *file = xcalloc(1, sizeof(*file));
    char id[ID_LENGTH + 1];

    file->began = clock_now();
    make_id(id);
    if (open_file(file, directory, id, err) < 0) {
        free(file);
        return NULL;
    }
    add_run(file, names, id);
    return file;
}

const char *wandb_file_directory(const struct wandb_file *file)
{
    return file->directory;
}

/* A value as JSON, which has neither NaN nor infinities. */
static void format_value(double value, char *text, size_t size)
{
    if (isnan(value))
        snprintf(text, size, "\"NaN\"");
    else if (isinf(value))
        snprintf(text, size, value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    else
        snprintf(text, size, "%.9g", value);
}

static void add_item(struct wandb_file *file, const char *tag, double value)
{
    struct message item = {{0}, 0};
    char text[40];

    format_value(value, text, sizeof(text));
    put_text(&item, 2, tag); /* nested_key: one name, whatever it contains */
    put_text(&item, 16, text);
    put_message(&file->items, 1, &item);
}

static void end_step(struct wandb_file *file)
{
    struct message step = {{0}, 0};

    if (!file->open)
        return;
    add_item(file, "_timestamp", clock_wall());
    add_item(file, "_runtime", clock_now() - file->began);
    add_item(file, "_step", (double)file->step);
    put_number(&step, 1, (uint64_t)file->step);
    put_message(&file->items, 2, &step);
    add_record(file, RECORD_HISTORY, &file->items);
    file->open = 0;
}

void wandb_file_scalar(struct wandb_file *file, const char *tag, int64_t step, double value)
{
    if (file->open && file->step != step)
        end_step(file);
    if (!file->open)
        file->items.size = 0;
    file->open = 1;
    file->step = step;
    add_item(file, tag, value);
}

int wandb_file_flush(struct wandb_file *file, struct error *err)
{
    return append_file_flush(file->records, err);
}

int wandb_file_close(struct wandb_file *file, struct error *err)
{
    struct message end = {{0}, 0};
    int rc;

    if (!file)
        return 0;
    end_step(file);
    put_number(&end, 2, (uint64_t)(clock_now() - file->began));
    add_record(file, RECORD_EXIT, &end);
    rc = append_file_close(file->records, err);
    free(file);
    return rc;
}
