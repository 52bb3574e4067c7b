/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks share in a work directory: small files with a checksum, claims and done markers, and
 * the beginning and end of a launch. Two ranks are two 'struct work' of one process. */
#include "config.h"
#include "data/jobs/board.h"
#include "data/jobs/work.h"
#include "tap.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x5453455453455454ull

static char directory[] = "/tmp/jobs-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[DISK_PATH];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return path;
}

static void test_bytes(void)
{
    struct bytes bytes;
    char *text;
    off_t size;
    struct stat status;

    bytes_begin(&bytes, MAGIC);
    bytes_put_u64(&bytes, 42);
    bytes_put_text(&bytes, "a text");
    bytes_put_text(&bytes, NULL);
    is_int(bytes_save(&bytes, path_of("bytes"), 0, NULL), 0, "a file is saved");
    is_int(bytes_load(&bytes, MAGIC, path_of("bytes"), NULL), 0, "  and loaded");
    is_int((long long)bytes_take_u64(&bytes), 42, "  with its number");
    text = bytes_take_text(&bytes);
    is(text, "a text", "  and its text");
    free(text);
    text = bytes_take_text(&bytes);
    is(text, "", "no text is an empty one");
    free(text);
    ok(!bytes_take(&bytes, 1) && bytes.failed, "nothing is taken beyond the end");
    bytes_clear(&bytes);
    is_int(bytes_load(&bytes, MAGIC + 1, path_of("bytes"), NULL), 1, "the magic number is checked");
    stat(path_of("bytes"), &status);
    for (size = status.st_size - 1; size >= 0; size--)
        if (truncate(path_of("bytes"), size) < 0 ||
            bytes_load(&bytes, MAGIC, path_of("bytes"), NULL) != 1)
            break;
    is_int(size, -1, "a file that is cut anywhere is incomplete");
    unlink(path_of("bytes"));
    is_int(bytes_load(&bytes, MAGIC, path_of("bytes"), NULL), 1, "and so is one that is missing");
}

static void init_rank(struct work *work, struct world *world, int64_t rank, int64_t size)
{
    *world = (struct world){.rank = rank, .size = size};
    if (work_init(work, path_of("out"), world, 1, NULL) < 0)
        exit(1);
}

static void test_board(void)
{
    struct world worlds[2];
    struct work works[2];
    struct board boards[2] = {0};
    struct bytes result;
    size_t numbers[2] = {9, 9};
    struct error err;
    FILE *file;

    for (int i = 0; i < 2; i++) {
        init_rank(&works[i], &worlds[i], i, 2);
        snprintf(works[i].base, sizeof(works[i].base), "%s", directory);
        is_int(board_init(&boards[i], &works[i], "jobs", 2, (size_t)i, &err), 0,
               "a rank begins a phase");
    }
    is_int(board_scan(&boards[0], &err), 2, "no job is done");
    is_int(board_claim(&boards[0], &numbers[0], &err), 1, "a rank claims a job");
    is_int(board_claim(&boards[1], &numbers[1], &err), 1, "another rank claims a job");
    ok(numbers[0] == 0 && numbers[1] == 1, "  that starts elsewhere");
    is_int(board_claim(&boards[1], &numbers[1], &err), 0, "none is left to claim");
    is_int(board_take_over(&boards[1], &numbers[1], &err), 0, "a fresh claim is respected");
    board_touch(&boards[0], 0);
    board_take_over(&boards[1], &numbers[1], &err);
    sleep(2);
    is_int(board_take_over(&boards[1], &numbers[1], &err), 1,
           "a job is taken over when its claim makes no progress for the lease");
    is_int((long long)numbers[1], 0, "  the other rank's");
    file = fopen(path_of("jobs/done-1-5-70.node.7.tmp"), "w");
    fclose(file);
    bytes_begin(&result, MAGIC);
    bytes_put_u64(&result, 11);
    is_int(board_mark_done(&boards[1], 0, 5, 70, &result, &err), 0, "its result is written");
    is_int(board_scan(&boards[0], &err), 1, "all ranks see the done marker");
    ok(board_is_done(&boards[0], 0) && !board_is_done(&boards[0], 1),
       "  of that job, and not one that is being written");
    ok(boards[0].jobs[0].documents == 5 && boards[0].jobs[0].bytes == 70,
       "  with what the job has read");
    ok(board_done_up_to(&boards[0], 1) && !board_done_up_to(&boards[0], 2), "  and its prefix");
    ok(board_prefix(&boards[0], 5) == 1 && board_prefix(&boards[0], 6) == 0,
       "  with so many documents");
    bytes_begin(&result, MAGIC);
    bytes_put_u64(&result, 12);
    is_int(board_mark_done(&boards[0], 0, 5, 70, &result, &err), 0, "a second result is dropped");
    is_int(bytes_load(&result, MAGIC, path_of("jobs/done-0-5-70"), &err), 0, "  the file is whole");
    is_int((long long)bytes_take_u64(&result), 11, "  and the first one counts");
    bytes_clear(&result);
    snprintf(works[1].launch, sizeof(works[1].launch), "0123456789abcdef");
    work_remove_leftovers(&works[1], path_of("jobs"));
    ok(access(path_of("jobs/done-0-5-70"), F_OK) == 0, "another launch keeps done markers");
    board_clear(&boards[0]);
    board_init(&boards[0], &works[0], "jobs", 2, 0, &err);
    board_scan(&boards[0], &err);
    is_int(board_claim(&boards[0], &numbers[0], &err), 1, "  and removes the claims of this one");
    board_clear(&boards[0]);
    board_clear(&boards[1]);
}

static void test_launch(void)
{
    struct input_plan plan = {.identity = 1}, read;
    struct world worlds[2];
    struct work works[3];
    struct error err = {.text = ""};

    init_rank(&works[0], &worlds[0], 0, 2);
    init_rank(&works[1], &worlds[1], 1, 2);
    is_int(work_begin(&works[0], &plan, NULL, false, &err), WORK_NEW, "rank 0 begins a run");
    is_int(work_await(&works[1], &read, &err), 0, "rank 1 reads its plan");
    is_int((long long)read.identity, 1, "  with the same identity");
    input_plan_clear(&read);
    ok(!work_is_over(&works[0]) && !work_is_over(&works[1]), "the launch has not ended");
    init_rank(&works[2], &worlds[0], 0, 2);
    is_int(work_begin(&works[2], &plan, NULL, false, &err), WORK_RESUMED,
           "a run that was killed is resumed");
    plan.identity = 2;
    ok(work_begin(&works[2], &plan, directory, false, &err) < 0 && err.code == ERROR_USAGE,
       "output of another run is not replaced");
    is_int(work_begin(&works[2], &plan, directory, true, &err), WORK_NEW, "  unless it may be");
    ok(access(works[0].base, F_OK) < 0, "  and the results of that run are gone");
    is_int(work_mark_finished(&works[2], &err), 0, "the output is complete");
    init_rank(&works[0], &worlds[0], 0, 2);
    is_int(work_begin(&works[0], &plan, directory, false, &err), WORK_COMPLETE,
           "which the next launch sees");
    is_int(work_finish(&works[2], &err), 0, "the launch ends");
    ok(work_is_over(&works[1]) && !works[1].ending[0], "  which the other rank sees later");
    is_int(work_close(&works[1], -1, false, &err), 0, "  and ends well, whatever it had done");
    ok(works[2].finished && access(works[2].root, F_OK) < 0,
       "the last rank removes the work directory");
}

int main(void)
{
    if (!mkdtemp(directory))
        return 1;
    test_bytes();
    test_board();
    test_launch();
    unlink(path_of("jobs/done-0-5-70"));
    return done_testing();
}
