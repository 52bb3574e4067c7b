#include "progress.h"
#include "files.h"

#include <dirent.h>
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
    FILE *file;
    size_t got;

    snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
    if (small_file_read(path, text, sizeof(text)) < 0 || strcmp(text, "mksquashfs\n") != 0)
        return 0;
    snprintf(path, sizeof(path), "/proc/%.20s/cmdline", pid);
    file = fopen(path, "re");
    got = file ? fread(text, 1, sizeof(text), file) : 0;
    if (file)
        fclose(file);
    return memmem(text, got, draft, strlen(draft)) != NULL;
}

/* Bytes that the program which writes the image has read; -1 where it is not running. */
static double bytes_read(const char *draft)
{
    DIR *processes = opendir("/proc");
    struct dirent *item;
    double bytes = -1;

    while (processes && bytes < 0 && (item = readdir(processes))) {
        char path[64], text[512];
        long long value;

        if (item->d_name[0] < '1' || item->d_name[0] > '9' || !writes_draft(item->d_name, draft))
            continue;
        snprintf(path, sizeof(path), "/proc/%.20s/io", item->d_name);
        if (small_file_read(path, text, sizeof(text)) == 0 &&
            sscanf(text, "rchar: %lld", &value) == 1)
            bytes = (double)value;
    }
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

/* What lies in the scratch directory. Layers may be many small files: looking must not take more
 * than a part of the time. */
static double look_at_layers(struct progress *progress, double elapsed)
{
    const double pauses = 20;
    double begun = seconds_now();

    if (elapsed >= progress->next_look) {
        progress->unpacked = (double)scratch_size(progress->scratch);
        progress->next_look = elapsed + pauses * (seconds_now() - begun);
    }
    return progress->unpacked;
}

void progress_line(struct progress *progress, const char *errors, double elapsed, char *line,
                   size_t size)
{
    char phase[200], written[32], rate[32], estimate[64] = "";
    struct stat info;
    double bytes = stat(progress->draft, &info) == 0 ? (double)info.st_size : 0, reading, spent;

    if (bytes == 0) {
        phase_of(errors, phase, sizeof(phase));
        bytes = look_at_layers(progress, elapsed);
        format_size(bytes, written, sizeof(written));
        format_size(bytes / (elapsed > 1 ? elapsed : 1), rate, sizeof(rate));
        if (bytes > 0)
            snprintf(line, size, "%s %s unpacked, %s/s (%.0f s)", phase, written, rate, elapsed);
        else
            snprintf(line, size, "%s (%.0f s)", phase, elapsed);
        return;
    }
    if (progress->total == 0) {
        progress->total = (double)scratch_size(progress->scratch);
        progress->begun = elapsed - 1;
    }
    spent = elapsed - progress->begun;
    reading = bytes_read(progress->draft);
    format_size(bytes, written, sizeof(written));
    format_size(bytes / spent, rate, sizeof(rate));
    if (reading > 0 && reading < progress->total)
        snprintf(estimate, sizeof(estimate), ", about %.0f s left",
                 (progress->total - reading) / reading * spent);
    snprintf(line, size, "%s written, %s/s (%.0f s%s)", written, rate, elapsed, estimate);
}
