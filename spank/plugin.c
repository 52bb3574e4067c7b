/* SPDX-License-Identifier: Apache-2.0 */
/* SPANK's callbacks: determine which process this is, and dispatch.
 *
 * The line in plugstack.conf says `optional`, so that a missing plugin, or one built for another
 * Slurm, fails no jobs that do not use it. But then Slurm ignores what callbacks return. So a
 * client whose request is refused exits, and so does a task that cannot start: both are processes
 * of the user that have nothing else to do. The daemons never exit because of the plugin. */
#include "plugin.h"

#include <dlfcn.h>
#include <slurm/slurm.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "copies.h"

#pragma GCC visibility push(default)
SPANK_PLUGIN(spank_megatron, 1)
#pragma GCC visibility pop

static struct plugin context;

const char *plugin_version_text(void)
{
    return PACKAGE_VERSION;
}

const char *plugin_slurm_text(void)
{
    static char text[16];

    snprintf(text, sizeof(text), "%02d.%02d.%d", SLURM_VERSION_NUMBER >> 16,
             SLURM_VERSION_NUMBER >> 8 & 255, SLURM_VERSION_NUMBER & 255);
    return text;
}

void plugin_warn(const char *format, ...)
{
    char text[2048];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    slurm_spank_log("megatron: warning: %s", text);
}

void plugin_defer(struct plugin *plugin, const struct error *err)
{
    if (!plugin->failed)
        plugin->failure = *err;
    plugin->failed = true;
}

static bool is_client(void)
{
    return spank_context() == S_CTX_LOCAL || spank_context() == S_CTX_ALLOCATOR;
}

/* --- options -------------------------------------------------------------------------------- */

/* Values are only recorded here: the last one counts, and an earlier one that it replaces may be
 * invalid. In the daemons nothing may fail here anyway. */
static int keep_option(int value, const char *argument, int remote)
{
    if (value == OPTION_MODEL && !remote && argument && strcmp(argument, "list") == 0)
        client_list_models(); /* does not return: a query needs no command to run */
    if (value < 0 || value >= OPTION_COUNT)
        return 0;
    settings_give(&context.settings, (enum option_id)value, argument);
    return 0;
}

static void register_options(spank_t spank)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        char name[64];
        struct spank_option option = {
            .name = name,
            .arginfo = (char *)option_table[i].argument,
            .usage = (char *)option_table[i].usage,
            .has_arg = option_table[i].kind == OPTION_KIND_SWITCH ||
                               option_table[i].kind == OPTION_KIND_FORM
                           ? 2
                           : 1,
            .val = i,
            .cb = keep_option,
        };

        snprintf(name, sizeof(name), "megatron-%s", option_table[i].name);
        if (spank_option_register(spank, &option) != ESPANK_SUCCESS) {
            struct error err;

            error_set(&err,
                      "Slurm did not accept the option --%s; another plugin in plugstack.conf may "
                      "have an option of this name: remove one of the two",
                      name);
            plugin_defer(&context, &err);
        }
    }
}

/* --- failures that tests ask for ------------------------------------------------------------ */

static bool asked_to_fail(const char *callback, struct error *err)
{
    static const char *const contexts[] = {[S_CTX_LOCAL] = "local",
                                           [S_CTX_REMOTE] = "remote",
                                           [S_CTX_ALLOCATOR] = "allocator",
                                           [S_CTX_SLURMD] = "slurmd",
                                           [S_CTX_JOB_SCRIPT] = "job_script"};
    size_t now = (size_t)spank_context();
    char name[64];

    if (!context.config.fail || now >= sizeof(contexts) / sizeof(contexts[0]) || !contexts[now])
        return false;
    snprintf(name, sizeof(name), "%s:%s", contexts[now], callback);
    if (strcmp(context.config.fail, name) != 0)
        return false;
    error_set(err, "plugstack.conf has the test hook fail=%s; remove it", name);
    return true;
}

static void defer_if_asked(const char *callback)
{
    struct error err;

    if (asked_to_fail(callback, &err))
        plugin_defer(&context, &err);
}

/* --- a plugin that is loaded twice ----------------------------------------------------------- */

/* Of two copies that plugstack.conf names, the first one is used: if both registered the options,
 * Slurm would print a line per option in every command. */
static bool is_second_copy(void)
{
    char first[512], second[512];

    if (!copies_find(plugin_name, first, second, sizeof(first)))
        return false;
    if (is_client())
        plugin_warn("plugstack.conf loads two copies of the plugin, %s and %s; only the first is "
                    "used; the administrator should remove the line of one",
                    first, second);
    return true;
}

/* Two lines that name one file, also through a symbolic link, share this context, and Slurm calls
 * every callback once per line. Only the first line is used. */
static bool is_second_line(void)
{
    Dl_info info;

    if (++context.lines == 1)
        return false;
    if (context.lines == 2 && is_client())
        plugin_warn("plugstack.conf loads the plugin %s twice; only the first line is used; the "
                    "administrator should remove the other",
                    dladdr(plugin_name, &info) ? info.dli_fname : "");
    return true;
}

static bool is_repeated(enum callback callback)
{
    return context.lines > 1 && context.calls[callback]++ % context.lines != 0;
}

/* --- callbacks ------------------------------------------------------------------------------ */

#pragma GCC visibility push(default)

int slurm_spank_init(spank_t spank, int argc, char **argv)
{
    struct error err;

    context.second_copy = context.second_copy || is_second_copy();
    if (context.second_copy || is_second_line())
        return 0;
    config_parse(&context.config, argc, argv);
    if (spank_context() == S_CTX_SLURMD) {
        if (asked_to_fail("init", &err))
            slurm_error("megatron: %s", err.text);
        else
            daemon_init(&context);
        return 0;
    }
    if (spank_context() == S_CTX_JOB_SCRIPT)
        return 0;
    register_options(spank);
    defer_if_asked("init");
    return 0;
}

int slurm_spank_init_post_opt(spank_t spank, int argc, char **argv)
{
    struct error err;

    (void)argc;
    (void)argv;
    if (context.second_copy || is_repeated(CALLBACK_INIT_POST_OPT))
        return 0;
    switch (spank_context()) {
    case S_CTX_LOCAL:
    case S_CTX_ALLOCATOR:
        defer_if_asked("init_post_opt");
        if (client_init_post_opt(&context, spank, &err)) {
            slurm_error("megatron: %s", err.text);
            client_leave(1); /* nothing has been requested from Slurm yet */
        }
        return 0;
    case S_CTX_REMOTE:
        defer_if_asked("init_post_opt");
        return 0;
    default:
        return 0;
    }
}

int slurm_spank_local_user_init(spank_t spank, int argc, char **argv)
{
    struct error err;

    (void)argc;
    (void)argv;
    if (context.second_copy || is_repeated(CALLBACK_LOCAL_USER_INIT))
        return 0;
    defer_if_asked("local_user_init");
    if (client_local_user_init(&context, spank, &err)) {
        slurm_error("megatron: %s", err.text);
        return client_refuse_step(&context, spank);
    }
    return 0;
}

int slurm_spank_user_init(spank_t spank, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    if (context.second_copy || is_repeated(CALLBACK_USER_INIT))
        return 0;
    defer_if_asked("user_init");
    step_user_init(&context, spank);
    return 0;
}

int slurm_spank_task_init(spank_t spank, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    if (context.second_copy || is_repeated(CALLBACK_TASK_INIT))
        return 0;
    defer_if_asked("task_init");
    if (task_init(&context, spank))
        _exit(1); /* as slurmstepd does here if a required plugin fails */
    return 0;
}

int slurm_spank_exit(spank_t spank, int argc, char **argv)
{
    struct error err;

    (void)argc;
    (void)argv;
    if (context.second_copy || ++context.exits < context.lines)
        return 0;
    /* Too late to fail anything: the tasks have exited. */
    if (asked_to_fail("exit", &err))
        slurm_error("megatron: %s", err.text);
    step_exit(&context, spank);
    share_destroy(context.share, context.tasks);
    if (context.used && context.lifetime[0] >= 0) {
        close(context.lifetime[0]);
        close(context.lifetime[1]);
    }
    client_clear(&context);
    settings_clear(&context.settings);
    settings_clear(&context.first);
    config_clear(&context.config);
    memset(&context, 0, sizeof(context));
    return 0;
}

/* slurmd may load its plugins again. */
int slurm_spank_slurmd_exit(spank_t spank, int argc, char **argv)
{
    (void)spank;
    (void)argc;
    (void)argv;
    if (context.second_copy || ++context.exits < context.lines)
        return 0;
    config_clear(&context.config);
    memset(&context, 0, sizeof(context));
    return 0;
}

#pragma GCC visibility pop
