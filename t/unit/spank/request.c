/* SPDX-License-Identifier: Apache-2.0 */
/* What command lines, variables and scripts request. */
#include "spank/request.h"

#include <stdlib.h>

#include "spank/settings.h"
#include "tap.h"

static enum program program_of(const char *name)
{
    return strcmp(name, "srun") == 0     ? PROGRAM_SRUN
           : strcmp(name, "sbatch") == 0 ? PROGRAM_SBATCH
                                         : PROGRAM_SALLOC;
}

/* The words of a line, separated by single spaces. */
static int split(char *line, char **words, int max)
{
    int count = 0;

    for (char *word; count < max && (word = strsep(&line, " "));)
        words[count++] = word;
    return count;
}

static const struct {
    const char *line;
    int64_t tasks, nodes, per_node, gpus;
    unsigned overrides;
} lines[] = {
    {"srun true", -1, -1, -1, -1, 0},
    {"srun -n4 true", 4, -1, -1, -1, 0},
    {"srun -n 4 -N 2 true -n 9", 4, 2, 2, -1, 0},
    {"srun --ntasks=8 --nodes=2-2 ./train", 8, 2, 4, -1, 0},
    {"srun --ntasks 8 --nodes 2-4 ./train", 8, -1, -1, -1, 0},
    {"srun -N3 hostname", 3, 3, 1, -1, 0},
    {"sbatch -N3 job.sh -n5", -1, 3, -1, -1, 0},
    {"sbatch -N3 --ntasks-per-node=8 job.sh", 24, 3, 8, -1, 0},
    {"sbatch -N2 --tasks-per-node 8 --gpus-per-node=h100:8 job.sh", 16, 2, 8, 8, 0},
    {"sbatch --gres=gpu:a100:4,shard:2 -N2 -n8 job.sh", 8, 2, 4, 4, 0},
    {"sbatch --gres gpu job.sh", -1, -1, -1, 1, 0},
    {"sbatch --gres=gpu:h100 job.sh", -1, -1, -1, 1, 0},
    {"sbatch --gres=none -N1 -n4 job.sh", 4, 1, 4, 0, 0},
    {"sbatch --gres=gpu:four job.sh", -1, -1, -1, 1, 0}, /* a type called "four" */
    {"sbatch --gpus=16 -N2 job.sh", -1, 2, -1, 8, 0},
    {"sbatch -G a100:2,v100:2 -N1 job.sh", -1, 1, -1, 4, 0},
    {"sbatch --gpus-per-task=1 -n8 -N2 job.sh", 8, 2, 4, 4, OVERRIDE_GPU_BIND},
    {"sbatch --gpus-per-task=2 -G 8 job.sh", 4, -1, -1, -1, OVERRIDE_GPU_BIND},
    {"sbatch --ntasks-per-gpu=2 -G 8 job.sh", 16, -1, -1, -1, 0},
    {"srun --tres-per-task=gres/gpu:2 -n2 -N1 true", 2, 1, 2, 4, OVERRIDE_GPU_BIND},
    {"srun -n4 --cpu-bind=cores true", 4, -1, -1, -1, OVERRIDE_CPU_BIND},
    {"srun -n4 --cpu-bind=verbose true", 4, -1, -1, -1, 0},
    {"srun -n4 --cpu-b none true", 4, -1, -1, -1, OVERRIDE_CPU_BIND},
    {"srun -n4 --hint=nomultithread --gpu-bind=closest --mem-bind=local true", 4, -1, -1, -1,
     OVERRIDE_GPU_BIND | OVERRIDE_MEM_BIND | OVERRIDE_HINT},
    /* values that look like options, flags in one word, options of other plugins */
    {"srun -J -n7 -n4 true", 4, -1, -1, -1, 0},
    {"srun -ln4 true", 4, -1, -1, -1, 0},
    {"srun -K1 -n4 true", 4, -1, -1, -1, 0},
    {"srun --label -n4 true", 4, -1, -1, -1, 0},
    {"srun --megatron-preflight -n4 true", 4, -1, -1, -1, 0},
    {"srun --exclusive -n4 -- -n9", 4, -1, -1, -1, 0},
    {"srun --container-image x.sqsh -n4 true", 4, -1, -1, -1, 0},
    {"srun --container-image=x.sqsh -n4 true", 4, -1, -1, -1, 0},
    {"srun -n2 -n6 true", 6, -1, -1, -1, 0},
    {"srun --mem-per-cpu 4 --threads-per-core 1 -n4 true", 4, -1, -1, -1, 0},
    {"srun --container-type x --wckey -n9 -n4 true", 4, -1, -1, -1, 0},
    {"srun --no-kill --no-requeue -n4 true", 4, -1, -1, -1, 0},
    {"srun --ntasks=4 --ntasks-per-node=2 -N2 true", 4, 2, 2, -1, 0},
    {"srun -W 10 -n4 true", 4, -1, -1, -1, 0},
    {"sbatch -W -n4 job.sh", 4, -1, -1, -1, 0},
    {"sbatch --wait -n4 job.sh", 4, -1, -1, -1, 0},
    {"srun --wait 3 -n4 true", 4, -1, -1, -1, 0},
    /* unreadable numbers stay unknown */
    {"srun -n four true", -1, -1, -1, -1, 0},
    {"srun -n -4 true", -1, -1, -1, -1, 0},
    {"srun -n 99999999999999999999 true", -1, -1, -1, -1, 0},
    {"srun -n 2k true", 2048, -1, -1, -1, 0},
    {"srun -n", -1, -1, -1, -1, 0},
    {"srun --ntasks", -1, -1, -1, -1, 0},
    {"srun --", -1, -1, -1, -1, 0},
    {"srun -", -1, -1, -1, -1, 0},
    {"srun", -1, -1, -1, -1, 0},
    /* het jobs: totals, and what is the same on all nodes */
    {"srun -n2 -N1 a : -n4 -N2 b", 6, 3, 2, -1, 0},
    {"salloc -n2 -N1 --gres=gpu:2 : -n4 -N1 --gres=gpu:4", 6, 2, -1, -1, 0},
    {"salloc -n4 -N1 --gres=gpu:4 : -n8 -N2 -G8", 12, 3, 4, 4, 0},
    {"salloc -n4 -N1 --gres=gpu:4 : -n4 -N1", 8, 2, 4, -1, 0},
    {"srun -n2 a : -N9 --ntasks-per-node=2 b", 20, -1, -1, -1, 0},
    {"salloc -n2 : -n4 echo a : -n9", 6, -1, -1, -1, 0},
    {"sbatch -n2 job.sh : -n9", 2, -1, -1, -1, 0},
};

static void test_lines(void)
{
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char copy[256], *words[64];
        struct request request;
        int count;

        snprintf(copy, sizeof(copy), "%s", lines[i].line);
        count = split(copy, words, 64);
        request_init(&request, program_of(words[0]));
        request_arguments(&request, count, words, count);
        if (!ok(request_tasks(&request) == lines[i].tasks &&
                    request_nodes(&request) == lines[i].nodes &&
                    request_tasks_per_node(&request) == lines[i].per_node &&
                    request_gpus_per_node(&request) == lines[i].gpus &&
                    request.overrides == lines[i].overrides,
                "%s", lines[i].line))
            diag("tasks %lld, nodes %lld, per node %lld, GPUs %lld, overrides %u",
                 (long long)request_tasks(&request), (long long)request_nodes(&request),
                 (long long)request_tasks_per_node(&request),
                 (long long)request_gpus_per_node(&request), request.overrides);
    }
}

/* The first word that is not an option: the script that sbatch will read. */
static void test_command(void)
{
    static const struct {
        const char *line;
        int command;
    } table[] = {
        {"sbatch -n4 job.sh -x", 2},
        {"sbatch --wrap hostname", 3},
        {"sbatch -J name job.sh", 3},
        {"sbatch --parsable j.sh", 2},
        {"sbatch", 1},
        {"sbatch -- j.sh", 2},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char copy[256], *words[64];
        struct request request;
        int count;

        snprintf(copy, sizeof(copy), "%s", table[i].line);
        count = split(copy, words, 64);
        request_init(&request, PROGRAM_SBATCH);
        is_int(request_arguments(&request, count, words, count), table[i].command, table[i].line);
    }
}

/* salloc's own step is recognized by its option. */
static void test_interactive(void)
{
    char *own[] = {"srun", "--interactive", "--preserve-env", "--pty", "bash", NULL};
    char *other[] = {"srun", "--pty", "program", "--interactive", NULL};
    struct request request;

    request_init(&request, PROGRAM_SRUN);
    request_arguments(&request, 5, own, 5);
    ok(request.interactive, "srun --interactive");
    request_init(&request, PROGRAM_SRUN);
    request_arguments(&request, 4, other, 4);
    ok(!request.interactive, "which may also be an option of the program");
}

/* Nothing after the position where getopt stopped is read, whatever it looks like. */
static void test_limit(void)
{
    char *words[] = {"srun", "--unknown", "./program", "-n", "9", NULL};
    struct request request;

    request_init(&request, PROGRAM_SRUN);
    request_arguments(&request, 5, words, 2);
    is_int(request_tasks(&request), -1, "words of the command are not options");
}

static const struct {
    const char *name, *text;
    int64_t tasks, gpus;
    size_t components;
} scripts[] = {
    {"plain", "#!/bin/bash\n#SBATCH -n 8\n#SBATCH --gres=gpu:4\nsrun x\n", 8, 4, 1},
    {"several options on a line", "#!/bin/sh\n#SBATCH -N2 --ntasks-per-node=4 # -n 99\n", 8, -1, 1},
    {"up to the first command", "#!/bin/sh\n#SBATCH -n 8\nsrun x\n#SBATCH -n 9\n", 8, -1, 1},
    {"empty lines and comments", "#!/bin/sh\n\n# x\n   \n#SBATCH\t-n\t8\n", 8, -1, 1},
    {"quotes", "#!/bin/sh\n#SBATCH -J \"a b\" --comment='-n 3' -n \"8\"\n", 8, -1, 1},
    {"an escaped blank", "#!/bin/sh\n#SBATCH -J a\\ -n3 -n8\n", 8, -1, 1},
    {"an indented comment", "#!/bin/sh\n  # x\n#SBATCH -n 8\n", 8, -1, 1},
    {"lines of Windows", "#!/bin/sh\r\n#SBATCH -n 8\r\n", 8, -1, 1},
    {"not quite", "#!/bin/sh\n#SBATCHX -n 8\n ##SBATCH -n 3\n", -1, -1, 1},
    {"a het job", "#!/bin/sh\n#SBATCH -n2\n#SBATCH hetjob\n#SBATCH -n4\n", 6, -1, 2},
    {"no end of line", "#SBATCH -n 8", 8, -1, 1},
    {"nothing", "", -1, -1, 1},
};

static void test_scripts(void)
{
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        struct request request;

        request_init(&request, PROGRAM_SBATCH);
        request_script(&request, scripts[i].text, strlen(scripts[i].text));
        if (!ok(request_tasks(&request) == scripts[i].tasks &&
                    request_gpus_per_node(&request) == scripts[i].gpus &&
                    request.count == scripts[i].components,
                "script: %s", scripts[i].name))
            diag("tasks %lld", (long long)request_tasks(&request));
    }
}

/* An unquoted # ends a line also inside a word; what is left of our options is not what was meant.
 */
static const struct {
    const char *line;
    int cut; /* enum option_id; -1: none */
} cuts[] = {
    {"--megatron-image=docker://me@nvcr.io#nvidia/pytorch -n 99", OPTION_IMAGE},
    {"--megatron-image docker://nvcr.io#nvidia/pytorch -n 99", OPTION_IMAGE},
    {"--megatron-image='docker://nvcr'.io#nvidia -n 99", OPTION_IMAGE},
    {"--megatron-image=#nvidia -n 99", OPTION_IMAGE},
    {"--megatron-image=\"docker://nvcr.io#nvidia/pytorch\" -n 8", -1},
    {"--megatron-image='docker://nvcr.io#nvidia/pytorch' -n 8", -1},
    {"--megatron-image=docker://nvcr.io\\#nvidia -n 8", -1},
    {"--megatron-mounts='/a\\'#:/b' -n 8", -1},
    {"--megatron-image=docker://nvcr.io/nvidia/pytorch # an image -n 99", -1},
    {"--megatron-image=ubuntu --comment=a#b -n 99", -1},
    {"--megatron-mounts=/a#b:/b -n 99", OPTION_MOUNTS},
    {"--megatron-wor /a#b -n 99", OPTION_WORKDIR},
    /* an option that needs no value, or has it, before another one */
    {"--megatron-show --comment=ticket#12 -n 99", -1},
    {"--megatron-show -Jrun#1 -n 99", -1},
    {"--megatron-preflight --comment ticket#12 -n 99", -1},
    {"--megatron-tp=2 --comment ticket#12 -n 99", -1},
    {"--megatron-tp 2 -J run#1 -n 99", -1},
    {"-J --megatron-tp --comment=ticket#12 -n 99", -1},
    {"--megatron-image=ubuntu --#12 -n 99", -1},
};

/* Every option that is cut short is kept, until a later value of the same option. */
static void test_several_cuts(void)
{
    char *words[] = {"sbatch", "--megatron-mounts", "/a:/b", "--megatron-preflight", "job.sh"};
    const char script[] = "#SBATCH --megatron-image=a#b\n#SBATCH --megatron-mounts=/a#b:/b\n"
                          "#SBATCH --megatron-workdir=/a#b\n#SBATCH --megatron-workdir='/a#b'\n";
    struct request request;

    request_init(&request, PROGRAM_SBATCH);
    request_script(&request, script, sizeof(script) - 1);
    is_int(request.cut, 1U << OPTION_IMAGE | 1U << OPTION_MOUNTS,
           "two options that are cut short, and one whose later value is whole");
    request_arguments(&request, 5, words, 4);
    is_int(request.cut, 1U << OPTION_IMAGE, "the command line overrides one of them");
}

static void test_cuts(void)
{
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        char script[256];
        struct request request;

        snprintf(script, sizeof(script), "#!/bin/sh\n#SBATCH %s\nsrun x\n", cuts[i].line);
        request_init(&request, PROGRAM_SBATCH);
        request_script(&request, script, strlen(script));
        is_int(request.cut, cuts[i].cut < 0 ? 0 : 1U << cuts[i].cut, cuts[i].line);
        is_int(request_tasks(&request), strstr(cuts[i].line, "-n 8") ? 8 : REQUEST_UNKNOWN,
               "what follows is read as sbatch reads it");
    }
}

static void test_script_words(void)
{
    static const struct {
        const char *script, *words, *model;
    } rows[] = {
        {". \"$recipe/recipe.bash\"", "--bf16 --megatron-model 7.5B", "7.5B"},
        {". \"$recipe/recipe.bash\"", "--megatron-model=7.5B --lr 1", "7.5B"},
        {". \"$recipe/recipe.bash\"", "--megatron-model 1.7B --megatron-model=7.5B", "7.5B"},
        {". \"$recipe/recipe.bash\"", "--megatron-model", ""},
        {". \"$recipe/recipe.bash\"", "--megatron-model list", ""},
        {". \"$recipe/recipe.bash\"", "--megatron-models 7.5B", ""},
        {"srun megatron train", "--megatron-model 7.5B", ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct request request;
        char line[128], *words[8];

        snprintf(line, sizeof(line), "%s", rows[i].words);
        request_init(&request, PROGRAM_SBATCH);
        request_script_words(&request, rows[i].script, split(line, words, 8), words);
        is(request.model, rows[i].model, rows[i].words);
    }
}

/* The command line overrides variables, which override the script. */
static void test_order(void)
{
    char *variables[] = {"SBATCH_GRES=gpu:2", "SBATCH_HINT=compute_bound", "SLURM_NTASKS=77", NULL};
    char *words[] = {"sbatch", "-n6", "job.sh", NULL};
    const char script[] = "#SBATCH -n3 -N1 --gres=gpu:8\n";
    struct request request;

    request_init(&request, PROGRAM_SBATCH);
    request_script(&request, script, sizeof(script) - 1);
    request_environment(&request, variables);
    is_int(request_tasks(&request), 3, "sbatch does not take SLURM_NTASKS");
    request_arguments(&request, 3, words, 3);
    is_int(request_tasks(&request), 6, "the command line is over the script");
    is_int(request_gpus_per_node(&request), 2, "a variable is over the script");
    is_int(request.overrides, OVERRIDE_HINT, "a variable is a override");
    is_int(request_nodes(&request), 1, "the script stands where nothing else was said");
}

static void test_variables(void)
{
    char *outside[] = {"SLURM_NTASKS=8", "SLURM_NNODES=2", "SLURM_CPU_BIND=cores",
                       "SLURM_GPUS_PER_NODE=4", NULL};
    char *nested[] = {"SLURM_STEP_ID=0", "SLURM_CPU_BIND=quiet,mask_cpu:0x1", NULL};
    char *batch[] = {"SLURM_STEP_ID=-5", "SLURM_CPU_BIND=map_cpu:60,5", NULL};
    struct request request;

    request_init(&request, PROGRAM_SRUN);
    request_environment(&request, outside);
    is_int(request_tasks(&request), 8, "SLURM_NTASKS");
    is_int(request_tasks_per_node(&request), 4, "SLURM_NNODES");
    is_int(request_gpus_per_node(&request), 4, "SLURM_GPUS_PER_NODE");
    is_int(request.overrides, OVERRIDE_CPU_BIND, "SLURM_CPU_BIND");
    request_init(&request, PROGRAM_SRUN);
    request_environment(&request, nested);
    is_int(request.overrides, 0, "within a step SLURM_CPU_BIND is Slurm's");
    request_init(&request, PROGRAM_SRUN);
    request_environment(&request, batch);
    is_int(request.overrides, OVERRIDE_CPU_BIND,
           "in a batch script of newer Slurm it is the user's");
}

int main(void)
{
    test_lines();
    test_command();
    test_interactive();
    test_limit();
    test_scripts();
    test_cuts();
    test_script_words();
    test_several_cuts();
    test_order();
    test_variables();
    return done_testing();
}
