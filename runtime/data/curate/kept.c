/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "kept.h"
#include "lib/clock.h"
#include "base/core/xmalloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int kept_begin(struct kept *kept, struct job *job, struct error *err)
{
    const struct jobs_config *config = job->engine->config;
    int packed = lines_codec(config->output, err);

    memset(kept, 0, sizeof(*kept));
    if (packed < 0)
        return -1;
    kept->out = lines_create(job, "kept", packed, err);
    if (!kept->out)
        return -1;
    if (!config->keep_dropped)
        return 0;
    packed = lines_codec(config->keep_dropped, err);
    if (packed >= 0)
        kept->dropped = lines_create(job, "dropped", packed, err);
    return kept->dropped ? 0 : -1;
}

static int put_line(struct lines *lines, struct line_buffer *line, struct error *err)
{
    line_put(line, "\n", 1);
    return lines_put(lines, line->data, line->size, err);
}

/* Write the line with another text and with extra members at its end. */
static void edit_line(struct line_buffer *line, const struct document *document, const char *text,
                      size_t size, const char *extra)
{
    const char *end = document->line + document->line_size, *last = end;

    if (text) {
        line_put(line, document->line, (size_t)(document->raw - document->line));
        line_put_string(line, text, size);
    } else {
        line_put(line, document->line,
                 (size_t)(document->raw - document->line) + document->raw_size);
    }
    while (extra && *--last != '}')
        ;
    line_put(line, document->raw + document->raw_size,
             (size_t)(last - document->raw) - document->raw_size);
    if (extra) {
        line_put_word(line, extra);
        line_put(line, last, (size_t)(end - last));
    }
}

int kept_keep(struct kept *kept, const struct document *document, const char *text, size_t size,
              const char *extra, struct error *err)
{
    kept->documents++;
    kept->text_bytes += (int64_t)(text ? size : document->size);
    kept->line.size = 0;
    if (text || extra) {
        edit_line(&kept->line, document, text, size, extra);
        return put_line(kept->out, &kept->line, err);
    }
    if (lines_put(kept->out, document->line, document->line_size, err) < 0)
        return -1;
    return lines_put(kept->out, "\n", 1, err);
}

int kept_drop(struct kept *kept, const struct document *document, const char *reason,
              const char *extra, struct error *err)
{
    if (!kept->dropped)
        return 0;
    kept->line.size = 0;
    line_put_word(&kept->line, "{\"dropped\":");
    line_put_string(&kept->line, reason, strlen(reason));
    line_put_word(&kept->line, extra ? extra : "");
    line_put_word(&kept->line, ",\"document\":");
    line_put(&kept->line, document->line, document->line_size);
    line_put_word(&kept->line, "}");
    return put_line(kept->dropped, &kept->line, err);
}

int kept_end(struct kept *kept, int rc, struct bytes *result, struct error *err)
{
    int64_t sizes[2] = {0, 0};

    line_buffer_clear(&kept->line);
    if (rc < 0) {
        lines_abandon(kept->out);
        lines_abandon(kept->dropped);
        return -1;
    }
    if (lines_finish(kept->out, &sizes[0], err) < 0) {
        lines_abandon(kept->dropped);
        return -1;
    }
    if (kept->dropped && lines_finish(kept->dropped, &sizes[1], err) < 0)
        return -1;
    bytes_put_u64(result, (uint64_t)sizes[0]);
    bytes_put_u64(result, (uint64_t)sizes[1]);
    bytes_put_u64(result, (uint64_t)kept->documents);
    bytes_put_u64(result, (uint64_t)kept->text_bytes);
    return 0;
}

void kept_take(struct kept_result *kept, struct bytes *bytes)
{
    kept->out_size = (int64_t)bytes_take_u64(bytes);
    kept->dropped_size = (int64_t)bytes_take_u64(bytes);
    kept->documents = (int64_t)bytes_take_u64(bytes);
    kept->text_bytes = (int64_t)bytes_take_u64(bytes);
}

static int join(struct jobs *engine, struct error *err)
{
    size_t count = engine->plan.chunk_count;
    int64_t *sizes = xcalloc(2 * count + 1, sizeof(*sizes));
    int rc = 0;

    for (size_t i = 0; i < count; i++) {
        struct bytes bytes;
        struct kept_result kept;

        rc = jobs_result(engine, KEPT_PHASE, i, &bytes, err);
        if (rc < 0)
            goto out;
        kept_take(&kept, &bytes);
        bytes_clear(&bytes);
        sizes[i] = kept.out_size;
        sizes[count + i] = kept.dropped_size;
    }
    rc = parts_join(engine, KEPT_PHASE, "kept", count, sizes, "kept", err);
    if (rc == 0 && engine->config->keep_dropped)
        rc = parts_join(engine, KEPT_PHASE, "dropped", count, sizes + count, "dropped", err);
out:
    free(sizes);
    return rc;
}

int kept_run(struct jobs *engine, job_function *job, jobs_finish_function *finish, void *context,
             struct error *err)
{
    struct phase phase = {.name = KEPT_PHASE,
                          .count = engine->plan.chunk_count,
                          .chunks = true,
                          .context = context,
                          .job = job};
    int rc = jobs_phase(engine, &phase, err);

    if (rc == 0)
        rc = join(engine, err);
    return rc == 0 ? jobs_finish(engine, finish, context, err) : rc;
}

int kept_sum(struct jobs *engine, struct kept_result *sum, struct tally *tally, int64_t *counts,
             size_t count, struct error *err)
{
    for (size_t i = 0; i < engine->plan.chunk_count; i++) {
        struct bytes bytes;
        struct kept_result kept;
        struct tally part;

        if (jobs_result(engine, KEPT_PHASE, i, &bytes, err) < 0)
            return -1;
        kept_take(&kept, &bytes);
        sum->documents += kept.documents;
        sum->text_bytes += kept.text_bytes;
        tally_take(&part, &bytes);
        tally_add(tally, &part);
        for (size_t k = 0; k < count; k++)
            counts[k] += (int64_t)bytes_take_u64(&bytes);
        bytes_clear(&bytes);
    }
    return 0;
}

int kept_publish(struct jobs *engine, struct error *err)
{
    if (engine->config->keep_dropped &&
        parts_publish(engine, "dropped", engine->config->keep_dropped, err) < 0)
        return -1;
    return parts_publish(engine, "kept", engine->config->output, err);
}

void kept_print(const struct jobs *engine, const struct kept_result *sum, const struct tally *tally)
{
    double seconds = clock_now() - engine->begin + 1e-9;
    char amount[AMOUNT_SIZE];

    printf("  documents kept:  %" PRId64 " (%s of text, %.1f %% of the documents)\n",
           sum->documents, amount_words((double)sum->text_bytes, amount),
           tally->documents > 0 ? 100.0 * (double)sum->documents / (double)tally->documents : 0.0);
    printf("  time:            %.1f s, %.1f MB/s of text\n", seconds,
           (double)tally->text_bytes / 1e6 / seconds);
    fflush(stdout);
}
