/* SPDX-License-Identifier: Apache-2.0 */
#include "memory_stream.h"

#include "lib/file.h"
#include "storage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void output_open(struct output *output)
{
    output->stream = memory_stream(&output->text, &output->size);
}

int output_write(struct output *output, const char *path, struct error *err)
{
    int rc = 0;

    memory_stream_close(output->stream);
    errno = 0;
    if (strcmp(path, "-") == 0)
        fwrite(output->text, 1, output->size, stdout); /* main() reports failures */
    else if (file_write_whole(path, output->text, output->size, 0, err) < 0)
        rc = file_path_error(err);
    free(output->text);
    return rc;
}

int output_append(struct output *output, const char *path, struct error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666), rc = 0;

    memory_stream_close(output->stream);
    if (fd < 0 || write(fd, output->text, output->size) != (ssize_t)output->size) {
        error_set_errno(err, errno, "cannot append to %s", path);
        rc = file_path_error(err);
    }
    if (fd >= 0 && close(fd) < 0 && rc == 0)
        rc = error_set_errno(err, errno, "cannot append to %s", path);
    free(output->text);
    return rc;
}
