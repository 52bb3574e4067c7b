/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "mediawiki.h"
#include "record_private.h"
#include "wiki_site.h"
#include "base/core/xmalloc.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Does the data begin with a tag, with no JSON object on any line of its first kilobytes? */
static bool is_markup(const char *data, size_t size)
{
    enum { LOOK = 4096 };
    const char *end = data + (size < LOOK ? size : LOOK);

    while (data < end && (record_is_blank(data, 1) || (unsigned char)*data >= 0x80))
        data++;
    if (end - data < 2 || data[0] != '<' ||
        !(data[1] == '?' || data[1] == '!' || isalpha((unsigned char)data[1])))
        return false;
    while ((data = memchr(data, '\n', (size_t)(end - data))) != NULL)
        if (++data < end && *data == '{')
            return false;
    return true;
}

/* The name of the encoding if the text is not UTF-8, by its byte order mark or by NULs beside each
 * of its first characters; otherwise NULL. */
static const char *wide_encoding(const unsigned char *data, size_t size)
{
    enum { LOOK = 16 };
    size_t nuls[2] = {0, 0};

    if (size >= 4 && (memcmp(data, "\xff\xfe\0\0", 4) == 0 || memcmp(data, "\0\0\xfe\xff", 4) == 0))
        return "UTF-32";
    if (size >= 2 && (memcmp(data, "\xff\xfe", 2) == 0 || memcmp(data, "\xfe\xff", 2) == 0))
        return "UTF-16";
    for (size_t i = 0; i < LOOK && size >= LOOK; i++)
        nuls[i % 2] += data[i] == 0;
    if (nuls[0] + nuls[1] != LOOK / 2 || (nuls[0] != 0 && nuls[1] != 0))
        return NULL;
    return nuls[0] ? "UTF-16BE" : "UTF-16LE";
}

int record_check_content(enum record_mode mode, const char *path, const char *data, size_t size,
                         struct error *err)
{
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    const char *encoding = wide_encoding((const unsigned char *)data, size);

    /* A file of a directory may be anything: as a document it is just invalid. */
    if (mode != RECORD_FILE && size >= 4 && memcmp(data, "PK\3\4", 4) == 0)
        return error_set_code(err, ERROR_USAGE,
                              "%s is a zip archive; unpack it first and name the files that were "
                              "in it",
                              name);
    if (encoding && mode != RECORD_FILE)
        return error_set_code(err, ERROR_USAGE, "%s is %s; convert it first: iconv -f %s -t UTF-8",
                              name, encoding, encoding);
    if (mode == RECORD_PAGE && size > 0 && !mediawiki_is_dump(data, size) &&
        !mediawiki_begin(data, data + size)) {
        error_set_code(err, ERROR_USAGE, "%s is not a MediaWiki XML dump in UTF-8", name);
        return error_append(err, "; use a MediaWiki dump, or tokenize other text with `megatron "
                                 "preprocess --input-format`");
    }
    if (mode != RECORD_JSON)
        return 0;
    if (mediawiki_is_dump(data, size)) {
        error_set_code(err, ERROR_USAGE, "%s is a MediaWiki dump, not JSON lines", name);
        return error_append(err, "; use --input-format mediawiki");
    }
    if (is_markup(data, size)) {
        error_set_code(err, ERROR_USAGE, "%s is XML or HTML, not JSON lines", name);
        return error_append(err, "; choose its format with --input-format");
    }
    return 0;
}

/* Read the start of the file that the segment belongs to. Returns its size. */
static ssize_t read_head(const struct corpus_file *file, char *head, size_t room, struct error *err)
{
    struct source *source = source_open(file->path, file->codec, file->size, 0, SOURCE_TO_END, err);
    size_t have = 0;
    ssize_t count = source ? 1 : -1;

    while (count > 0 && have < room && !mediawiki_begin(head, head + have)) {
        count = source_read(source, head + have, room - have < 65536 ? room - have : 65536, err);
        have += count > 0 ? (size_t)count : 0;
    }
    source_close(source);
    return count < 0 ? -1 : (ssize_t)have;
}

int record_learn_site(const struct corpus_files *files, const struct segment *segment,
                      const char *data, size_t length, const struct wiki_site **site,
                      struct error *err)
{
    enum { ROOM = 1 << 20 };
    struct wiki_site **known = &files->items[segment->file].site, *parsed, *first = NULL;
    const char *head = data, *end;
    ssize_t size = (ssize_t)length;
    char *bytes = NULL;

    *site = __atomic_load_n(known, __ATOMIC_ACQUIRE);
    if (*site)
        return 0;
    if (segment->begin > 0) {
        head = bytes = xmalloc(ROOM);
        size = read_head(&files->items[segment->file], bytes, ROOM, err);
    }
    if (size >= 0) {
        end = size > 0 ? mediawiki_begin(head, head + size) : NULL;
        parsed = wiki_site_parse(head, end ? (size_t)(end - head) : (size_t)size);
        *site = parsed;
        /* Another thread may have been faster. */
        if (!__atomic_compare_exchange_n(known, &first, parsed, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_ACQUIRE)) {
            free(parsed);
            *site = first;
        }
    }
    free(bytes);
    return size < 0 ? -1 : 0;
}
