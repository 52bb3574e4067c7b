/* Ranks meet over TCP, exchange, and learn of each other's end. Each case is a world of processes;
 * what its ranks return must be what is expected of them. */
#include "tap.h"
#include "star.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 5, BYTES = 3000 };

enum ending { GATHER, ABSENT, VANISH, ABORT };

static int port;

/* Wait until star_check has something to say. */
static int until_failure(struct star *star, struct error *err)
{
    for (int i = 0; i < 500; i++) {
        if (star_check(star, err))
            return 1;
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    return 0;
}

static int gathers(struct star *star, int rank)
{
    unsigned char part[BYTES], all[SIZE * BYTES];
    struct error err;

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BYTES; i++)
            part[i] = (unsigned char)(rank * 31 + i + round);
        if (star_gather(star, part, all, BYTES, 10, &err) || star_check(star, &err))
            return 0;
        for (int r = 0; r < SIZE; r++)
            for (int i = 0; i < BYTES; i++)
                if (all[r * BYTES + i] != (unsigned char)(r * 31 + i + round))
                    return 0;
    }
    return star_gather(star, NULL, NULL, 0, 10, &err) == 0;
}

static int agrees(struct star *star, int rank)
{
    int64_t numbers[] = {rank, -rank, rank == 2 ? INT64_MAX : INT64_MIN}, many[STAR_NUMBERS + 1];
    struct error err;

    return star_max(star, numbers, 3, 10, &err) == 0 && numbers[0] == SIZE - 1 && numbers[1] == 0 &&
           numbers[2] == INT64_MAX && star_max(star, many, STAR_NUMBERS + 1, 10, &err) < 0;
}

/* One rank of a world in which rank 3 does 'ending'. 1: all was as it should be. */
static int play(enum ending ending, int rank)
{
    struct error err;
    struct star *star;
    int good;

    if (ending == ABSENT && rank == 3)
        return 1;
    star = star_create(rank, SIZE, NULL, port, ending == ABSENT ? 4 : 10, &err);
    if (ending == ABSENT)
        return rank == 0 ? !star && strstr(err.text, "1 of 5 ranks did not come") &&
                               strstr(err.text, ": 3")
                         : 1;
    if (!star)
        return 0;
    good = gathers(star, rank) && agrees(star, rank);
    if (ending == VANISH && rank == 3)
        _exit(!good);
    if (ending == VANISH && rank == 0)
        good = good && until_failure(star, &err) && strstr(err.text, "rank 3 has ended");
    if (ending == ABORT && rank == 3)
        star_abort(star, "the moon is in the way");
    if (ending == ABORT && rank == 0) {
        good = good && until_failure(star, &err) && strcmp(err.text, "the moon is in the way") == 0;
        star_abort(star, err.text);
    }
    if (ending == ABORT && rank != 0)
        good = good && until_failure(star, &err) && strcmp(err.text, "the moon is in the way") == 0;
    star_destroy(star);
    return good;
}

static void world(enum ending ending, const char *name)
{
    pid_t ranks[SIZE];
    int bad = 0;

    port = 20000 + (int)(getpid() * 7 + (int)ending * 1009) % 20000;
    fflush(stdout);
    for (int r = 0; r < SIZE; r++) {
        ranks[r] = fork();
        if (ranks[r] == 0)
            _exit(!play(ending, r));
    }
    for (int r = 0; r < SIZE; r++) {
        int status = 0;

        waitpid(ranks[r], &status, 0);
        if (status) {
            diag("rank %d: status %d", r, status);
            bad++;
        }
    }
    ok(bad == 0, "%s", name);
}

int main(void)
{
    world(GATHER, "five ranks meet and gather");
    world(ABSENT, "who does not come is named");
    world(VANISH, "a rank that vanishes is noticed");
    world(ABORT, "a reason to end reaches everyone");
    return done_testing();
}
