#include "report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "contract.h"

/* "4 nodes", "1 GPU per node", or that nobody knows yet. */
static void print_count(FILE *stream, int64_t count, const char *one, const char *per,
                        const char *comma)
{
    if (count < 0)
        fprintf(stream, "%ss%s not known yet%s", one, per, comma);
    else
        fprintf(stream, "%" PRId64 " %s%s%s%s", count, one, count == 1 ? "" : "s", per, comma);
}

static void print_counts(FILE *stream, const struct settings *settings, const struct counts *counts)
{
    const struct layout *layout = &settings->layout;

    fprintf(stream, "  job          ");
    print_count(stream, counts->nodes, "node", "", ", ");
    print_count(stream, counts->tasks, "task", "", ", ");
    print_count(stream, counts->tasks_per_node, "task", " per node", ", ");
    print_count(stream, counts->gpus_per_node, "GPU", " per node", "");
    fprintf(stream, "\n  layout       tp %" PRId64 " x cp %" PRId64 " x ", layout->tp, layout->cp);
    if (layout->dp > 0)
        fprintf(stream, "dp %" PRId64, layout->dp);
    else
        fprintf(stream, "dp (tasks / %" PRId64 ")", layout->tp * layout->cp * layout->pp);
    fprintf(stream, " x pp %" PRId64 "\n", layout->pp);
}

static int print_checks(FILE *stream, struct settings *settings, const struct counts *counts)
{
    const char *what;
    struct error err;
    int status, rc = 0;

    for (size_t i = 0; (status = check_one(i, settings, counts, &what, &err)) >= 0; i++) {
        if (status == CHECK_FAILED) {
            fprintf(stream, "  check        FAILED: %s\n", err.text);
            rc = 1;
        } else
            fprintf(stream, "  check        %s: %s\n", what,
                    status == CHECK_OK ? "ok" : "not known before the job runs");
    }
    return rc;
}

/* Those that every rank of the step has in common. */
static void print_environment(FILE *stream, const struct settings *settings,
                              const struct counts *counts)
{
    const struct layout *layout = &settings->layout;

    fprintf(stream, "  environment  %s=%d\n", contract_name(CONTRACT_CONTRACT), CONTRACT_VERSION);
    if (counts->tasks > 0)
        fprintf(stream, "  environment  %s=%" PRId64 "\n", contract_name(CONTRACT_WORLD_SIZE),
                counts->tasks);
    if (counts->nodes > 0)
        fprintf(stream, "  environment  %s=%" PRId64 "\n", contract_name(CONTRACT_NODES),
                counts->nodes);
    fprintf(stream, "  environment  %s=%" PRId64 "\n", contract_name(CONTRACT_TP), layout->tp);
    fprintf(stream, "  environment  %s=%" PRId64 "\n", contract_name(CONTRACT_PP), layout->pp);
    fprintf(stream, "  environment  %s=%" PRId64 "\n", contract_name(CONTRACT_CP), layout->cp);
    if (layout->dp > 0)
        fprintf(stream, "  environment  %s=%" PRId64 "\n", contract_name(CONTRACT_DP), layout->dp);
    if (settings->model)
        fprintf(stream, "  environment  %s=%s\n", contract_name(CONTRACT_MODEL),
                settings->model->name);
}

int report_check(FILE *stream, const char *version, const char *slurm, struct settings *settings,
                 const struct config *config, const struct counts *counts)
{
    struct error err;
    char line[256];
    int rc;

    fprintf(stream, "megatron %s for Slurm %s: check only, nothing is submitted\n", version, slurm);
    if (settings->model) {
        preset_describe(settings->model, line, sizeof(line));
        fprintf(stream, "  model        %s\n", line);
    }
    check_counts(settings, counts, &err); /* for the data-parallel size */
    print_counts(stream, settings, counts);
    fprintf(stream, "  placement    bind %s, NICs %s%s\n", settings->bind, settings->nics,
            config->off & (PART_BIND | PART_NICS) ? " (parts are switched off by plugstack.conf)"
                                                  : "");
    if (settings->image.used)
        fprintf(stream, "  image        %s, %zu mounts%s\n", settings->image.reference.text,
                settings->image.mounts.count, settings->image.readonly ? ", read-only" : "");
    rc = print_checks(stream, settings, counts);
    if (rc == 0)
        print_environment(stream, settings, counts);
    return rc;
}

/* --- --megatron-show ------------------------------------------------------------------------ */

static void print_numa(FILE *stream, const uint64_t *numa)
{
    const char *comma = "";

    for (int i = 0; i < SHARE_NUMA_MAX; i++)
        if (numa[i / 64] >> i % 64 & 1) {
            fprintf(stream, "%s%d", comma, i);
            comma = ",";
        }
}

static void print_task(FILE *stream, const char *node, uint32_t local,
                       const struct share_task *task)
{
    const struct share_result *result = &task->result;
    char cpus[SHARE_LIST];

    cpuset_format(&result->cpus, cpus, sizeof(cpus));
    fprintf(stream, "%s: task %u rank %u GPU %s", node, local, task->found.rank,
            result->gpus[0] ? result->gpus : "-");
    if (result->pci[0])
        fprintf(stream, " (%s)", result->pci);
    fprintf(stream, " NICs %s CPUs %s%s NUMA ", result->nics[0] ? result->nics : "-", cpus,
            result->bind ? "" : " (left alone)");
    print_numa(stream, result->numa);
    fputc('\n', stream);
}

char *report_show(const struct share *share, const char *node, const char *version,
                  const char *slurm)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);

    if (!stream)
        return NULL;
    fprintf(stream, "%s: megatron %s for Slurm %s, %u tasks", node, version, slurm, share->tasks);
    if (share->master[0])
        fprintf(stream, ", meeting at %s:%" PRId64 "%s%s", share->master, share->port,
                share->first[0] ? " on " : "", share->first);
    fputc('\n', stream);
    for (uint32_t i = 0; i < share->tasks; i++)
        print_task(stream, node, i, &share->task[i]);
    if (fclose(stream) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
