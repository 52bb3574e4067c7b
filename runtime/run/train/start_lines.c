/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "start_lines.h"
#include "base/core/shell_quote.h"
#include "lib/clock.h"
#include "lib/file.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST_COMMAND = 1 << 20 };

static void print_command(FILE *stream)
{
    struct file_bytes bytes;
    struct error ignored;

    if (file_read("/proc/self/cmdline", LONGEST_COMMAND, &bytes, &ignored) < 0)
        return;
    fprintf(stream, "command line:");
    for (size_t at = 0; at < bytes.length; at += strlen(bytes.data + at) + 1) {
        fputc(' ', stream);
        shell_quote(bytes.data + at, stream);
    }
    fprintf(stream, "\n");
    file_bytes_clear(&bytes);
}

void start_lines_print(double ago, FILE *stream)
{
    const char *job = getenv("SLURM_JOB_ID");
    char when[40], host[256] = "";
    struct tm parts;
    time_t began = (time_t)(clock_wall() - ago);

    gethostname(host, sizeof(host) - 1);
    strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", gmtime_r(&began, &parts));
    fprintf(stream, "megatron %s started at %s UTC on %s%s%s; built with:%s\n", PACKAGE_VERSION,
            when, host, job ? ", job " : "", job ? job : "", MEGATRON_FEATURES);
    print_command(stream);
}
