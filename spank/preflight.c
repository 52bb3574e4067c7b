/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "container/process.h"

/* Three times what the form should take, and time to start, but not beyond the 120 s for which the
 * credential of the step that waits is valid (Slurm's cred_expire). */
static double limit_of(enum preflight_form form)
{
    return form == PREFLIGHT_FULL ? 100 : 90;
}

static void say_lines(char *text, void (*say)(void *argument, const char *line), void *argument)
{
    char *rest = text, *line;

    while ((line = strsep(&rest, "\n")))
        if (line[0])
            say(argument, line);
}

/* Only rank 0 prints, and only if it has verdicts. The exit code alone does not tell: srun's is the
 * highest of all tasks, and that of a dead one is any. */
enum preflight_answer preflight_step_run(const struct preflight_step *step,
                                         enum preflight_form form,
                                         void (*say)(void *argument, const char *line),
                                         void *argument, struct error *err)
{
    char job[32], tasks[32], nodes[32], hosts[8192];
    /* The step runs outside of any image, and must not start a preflight of its own. */
    const char *words[] = {step->srun,
                           job,
                           tasks,
                           nodes,
                           hosts,
                           "--overlap",
                           "--quiet",
                           "--kill-on-bad-exit=0",
                           "--wait=0",
                           "--input=none",
                           "--unbuffered",
                           "--megatron-preflight=no",
                           "--megatron-image=none",
                           MEGATRON_PROGRAM,
                           "preflight",
                           form == PREFLIGHT_FULL ? "full" : "quick",
                           NULL};
    struct process_request request = {.argv = words, .timeout = limit_of(form)};
    struct process_result *result = calloc(1, sizeof(*result));
    enum preflight_answer answer = PREFLIGHT_UNKNOWN;
    char complaint[512];

    snprintf(job, sizeof(job), "--jobid=%u", step->job);
    snprintf(tasks, sizeof(tasks), "--ntasks=%u", step->tasks);
    snprintf(nodes, sizeof(nodes), "--nodes=%u", step->nodes);
    if (!result) {
        error_set(err, "out of memory");
        return answer;
    }
    if (snprintf(hosts, sizeof(hosts), "--nodelist=%s", step->hosts) >= (int)sizeof(hosts)) {
        error_set(err, "the list of nodes is too long; run `srun megatron preflight` yourself");
    } else if (process_run(&request, result, err) == 0) {
        process_complaint(result->errors, complaint, sizeof(complaint));
        if (result->timed_out)
            error_set(err,
                      "the test did not end within %.0f s; run `srun megatron preflight` to see "
                      "where it hangs",
                      request.timeout);
        else if (!result->output[0])
            error_set(err, "`megatron preflight` failed with exit code %d: %s", result->status,
                      complaint);
        else
            answer = result->status == 0 ? PREFLIGHT_PASSED : PREFLIGHT_SICK;
        say_lines(result->output, say, argument);
    }
    free(result);
    return answer;
}
