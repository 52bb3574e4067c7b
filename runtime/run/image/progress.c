/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"
#include "lib/clock.h"
#include "lib/file.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void format_size(double bytes, char *text, size_t size)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    int unit = 0;

    while (bytes >= 1000 && unit < 4) {
        bytes /= 1000;
        unit++;
    }
    snprintf(text, size, unit < 2 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
}

/* Is process 'pid' the mksquashfs that writes 'draft'? */
static int writes_draft(const char *pid, const char *draft)
{
    char path[64], text[8192];
    ssize_t got;

    snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
    if (file_read_text(path, text, sizeof(text)) < 0 || strcmp(text, "mksquashfs\n") != 0)
        return 0;
    snprintf(path, sizeof(path), "/proc/%.20s/cmdline", pid);
    got = file_read_text(path, text, sizeof(text));
    return got > 0 && memmem(text, (size_t)got, draft, strlen(draft)) != NULL;
}

/* Bytes that process 'pid' has read; -1 if it is not running. */
static double bytes_read_by(const char *pid)
{
    char path[64], text[512];
    long long value;

    snprintf(path, sizeof(path), "/proc/%.20s/io", pid);
    if (file_read_text(path, text, sizeof(text)) < 0 || sscanf(text, "rchar: %lld", &value) != 1)
        return -1;
    return (double)value;
}

/* Bytes that the program that writes the image has read; -1 if it is not running. */
static double bytes_read(const char *draft)
{
    DIR *processes = opendir("/proc");
    struct dirent *item;
    double bytes = -1;

    while (processes && bytes < 0 && (item = readdir(processes)))
        if (item->d_name[0] >= '1' && item->d_name[0] <= '9' && writes_draft(item->d_name, draft))
            bytes = bytes_read_by(item->d_name);
    if (processes)
        closedir(processes);
    return bytes;
}

/* Enroot's last "[INFO] ..." line, which names the phase. */
static void phase_of(const char *errors, char *phase, size_t size)
{
    const char *found = NULL;

    for (const char *at = errors; (at = strstr(at, "[INFO] ")); at++)
        found = at + 7;
    snprintf(phase, size, "%.*s", found ? (int)strcspn(found, "\r\n") : 8,
             found ? found : "starting");
}

/* Count the bytes in the scratch directory. Layers may be many small files, so counting must take
 * only a small fraction of the time. */
static double scratch_bytes(struct progress *progress, double elapsed)
{
    const double pauses = 20;
    double begun = clock_now();

    if (elapsed >= progress->next_look) {
        progress->unpacked = (double)scratch_size(progress->scratch);
        progress->next_look = elapsed + pauses * (clock_now() - begun);
    }
    return progress->unpacked;
}

/* "(20 s, about 30 s left)" if 'done' of 'total' took 'spent' of them. */
static void format_time(double elapsed, double spent, double done, double total, char *text,
                        size_t size)
{
    const double nearly = 0.98;

    if (done > nearly * total)
        snprintf(text, size, "(%.0f s, nearly done)", elapsed);
    else if (done > 0)
        snprintf(text, size, "(%.0f s, about %.0f s left)", elapsed, (total - done) / done * spent);
    else
        snprintf(text, size, "(%.0f s)", elapsed);
}

void progress_of_bytes(double bytes, double total, double elapsed, char *line, size_t size)
{
    char here[32], all[32], rate[32], time[64];

    format_size(bytes, here, sizeof(here));
    format_size(total, all, sizeof(all));
    format_size(bytes / (elapsed > 1 ? elapsed : 1), rate, sizeof(rate));
    format_time(elapsed, elapsed, bytes, total, time, sizeof(time));
    snprintf(line, size, "%s of %s, %s/s %s", here, all, rate, time);
}

/* "Downloading 3 missing layers... 1.2 GB, 80.0 MB/s (15 s)" */
static void line_of_download(const struct download *download, const char *phase, double elapsed,
                             char *line, size_t size)
{
    double bytes = (double)download_bytes(download);
    char here[32], rate[32];

    format_size(bytes, here, sizeof(here));
    format_size(bytes / (elapsed > 1 ? elapsed : 1), rate, sizeof(rate));
    snprintf(line, size, "%s %s, %s/s (%.0f s)", phase, here, rate, elapsed);
}

static void line_of_layers(struct progress *progress, const char *errors, double elapsed,
                           char *line, size_t size)
{
    char phase[200], unpacked[32], rate[32];
    double bytes;

    phase_of(errors, phase, sizeof(phase));
    if (progress->download && strncmp(phase, "Downloading", 11) == 0) {
        line_of_download(progress->download, phase, elapsed, line, size);
        return;
    }
    bytes = scratch_bytes(progress, elapsed);
    if (bytes == 0) {
        snprintf(line, size, "%s (%.0f s)", phase, elapsed);
        return;
    }
    /* Unpacking started at most one report ago. */
    if (progress->unpacking == 0)
        progress->unpacking = elapsed > PROGRESS_SECONDS ? elapsed - PROGRESS_SECONDS : 0.001;
    format_size(bytes, unpacked, sizeof(unpacked));
    format_size(bytes / (elapsed - progress->unpacking), rate, sizeof(rate));
    snprintf(line, size, "%s %s unpacked, %s/s (%.0f s)", phase, unpacked, rate, elapsed);
}

void progress_line(struct progress *progress, const char *errors, double elapsed, char *line,
                   size_t size)
{
    char written[32], rate[32], time[64];
    struct stat info;
    double bytes = stat(progress->draft, &info) == 0 ? (double)info.st_size : 0, spent;

    if (bytes == 0) {
        line_of_layers(progress, errors, elapsed, line, size);
        return;
    }
    if (progress->total == 0) {
        progress->total = (double)scratch_size(progress->scratch);
        progress->writing = elapsed > PROGRESS_SECONDS ? elapsed - PROGRESS_SECONDS : 0;
    }
    spent = elapsed - progress->writing;
    format_size(bytes, written, sizeof(written));
    format_size(bytes / (spent > 1 ? spent : 1), rate, sizeof(rate));
    /* A compressed image is smaller than its input, so use the number of input bytes that were
     * read. */
    format_time(elapsed, spent, progress->uncompressed ? bytes : bytes_read(progress->draft),
                progress->total, time, sizeof(time));
    snprintf(line, size, "%s written, %s/s %s", written, rate, time);
}

void progress_of_sum(pid_t child, double size, double elapsed, char *line, size_t length)
{
    char pid[32];
    double bytes;

    snprintf(pid, sizeof(pid), "%d", (int)child);
    bytes = bytes_read_by(pid);
    if (bytes >= 0 && bytes < size)
        progress_of_bytes(bytes, size, elapsed, line, length);
    else
        snprintf(line, length, "waiting for the disk (%.0f s)", elapsed);
}

void progress_say(void (*say)(void *argument, const char *line), void *argument, const char *format,
                  ...)
{
    char line[1024];
    va_list args;

    if (!say)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    say(argument, line);
}
