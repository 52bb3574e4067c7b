/* SPDX-License-Identifier: Apache-2.0 */
/* What slurmstepd does after the tasks of its node have exited: nothing, unless one failed or was
 * killed while working on an image. Every step of every job gets here. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "controller.h"
#include "facts.h"
#include "plugin.h"
#include "tap.h"

static int forks, questions;
static bool forking; /* really */

/* Replace the C library's and Slurm's functions: they count, and start nothing. */
pid_t fork(void)
{
    forks++;
    return forking ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : -1;
}

/* Time passes immediately. */
unsigned alarm(unsigned seconds)
{
    kill(getpid(), SIGALRM);
    return seconds;
}

const char *facts_variable(spank_t spank, const char *name, char *buffer, size_t size)
{
    (void)spank, (void)name, (void)buffer, (void)size;
    return "";
}

spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...)
{
    (void)spank, (void)item;
    questions++;
    return item == S_JOB_SUPPLEMENTARY_GIDS ? ESPANK_ERROR : ESPANK_SUCCESS;
}

int controller_signal_step(uint32_t job, uint32_t step, uint16_t number)
{
    (void)job, (void)step, (void)number;
    return 1;
}

void plugin_defer(struct plugin *plugin, const struct error *err)
{
    (void)plugin, (void)err;
}

static const struct {
    const char *name;
    bool used, end_step, begun; /* work on an image */
    enum share_state image;
    int forks;
} rows[] = {
    {"a step that does not use the plugin", false, false, false, SHARE_PENDING, 0},
    {"a step without an image", true, false, false, SHARE_PENDING, 0},
    {"an image that was started", true, false, true, SHARE_DONE, 0},
    {"an image that could not be: its task said why and left nothing", true, false, true,
     SHARE_FAILED, 0},
    {"a task killed at its work on an image: that is swept up", true, false, true, SHARE_PENDING,
     1},
    {"a task that failed without an image: the step ends on the other nodes", true, true, false,
     SHARE_PENDING, 1},
    {"a task that failed in its image", true, true, true, SHARE_DONE, 1},
    {"both", true, true, true, SHARE_PENDING, 2},
};

static void ignore(int number)
{
    (void)number;
}

/* The process that ends the step has a time limit, even as a child of slurmstepd, which blocks and
 * catches the signal. */
static void test_limit(void)
{
    struct plugin plugin = {.used = true};
    struct error err = {.text = ""};
    sigset_t set;
    int status = 0;

    plugin.share = share_create(1, &err);
    if (!plugin.share || prctl(PR_SET_CHILD_SUBREAPER, 1)) {
        ok(0, "a process of our own");
        return;
    }
    plugin.share->end_step = 1;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGALRM, ignore);
    forking = true;
    step_exit(&plugin, NULL);
    forking = false;
    ok(waitpid(-1, &status, 0) > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM,
       "the process that ends the step is killed at its time limit");
    share_destroy(plugin.share, 1);
}

int main(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct plugin plugin = {.used = rows[i].used};
        struct error err = {.text = ""};

        plugin.share = share_create(2, &err);
        if (!plugin.share)
            return 1;
        plugin.share->end_step = rows[i].end_step;
        plugin.share->image_state = rows[i].image;
        if (rows[i].begun)
            strcpy(plugin.share->leftovers.temporary, "/nowhere");
        forks = questions = 0;
        step_exit(&plugin, NULL);
        is_int(forks, rows[i].forks, rows[i].name);
        ok((questions > 0) == (rows[i].forks > 0), "%s of Slurm",
           rows[i].forks > 0 ? "whose step it is is asked" : "nothing is asked");
        share_destroy(plugin.share, 2);
    }
    test_limit();
    return done_testing();
}
