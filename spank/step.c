/* slurmstepd before it forks: prepare what the tasks of the node share. This process is root's and
 * its failures drain nodes, so it does next to nothing, and what goes wrong is left to the tasks to
 * say. */
#include "plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <slurm/slurm.h>
#include <unistd.h>

/* Batch scripts, extern and interactive steps have special numbers; they are left alone. */
static bool is_srun_step(spank_t spank)
{
    uint32_t step;

    return spank_get_item(spank, S_JOB_STEPID, &step) == ESPANK_SUCCESS &&
           step <= SLURM_MAX_NORMAL_STEP_ID;
}

void step_user_init(struct plugin *plugin, spank_t spank)
{
    struct error err;
    uint32_t tasks = 0;

    plugin->used = settings_used(&plugin->settings, &plugin->config) && is_srun_step(spank);
    if (!plugin->used)
        return;
    if (spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &tasks) != ESPANK_SUCCESS) {
        error_set(&err, "Slurm does not tell how many tasks this node has");
        plugin_defer(plugin, &err);
        return;
    }
    plugin->tasks = tasks;
    plugin->share = share_create(tasks, &err);
    if (!plugin->share)
        plugin_defer(plugin, &err);
    /* Closed when this process ends, however that happens: then the container ends too. */
    if (pipe2(plugin->lifetime, O_CLOEXEC) < 0) {
        plugin->lifetime[0] = plugin->lifetime[1] = -1;
        error_set_errno(&err, errno, "slurmstepd cannot make a pipe");
        plugin_defer(plugin, &err);
    }
}
