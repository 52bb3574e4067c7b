/* SPDX-License-Identifier: Apache-2.0 */
#include "controller.h"

#include <signal.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static slurm_step_id_t step_of(uint32_t job, uint32_t step, uint32_t component)
{
    slurm_step_id_t id;

    memset(&id, 0, sizeof(id));
    id.job_id = job;
    id.step_id = step;
    id.step_het_comp = component;
    return id;
}

/* Return the name of host number 'index' in a host list. The caller frees it. */
static char *nth_host(const char *list, uint32_t index)
{
    __auto_type hosts = slurm_hostlist_create(list); /* its type changed in 23.11 */
    char *name = NULL;

    if (!hosts)
        return NULL;
    for (uint32_t i = 0; i <= index; i++) {
        free(name);
        name = slurm_hostlist_shift(hosts);
        if (!name)
            break;
    }
    slurm_hostlist_destroy(hosts);
    return name;
}

static char *host_of_task_0(uint32_t job, uint32_t step, uint32_t component)
{
    slurm_step_id_t id = step_of(job, step, component);
    slurm_step_layout_t *layout = slurm_job_step_layout_get(&id);
    char *name = NULL;

    if (!layout)
        return NULL;
    for (uint32_t node = 0; node < layout->node_cnt && !name; node++)
        for (uint16_t i = 0; i < layout->tasks[node]; i++)
            if (layout->tids[node][i] == 0)
                name = nth_host(layout->node_list, node);
    slurm_job_step_layout_free(layout);
    return name;
}

int controller_step_hosts(uint32_t job, uint32_t step, char *hosts, size_t size)
{
    slurm_step_id_t id = step_of(job, step, NO_VAL);
    slurm_step_layout_t *layout = slurm_job_step_layout_get(&id);
    int rc = -1;

    if (layout && layout->node_list && snprintf(hosts, size, "%s", layout->node_list) < (int)size)
        rc = 0;
    if (layout)
        slurm_job_step_layout_free(layout);
    return rc;
}

static void copy_text(char *target, size_t size, const char *text, const char *instead)
{
    snprintf(target, size, "%s", text && text[0] ? text : instead);
}

void controller_node(const char *name, struct controller_node *node)
{
    node_info_msg_t *answer = NULL;
    char copy[256];

    /* A node that cannot be looked up can usually be reached by its name. */
    copy_text(copy, sizeof(copy), name, "");
    copy_text(node->name, sizeof(node->name), name, "");
    copy_text(node->hostname, sizeof(node->hostname), name, "");
    copy_text(node->address, sizeof(node->address), name, "");
    if (slurm_load_node_single(&answer, copy, SHOW_ALL) != SLURM_SUCCESS || !answer)
        return;
    if (answer->record_count > 0) {
        copy_text(node->hostname, sizeof(node->hostname), answer->node_array[0].node_hostname,
                  name);
        copy_text(node->address, sizeof(node->address), answer->node_array[0].node_addr, name);
    }
    slurm_free_node_info_msg(answer);
}

int controller_first_node(uint32_t job, uint32_t step, uint32_t component,
                          struct controller_node *node)
{
    char *name = host_of_task_0(job, step, component);

    if (!name)
        return -1;
    controller_node(name, node);
    free(name);
    return 0;
}

int64_t controller_job_end(uint32_t job)
{
    /* A job without a limit "ends" a year from its start. */
    const time_t never = 300 * 24 * 3600;
    time_t end = 0;

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
    int rc = (slurm_get_end_time)(step_of(job, NO_VAL, NO_VAL), &end);
#else
    int rc = slurm_get_end_time(job, &end);
#endif

    if (rc != SLURM_SUCCESS || end <= 0 || end > time(NULL) + never)
        return 0;
    return (int64_t)end;
}

int controller_fail_job(uint32_t job)
{
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
    slurm_step_id_t id = step_of(job, NO_VAL, NO_VAL);
    int rc = slurm_complete_job(&id, 1);
#else
    int rc = slurm_complete_job(job, 1);
#endif

    return rc == SLURM_SUCCESS ? 0 : -1;
}

int64_t controller_job_start(uint32_t job)
{
    job_info_msg_t *answer = NULL;
    int64_t start = 0;

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
    int rc = (slurm_load_job)(&answer, step_of(job, NO_VAL, NO_VAL), SHOW_ALL);
#else
    int rc = slurm_load_job(&answer, job, SHOW_ALL);
#endif

    if (rc != SLURM_SUCCESS || !answer)
        return 0;
    /* For a het job the reply contains all components, whichever one was requested. */
    for (uint32_t i = 0; i < answer->record_count; i++)
        if (i == 0 || answer->job_array[i].job_id == answer->job_array[i].het_job_id)
            start = (int64_t)answer->job_array[i].start_time;
    slurm_free_job_info_msg(answer);
    return start;
}

int controller_signal_step(uint32_t job, uint32_t step, uint16_t signal)
{
    int rc;

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
    slurm_step_id_t id = step_of(job, step, NO_VAL);

    rc = slurm_kill_job_step(&id, signal, 0);
#elif SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0)
    rc = slurm_kill_job_step(job, step, signal, 0);
#else
    rc = slurm_kill_job_step(job, step, signal);
#endif
    if (rc == SLURM_SUCCESS)
        return 0;
    return errno == ESLURM_ALREADY_DONE || errno == ESLURM_INVALID_JOB_ID ? 1 : -1;
}
