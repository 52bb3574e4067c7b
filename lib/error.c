/* SPDX-License-Identifier: Apache-2.0 */
#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char out_of_memory[] = "out of memory";

static const char memory_advice[] =
    "raise the memory limit of the job (sbatch --mem), or run fewer "
    "tasks per node";

static const struct {
    int number;
    const char *words;
} general[] = {
    {EACCES, "check the owner and permissions of each directory of the path (namei -l)"},
    {EADDRINUSE, "another process uses this port: choose another one"},
    {EADDRNOTAVAIL, "this address belongs to no network interface of the node"},
    {EAGAIN, "raise the limit on processes and threads (ulimit -u)"},
    {EBUSY, "another process is using it (see lsof)"},
    {ECONNREFUSED, "check that the process there is running and that no firewall blocks the port"},
    {ECONNRESET, "the process at the other end has ended: see its output"},
    {EDQUOT, "your disk quota is used up: delete files or ask for a larger one"},
    {EEXIST, "remove it, or choose another name"},
    {EFBIG, "raise the limit on the size of files (ulimit -f), or use another file system"},
    {EHOSTUNREACH, "check the network between the nodes"},
    {EIO, "the disk or file server fails: see dmesg on this node, or use another file system"},
    {EISDIR, "name a file instead"},
    {ELOOP, "check the symbolic links of the path"},
    {EMFILE, "raise the limit on open files (ulimit -n)"},
    {ENAMETOOLONG, "use a shorter path"},
    {ENETUNREACH, "check the network between the nodes"},
    {ENFILE, "close other programs on this node, or raise sysctl fs.file-max"},
    {ENOENT, "check the path"},
    {ENOEXEC, "it is not a program for this CPU architecture"},
    {ENOMEM, memory_advice},
    {ENOSPC, "free disk space there, or choose another directory"},
    {ENOSYS, "this kernel does not support it: use a newer one"},
    {ENOTDIR, "check the path: one of its directories is a file"},
    {ENOTEMPTY, "another process may be writing to it: see what it contains"},
    {EOPNOTSUPP, "use another file system"},
    {EPERM, "this needs privileges that the user does not have: ask your administrator"},
    {EPIPE, "the process at the other end has ended: see its output"},
    {EROFS, "choose a directory on a file system that is not mounted read-only"},
    {ESTALE, "the file was replaced or removed on the NFS server: run the command again"},
    {ETIMEDOUT, "check the network between the nodes and its firewall"},
    {ETXTBSY, "another process is using it (see lsof)"},
};

/* What to do about errno value 'number'; "" if it has no general remedy. */
static const char *remedy_of(int number)
{
    for (size_t i = 0; i < sizeof(general) / sizeof(general[0]); i++)
        if (general[i].number == number)
            return general[i].words;
    return "";
}

/* Put 'words' after the text as a remedy that a specific one may replace, if there is room. */
static int advise(struct error *err, const char *words)
{
    size_t length = strlen(err->text), needed = strlen(words) + strlen("; ");

    if (words[0] && length + needed < sizeof(err->text)) {
        snprintf(err->text + length, sizeof(err->text) - length, "; %s", words);
        err->advice = (int)needed;
    }
    return -1;
}

static int ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);

    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static int set_text(struct error *err, const char *format, va_list args)
{
    int length = vsnprintf(err->text, sizeof(err->text), format, args);

    if (length >= (int)sizeof(err->text))
        memcpy(err->text + sizeof(err->text) - 4, "...", 4);
    err->code = ERROR_FAILURE;
    err->advice = 0;
    err->quiet = 0;
    if (ends_with(format, out_of_memory))
        advise(err, memory_advice);
    return -1;
}

/* Where the general remedy begins, or the end of the text. Callers may have emptied the text. */
static const char *advice_of(const struct error *err)
{
    size_t length = strlen(err->text);

    return err->text + length - (err->advice > 0 && err->advice <= (int)length ? err->advice : 0);
}

int error_format(struct error *err, enum error_code code, int number, const char *format, ...)
{
    struct error sentence;
    va_list args;

    if (!err)
        return -1;
    va_start(args, format);
    set_text(&sentence, format, args);
    va_end(args);
    if (number != 0) {
        error_set(err, "%s: %s", sentence.text, strerror(number));
        advise(err, remedy_of(number));
    } else {
        *err = sentence;
    }
    err->code = code;
    return -1;
}

int error_advise(struct error *err, const char *words)
{
    return !err || strstr(err->text, "; ") ? -1 : advise(err, words);
}

int error_bug(struct error *err, const char *format, ...)
{
    struct error sentence;
    va_list args;

    if (!err)
        return -1;
    va_start(args, format);
    set_text(&sentence, format, args);
    va_end(args);
    return error_set(err,
                     "internal error: %.900s; please report this bug with the command and its "
                     "output",
                     sentence.text);
}

int error_prefix(struct error *err, const char *format, ...)
{
    struct error before, after;
    va_list args;

    if (!err)
        return -1;
    after = *err;
    va_start(args, format);
    set_text(&before, format, args);
    va_end(args);
    error_set_code(err, after.code, "%s: %s", before.text, after.text);
    if (strlen(before.text) + strlen(": ") + strlen(after.text) < sizeof(err->text))
        err->advice = after.advice;
    err->quiet = after.quiet;
    return -1;
}

int error_append(struct error *err, const char *format, ...)
{
    struct error before, after;
    const char *advice;
    size_t kept, room;
    va_list args;

    if (!err)
        return -1;
    before = *err;
    va_start(args, format);
    set_text(&after, format, args);
    va_end(args);
    advice = advice_of(&before);
    kept = (size_t)(advice - before.text);
    room = sizeof(err->text) - 1 - strlen(after.text);
    error_set_code(err, before.code, "%.*s%s", (int)(kept < room ? kept : room), before.text,
                   after.text);
    err->quiet = before.quiet;
    return after.text[0] == ';' || !advice[0] ? -1 : advise(err, advice + strlen("; "));
}

int error_silence(struct error *err)
{
    if (err)
        err->quiet = 1;
    return -1;
}
