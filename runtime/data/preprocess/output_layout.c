/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "output_layout.h"
#include "data/jobs/bytes.h"
#include "document.h"
#include "base/core/log.h"
#include "lib/clock.h"
#include "base/core/xmalloc.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FAULTS_SHOWN = 100, UNCLOSED_SHOWN = 20 }; /* reported at the end */
/* Output bytes per copy job: enough jobs for all ranks, but large enough to be worth a file name
 * each. */
static const int64_t copy_size = 16 << 20;

/* Advance past a part. */
static void position_add(struct position *position, const struct part_totals *totals, size_t keys)
{
    position->documents += totals->documents;
    for (size_t k = 0; k < keys; k++) {
        position->tokens[k] += totals->tokens[k];
        position->sequences[k] += totals->sequences[k];
    }
}

/* Counts lines before each segment, and reported documents. */
struct line_count {
    uint32_t file;
    int64_t lines;
    int64_t shown, before; /* documents reported, and those of them reported when found */
    int64_t unclosed;      /* pages reported because of unclosed markup */
};

/* Should this fault be reported now? Counts it. */
static bool is_shown_now(struct line_count *count, const struct part_fault *fault)
{
    if (part_fault_is_kept(fault))
        return count->unclosed++ < UNCLOSED_SHOWN;
    if (fault->shown) {
        count->before++;
        count->shown++;
        return false;
    }
    if (count->shown - count->before >= FAULTS_SHOWN)
        return false;
    count->shown++;
    return true;
}

static void show_faults(struct output_layout *layout, const struct preprocess_config *config,
                        const struct input_plan *plan, size_t chunk,
                        const struct part_totals *totals, const struct part_reader *part,
                        struct line_count *count)
{
    size_t segments;
    const int64_t *lines = part_lines(part, &segments);
    int64_t next = 0;

    for (size_t i = 0; i < segments; i++) {
        const struct segment *segment = &plan->segments[plan->chunks[chunk] + i];

        if (segment->begin == 0 || segment->file != count->file) {
            count->file = segment->file;
            count->lines = 0;
        }
        for (; next < totals->listed_count && totals->listed[next].segment == i; next++) {
            const struct part_fault *fault = &totals->listed[next];
            char text[256], location[DISK_PATH + 160];

            part_fault_text(fault, config->keys, text, sizeof(text));
            part_fault_location(fault, plan->files.items[segment->file].path, count->lines,
                                location, sizeof(location));
            if (!layout->first_fault[0])
                snprintf(layout->first_fault, sizeof(layout->first_fault), "%.240s: %.250s",
                         location, text);
            if (is_shown_now(count, fault))
                log_warning("%s: %s; %s", location, text,
                            part_fault_is_kept(fault) ? "the page is kept" : "skipped");
        }
        count->lines += lines[i];
    }
}

/* Sums over the parts so far, and the first document that lacks a key, or ids for a NullTokenizer:
 * decides whether the corpus has the keys at all. */
struct key_check {
    struct part_totals totals;
    const char *path;
};

static void add_to_check(struct key_check *check, const struct part_totals *totals,
                         const char *path)
{
    struct part_totals *sum = &check->totals;

    if (sum->documents == 0)
        sum->leading += totals->leading;
    sum->documents += totals->documents;
    for (int f = 0; f < FAULT_COUNT; f++)
        sum->faults[f] += totals->faults[f];
    if (check->path || (totals->faults[FAULT_KEY] == 0 && totals->faults[FAULT_IDS] == 0))
        return;
    check->path = path;
    memcpy(sum->names, totals->names, sizeof(sum->names));
    memcpy(sum->listed, totals->listed, sizeof(sum->listed));
    sum->listed_count = totals->listed_count;
}

/* With a maximum number of documents, faults after the last one are neither counted nor listed,
 * because the amount of input that was read beyond it is random. Standard input cannot be read
 * again, but it is one chunk whose part ends with the last document (chunk.c). */
static int drop_beyond(const struct preprocess_config *config, const struct input_plan *plan,
                       const struct tokenizer *tokenizer, size_t chunk,
                       const struct position *begin, struct part_totals *totals, struct error *err)
{
    int64_t wanted = config->max_documents - begin->documents, faults[FAULT_COUNT] = {0};
    struct part_fault last = {0};

    if (config->max_documents == 0 || totals->documents < wanted ||
        (totals->listed_count == 0 && config->mode != RECORD_PAGE) ||
        strcmp(plan->files.items[0].path, "-") == 0)
        return 0;
    if (document_count_faults(config, plan, tokenizer, chunk, wanted, faults, &last, err) < 0)
        return -1;
    memcpy(totals->faults, faults, sizeof(faults));
    document_drop_faults(totals->listed, &totals->listed_count, &last);
    return 0;
}

/* If no document is valid, an option is wrong rather than the documents. */
static int check_taken(const struct output_layout *layout, const char *path, struct error *err)
{
    int64_t skipped = 0;
    int most = FAULT_NONE;

    for (int f = 0; f < FAULT_LEFT_OUT_END; f++) {
        skipped += layout->faults[f];
        if (layout->faults[f] > layout->faults[most])
            most = f;
    }
    if (layout->begins[layout->chunks].documents > 0)
        return 0;
    if (skipped == 0)
        return error_set_code(err, ERROR_USAGE, "%s contains no documents%s; check the input files",
                              path, layout->bytes == 0 ? ": the input is empty" : "");
    error_set_code(
        err, ERROR_USAGE, "%s: none of %lld documents is valid (%s)%s", path, (long long)skipped,
        document_fault_text((enum document_fault)most),
        most == FAULT_JSON || most == FAULT_OBJECT ? "; every line must be one JSON object" : "");
    if (most == FAULT_JSON || most == FAULT_OBJECT)
        error_append(err,
                     "; for plain text use --input-format lines, blank-lines, titles or files");
    else if (most == FAULT_TYPE)
        error_append(err, "; name the key of the text with --json-keys");
    else if (most == FAULT_LENGTH)
        error_append(err, "; raise --max-line-bytes");
    else
        error_append(err, "; choose its format with --input-format");
    return -1;
}

/* Read all footers. */
static int add_parts(struct output_layout *layout, struct encode *encode, struct job *job,
                     struct error *err)
{
    const struct preprocess_config *config = encode->config;
    const struct input_plan *plan = encode->plan;
    struct line_count count = {.file = UINT32_MAX};
    struct key_check check = {0};
    int64_t skipped = 0;

    for (size_t i = 0; i < layout->chunks; i++) {
        struct part_totals totals;
        struct part_reader *part = encode_open_part(encode, job, i, err);

        job_touch(job);
        if (!part)
            return -1;
        totals = *part_totals(part);
        layout->begins[i + 1] = layout->begins[i];
        position_add(&layout->begins[i + 1], &totals, layout->keys);
        layout->bytes += totals.bytes;
        if (drop_beyond(config, plan, encode->tokenizer, i, &layout->begins[i], &totals, err) < 0) {
            part_close(part);
            return -1;
        }
        for (int f = 0; f < FAULT_COUNT; f++) {
            layout->faults[f] += totals.faults[f];
            skipped += f < FAULT_BROKEN_END ? totals.faults[f] : 0;
        }
        add_to_check(&check, &totals, plan->files.items[plan->segments[plan->chunks[i]].file].path);
        show_faults(layout, config, plan, i, &totals, part, &count);
        part_close(part);
    }
    if (skipped > count.shown)
        log_warning("%lld more document%s skipped and not listed; correct or remove such documents "
                    "in the input",
                    (long long)(skipped - count.shown),
                    skipped - count.shown == 1 ? " was" : "s were");
    if (part_check_keys(config->keys, check.path, &check.totals, 1, err) < 0)
        return -1;
    return check_taken(layout, plan->files.items[0].path, err);
}

static size_t find_chunk_by_documents(const struct output_layout *layout, int64_t documents)
{
    size_t i = 0;

    while (i + 1 < layout->chunks && layout->begins[i + 1].documents < documents)
        i++;
    return i;
}

static size_t find_chunk_by_tokens(const struct output_layout *layout, int64_t tokens)
{
    size_t i = 0;

    while (i + 1 < layout->chunks && layout->begins[i + 1].tokens[0] < tokens)
        i++;
    return i;
}

/* Advance by one document in all keys of a block. */
static void pass_document(const struct part_key *keys, size_t *at, size_t count,
                          struct position *position)
{
    for (size_t k = 0; k < count; k++) {
        int32_t entry;

        do {
            entry = keys[k].entries[at[k]++];
            position->tokens[k] += ENTRY_TOKENS(entry);
            position->sequences[k] += ENTRY_TOKENS(entry) != 0;
        } while (!(entry & ENTRY_LAST) && at[k] < keys[k].entry_count);
    }
    position->documents++;
}

/* Find the first document boundary with at least this many documents and, of the first key, tokens
 * before it. Returns 0, 1 if the part is torn, or -1. */
static int look_in_part(const struct output_layout *layout, struct part_reader *part,
                        int64_t documents, int64_t tokens, struct position *cut, struct error *err)
{
    struct part_key keys[PART_KEYS];
    int torn, rc;

    while ((rc = part_next(part, keys, &torn, err)) > 0) {
        size_t at[PART_KEYS] = {0};

        while (at[0] < keys[0].entry_count &&
               (cut->documents < documents || cut->tokens[0] < tokens))
            pass_document(keys, at, layout->keys, cut);
        if (cut->documents >= documents && cut->tokens[0] >= tokens)
            return 0;
    }
    return torn ? 1 : rc;
}

static int find_cut(const struct output_layout *layout, struct encode *encode, struct job *job,
                    int64_t documents, int64_t tokens, struct position *cut, struct error *err)
{
    size_t chunk = documents > 0 ? find_chunk_by_documents(layout, documents)
                                 : find_chunk_by_tokens(layout, tokens);

    for (bool redone = false;; redone = true) {
        struct part_reader *part = encode_open_part(encode, job, chunk, err);
        int rc;

        if (!part)
            return -1;
        *cut = layout->begins[chunk];
        rc = look_in_part(layout, part, documents, tokens, cut, err);
        part_close(part);
        if (rc <= 0)
            return rc;
        if (redone || encode_redo(encode, job, chunk, err) < 0)
            return -1;
    }
}

static int find_cuts(struct output_layout *layout, struct encode *encode, struct job *job,
                     struct error *err)
{
    struct position *end = &layout->cuts[layout->shards];
    int64_t most = encode->config->max_documents;

    *end = layout->begins[layout->chunks];
    if (most > 0 && end->documents > most && find_cut(layout, encode, job, most, 0, end, err) < 0)
        return -1;
    for (size_t s = 1; s < layout->shards; s++) {
        int64_t tokens = (int64_t)((__int128)end->tokens[0] * (int64_t)s / (int64_t)layout->shards);

        if (tokens == 0)
            continue;
        job_touch(job);
        if (find_cut(layout, encode, job, 0, tokens, &layout->cuts[s], err) < 0)
            return -1;
        if (layout->cuts[s].documents > end->documents)
            layout->cuts[s] = *end;
    }
    return 0;
}

static int64_t output_bytes(const struct output_layout *layout, size_t chunk)
{
    const struct position *a = &layout->begins[chunk], *b = &layout->begins[chunk + 1];
    int64_t bytes = 0;

    for (size_t k = 0; k < layout->keys; k++)
        bytes += (b->tokens[k] - a->tokens[k]) * (int64_t)layout->id_size +
                 (b->sequences[k] - a->sequences[k]) * 12 + (b->documents - a->documents) * 8;
    return bytes;
}

static void group_copies(struct output_layout *layout)
{
    int64_t held = 0;

    layout->copies = 0;
    for (size_t i = 0; i < layout->chunks; i++) {
        if (i == 0 || held >= copy_size) {
            layout->groups[layout->copies++] = i;
            held = 0;
        }
        held += output_bytes(layout, i);
    }
    layout->groups[layout->copies] = layout->chunks;
}

static void allocate(struct output_layout *layout)
{
    layout->begins = xcalloc(layout->chunks + 1, sizeof(*layout->begins));
    layout->cuts = xcalloc(layout->shards + 1, sizeof(*layout->cuts));
    layout->groups = xcalloc(layout->chunks + 2, sizeof(*layout->groups));
}

static uint64_t new_tag(void)
{
    struct timespec now = clock_after(CLOCK_REALTIME, 0);
    char host[65] = "";
    struct bytes bytes = {0};
    uint64_t tag;

    gethostname(host, sizeof(host) - 1);
    bytes_put_text(&bytes, host);
    bytes_put_u64(&bytes, (uint64_t)getpid());
    bytes_put_u64(&bytes, (uint64_t)now.tv_sec);
    bytes_put_u64(&bytes, (uint64_t)now.tv_nsec);
    tag = checksum_seeded(bytes.data, bytes.size, 6);
    bytes_clear(&bytes);
    return tag;
}

int output_layout_make(struct output_layout *layout, struct encode *encode, struct job *job,
                       struct error *err)
{
    const struct preprocess_config *config = encode->config;

    memset(layout, 0, sizeof(*layout));
    layout->keys = config->key_count;
    layout->id_size = tokenizer_id_size(encode->tokenizer);
    layout->shards = (size_t)config->shards;
    if (config->max_documents > 0)
        layout->chunks = board_prefix(encode->phase->board, config->max_documents);
    if (layout->chunks == 0)
        layout->chunks = encode->plan->chunk_count;
    layout->tag = new_tag();
    allocate(layout);
    if (add_parts(layout, encode, job, err) < 0 || find_cuts(layout, encode, job, err) < 0)
        return -1;
    group_copies(layout);
    return 0;
}

void output_layout_clear(struct output_layout *layout)
{
    free(layout->begins);
    free(layout->cuts);
    free(layout->groups);
    memset(layout, 0, sizeof(*layout));
}

static void put_positions(struct bytes *bytes, const struct position *positions, size_t count,
                          size_t keys)
{
    for (size_t i = 0; i < count; i++) {
        bytes_put_u64(bytes, (uint64_t)positions[i].documents);
        bytes_put(bytes, positions[i].tokens, keys * 8);
        bytes_put(bytes, positions[i].sequences, keys * 8);
    }
}

static void take_positions(struct bytes *bytes, struct position *positions, size_t count,
                           size_t keys)
{
    for (size_t i = 0; i < count && !bytes->failed; i++) {
        const void *tokens, *sequences;

        positions[i].documents = (int64_t)bytes_take_u64(bytes);
        tokens = bytes_take(bytes, keys * 8);
        sequences = bytes_take(bytes, keys * 8);
        if (!tokens || !sequences)
            return;
        memcpy(positions[i].tokens, tokens, keys * 8);
        memcpy(positions[i].sequences, sequences, keys * 8);
    }
}

void output_layout_put(const struct output_layout *layout, struct bytes *bytes)
{
    bytes_put_u64(bytes, layout->keys);
    bytes_put_u64(bytes, layout->id_size);
    bytes_put_u64(bytes, layout->tag);
    bytes_put_u64(bytes, layout->shards);
    bytes_put_u64(bytes, layout->chunks);
    bytes_put_u64(bytes, (uint64_t)layout->bytes);
    bytes_put(bytes, layout->faults, sizeof(layout->faults));
    put_positions(bytes, layout->begins, layout->chunks + 1, layout->keys);
    put_positions(bytes, layout->cuts, layout->shards + 1, layout->keys);
}

int output_layout_take(struct output_layout *layout, struct bytes *bytes)
{
    const void *faults;

    memset(layout, 0, sizeof(*layout));
    layout->keys = bytes_take_u64(bytes);
    layout->id_size = bytes_take_u64(bytes);
    layout->tag = bytes_take_u64(bytes);
    layout->shards = bytes_take_u64(bytes);
    layout->chunks = bytes_take_u64(bytes);
    layout->bytes = (int64_t)bytes_take_u64(bytes);
    faults = bytes_take(bytes, sizeof(layout->faults));
    if (!faults || layout->keys > PART_KEYS || layout->shards > bytes->size / 8 ||
        layout->chunks > bytes->size / 8)
        return -1;
    allocate(layout);
    memcpy(layout->faults, faults, sizeof(layout->faults));
    take_positions(bytes, layout->begins, layout->chunks + 1, layout->keys);
    take_positions(bytes, layout->cuts, layout->shards + 1, layout->keys);
    group_copies(layout);
    return bytes->failed ? -1 : 0;
}
