/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the plugin that run on a node, without Slurm: notes, ports, cgroups, the driver's
 * files, the exchange between tasks, placement from what they found. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spank/cgroup.h"
#include "spank/deadline.h"
#include "spank/handoff.h"
#include "spank/place.h"
#include "lib/port.h"
#include "spank/rendezvous_port.h"
#include "spank/request.h"
#include "spank/share.h"
#include "tap.h"

static char root[] = "/tmp/megatron-step.XXXXXX";

/* Write a file below root, and create its parent directories. */
static void put(const char *path, const char *text)
{
    char whole[512];
    FILE *file;

    snprintf(whole, sizeof(whole), "%s%s", root, path);
    for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(whole, 0755);
        *slash = '/';
    }
    file = fopen(whole, "w");
    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

static void test_handoff(void)
{
    struct handoff out = {.version = "1.2.3",
                          .home = "/home/ada",
                          .slurm = "22.05.8",
                          .contract = 1,
                          .overrides = 5,
                          .secret = "0123456789abcdef",
                          .mark = 0x7123456789abcdef,
                          .master = "10.0.0.7",
                          .first = "n7",
                          .port = 23456,
                          .start = 1700000000,
                          .end = 1799999999,
                          .refused = 1};
    struct handoff in = {.port = 0};
    char text[HANDOFF_TEXT];

    handoff_format(&out, HANDOFF_CLIENT, text);
    handoff_parse(&in, text);
    handoff_format(&out, HANDOFF_OF_STEP, text);
    handoff_parse(&in, text);
    ok(memcmp(&in, &out, sizeof(in)) == 0, "both halves of a handoff are read back unchanged");
    memset(&in, 0, sizeof(in));
    handoff_parse(&in, "port=99999 end=soon overrides=-1 shape=round version master=");
    ok(in.port == 0 && in.end == 0 && in.overrides == 0 && !in.version[0] && !in.master[0],
       "unknown words are skipped");
}

static void test_ports(void)
{
    struct rendezvous_step step = {.cluster = "c", .low = 20480, .high = 30719};
    static unsigned char seen[65536];
    int clashes = 0, outside = 0;

    for (step.job = 1000; step.job < 1600; step.job++)
        for (step.step = 0; step.step < 8; step.step++) {
            int64_t port = rendezvous_port(&step, 0);

            outside += port < step.low || port > step.high;
            clashes += seen[port]++ > 0;
        }
    is_int(outside, 0, "ports stay within the range");
    is_int(clashes, 0, "600 jobs in a row with 8 steps each have ports of their own");
    step.job = 4294967295u;
    step.step = 4294967279u;
    for (unsigned attempt = 0; attempt < 1000; attempt++) {
        int64_t port = rendezvous_port(&step, attempt);

        outside += port < step.low || port > step.high;
    }
    is_int(outside, 0, "also for the largest numbers and any attempt");
    step.job = 7;
    step.step = 0;
    ok(rendezvous_port(&step, 0) != rendezvous_port(&step, 1), "a second attempt is elsewhere");
    step.restarts = 1;
    int64_t again = rendezvous_port(&step, 0);

    step.restarts = 0;
    ok(rendezvous_port(&step, 0) != again, "a requeued job goes elsewhere");
    is_int(rendezvous_reserved("21001-21004"), 21001, "reserved ports: a range");
    is_int(rendezvous_reserved("21001,21005"), 21001, "reserved ports: a list");
    is_int(rendezvous_reserved(""), 0, "no reserved ports");
    is_int(rendezvous_reserved("abc"), 0, "reserved ports that are none");
    is_int(rendezvous_reserved("70000"), 0, "a port that is none");
}

static void test_busy_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (bind(fd, (struct sockaddr *)&address, length) || listen(fd, 1) ||
        getsockname(fd, (struct sockaddr *)&address, &length)) {
        ok(0, "a socket of our own");
        return;
    }
    is_int(port_is_free(ntohs(address.sin_port)), 0, "a port with a listener is busy");
    close(fd);
    is_int(port_is_free(ntohs(address.sin_port)), 1, "and free when that is gone");
}

static void test_cgroups(void)
{
    static const struct {
        const char *name, *mounts, *self, *file, *text;
        const char *more, *more_text;
        const char *cpus; /* NULL: not limited */
    } table[] = {
        {"v1, limited", "30 25 0:26 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n",
         "3:cpuset:/slurm_n1/uid_7/job_2/step_0\n1:freezer:/\n",
         "/sys/fs/cgroup/cpuset/slurm_n1/uid_7/job_2/step_0/cpuset.cpus", "4-7\n", NULL, NULL,
         "4-7"},
        {"v1, not Slurm's", "30 25 0:26 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n",
         "3:cpuset:/user.slice\n", "/sys/fs/cgroup/cpuset/user.slice/cpuset.cpus", "0-3\n", NULL,
         NULL, NULL},
        {"v2, limited", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
         "0::/system.slice/slurmstepd.scope/job_2/step_0/user/task_1\n",
         "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_2/step_0/user/task_1/"
         "cpuset.cpus.effective",
         "2,6\n", "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_2/step_0/cpuset.cpus", "2,6\n",
         "2,6"},
        {"v2, not limited", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
         "0::/slurm/job_3/step_0/user/task_1\n",
         "/sys/fs/cgroup/slurm/job_3/step_0/user/task_1/cpuset.cpus.effective", "0-7\n",
         "/sys/fs/cgroup/slurm/job_3/step_0/cpuset.cpus", "\n", NULL},
        {"v2, limited by the job", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
         "0::/slurm/job_4/step_0/user/task_1\n",
         "/sys/fs/cgroup/slurm/job_4/step_0/user/task_1/cpuset.cpus.effective", "0-1\n",
         "/sys/fs/cgroup/slurm/job_4/cpuset.cpus", "0-1\n", "0-1"},
        {"nonsense", "x\n", "y\n", "/sys/z", "", NULL, NULL, NULL},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct cpuset cpus;
        char text[256] = "";
        int limited;

        put("/proc/self/mountinfo", table[i].mounts);
        put("/proc/self/cgroup", table[i].self);
        put(table[i].file, table[i].text);
        if (table[i].more)
            put(table[i].more, table[i].more_text);
        limited = cgroup_step_cpus(root, &cpus);
        if (limited)
            cpuset_format(&cpus, text, sizeof(text));
        is(limited ? text : "none", table[i].cpus ? table[i].cpus : "none", table[i].name);
    }
}

/* The text of a file; "-" if there is none. */
static const char *text_of(const char *name)
{
    static char text[64];
    char path[256];
    FILE *file;

    snprintf(path, sizeof(path), "%s%s", root, name);
    file = fopen(path, "re");
    if (!file)
        return "-";
    if (!fgets(text, sizeof(text), file))
        text[0] = '\0';
    fclose(file);
    return text;
}

static void test_leaving(void)
{
    static const struct {
        const char *name, *mounts, *self, *outside, *text;
    } table[] = {
        {"v1", "30 25 0:26 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n",
         "6:freezer:/slurm_n1/uid_7/job_2/step_0\n", "/sys/fs/cgroup/freezer/slurm_n1/cgroup.procs",
         "0"},
        {"v1, another hierarchy whose name begins so",
         "29 25 0:25 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
         "30 25 0:26 / /sys/fs/cgroup/both rw - cgroup cgroup rw,cpu,cpuacct\n",
         "2:cpu,cpuacct:/slurm/uid_7/job_2/step_0\n", "/sys/fs/cgroup/both/slurm/cgroup.procs",
         "0"},
        {"v1, not in a job", "30 25 0:26 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n",
         "8:pids:/system.slice/uid_7\n", "/sys/fs/cgroup/pids/system.slice/cgroup.procs", ""},
        {"v2", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
         "0::/system.slice/slurmstepd.scope/job_2/step_0/slurm\n",
         "/sys/fs/cgroup/system.slice/slurmstepd.scope/system/cgroup.procs", "0"},
        {"not mounted", "x\n", "6:devices:/slurm/uid_7/job_2\n", "/devices/slurm/cgroup.procs", ""},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        put("/proc/self/mountinfo", table[i].mounts);
        put("/proc/self/cgroup", table[i].self);
        put(table[i].outside, "");
        cgroup_leave_job(root);
        is(text_of(table[i].outside), table[i].text, table[i].name);
    }
}

static void put_gpu(const char *pci, int minor, const char *uuid)
{
    char path[256], text[512];

    snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%s/information", pci);
    snprintf(text, sizeof(text),
             "Model: \t\t NVIDIA H100\nIRQ:   \t\t 100\nGPU UUID: \t %s\nBus Type: \t PCIe\n"
             "Bus Location: \t %s\nDevice Minor: \t %d\n",
             uuid, pci, minor);
    put(path, text);
}

/* Four GPUs whose device files are in reverse PCI order. */
static void put_driver(void)
{
    put_gpu("0000:20:00.0", 3, "GPU-aaaaaaaa-0000-0000-0000-000000000000");
    put_gpu("0000:40:00.0", 2, "GPU-bbbbbbbb-0000-0000-0000-000000000000");
    put_gpu("0000:90:00.0", 1, "GPU-cccccccc-0000-0000-0000-000000000000");
    put_gpu("0000:c0:00.0", 0, "GPU-dddddddd-0000-0000-0000-000000000000");
    put("/proc/driver/nvidia/gpus/0000:ff:00.0/information", "Model: broken\n");
}

static void test_meeting(void)
{
    enum { TASKS = 8 };
    struct share *share = share_create(TASKS, NULL);
    pid_t children[TASKS];
    int status, good = 0, deciders = 0;
    struct error err;
    pid_t child;

    for (int i = 0; i < TASKS; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            usleep((useconds_t)(i * 1000));
            if (share_arrive(share, (size_t)i)) {
                usleep(20000);
                share_finish(share, SHARE_DONE);
                _exit(7);
            }
            _exit(share_wait(share, 10, NULL) || share->state != SHARE_DONE);
        }
    }
    for (int i = 0; i < TASKS; i++) {
        waitpid(children[i], &status, 0);
        good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
        deciders += WIFEXITED(status) && WEXITSTATUS(status) == 7;
    }
    ok(deciders == 1 && good == TASKS - 1, "one decides, all others wait for it");
    share_destroy(share, TASKS);

    share = share_create(3, NULL);
    share_arrive(share, 0);
    share_arrive(share, 2);
    ok(share_wait(share, 0, &err) == -1 && strstr(err.text, "task 1 of this node did not start"),
       "a task that never arrives is named");
    share_arrive(share, 1);
    ok(share_wait(share, 0, &err) == -1 && strstr(err.text, "has died"),
       "and so is one that died while it decided");
    ok(share_claim_report(share) && !share_claim_report(share), "only one reports");
    child = fork();
    if (child == 0) {
        share_report_wait(share, 60);
        _exit(share->reported != 2);
    }
    ok(waitpid(child, &status, WNOHANG) == 0, "the others wait for it");
    share_reported(share);
    waitpid(child, &status, 0);
    ok(status == 0 && !share_claim_report(share), "until it has reported; nobody reports again");
    share_report_wait(share, 60);
    share_destroy(share, 3);
    ok(!share_create(SHARE_TASKS_MAX + 1, &err) && strstr(err.text, "8193 tasks"),
       "memory has a bound");
}

static int answer(void *argument)
{
    return *(int *)argument;
}

static int hang(void *argument)
{
    (void)argument;
    pause();
    return 0;
}

static void test_deadline(void)
{
    int five = 5;

    is_int(with_deadline(answer, &five, 10), 5, "the answer of a call");
    is_int(with_deadline(hang, NULL, 0), -1, "a call that hangs is ended");
}

static const struct {
    const char *name;
    const char *gpus, *visible; /* of all tasks, or of each: "a;b" */
    unsigned overrides;
    const char *expected; /* for each task "MEGATRON_GPU PCI CUDA_VISIBLE_DEVICES" */
    const char *reach;    /* what a device cgroup leaves to the tasks; NULL: no cgroup */
    const char *warning;  /* a part of the note; NULL: none */
} places[] = {
    {"all GPUs, device files in reverse", "0,1,2,3", "0,1,2,3", 0,
     "0,1 0000:20:00.0,0000:40:00.0 0,1,2,3;2,3 0000:90:00.0,0000:c0:00.0 0,1,2,3", NULL, NULL},
    {"two of them, by their files", "2,3", "2,3", 0, "0 0000:20:00.0 0,1;1 0000:40:00.0 0,1", NULL,
     NULL},
    {"two of them, the others hidden", "0,1", "0,1", 0,
     "0 0000:90:00.0 GPU-cccccccc-0000-0000-0000-000000000000,GPU-dddddddd-0000-0000-0000-"
     "000000000000;1 0000:c0:00.0 GPU-cccccccc-0000-0000-0000-000000000000,GPU-dddddddd-0000-"
     "0000-0000-000000000000",
     NULL, NULL},
    {"counted from 0 behind a cgroup", "1,2", "0,1", 0, "0 0000:40:00.0 0,1;1 0000:90:00.0 0,1",
     NULL, NULL},
    {"each task its own", "3;0", "3;0", OVERRIDE_GPU_BIND,
     "0 0000:20:00.0 0;0 0000:c0:00.0 GPU-dddddddd-0000-0000-0000-000000000000", NULL, NULL},
    {"the user's list", "", "1,2", 0, "0 0000:40:00.0 1,2;1 0000:90:00.0 1,2", NULL, NULL},
    {"MIG instances", "0,1",
     "MIG-GPU-aaaaaaaa-0000-0000-0000-000000000000/1/0,"
     "MIG-GPU-aaaaaaaa-0000-0000-0000-000000000000/2/0",
     0,
     "0 0000:20:00.0 MIG-GPU-aaaaaaaa-0000-0000-0000-000000000000/1/0;"
     "0 0000:20:00.0 MIG-GPU-aaaaaaaa-0000-0000-0000-000000000000/2/0",
     NULL, NULL},
    {"more MIG instances than tasks", "0,1",
     "MIG-GPU-aaaaaaaa-0000-0000-0000-000000000000/1/0,"
     "MIG-GPU-aaaaaaaa-0000-0000-0000-000000000000/2/0,"
     "MIG-GPU-cccccccc-0000-0000-0000-000000000000/1/0,"
     "MIG-GPU-cccccccc-0000-0000-0000-000000000000/2/0",
     0,
     "0 0000:20:00.0 MIG-GPU-aaaaaaaa-0000-0000-0000-000000000000/1/0;"
     "0 0000:90:00.0 MIG-GPU-cccccccc-0000-0000-0000-000000000000/1/0",
     NULL, NULL},
    {"GPUs that the driver does not know", "8,9", "8,9", 0, "  ;  ", NULL,
     "GPU 8 assigned by Slurm is unknown"},
    {"none", "", "", 0, "  ;  ", NULL, NULL},
    {"a MIG instance that does not name its GPU", "0", "MIG-12345678-0000-0000-0000-000000000000",
     0, "  ;  ", NULL, "the GPU of MIG-12345678-0000-0000-0000-000000000000 is unknown"},
    {"the same, where only one GPU can be opened", "0", "MIG-1234;MIG-5678", 0,
     "0 0000:40:00.0 MIG-1234;0 0000:40:00.0 MIG-5678", "2", NULL},
    {"a device cgroup of each task, both lists counted from 0", "0", "0", OVERRIDE_GPU_BIND,
     "0 0000:20:00.0 0;0 0000:90:00.0 0", "3;1", NULL},
    {"the same, two GPUs each: CUDA counts in PCI order", "0,1", "0,1", OVERRIDE_GPU_BIND,
     "0,1 0000:90:00.0,0000:c0:00.0 0,1;0,1 0000:20:00.0,0000:40:00.0 0,1", "0,1;2,3", NULL},
    {"one device cgroup for all tasks", "1,2", "0,1", 0, "0 0000:40:00.0 0,1;1 0000:90:00.0 0,1",
     "1,2", NULL},
    {"the same with --gpu-bind=none", "", "", 0, "0 0000:40:00.0 ;1 0000:90:00.0 ", "1,2", NULL},
    {"a device cgroup that is wider than the list", "1", "1", OVERRIDE_GPU_BIND, "  ;  ", "1,2",
     "task 0 can open GPUs 1,2, so the list 1 is ambiguous"},
    {"the user's list within a device cgroup", "", "1", 0, "  ;  ", "1,2",
     "the list 1 is ambiguous"},
    {"a list that was too long", "0,1", "?", 0, "  ;  ", NULL, "GPU ? assigned by Slurm"},
    {"the job's GPUs, of which the step has none", "0,1", "", 0, "  ;  ", "", NULL},
};

/* Part 'index' of a list "a;b", or all of it if it has only one part. */
static void part_of(const char *list, int index, char *buffer, size_t size)
{
    const char *semicolon = strchr(list, ';');

    if (semicolon && index == 0)
        snprintf(buffer, size, "%.*s", (int)(semicolon - list), list);
    else
        snprintf(buffer, size, "%s", semicolon ? semicolon + 1 : list);
}

static void test_places(const char *topology)
{
    char sysroot[64], argument[512], rundir[64];
    char *arguments[] = {argument, sysroot, rundir};
    struct config config;
    struct settings settings;

    snprintf(argument, sizeof(argument), "topology=%s", topology);
    snprintf(sysroot, sizeof(sysroot), "sysroot=%s", root);
    snprintf(rundir, sizeof(rundir), "run=%s/run", root);
    config_parse(&config, 3, arguments);
    memset(&settings, 0, sizeof(settings));
    put_driver();
    settings_resolve(&settings, &config, NULL);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct place_input input = {.settings = &settings,
                                    .config = &config,
                                    .node = "n1",
                                    .overrides = places[i].overrides,
                                    .cgroup_root = "/nonexistent"};
        struct place_notes notes = {"", ""};
        struct share *share = share_create(2, NULL);
        struct error err = {.text = ""};
        char got[6 * SHARE_LIST + 8];
        int rc;

        for (int task = 0; task < 2; task++) {
            struct share_found *found = &share->task[task].found;

            for (int cpu = 0; cpu < 64; cpu++)
                cpuset_add(&found->cpus, cpu);
            part_of(places[i].gpus, task, found->gpus, sizeof(found->gpus));
            part_of(places[i].visible, task, found->visible, sizeof(found->visible));
            found->confined = places[i].reach != NULL;
            if (found->confined)
                part_of(places[i].reach, task, found->reach, sizeof(found->reach));
        }
        rc = place_tasks(share, &input, &notes, &err);
        snprintf(got, sizeof(got), "%s %s %s;%s %s %s", share->task[0].result.gpus,
                 share->task[0].result.pci, share->task[0].result.visible,
                 share->task[1].result.gpus, share->task[1].result.pci,
                 share->task[1].result.visible);
        if (!is(rc ? err.text : got, places[i].expected, places[i].name))
            diag("%s", notes.text);
        if (strcmp(places[i].name, "two of them, by their files") == 0)
            is(share->gpus,
               "GPU-aaaaaaaa-0000-0000-0000-000000000000,GPU-bbbbbbbb-0000-0000-0000-000000000000",
               "by names for containers, whose tools do not count device files");
        if (places[i].warning)
            ok(strstr(notes.warnings, places[i].warning) != NULL, "%s: a warning is printed",
               places[i].name);
        else
            ok(!notes.warnings[0], "%s: without a warning", places[i].name);
        ok(rc == 0 && !cpuset_is_empty(&share->task[0].result.cpus) &&
               !cpuset_is_empty(&share->task[1].result.cpus),
           "%s: both have CPUs", places[i].name);
        share_destroy(share, 2);
    }
    settings_clear(&settings);
    config_clear(&config);
}

int main(void)
{
    char command[128];

    if (!mkdtemp(root))
        return skip_all("no directory for files");
    test_handoff();
    test_ports();
    test_busy_port();
    test_cgroups();
    test_leaving();
    test_meeting();
    test_deadline();
    test_places(TOPOLOGIES "/hgx4.xml"); /* two packages, two GPUs at each */
    snprintf(command, sizeof(command), "rm -rf %s", root);
    if (system(command))
        diag("%s is left", root);
    return done_testing();
}
