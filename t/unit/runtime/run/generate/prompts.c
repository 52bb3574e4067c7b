/* SPDX-License-Identifier: Apache-2.0 */
/* Prompts as another rank receives them: sizes that do not fit what was sent are refused. */
#include "config.h"
#include "engine/comm/comm.h"
#include "run/generate/prompts.h"
#include "tap.h"

#include <stdlib.h>

/* What rank 0 broadcasts: counts, token ids, the vocabulary, stop tokens; then the numbers. */
struct sent {
    const char *name;
    int64_t count, ids, stop_count;
    int32_t numbers[8];
    int rc;
};

static const struct sent *now;
static int calls;

/* Links in place of comm_host_broadcast. */
int __wrap_comm_host_broadcast(struct comm *comm, void *data, size_t bytes, int root,
                               struct error *err);

int __wrap_comm_host_broadcast(struct comm *comm, void *data, size_t bytes, int root,
                               struct error *err)
{
    (void)comm, (void)root, (void)err;
    if (calls++ == 0) {
        int64_t head[4] = {now->count, now->ids, 100, now->stop_count};

        memcpy(data, head, sizeof(head));
    } else {
        memcpy(data, now->numbers, bytes < sizeof(now->numbers) ? bytes : sizeof(now->numbers));
    }
    return 0;
}

int main(void)
{
    static const struct sent rows[] = {
        {"two prompts", 2, 7, 1, {2, 4, 11, 12, 1, 1, 13}, 0},
        {"none", 0, 0, 0, {0}, 0},
        {"more prompts than numbers", 1000, 7, 0, {2, 4, 11, 12, 1, 1, 13}, -1},
        {"a negative count", -1, 7, 0, {2, 4, 11, 12, 1, 1, 13}, -1},
        {"negative numbers", 2, -7, 0, {2, 4, 11, 12, 1, 1, 13}, -1},
        {"a prompt beyond the numbers", 2, 7, 0, {2, 4, 11, 12, 2, 9, 13}, -1},
        {"a prompt of a negative size", 2, 7, 0, {-2, 4, 11, 12, 1, 1, 13}, -1},
        {"a prompt longer than its limit", 2, 7, 0, {5, 1, 11, 12, 1, 1, 13}, -1},
        {"too many stop tokens", 2, 7, STOPS + 1, {2, 4, 11, 12, 1, 1, 13}, -1},
        {"a negative number of them", 2, 7, -1, {2, 4, 11, 12, 1, 1, 13}, -1},
    };
    struct comm comm = {.rank = 1, .size = 2};
    const struct generate_options options = {0};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct prompts prompts;
        struct error err = {.text = ""};

        now = &rows[i];
        calls = 0;
        ok(prompts_read(&prompts, &options, NULL, &comm, &err) == rows[i].rc &&
               !err.text[0] == !rows[i].rc && (rows[i].rc < 0 || prompts.count == rows[i].count),
           "%s", rows[i].name);
        prompts_clear(&prompts);
    }
    return done_testing();
}
