/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/file.h"

extern char **environ;

enum { COMMAND_LINE_MAX = 1 << 20, WORDS_MAX = 8192, SCRIPT_MAX = 1 << 18 };

/* The command line of this program and, if the job uses the plugin, sbatch's script: read once. */
struct command_line {
    char *words[WORDS_MAX]; /* in 'line' */
    int count;
    int limit; /* the words of the program itself: its options, and the command or script */
    char *line;
    bool script_read;
    char *script; /* of sbatch; NULL: none, or not a regular file */
    size_t script_size;
    int script_word; /* the position of its name */
};

enum program client_program(void)
{
    if (spank_context() == S_CTX_LOCAL)
        return PROGRAM_SRUN;
    return strstr(program_invocation_short_name, "alloc") ? PROGRAM_SALLOC : PROGRAM_SBATCH;
}

/* Read all of a regular file of up to 'max' bytes, NUL-terminated; NULL if it cannot be read. A
 * pipe is not read: its contents are meant for another reader. */
static char *read_whole(const char *path, size_t max, bool regular, size_t *size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    char *text = NULL;
    ssize_t got;

    *size = 0;
    if (fd < 0)
        return NULL;
    if (!regular || (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)))
        text = malloc(max + 1);
    if (!text) {
        close(fd);
        return NULL;
    }
    got = file_read_text_fd(fd, text, max + 1);
    *size = got > 0 ? (size_t)got : 0;
    return text;
}

/* The index at which getopt stopped, which the program's own parsing left in optind. A het job's
 * command line is parsed in pieces, so optind is meaningless there. */
static int words_limit(int argc, char *const *argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], ":") == 0)
            return argc;
    return optind > 0 && optind <= argc ? optind : argc;
}

/* sbatch reads the script that its first word names, unless --wrap is given. */
static void read_script(struct command_line *c)
{
    struct request probe;

    if (c->script_read || client_program() != PROGRAM_SBATCH || c->count == 0)
        return;
    c->script_read = true;
    request_init(&probe, PROGRAM_SBATCH);
    c->script_word = request_arguments(&probe, c->count, c->words, c->limit);
    if (c->script_word < c->count && !probe.wrapped)
        c->script = read_whole(c->words[c->script_word], SCRIPT_MAX, true, &c->script_size);
}

/* NULL if out of memory. */
static struct command_line *command_line(struct plugin *plugin)
{
    struct command_line *c = plugin->command_line;
    size_t size;

    if (c)
        return c;
    c = plugin->command_line = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->line = read_whole("/proc/self/cmdline", COMMAND_LINE_MAX, false, &size);
    for (char *word = c->line; word && word < c->line + size && c->count < WORDS_MAX;
         word += strlen(word) + 1)
        c->words[c->count++] = word;
    c->limit = words_limit(c->count, c->words);
    return c;
}

void client_clear(struct plugin *plugin)
{
    if (plugin->command_line) {
        free(plugin->command_line->line);
        free(plugin->command_line->script);
    }
    free(plugin->command_line);
    plugin->command_line = NULL;
}

bool client_has_option(struct plugin *plugin, const char *option)
{
    const struct command_line *c = command_line(plugin);
    size_t length = strlen(option);

    /* The program and its own options follow the options. */
    for (int i = 1; c && i < c->limit && strcmp(c->words[i], "--") != 0; i++)
        if (strncmp(c->words[i], option, length) == 0 &&
            (c->words[i][length] == '=' || c->words[i][length] == '\0'))
            return true;
    return false;
}

void client_request(struct plugin *plugin, bool allocated, struct request *request)
{
    struct command_line *c = command_line(plugin);

    request_init(request, client_program());
    if (c)
        read_script(c);
    if (c && c->script) {
        request_script(request, c->script, c->script_size);
        request_script_words(request, c->script, c->count - c->script_word - 1,
                             c->words + c->script_word + 1);
    }
    if (request->program != PROGRAM_SRUN || allocated || !getenv("SLURM_JOB_ID"))
        request_environment(request, environ);
    if (c && c->count > 0)
        request_arguments(request, c->count, c->words, c->limit);
}

void client_counts(const struct request *request, struct counts *counts)
{
    const char *text = getenv("MEGATRON_SPARES");
    long spares = text && request->program != PROGRAM_SRUN ? strtol(text, NULL, 10) : 0;

    counts->tasks = request_tasks(request);
    counts->nodes = request_nodes(request);
    counts->tasks_per_node = request_tasks_per_node(request);
    counts->gpus_per_node = request_gpus_per_node(request);
    counts->components = request->count > 1 ? request->count : 0;
    for (size_t i = 0; i < counts->components; i++) {
        counts->component[i].tasks_per_node = request_component_tasks_per_node(request, i);
        counts->component[i].gpus_per_node = request_component_gpus_per_node(request, i);
    }
    /* The steps of the job will leave out this many nodes. */
    if (spares > 0 && counts->nodes > spares && counts->tasks_per_node > 0 && counts->tasks > 0) {
        counts->nodes -= spares;
        counts->tasks = counts->nodes * counts->tasks_per_node;
    }
}

bool client_is_het(const struct request *request)
{
    return request->count > 1 || getenv("SLURM_HET_SIZE") || getenv("SLURM_PACK_SIZE");
}

void client_advise_inherited(const struct plugin *plugin, const struct request *request,
                             struct error *err)
{
    static const enum option_id layout[] = {OPTION_TP, OPTION_PP, OPTION_CP};
    bool inherited = false;

    if (!plugin->within_job || request->program != PROGRAM_SRUN)
        return;
    for (size_t i = 0; i < sizeof(layout) / sizeof(layout[0]); i++) {
        if (request->own & 1U << layout[i])
            return;
        inherited |= plugin->settings.given[layout[i]] != NULL;
    }
    if (inherited)
        error_append(err, "; the layout is that of the job, from sbatch or salloc: add "
                          "--megatron-off to a step that does not train");
}
