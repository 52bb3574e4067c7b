/* SPDX-License-Identifier: Apache-2.0 */
/* Options and plugstack.conf arguments: the resulting settings, and the errors. */
#include "spank/settings.h"

#include <stdlib.h>

#include "spank/checks.h"
#include "tap.h"

static void configure(struct config *config, const char *line)
{
    char copy[512], *words[32], *rest = copy, *word;
    int count = 0;

    snprintf(copy, sizeof(copy), "%s", line);
    while (count < 32 && (word = strsep(&rest, " ")))
        if (word[0])
            words[count++] = word;
    config_parse(config, count, words);
}

/* "tp=2 show": options as name=value. */
static void give(struct settings *settings, const char *line)
{
    char copy[8192], *rest = copy, *word;

    memset(settings, 0, sizeof(*settings));
    snprintf(copy, sizeof(copy), "%s", line);
    while ((word = strsep(&rest, " "))) {
        char *value = strchr(word, '=');

        if (value)
            *value++ = '\0';
        for (int i = 0; i < OPTION_COUNT; i++)
            if (strcmp(option_table[i].name, word) == 0)
                settings_give(settings, (enum option_id)i, value);
    }
}

static const struct {
    const char *arguments, *options;
    const char *error; /* NULL: fine */
} table[] = {
    {"", "tp=8", NULL},
    {"", "tp=8 pp=2 cp=4 model=llama2-70b bind=numa nics=all show verbose=no", NULL},
    {"tp=2 bind=core nics=none model=7.5B show verbose=yes", "tp=8", NULL},
    {"", "tp=eight", "--megatron-tp=eight is not a whole number"},
    {"", "tp=0", "--megatron-tp"},
    {"", "tp=-1", "--megatron-tp"},
    {"", "tp=1048577", "--megatron-tp"},
    {"", "tp=", "--megatron-tp"},
    {"", "tp=8x", "--megatron-tp"},
    {"", "tp=0 tp=4", NULL}, /* the last value wins */
    {"", "show=maybe", "--megatron-show=maybe: use yes or no"},
    {"", "show=", NULL},
    {"", "show=(null)", NULL},
    {"", "off=perhaps", "--megatron-off=perhaps: use yes or no"},
    {"", "bind=sideways", "--megatron-bind=sideways"},
    {"", "nics=!", "--megatron-nics=!"},
    {"", "model=llama2-7", "did you mean llama2-7b"},
    {"", "model=x\ty", "control character (code 9)"},
    {"", "image=/i.sqsh mounts=/a:/b workdir=/w container-env=A,B_2 readonly remap-root=no", NULL},
    {"image=/i.sqsh mounts=/a:/b", "image=none", NULL},
    {"", "image=ubuntu", "--megatron-image=ubuntu is neither a path nor"},
    {"image=ubuntu", "tp=1", "plugstack.conf: image=ubuntu is neither a path nor"},
    {"", "mounts=/a:/b", "--megatron-mounts needs --megatron-image"},
    {"", "container-name=x", "--megatron-container-name needs --megatron-image"},
    {"", "image=/i.sqsh mounts=/a:/b:fast", "unknown mount flag"},
    {"", "image=/i.sqsh workdir=here", "--megatron-workdir=here is not an absolute path"},
    {"", "image=/i.sqsh container-env=A;B", "separate the names of variables by commas"},
    {"", "image=/i.sqsh readonly=perhaps", "--megatron-readonly=perhaps: use yes or no"},
    {"", "image=/i.sqsh import-timeout=0", "--megatron-import-timeout"},
    {"", "image=/i.sqsh import-timeout=soon", "--megatron-import-timeout=soon"},
    {"", "image=/i.sqsh container-name=my-1.0_a+b", NULL},
    {"", "image=/i.sqsh container-name=a/b", "use letters, digits"},
    {"", "image=/i.sqsh container-name=.a", "a name must begin with a letter or a digit"},
    {"", "image=/i.sqsh container-name=_a", "a name must begin with a letter or a digit"},
    {"", "image=/i.sqsh container-name=+a", "a name must begin with a letter or a digit"},
    {"", "image=/i.sqsh container-name=", "a name must begin with a letter or a digit"},
    {"", "image=/i.sqsh container-name=a.draft.b", "a name must not contain .draft."},
    {"container-name=x", "image=/i.sqsh", "'container-name=x' is unknown"},
    {"tp=lots", "show", "plugstack.conf: tp"},
    {"bind=sideways", "show", "plugstack.conf: bind"},
    {"model=nothing", "show", "plugstack.conf: model=nothing"},
    {"tp=abc", "tp=2", "plugstack.conf: tp=abc is not a whole number"},
    {"bind=zzz", "bind=core", "plugstack.conf: bind=zzz: use auto, none, gpu, numa, core or CPUs"},
    {"show=maybe", "show=no", "plugstack.conf: show=maybe: use yes or no"},
    {"preflight=some", "preflight=no", "plugstack.conf: preflight=some: use quick, full or no"},
    {"import-timeout=zz", "tp=2", "plugstack.conf: import-timeout=zz is not a whole number"},
    {"readonly=perhaps", "tp=2", "plugstack.conf: readonly=perhaps: use yes or no"},
    {"workdir=here", "tp=2", "plugstack.conf: workdir=here is not an absolute path"},
    {"mounts=/a:/b workdir=/w", "tp=2", NULL}, /* for the steps with an image */
    {"tipi=2", "tp=2", "plugstack.conf: argument 'tipi=2' is unknown"},
    {"topologie=/x", "tp=2", "did you mean topology?"},
    {"topology=x", "tp=2", "'topology=x' needs an absolute path"},
    {"topology", "tp=2", "'topology' needs an absolute path"},
    {"off=bind,noses", "tp=2", "is not a part of the plugin"},
    {"ports=5", "tp=2", "not a range of ports"},
    {"ports=30000-30010", "tp=2", "64 or more ports"},
    {"ports=20000-21000 off=memory run=/run/x sysroot=/r always=no", "tp=2", NULL},
    {"always=perhaps", "tp=2", "'always=perhaps' is invalid; use yes or no"},
    {"fail", "tp=2", "'fail' needs a value"},
    {"fale=x", "tp=2", "'fale=x' is unknown; see spank_megatron(8)"},
    {"client-versio=x", "tp=2", "is unknown; see spank_megatron(8)"},
    {"image_stag=/x", "tp=2", "did you mean image_stage"},
    {"image_stage_max=1.5T image_min_free=500M importer=/x/y", "tp=2", NULL},
    {"image_stage_max=1.5TiB", "tp=2", NULL},
    {"image_stage_max=lots", "tp=2", "is not a size such as 500G or 1.5T"},
    {"image_stage_max=0", "tp=2", "is not a size such as 500G or 1.5T"},
    {"image_min_free", "tp=2", "is not a size such as 500G or 1.5T"},
    {"importer=relative", "tp=2", "needs an absolute path"},
    {"image_publisher=no-such-user", "tp=2", "names a user that does not exist"},
    {"image_fuse=fuse", "tp=2", "is not the path of a device; use one such as"},
    {"tp", "tp=2", "'tp' needs a value"},
};

static void test_sizes(void)
{
    struct config config;

    configure(&config, "image_stage_max=1.5T image_min_free=64MiB");
    is_int(config.image_stage_max, 1500000000000, "image_stage_max=1.5T");
    is_int(config.image_min_free, 64 << 20, "image_min_free=64MiB");
    config_clear(&config);
}

static void test_table(void)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct config config;
        struct settings settings;
        struct error err = {.text = ""};
        int rc;

        configure(&config, table[i].arguments);
        give(&settings, table[i].options);
        rc = settings_resolve(&settings, &config, &err);
        if (!ok(table[i].error ? rc == -1 && strstr(err.text, table[i].error) : rc == 0,
                "plugstack.conf '%s', options '%s'", table[i].arguments, table[i].options))
            diag("rc %d: %s", rc, err.text);
        settings_clear(&settings);
        config_clear(&config);
    }
}

static void test_values(void)
{
    struct config config;
    struct settings settings;

    configure(&config, "tp=2 bind=core nics=none show");
    give(&settings, "tp=8 pp=2");
    ok(settings_resolve(&settings, &config, NULL) == 0, "resolved");
    is_int(settings.layout.tp, 8, "the user's word is over the administrator's");
    is_int(settings.layout.pp, 2, "the user's word alone");
    is_int(settings.layout.cp, 1, "nobody's word");
    is(settings.bind, "core", "the administrator's word");
    ok(settings.show && !settings.verbose, "a switch of the administrator's");
    ok(settings_shares_gpus(&settings), "core allows more tasks than GPUs");
    settings_clear(&settings);
    give(&settings, "show=no");
    settings_resolve(&settings, &config, NULL);
    ok(!settings.show, "which the user turns off");
    settings_clear(&settings);
    config_clear(&config);
}

static void test_long_value(void)
{
    struct config config;
    struct settings settings;
    struct error err;
    char *value = malloc(1 << 20);

    memset(value, 'x', (1 << 20) - 1);
    value[(1 << 20) - 1] = '\0';
    configure(&config, "");
    memset(&settings, 0, sizeof(settings));
    settings_give(&settings, OPTION_NICS, value);
    ok(settings_resolve(&settings, &config, &err) == -1 &&
           strstr(err.text, "longer than 4095 bytes"),
       "a value of a megabyte is rejected and not stored");
    settings_clear(&settings);
    config_clear(&config);
    free(value);
}

static void test_used(void)
{
    static const struct {
        const char *arguments, *options;
        int used;
    } cases[] = {
        {"", "", 0},         {"", "tp=2", 1},          {"", "show", 1},
        {"", "off", 0},      {"", "off tp=2", 0},      {"", "off=no tp=2", 1},
        {"off", "tp=2", 0},  {"off=all", "tp=2", 0},   {"off=bind", "tp=2", 1},
        {"always", "", 1},   {"always=yes", "off", 0}, {"tp=4", "", 0},
        {"", "off=what", 1}, /* so that it is rejected */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config config;
        struct settings settings;

        configure(&config, cases[i].arguments);
        give(&settings, cases[i].options);
        is_int(settings_used(&settings, &config), cases[i].used,
               cases[i].options[0] ? cases[i].options : "no option");
        settings_clear(&settings);
        config_clear(&config);
    }
}

static void test_checks(void)
{
    static const struct {
        const char *options;
        struct counts counts;
        const char *error;
    } cases[] = {
        {"tp=2", {4, 1, 4, 4, 0, {{0, 0}}}, NULL},
        {"tp=3", {4, 1, 4, 4, 0, {{0, 0}}}, "--megatron-tp=3 does not divide 4 tasks"},
        {"tp=3", {-1, -1, -1, -1, 0, {{0, 0}}}, NULL},
        {"tp=8", {8, 2, 4, 4, 0, {{0, 0}}}, "--megatron-tp=8 is more than the 4 GPUs of a node"},
        {"tp=8", {8, 2, 4, 0, 0, {{0, 0}}}, NULL},
        {"tp=2 pp=5", {20, -1, -1, -1, 0, {{0, 0}}}, NULL},
        {"tp=5 model=7.5B",
         {-1, -1, -1, -1, 0, {{0, 0}}},
         "--megatron-tp=5 does not divide the 32 attention"},
        {"pp=5 model=7.5B",
         {-1, -1, -1, -1, 0, {{0, 0}}},
         "--megatron-pp=5 does not divide the 36 layers"},
        {"tp=16 model=llama2-70b", {-1, -1, -1, -1, 0, {{0, 0}}}, "query groups of llama2-70b"},
        {"tp=1", {8, 1, 8, 4, 0, {{0, 0}}}, "8 tasks per node are more than the 4 GPUs of a node"},
        {"tp=1 bind=core", {8, 1, 8, 4, 0, {{0, 0}}}, NULL},
        {"tp=1 bind=gpu", {8, 1, 8, 4, 0, {{0, 0}}}, "or --megatron-bind=core or numa to share"},
        {"tp=1 bind=none", {8, 1, 8, 4, 0, {{0, 0}}}, NULL},
        {"bind=0-3/4-7", {2, 1, 2, -1, 0, {{0, 0}}}, NULL},
        {"bind=0-3/4-7", {3, 1, 3, -1, 0, {{0, 0}}}, "--megatron-bind"},
        /* het jobs: each component has its own nodes */
        {"tp=2", {6, 2, -1, -1, 2, {{2, 2}, {4, 4}}}, NULL},
        {"tp=2", {10, 2, -1, -1, 2, {{2, 2}, {8, 4}}}, "8 tasks per node are more than the 4 GPUs"},
        {"tp=4", {8, 2, -1, -1, 2, {{4, 4}, {4, 2}}}, "--megatron-tp=4 is more than the 2 GPUs"},
        {"tp=4", {8, 2, 4, -1, 2, {{4, -1}, {4, 2}}}, "--megatron-tp=4 is more than the 2 GPUs"},
        {"tp=2", {6, 2, 3, -1, 2, {{3, -1}, {3, -1}}}, "does not divide 3 tasks per node"},
        {"bind=0-3/4-7", {5, 2, -1, -1, 2, {{2, -1}, {3, -1}}}, "--megatron-bind"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config config;
        struct settings settings;
        struct error err = {.text = ""};
        int rc;

        configure(&config, "");
        give(&settings, cases[i].options);
        rc = settings_resolve(&settings, &config, &err);
        if (rc == 0)
            rc = check_counts(&settings, &cases[i].counts, &err);
        if (!ok(cases[i].error ? rc == -1 && strstr(err.text, cases[i].error) : rc == 0,
                "%s with %lld tasks, %lld GPUs", cases[i].options, (long long)cases[i].counts.tasks,
                (long long)cases[i].counts.gpus_per_node))
            diag("rc %d: %s", rc, err.text);
        settings_clear(&settings);
        config_clear(&config);
    }
}

int main(void)
{
    test_table();
    test_sizes();
    test_values();
    test_long_value();
    test_used();
    test_checks();
    return done_testing();
}
