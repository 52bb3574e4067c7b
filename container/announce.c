#include "announce.h"
#include "files.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* There may be a thousand waiting nodes, and the one that imports says how far it is: so be terse.
 */
enum { DAY = 86400, FIRST_WORD = 20, NEXT_WORDS = 300 };

static void remove_old(const char *directory)
{
    DIR *work = opendir(directory);
    struct dirent *item;
    struct stat info;
    char path[4096];

    while (work && (item = readdir(work))) {
        if (strncmp(item->d_name, "step-", 5) != 0 ||
            snprintf(path, sizeof(path), "%s/%s", directory, item->d_name) >= (int)sizeof(path))
            continue;
        if (lstat(path, &info) == 0 && time(NULL) - info.st_mtime > DAY)
            unlink(path);
    }
    if (work)
        closedir(work);
}

int announcement_open(struct announcement *announcement, const struct image_cache *cache,
                      const char *step, struct error *err)
{
    char directory[2100];

    snprintf(directory, sizeof(directory), "%s/work", cache->directory);
    remove_old(directory);
    if (strchr(step, '/') || snprintf(announcement->path, sizeof(announcement->path), "%s/step-%s",
                                      directory, step) >= 3000)
        return error_set(err, "the step's name %.100s cannot be a file's name", step);
    return 0;
}

int announcement_begin(struct announcement *announcement, struct error *err)
{
    struct lease_watch watch = {0};
    char path[4096 + 8];
    int taken;

    snprintf(path, sizeof(path), "%.3100s.lease", announcement->path);
    taken = lease_take(&announcement->lease, path, 0, &watch, err);
    if (taken < 0)
        return -1;
    return taken ? 0 : error_set(err, "another node of this step imports its image already");
}

void announcement_beat(struct announcement *announcement)
{
    (void)lease_beat(&announcement->lease);
}

int announcement_end(struct announcement *announcement, const char *key,
                     const struct error *failure, struct error *err)
{
    char text[1200];
    int rc;

    if (key)
        snprintf(text, sizeof(text), "image %s\n", key);
    else
        snprintf(text, sizeof(text), "failed %s\n", failure->text);
    rc = small_file_replace(announcement->path, text, err);
    lease_release(&announcement->lease);
    return rc;
}

/* Returns 1 when there is word, 0 when there is none yet, -1 when the word is a failure. */
static int read_word(const struct announcement *announcement, char key[IMAGE_KEY_SIZE],
                     struct error *err)
{
    char text[1200];

    if (small_file_read(announcement->path, text, sizeof(text)) < 0 || !text[0])
        return 0;
    text[strcspn(text, "\n")] = '\0';
    if (strncmp(text, "image ", 6) == 0 && strlen(text + 6) < IMAGE_KEY_SIZE) {
        strcpy(key, text + 6);
        return 1;
    }
    return error_set(err, "%s", "");
}

/* A sign of life: the lease file's contents, or that of the directory being listed afresh, which
 * also makes network file systems forget that the file was not there. */
static void read_sign(const struct announcement *announcement, char *sign, size_t size)
{
    char path[4096 + 8];
    char *slash;
    DIR *listed;

    snprintf(path, sizeof(path), "%.3100s.lease", announcement->path);
    small_file_read(path, sign, size);
    slash = strrchr(path, '/');
    *slash = '\0';
    listed = opendir(path);
    while (listed && readdir(listed)) {
    }
    if (listed)
        closedir(listed);
}

int announcement_wait(struct announcement *announcement, double patience, double timeout,
                      void (*say)(void *argument, const char *line), void *argument,
                      char key[IMAGE_KEY_SIZE], struct error *err)
{
    char seen[512] = "", sign[512], line[256];
    double begun = seconds_now(), changed = begun, said = begun;
    double pause = 0.02, silence = FIRST_WORD;
    int word;

    while ((word = read_word(announcement, key, err)) == 0) {
        read_sign(announcement, sign, sizeof(sign));
        if (strcmp(sign, seen) != 0) {
            strcpy(seen, sign);
            changed = seconds_now();
        }
        if (seconds_now() - changed > patience)
            return error_set(err,
                             "the node that imports the image has shown no sign of life for %.0f "
                             "seconds; is %.300s on a file system that all nodes share?",
                             patience, announcement->path);
        if (timeout > 0 && seconds_now() - begun > timeout)
            return error_set(err, "the image was not imported within %.0f seconds by another node",
                             timeout);
        if (seconds_now() - said > silence) {
            said = seconds_now();
            silence = NEXT_WORDS;
            snprintf(line, sizeof(line), "waiting for the image, which %.*s imports (%.0f s)",
                     seen[0] ? (int)strcspn(seen, " ") : 12, seen[0] ? seen : "another node",
                     said - begun);
            say(argument, line);
        }
        seconds_sleep(pause);
        pause = pause < 0.5 ? pause * 1.5 : 0.5;
    }
    return word < 0 ? -1 : 0;
}
