/* SPDX-License-Identifier: Apache-2.0 */
#include "request.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/parse.h"
#include "settings.h"

enum field {
    FIELD_NONE,
    FIELD_TASKS,
    FIELD_NODES,
    FIELD_TASKS_PER_NODE,
    FIELD_GPUS,
    FIELD_GPUS_PER_NODE,
    FIELD_GPUS_PER_TASK,
    FIELD_TASKS_PER_GPU,
    FIELD_GRES,
    FIELD_TRES_PER_TASK,
    FIELD_CPU_BIND,
    FIELD_GPU_BIND,
    FIELD_MEM_BIND,
    FIELD_HINT,
    FIELD_WRAP,
};

/* Long options that we read. Slurm 22.05 to 26.05. */
static const struct {
    const char *name;
    enum field field;
} long_table[] = {
    {"ntasks", FIELD_TASKS},
    {"nodes", FIELD_NODES},
    {"ntasks-per-node", FIELD_TASKS_PER_NODE},
    {"tasks-per-node", FIELD_TASKS_PER_NODE},
    {"gpus", FIELD_GPUS},
    {"gpus-per-node", FIELD_GPUS_PER_NODE},
    {"gpus-per-task", FIELD_GPUS_PER_TASK},
    {"ntasks-per-gpu", FIELD_TASKS_PER_GPU},
    {"gres", FIELD_GRES},
    {"tres-per-task", FIELD_TRES_PER_TASK},
    {"cpu-bind", FIELD_CPU_BIND},
    {"cpu_bind", FIELD_CPU_BIND},
    {"gpu-bind", FIELD_GPU_BIND},
    {"tres-bind", FIELD_GPU_BIND},
    {"accel-bind", FIELD_GPU_BIND},
    {"mem-bind", FIELD_MEM_BIND},
    {"mem_bind", FIELD_MEM_BIND},
    {"hint", FIELD_HINT},
    {"wrap", FIELD_WRAP},
};

/* All other options that take a separate value. */
static const char worded[] =
    "account acctg-freq argv array autocomplete batch bb bbf bcast-exclude begin chdir "
    "cluster cluster-constraint clusters comment constraint container container-id "
    "container-type context core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task "
    "deadline delay-boot dependency distribution environment epilog error exclude export "
    "export-file extra extra-node-info gid gpu-freq gpus-per-socket gres-flags het-group "
    "ignore-signals input job-name jobid kill-on-invalid-dep licenses mail-type mail-user "
    "mcs-label mem mem-per-cpu mem-per-gpu mem-update mincpus mpi msg-timeout network "
    "nodefile nodelist ntasks-per-core ntasks-per-socket ntasks-per-tres open-mode output "
    "pack-group partition power prefer priority profile prolog qos relative reservation "
    "resources segment signal slurmd-debug sockets-per-node switches task-epilog task-prolog "
    "thread-spec threads threads-per-core time time-min tmp treewidth uid wait-all-nodes "
    "wckey ";

/* Options without a separate value: flags, and options with an optional "=value". */
static const char plain[] =
    "async bcast bell compress consolidate-segments contiguous debugger-test disable-status "
    "exact exclusive external external-launcher get-user-env help hold ignore-pbs immediate "
    "interactive kill-command kill-on-bad-exit label multi-prog nice no-allocate no-bell "
    "no-kill no-requeue no-shell oom-kill-step overcommit overlap oversubscribe parsable "
    "preserve-env propagate pty quiet quit-on-interrupt reboot requeue resv-ports send-libs "
    "spread-job spread-segments stepmgr test-only unbuffered usage use-min-nodes verbose "
    "version wait-for-children whole x11 ";

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char short_worded[] = "ABCDFGJLMNSTabcdeimnopqrtwx";
static const char short_optional[] = "IKk"; /* a value only in the same word */

/* --- values --------------------------------------------------------------------------------- */

/* A count as Slurm writes it: 16, 2k. */
static int64_t read_count(const char *text, size_t length)
{
    char digits[24];
    int64_t unit = 1, value;

    if (length > 1 && (text[length - 1] == 'k' || text[length - 1] == 'K'))
        unit = 1024;
    else if (length > 1 && (text[length - 1] == 'm' || text[length - 1] == 'M'))
        unit = 1048576;
    if (unit > 1)
        length--;
    if (length == 0 || length >= sizeof(digits))
        return REQUEST_UNKNOWN;
    memcpy(digits, text, length);
    digits[length] = '\0';
    if (parse_int64("", digits, 0, INT32_MAX, &value, NULL))
        return REQUEST_UNKNOWN;
    return value * unit;
}

/* Nodes: "4"; for "2-4" or "2,4" only Slurm knows the number. */
static int64_t read_nodes(const char *text)
{
    const char *dash = strchr(text, '-');

    if (!dash)
        return read_count(text, strlen(text));
    if ((size_t)(dash - text) == strlen(dash + 1) &&
        strncmp(text, dash + 1, (size_t)(dash - text)) == 0)
        return read_count(text, (size_t)(dash - text));
    return REQUEST_UNKNOWN;
}

/* "4", "a100:4", "a100:2,v100:2" (the sum of the counts after the last colons). */
static int64_t read_typed(const char *text)
{
    int64_t sum = 0;

    while (*text) {
        size_t length = strcspn(text, ",");
        size_t start = length;
        int64_t count;

        while (start > 0 && text[start - 1] != ':')
            start--;
        count = read_count(text + start, length - start);
        if (count == REQUEST_UNKNOWN)
            return REQUEST_UNKNOWN;
        sum += count;
        text += length + (text[length] == ',');
    }
    return sum;
}

int64_t request_gres_gpus(const char *text)
{
    int64_t sum = REQUEST_UNKNOWN;

    if (strcasecmp(text, "none") == 0)
        return 0;
    while (*text) {
        size_t length = strcspn(text, ",");
        const char *word = text, *end = text + length;
        int64_t count = 1;

        text += length + (text[length] == ',');
        if (end - word >= 5 && strncmp(word, "gres/", 5) == 0)
            word += 5;
        if (end - word >= 5 && strncmp(word, "gres:", 5) == 0)
            word += 5;
        if (end - word < 3 || strncmp(word, "gpu", 3) != 0 ||
            (end - word > 3 && word[3] != ':' && word[3] != '='))
            continue;
        if (end - word > 3) {
            const char *start = end;

            while (start > word && start[-1] != ':' && start[-1] != '=')
                start--;
            count = read_count(start, (size_t)(end - start));
            /* "gpu:a100" is one GPU of that type. */
            if (count == REQUEST_UNKNOWN && start == word + 4)
                count = 1;
        }
        if (count == REQUEST_UNKNOWN)
            return REQUEST_UNKNOWN;
        sum = (sum == REQUEST_UNKNOWN ? 0 : sum) + count;
    }
    return sum;
}

static bool has_gpus(const char *text)
{
    return request_gres_gpus(text) > 0;
}

/* --cpu-bind=verbose alone does not request binding. */
static bool is_binding(const char *text)
{
    return strcmp(text, "verbose") != 0 && strcmp(text, "v") != 0 && strcmp(text, "quiet") != 0 &&
           strcmp(text, "q") != 0;
}

static int64_t read_number(const char *text)
{
    return read_count(text, strlen(text));
}

/* What a field sets: a count of the component, and what placement must not change. */
#define AT(member) offsetof(struct request_component, member) + 1
static const struct {
    int64_t (*read)(const char *text);
    size_t offset; /* of the count, plus 1; 0: none */
    enum override override;
    bool (*overrides)(const char *text); /* NULL: always */
} fields[] = {
    [FIELD_TASKS] = {.read = read_number, .offset = AT(tasks)},
    [FIELD_NODES] = {.read = read_nodes, .offset = AT(nodes)},
    [FIELD_TASKS_PER_NODE] = {.read = read_number, .offset = AT(tasks_per_node)},
    [FIELD_GPUS] = {.read = read_typed, .offset = AT(gpus)},
    [FIELD_GPUS_PER_NODE] = {.read = read_typed, .offset = AT(gpus_per_node)},
    [FIELD_GPUS_PER_TASK] = {read_typed, AT(gpus_per_task), OVERRIDE_GPU_BIND, NULL},
    [FIELD_TASKS_PER_GPU] = {.read = read_number, .offset = AT(tasks_per_gpu)},
    [FIELD_GRES] = {.read = request_gres_gpus, .offset = AT(gpus_per_node)},
    [FIELD_TRES_PER_TASK] = {request_gres_gpus, AT(gpus_per_task), OVERRIDE_GPU_BIND, has_gpus},
    [FIELD_CPU_BIND] = {.override = OVERRIDE_CPU_BIND, .overrides = is_binding},
    [FIELD_GPU_BIND] = {.override = OVERRIDE_GPU_BIND},
    [FIELD_MEM_BIND] = {.override = OVERRIDE_MEM_BIND, .overrides = is_binding},
    [FIELD_HINT] = {.override = OVERRIDE_HINT},
    [FIELD_WRAP] = {.read = NULL},
};
#undef AT

static void set_field(struct request *request, enum field field, const char *value)
{
    char *component = (char *)&request->components[request->current];

    request->wrapped |= field == FIELD_WRAP;
    if (fields[field].offset > 0)
        *(int64_t *)(void *)(component + fields[field].offset - 1) = fields[field].read(value);
    if (!fields[field].overrides || fields[field].overrides(value))
        request->overrides |= fields[field].override;
}

/* --- words ---------------------------------------------------------------------------------- */

enum takes { TAKES_NOTHING, TAKES_WORD, TAKES_UNKNOWN };

struct match {
    enum field field;
    enum takes takes;
    int own; /* enum option_id; -1: not an option of ours */
};

static bool consider(const char *candidate, struct match as, const char *name, size_t length,
                     struct match *best, int *found)
{
    if (strncmp(candidate, name, length) != 0)
        return false;
    *best = as;
    if (candidate[length] == '\0')
        return true; /* an exact match is never ambiguous */
    (*found)++;
    return false;
}

/* The same for all names in a space-separated list. */
static bool consider_all(const char *list, struct match as, const char *name, size_t length,
                         struct match *best, int *found)
{
    for (size_t end; *list; list += end + (list[end] == ' ')) {
        char candidate[64];

        end = strcspn(list, " ");
        snprintf(candidate, sizeof(candidate), "%.*s", (int)end, list);
        if (consider(candidate, as, name, length, best, found))
            return true;
    }
    return false;
}

/* Find a long option, whose name may be abbreviated as long as it is unique. */
static struct match find_long(enum program program, const char *name, size_t length)
{
    const struct match unknown = {FIELD_NONE, TAKES_UNKNOWN, -1};
    struct match best = unknown, as;
    int found = 0;

    for (size_t i = 0; i < COUNT(long_table); i++) {
        as = (struct match){long_table[i].field, TAKES_WORD, -1};
        if (consider(long_table[i].name, as, name, length, &best, &found))
            return best;
    }
    as = (struct match){FIELD_NONE, TAKES_WORD, -1};
    if (consider_all(worded, as, name, length, &best, &found))
        return best;
    as.takes = TAKES_NOTHING;
    if (consider_all(plain, as, name, length, &best, &found))
        return best;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char own[64];

        snprintf(own, sizeof(own), "megatron-%s", option_table[i].name);
        as.takes = option_may_be_alone((enum option_id)i) ? TAKES_NOTHING : TAKES_WORD;
        as.own = (int)i;
        if (consider(own, as, name, length, &best, &found))
            return best;
    }
    as.takes = program == PROGRAM_SBATCH ? TAKES_NOTHING : TAKES_WORD;
    as.own = -1;
    if (consider("wait", as, name, length, &best, &found))
        return best;
    return found == 1 ? best : unknown;
}

static enum field short_field(char letter)
{
    return letter == 'n'   ? FIELD_TASKS
           : letter == 'N' ? FIELD_NODES
           : letter == 'G' ? FIELD_GPUS
                           : FIELD_NONE;
}

/* Read one long option at 'position'; returns the position after it. */
static int read_long(struct request *request, int position, int limit, char *const *argv)
{
    const char *name = argv[position] + 2;
    size_t length = strcspn(name, "=");
    struct match match = find_long(request->program, name, length);

    request->interactive |= strncmp(name, "interactive", length + 1) == 0;
    request->last = match.own;
    if (match.own >= 0) {
        request->cut &= ~(1U << match.own);
        request->own |= 1U << match.own;
    }
    if (name[length] == '=') {
        set_field(request, match.field, name + length + 1);
        return position + 1;
    }
    if (match.takes == TAKES_NOTHING || position + 1 >= limit)
        return position + 1;
    /* An option of another plugin: what follows is its value unless it looks like an option. */
    if (match.takes == TAKES_UNKNOWN)
        return position + 1 + (argv[position + 1][0] != '-');
    set_field(request, match.field, argv[position + 1]);
    return position + 2;
}

static int read_short(struct request *request, int position, int limit, char *const *argv)
{
    request->last = -1;
    for (const char *letter = argv[position] + 1; *letter; letter++) {
        bool takes =
            strchr(short_worded, *letter) || (*letter == 'W' && request->program != PROGRAM_SBATCH);

        if (strchr(short_optional, *letter))
            break;
        if (!takes)
            continue;
        if (letter[1]) {
            /* getopt reads "-n=4" as the value "=4", which Slurm rejects. */
            set_field(request, short_field(*letter), letter + 1);
            break;
        }
        if (position + 1 < limit)
            set_field(request, short_field(*letter), argv[position + 1]);
        return position + 2;
    }
    return position + 1;
}

void request_add_component(struct request *request)
{
    static const struct request_component unknown = {-1, -1, -1, -1, -1, -1, -1};

    if (request->count < REQUEST_COMPONENTS)
        request->components[request->count++] = unknown;
    request->current = request->count - 1;
}

void request_init(struct request *request, enum program program)
{
    memset(request, 0, sizeof(*request));
    request->program = program;
    request_add_component(request);
}

int request_options(struct request *request, int position, int limit, char *const *argv)
{
    request->last = -1;
    while (position < limit) {
        const char *word = argv[position];

        if (strcmp(word, "--") == 0) {
            request->last = -1;
            return position + 1;
        }
        if (word[0] != '-' || word[1] == '\0')
            return position;
        position = word[1] == '-' ? read_long(request, position, limit, argv)
                                  : read_short(request, position, limit, argv);
    }
    return position < limit ? position : limit;
}

int request_arguments(struct request *request, int argc, char *const *argv, int limit)
{
    size_t components = 0;
    int position = 1, first = 0, end;
    bool again;

    if (limit > argc || limit < 1)
        limit = argc;
    do {
        again = false;
        request->current = components++;
        if (components > request->count)
            request_add_component(request);
        position = request_options(request, position, limit, argv);
        if (first == 0)
            first = position;
        /* Components of a het job are separated by a colon after each command (srun) or after the
         * options (sbatch, salloc), where a later one is an argument of the script. */
        end = request->program == PROGRAM_SRUN || position >= argc ? argc : position + 1;
        for (int i = position; limit == argc && i < end; i++) {
            if (strcmp(argv[i], ":") == 0) {
                position = i + 1;
                again = components < REQUEST_COMPONENTS;
                break;
            }
        }
    } while (again);
    return first;
}

void request_environment(struct request *request, char *const *variables)
{
    static const struct {
        const char *name; /* the part after SLURM_, SBATCH_ or SALLOC_ */
        enum field field;
        bool srun_only;
    } table[] = {
        {"NPROCS", FIELD_TASKS, true},
        {"NTASKS", FIELD_TASKS, true},
        {"NNODES", FIELD_NODES, true},
        {"JOB_NUM_NODES", FIELD_NODES, true},
        {"NTASKS_PER_NODE", FIELD_TASKS_PER_NODE, true},
        {"NTASKS_PER_GPU", FIELD_TASKS_PER_GPU, true},
        {"CPU_BIND", FIELD_CPU_BIND, true},
        {"GPUS", FIELD_GPUS, false},
        {"GPUS_PER_NODE", FIELD_GPUS_PER_NODE, false},
        {"GPUS_PER_TASK", FIELD_GPUS_PER_TASK, false},
        {"GRES", FIELD_GRES, false},
        {"GPU_BIND", FIELD_GPU_BIND, false},
        {"MEM_BIND", FIELD_MEM_BIND, false},
        {"HINT", FIELD_HINT, false},
    };
    static const char *const prefixes[] = {"SLURM_", "SBATCH_", "SALLOC_"};
    const char *prefix = prefixes[request->program];
    bool nested = false;

    /* Within a step, SLURM_CPU_BIND is Slurm's own result for that step, not the user's request. A
     * batch script is no such step, although newer Slurm (26.05) gives it this number. */
    for (char *const *variable = variables; *variable; variable++)
        nested |= strncmp(*variable, "SLURM_STEP_ID=", 14) == 0 &&
                  strcmp(*variable + 14, "-5") != 0 && strcmp(*variable + 14, "4294967291") != 0;
    for (size_t i = 0; i < COUNT(table); i++) {
        size_t length = strlen(prefix), name = strlen(table[i].name);

        if (table[i].srun_only && request->program != PROGRAM_SRUN)
            continue;
        if (nested && (table[i].field == FIELD_CPU_BIND || table[i].field == FIELD_MEM_BIND))
            continue;
        for (char *const *variable = variables; *variable; variable++)
            if (strncmp(*variable, prefix, length) == 0 &&
                strncmp(*variable + length, table[i].name, name) == 0 &&
                (*variable)[length + name] == '=')
                for (request->current = 0; request->current < request->count; request->current++)
                    set_field(request, table[i].field, *variable + length + name + 1);
    }
    request->current = 0;
}
