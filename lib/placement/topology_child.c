/* SPDX-License-Identifier: Apache-2.0 */
/* Read hwloc XML files in a child process. hwloc's XML reader dereferences NULL on damaged files
 * (hwloc_bitmap_compare_first, hwloc_insert_object_by_parent in 2.9), and the plugin reads them as
 * root in slurmd. The child has no privileges and returns the topology in our own text format,
 * which is validated like any file. */
#include "config.h"
#include "build.h"
#include "lib/clock.h"

#ifdef HAVE_HWLOC
#include "hwloc_api.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TIMEOUT_SECONDS = 60, TEXT_MAX = 64 << 20, NOBODY = 65534 };

/* The child's reply starts with this, or is a topology. */
static const char error_mark[] = "error ";

/* Why there is no reply. */
enum { READ_LATE = -1, READ_MEMORY = -2, READ_LONG = -3, READ_FAILED = -4 };

static int drop_privileges(void)
{
    const struct rlimit no_core = {0, 0}, cpu = {TIMEOUT_SECONDS, TIMEOUT_SECONDS};

    setrlimit(RLIMIT_CORE, &no_core);
    setrlimit(RLIMIT_CPU, &cpu);
    if (geteuid() != 0)
        return 0;
    return setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
                   setresuid(NOBODY, NOBODY, NOBODY) < 0
               ? -1
               : 0;
}

static void read_in_child(const char *name, const char *text, size_t size, int answer)
{
    FILE *stream = fdopen(answer, "w");
    struct topology *topology;
    struct error err = {.text = ""};

    /* Only root may be able to read the library. */
    (void)dlopen(HWLOC_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!stream)
        _exit(1);
    /* hwloc prints a page about invalid files; one sentence is enough. */
    setenv("HWLOC_HIDE_ERRORS", "2", 1);
    if (drop_privileges() < 0) {
        error_set_errno(&err, errno, "hwloc cannot read %s: cannot drop root's privileges", name);
        topology = NULL;
    } else {
        topology = topology_read_hwloc(name, text, size, &err);
    }
    if (topology)
        topology_write_text(topology, stream);
    else
        fprintf(stream, "%s%d %s", error_mark, err.code, err.text);
    _exit(fclose(stream) == 0 ? 0 : 1);
}

/* Read the child's whole reply until the deadline. Returns its length, or READ_.... */
static ssize_t read_answer(int from, char **answer)
{
    struct pollfd ready = {.fd = from, .events = POLLIN};
    double end = clock_now() + TIMEOUT_SECONDS;
    size_t length = 0, room = 0;

    *answer = NULL;
    for (;;) {
        ssize_t got;

        if (length + 1 >= room) {
            char *grown;

            room = room ? 2 * room : 65536;
            if (room > TEXT_MAX)
                return READ_LONG;
            grown = realloc(*answer, room);
            if (!grown)
                return READ_MEMORY;
            *answer = grown;
        }
        if (clock_now() >= end)
            return READ_LATE;
        if (poll(&ready, 1, 1000) <= 0)
            continue;
        got = read(from, *answer + length, room - length - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            (*answer)[length] = '\0';
            return got < 0 ? READ_FAILED : (ssize_t)length;
        }
        length += (size_t)got;
    }
}

/* There is no reply, or an empty one from a child that could not even begin. */
static void say_unread(const char *name, ssize_t length, struct error *err)
{
    if (length == READ_LATE)
        error_set(err,
                  "hwloc cannot read %s: no result within %d seconds; check the load of this "
                  "node",
                  name, TIMEOUT_SECONDS);
    else if (length == READ_LONG)
        error_set(err,
                  "hwloc cannot read %s: its topology is larger than %d MiB; export it again with "
                  "`lstopo FILE.xml`",
                  name, TEXT_MAX >> 20);
    else if (length == READ_MEMORY)
        error_set(err, "hwloc cannot read %s: out of memory", name);
    else
        error_set(err,
                  "hwloc cannot read %s: the process that reads it failed; see dmesg on this node "
                  "(was it killed for memory?)",
                  name);
}

static struct topology *take_answer(const char *name, const char *answer, ssize_t length,
                                    int status, struct error *err)
{
    size_t mark = sizeof(error_mark) - 1;
    char *sentence;
    int code;

    if (WIFSIGNALED(status))
        error_set_code(err, ERROR_USAGE,
                       "%s is damaged: hwloc crashed while reading it (signal %d); export it again "
                       "with `lstopo FILE.xml`",
                       name, WTERMSIG(status));
    else if (length < 1)
        say_unread(name, length, err);
    else if (strncmp(answer, error_mark, mark) != 0)
        return topology_from_text(name, answer, (size_t)length, err);
    else {
        code = (int)strtol(answer + mark, &sentence, 10);
        error_set_code(err, code == ERROR_USAGE ? ERROR_USAGE : ERROR_FAILURE, "%s", sentence + 1);
    }
    return NULL;
}

struct topology *topology_from_hwloc(const char *name, const char *text, size_t size,
                                     struct error *err)
{
    struct topology *topology;
    char *answer = NULL;
    ssize_t length;
    int ends[2], status = 0;
    pid_t child;

    if (pipe2(ends, O_CLOEXEC) < 0) {
        error_set_errno(err, errno, "cannot read %s: cannot create a pipe", name);
        return NULL;
    }
    child = fork();
    if (child == 0) {
        close(ends[0]);
        read_in_child(name, text, size, ends[1]);
    }
    close(ends[1]);
    if (child < 0) {
        error_set_errno(err, errno, "cannot read %s: cannot start a process", name);
        close(ends[0]);
        return NULL;
    }
    length = read_answer(ends[0], &answer);
    close(ends[0]);
    if (length < 0)
        kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    topology = take_answer(name, answer, length, length < 0 ? 0 : status, err);
    free(answer);
    return topology;
}
#endif
