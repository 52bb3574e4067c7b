/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "topologies.h"
#include "tap.h"

#ifdef HAVE_HWLOC
#include "lib/placement/hwloc_api.h"
#endif

static const struct {
    const char *name;
    int real;
    size_t cores, cpus, numas, gpus, nics;
} nodes[] = {
    {"amd", 0, 48, 96, 2, 8, 8},
    {"cpu-only", 0, 32, 64, 2, 0, 2},
    {"dgx", 0, 64, 128, 8, 8, 8},
    {"four-numa", 0, 16, 64, 4, 0, 0},
    {"hgx4", 0, 64, 64, 2, 4, 4},
    {"omnipath", 0, 24, 24, 2, 2, 2},
    {"one-gpu", 0, 8, 16, 1, 1, 0},
    {"p4d-flat", 0, 48, 96, 2, 8, 4},
    {"p4d.24xlarge", 0, 48, 96, 2, 8, 4},
    {"p5.48xlarge", 0, 96, 192, 2, 8, 32},
    {"p5en.48xlarge", 0, 96, 192, 2, 8, 16},
    {"p6-b200.48xlarge", 0, 96, 192, 2, 8, 8},
    {"p6-b300.48xlarge", 0, 96, 192, 2, 8, 16},
    {"slingshot", 0, 64, 128, 4, 4, 4},
    {"subnuma", 0, 56, 112, 4, 4, 4},
    {"uneven", 0, 16, 32, 2, 4, 1},
    {"coral-lassen", 1, 40, 160, 2, 4, 4},
    {"cts1-pascal", 1, 36, 72, 2, 2, 1},
    {"g4dnmetal", 1, 48, 96, 2, 8, 1},
    {"jureca-dc-gpu", 1, 128, 256, 8, 4, 4},
    {"juwels-booster", 1, 48, 96, 8, 4, 4},
};

static int same(const struct topology *a, const struct topology *b)
{
    if (a->place_count != b->place_count || a->numa_count != b->numa_count ||
        a->core_count != b->core_count || a->cpu_count != b->cpu_count ||
        a->device_count != b->device_count || a->gpu_count != b->gpu_count ||
        a->nic_count != b->nic_count)
        return 0;
    for (size_t i = 0; i < a->device_count; i++)
        if (pci_compare(&a->devices[i].pci, &b->devices[i].pci) ||
            a->devices[i].kind != b->devices[i].kind ||
            a->devices[i].place != b->devices[i].place ||
            strcmp(a->devices[i].name, b->devices[i].name) != 0)
            return 0;
    return memcmp(a->places, b->places, a->place_count * sizeof(a->places[0])) == 0 &&
           memcmp(a->numas, b->numas, a->numa_count * sizeof(a->numas[0])) == 0 &&
           memcmp(a->cores, b->cores, a->core_count * sizeof(a->cores[0])) == 0 &&
           memcmp(a->cpus, b->cpus, a->cpu_count * sizeof(a->cpus[0])) == 0;
}

static void test_nodes(void)
{
    char path[] = "/tmp/megatron-topology-XXXXXX";
    int fd = mkstemp(path);

    for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
        struct topology *topology = read_node(nodes[i].name, nodes[i].real), *copy;
        struct error err = {.text = ""};

        if (!topology) {
            missing_node(nodes[i].name, nodes[i].real);
            continue;
        }
        ok(topology->core_count == nodes[i].cores && topology->cpu_count == nodes[i].cpus &&
               topology->numa_count == nodes[i].numas && topology->gpu_count == nodes[i].gpus &&
               topology->nic_count == nodes[i].nics,
           "%zu cores, %zu CPUs, %zu NUMA nodes, %zu GPUs, %zu NICs", topology->core_count,
           topology->cpu_count, topology->numa_count, topology->gpu_count, topology->nic_count);
        ok(topology_save(topology, path, &err) == 0, "is saved%s", err.text);
        copy = topology_load(path, &err);
        ok(copy && same(topology, copy), "and read back the same%s", err.text);
        topology_destroy(copy);
        topology_destroy(topology);
    }
    if (fd >= 0)
        close(fd);
    unlink(path);
}

static const struct {
    const char *text;
    const char *expected; /* NULL: rejected */
} addresses[] = {
    {"0000:53:00.0", "0000:53:00.0"},
    {"53:00.0", "0000:53:00.0"},
    {"00000000:CA:1f.7", "0000:ca:1f.7"},
    {"10000:01:00.0", "10000:01:00.0"},
    {"ffffffff:ff:1f.7", "ffffffff:ff:1f.7"},
    {"0000:53:20.0", NULL},
    {"0000:53:00.8", NULL},
    {"0000:153:00.0", NULL},
    {"53:00", NULL},
    {"53:00.", NULL},
    {"53:00.0 ", NULL},
    {":53:00.0", NULL},
    {"0000:53:00.0:1", NULL},
    {"mlx5_0", NULL},
    {"", NULL},
};

static void test_addresses(void)
{
    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        struct pci_address pci;
        char text[PCI_TEXT] = "";
        int rc = pci_parse(addresses[i].text, &pci);

        if (rc == 0)
            pci_format(&pci, text);
        ok(addresses[i].expected ? rc == 0 && strcmp(text, addresses[i].expected) == 0 : rc < 0,
           "the address \"%s\" is %s", addresses[i].text,
           addresses[i].expected ? addresses[i].expected : "refused");
    }
}

#define START "megatron-topology 1\nplace 0 -1 0 1\nnuma 0 0\ncore 0 0,1\n"
static const struct {
    const char *text;
    const char *says; /* part of the error; NULL: read */
} texts[] = {
    {START "end\n", NULL},
    {START "device 0 0000:01:00.0 10de 2330 302 0 -\nend\n", NULL},
    {START "place 3 0 0 0\ndevice 1 0000:02:00.0 1d0f efa2 200 1 rdmap2s0\nend\n", NULL},
    {START, "truncated"},
    {"megatron-topology 2\nend\n", "another version"},
    {"megatron-topology 1\nend\n", "no CPU"},
    {"", "not an hwloc XML file"},
    {"hello", "not an hwloc XML file"},
    {START "core 0 1\nend\n", "is inconsistent"},
    {START "core 1 2\nend\n", "is inconsistent"},
    {START "core 0 -1\nend\n", "line 5"},
    {START "core 0 9999\nend\n", "is inconsistent"},
    {START "core 0 2 3\nend\n", "line 5"},
    {START "core 0\nend\n", "line 5"},
    {START "place 3 7 0 0\nend\n", "is inconsistent"},
    {START "place 9 0 0 0\nend\n", "line 5"},
    {START "place 1 0 0 2\nend\n", "is inconsistent"},
    {START "place 1 0 -1 1\nend\n", "is inconsistent"},
    {START "numa 1 5\nend\n", "NUMA node has no parent"},
    {START "numa -1 0\nend\n", "line 5"},
    {START "device 0 0000:01:00.0 10de 2330 302 9 -\nend\n", "device has no parent"},
    {START "device 0 0000:01:00 10de 2330 302 0 -\nend\n", "line 5"},
    {START "device 0 0000:01:00.0 110de 2330 302 0 -\nend\n", "line 5"},
    {START "device 7 0000:01:00.0 10de 2330 302 0 -\nend\n", "line 5"},
    {START "device 1 0000:01:00.0 10de 2330 302 0 a_name_that_is_longer_than_any_name\nend\n",
     "line 5"},
    {START "something else\nend\n", "line 5"},
    {"<topology version=\"2.0\"><object", "not an hwloc XML file"},
};

static void test_texts(void)
{
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct error err = {.text = ""};
        struct topology *topology =
            topology_parse("FILE", texts[i].text, strlen(texts[i].text), &err);

        if (texts[i].says)
            ok(!topology && strstr(err.text, texts[i].says), "text %zu is rejected: %s", i,
               err.text);
        else
            ok(topology != NULL, "text %zu is read %s", i, err.text);
        topology_destroy(topology);
    }
}

static void test_find(void)
{
    struct topology *topology = read_node("p6-b200.48xlarge", 0);
    struct pci_address pci = {0, 0x53, 0, 0};
    const struct topology_device *nic;
    char name[32];

    if (!ok(topology != NULL, "p6-b200 is read"))
        return;
    is_int(topology_gpu_index(topology, &pci), 1, "a GPU's number");
    pci.bus = 0x50;
    is_int(topology_gpu_index(topology, &pci), -1, "a NIC is no GPU");
    ok(!topology_gpu(topology, 8), "there is no ninth GPU");
    nic = topology_find_nic(topology, "rdmap81s0");
    ok(nic && nic->pci.bus == 0x51 && nic->kind == DEVICE_NIC, "a NIC by name");
    ok(nic == topology_find_nic(topology, "51:00.0"), "and by address");
    is(nic ? topology_device_name(nic, name) : NULL, "rdmap81s0", "its name");
    nic = topology_find_nic(topology, "ibp112s0");
    ok(nic && nic->kind == DEVICE_OTHER, "NVLink's controller is not a compute NIC");
    ok(!topology_find_nic(topology, "53:00.0"), "a GPU is not a NIC");
    topology_destroy(topology);
}

/* hwloc is loaded on demand: the error on a node without it. */
static void test_library(void)
{
#ifdef HAVE_HWLOC
    static const struct {
        const char *name, *sentence;
    } table[] = {
        {"libhwloc-absent.so.15", "cannot load libhwloc-absent.so.15: "},
        {"libhwloc-absent.so.15", "; install libhwloc15 on the compute nodes"},
        {"libm.so.6", "libm.so.6 has no hwloc_get_api_version; install hwloc 2.1 or newer"},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct error err = {.text = ""};
        struct hwloc_api api;

        ok(hwloc_api_open(&api, table[i].name, &err) == -1 && strstr(err.text, table[i].sentence) &&
               !api.handle,
           "a library that is missing or another one: %s", err.text);
    }
#else
    skip("a missing library", "built without hwloc");
#endif
}

/* hwloc's parser crashes on some of these; this process must not. */
static void test_damaged(void)
{
    static const char word[] = "complete_cpuset";
    struct error err;
    char *text = calloc(1, 1 << 20);
    FILE *file = fopen(node_path("cpu-only", 0), "r");
    size_t size = file && text ? fread(text, 1, (1 << 20) - 1, file) : 0;
    int tried = 0, survived = 0;

    if (file)
        fclose(file);
    ok(size > 0, "a file to damage");
    for (char *at = text; size > 0 && (at = strstr(at, word)); at++) {
        struct topology *topology;

        if (tried++ % 4 != 0)
            continue;
        at[0] = 'X';
        err.text[0] = '\0';
        topology = topology_parse("FILE", text, size, &err);
        survived += topology || strstr(err.text, "FILE");
        topology_destroy(topology);
        at[0] = word[0];
    }
    is_int(survived, (tried + 3) / 4, "damaged files are read, or refused by name");
    free(text);
}

int main(void)
{
    struct error err = {.text = ""};
    struct topology *here;

    test_addresses();
    test_library();
    here = topology_discover(&err);
    if (!here && strstr(err.text, "hwloc"))
        return skip("topologies", err.text), done_testing();
    ok(here && here->core_count > 0, "this machine is discovered %s", err.text);
    topology_destroy(here);
    ok(!topology_load("/nonexistent/file", &err) && strstr(err.text, "/nonexistent/file"),
       "a file that is not there: %s", err.text);
    test_texts();
    test_damaged();
    test_nodes();
    test_find();
    return done_testing();
}
