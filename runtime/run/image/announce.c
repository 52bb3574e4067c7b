/* SPDX-License-Identifier: Apache-2.0 */
#include "announce.h"
#include "base/core/storage.h"
#include "lib/clock.h"
#include "shared_file.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A thousand nodes may be waiting, and the importing node reports progress: so be terse. */
enum { FIRST_WORD = 20, NEXT_WORDS = 300 };

int announcement_open(struct announcement *announcement, const struct image_cache *cache,
                      const char *step, struct error *err)
{
    announcement->cache = cache;
    if (strchr(step, '/') || snprintf(announcement->path, sizeof(announcement->path),
                                      "work/step-%s.lease", step) >= NAME_MAX)
        return error_set(err,
                         "the name %.100s of the step cannot be used as a file name; use letters, "
                         "digits, dots and dashes",
                         step);
    return 0;
}

int announcement_begin(struct announcement *announcement, int alone, struct error *err)
{
    struct lease_watch watch = {0};

    /* The name is unique to this step, so its holder belongs to the step and exits with it. */
    return image_cache_lease(announcement->cache, &announcement->lease, announcement->path,
                             alone ? 0 : HUGE_VAL, &watch, err);
}

void announcement_beat(struct announcement *announcement)
{
    (void)lease_beat(&announcement->lease);
}

void announcement_end(struct announcement *announcement)
{
    lease_release(&announcement->lease);
}

/* The heartbeat: the contents of the lease's file, "" if there is none. */
static void read_sign(const struct announcement *announcement, char sign[LEASE_TEXT_SIZE])
{
    char directory[sizeof(announcement->cache->directory) + 8];

    lease_read(announcement->cache->at, announcement->path, sign);
    snprintf(directory, sizeof(directory), "%s/work", announcement->cache->directory);
    file_refresh_directory(directory);
}

/* All nodes together poll about a hundred times a second, up to 512 nodes. */
static double longest_pause(int nodes)
{
    double seconds = nodes / 128.0;

    return seconds < 0.5 ? 0.5 : seconds > 4 ? 4 : seconds;
}

int announcement_wait(const struct announcement *announcement, const struct announcement_wait *wait,
                      struct error *err)
{
    char sign[LEASE_TEXT_SIZE], line[256];
    struct lease_watch watch = {0};
    double begun = clock_now(), said = begun;
    double pause = 0.02, most = longest_pause(wait->nodes), silence = FIRST_WORD;

    while (!wait->look(wait->argument)) {
        read_sign(announcement, sign);
        if (is_stopped(wait->stop))
            return error_set(err, STOPPED);
        if (lease_silence(&watch, sign, wait->patience) > wait->patience)
            return error_set(
                err,
                "the node that imports the image has sent no heartbeat for %.0f "
                "seconds; see the messages of that node, which may have died, and check that "
                "all nodes share the image cache %.300s",
                wait->patience, announcement->cache->directory);
        if (wait->timeout > 0 && clock_now() - begun > wait->timeout)
            return error_set(err,
                             "timed out after %.0f s waiting for another node to import the "
                             "image; %s",
                             wait->timeout, wait->timeout_remedy);
        if (clock_now() - said > silence) {
            said = clock_now();
            silence = NEXT_WORDS;
            snprintf(line, sizeof(line), "waiting for %.*s to import the image (%.0f s)",
                     sign[0] ? (int)strcspn(sign, ",") : 12, sign[0] ? sign : "another node",
                     said - begun);
            wait->say(wait->argument, line);
        }
        clock_sleep_about(pause);
        pause = pause * 1.5 < most ? pause * 1.5 : most;
    }
    return 0;
}
