/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin for tests: on node argv[0], a task sleeps for argv[1] milliseconds before it calls the
 * plugins that follow in plugstack.conf. */
#include <slurm/spank.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

SPANK_PLUGIN(late, 1)

int slurm_spank_task_init(spank_t spank, int argc, char **argv)
{
    char node[64] = "";

    if (argc == 2 && spank_getenv(spank, "SLURMD_NODENAME", node, sizeof(node)) == ESPANK_SUCCESS &&
        strcmp(node, argv[0]) == 0) {
        const long milliseconds = strtol(argv[1], NULL, 10);
        const struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};

        nanosleep(&pause, NULL);
    }
    return 0;
}
