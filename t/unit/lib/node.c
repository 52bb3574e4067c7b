/* SPDX-License-Identifier: Apache-2.0 */
/* What is read from /proc, /sys and /dev, on nodes that consist of files. */
#include "config.h"
#include "lib/node.h"
#include "tap.h"

#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

/* Create the directories of a path below the root. Returns the full path. */
static const char *make_path(const char *name)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s%s", root, name);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            diag("mkdir %s: %s", path, strerror(errno));
        *slash = '/';
    }
    return path;
}

static void put(const char *name, const char *text)
{
    FILE *file = fopen(make_path(name), "w");

    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

static void put_link(const char *name, const char *target)
{
    if (symlink(target, make_path(name)) < 0)
        diag("symlink %s: %s", name, strerror(errno));
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status, (void)type, (void)at;
    return remove(path);
}

static void new_root(void)
{
    strcpy(root, "/tmp/megatron-node-XXXXXX");
    if (!mkdtemp(root))
        root[0] = '\0';
}

static void drop_root(void)
{
    if (root[0])
        nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void put_gpu(const char *pci, const char *minor, const char *uuid)
{
    char name[128], text[512];

    snprintf(name, sizeof(name), "/proc/driver/nvidia/gpus/%s/information", pci);
    snprintf(text, sizeof(text),
             "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 91\nGPU UUID: \t %s\n"
             "Video BIOS: \t 96.00.74.00.01\nBus Type: \t PCIe\nDevice Minor: \t %s\n"
             "GPU Excluded:\t No\n",
             uuid, minor);
    put(name, text);
}

static void test_gpus(void)
{
    struct node_gpu *gpus;
    struct error err = {.text = ""};
    size_t count;
    char pci[PCI_TEXT];

    new_root();
    ok(node_gpus(root, &gpus, &count, &err) == 0 && count == 0, "no driver, no GPU");
    free(gpus);
    /* The driver's minor numbers are not in PCI order here. */
    put_gpu("0000:ca:00.0", "0", "GPU-aaaa");
    put_gpu("0000:53:00.0", "3", "GPU-bbbb");
    put_gpu("0001:01:00.0", "1", "GPU-cccc");
    put_gpu("0000:64:00.0", "lost", "GPU-dddd");
    put("/proc/driver/nvidia/gpus/not-a-gpu/information", "Device Minor: 9\n");
    put("/proc/driver/nvidia/gpus/0000:75:00.0/other", "");
    ok(node_gpus(root, &gpus, &count, &err) == 0 && count == 3, "GPUs with a minor number %s",
       err.text);
    if (count == 3) {
        is(pci_format(&gpus[0].pci, pci), "0000:53:00.0", "in PCI order");
        is_int(gpus[0].minor, 3, "with the driver's number");
        is(gpus[0].uuid, "GPU-bbbb", "and UUID");
        is(gpus[0].model, "NVIDIA H100 80GB HBM3", "and model");
        is_int(gpus[1].minor, 0, "the second");
        is_int(gpus[2].minor, 1, "one of another domain is last");
    }
    free(gpus);
    drop_root();
}

static void test_controller(void)
{
    struct pci_address pci = {0, 0x70, 0, 0};

    new_root();
    ok(!node_is_nvlink_controller(root, &pci), "no product data");
    put("/sys/bus/pci/devices/0000:70:00.0/vpd", "x ConnectX-7 V2 SW_MNG x");
    ok(node_is_nvlink_controller(root, &pci), "a controller of NVLink");
    pci.bus = 0x71;
    put("/sys/bus/pci/devices/0000:71:00.0/vpd", "x ConnectX-7 x");
    ok(!node_is_nvlink_controller(root, &pci), "a NIC");
    drop_root();
}

/* What a node has, as words, and the resulting warnings. */
static const struct {
    const char *has;
    int efa, verbs;
    const char *says; /* of the first sentence; NULL: nothing */
} fabrics[] = {
    {"", 0, 0, NULL},
    {"memlock", 0, 0, NULL},
    {"efa uverbs provider plugin", 2, 0, NULL},
    {"efa uverbs dso plugin", 2, 0, NULL},
    {"efa uverbs conf plugin", 2, 0, NULL},
    {"efa uverbs provider path", 2, 0, NULL},
    {"efa-id uverbs provider plugin", 1, 0, NULL},
    {"efa uverbs plugin", 2, 0, "this node has 2 EFA devices, but no libfabric: NCCL will use TCP"},
    {"efa uverbs bare plugin", 2, 0, "its libfabric has no efa provider"},
    {"efa uverbs provider", 2, 0, "no libnccl-net"},
    {"efa provider plugin", 2, 0, "no /dev/infiniband/uverbs"},
    {"efa uverbs provider plugin memlock", 2, 0, "only 64 KiB of memory can be locked"},
    {"mlx5 uverbs verbs", 0, 1, NULL},
    {"mlx5 uverbs", 0, 1, "this node has 1 RDMA device, but no libibverbs"},
    {"mlx5 verbs", 0, 1, "no /dev/infiniband/uverbs"},
    {"mlx5 uverbs verbs memlock", 0, 1, "only 64 KiB"},
    {"efa mlx5 uverbs provider plugin", 2, 1, NULL},
};

static int has(const char *words, const char *word)
{
    const char *at = words;
    size_t length = strlen(word);

    for (; (at = strstr(at, word)); at++)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return 1;
    return 0;
}

static void make_fabric(const char *words)
{
    if (has(words, "efa")) {
        put_link("/sys/class/infiniband/rdmap79s0/device/driver", "../../../bus/pci/drivers/efa");
        put_link("/sys/class/infiniband/rdmap80s0/device/driver", "../../../bus/pci/drivers/efa");
    }
    if (has(words, "efa-id")) {
        put("/sys/class/infiniband/efa_0/device/vendor", "0x1d0f\n");
        put("/sys/class/infiniband/efa_0/device/device", "0xefa1\n");
    }
    if (has(words, "mlx5"))
        put_link("/sys/class/infiniband/mlx5_0/device/driver", "../../bus/pci/drivers/mlx5_core");
    if (has(words, "uverbs"))
        put("/dev/infiniband/uverbs0", "");
    if (has(words, "provider"))
        put("/opt/amazon/efa/lib64/libfabric.so.1.27.0", "\177ELF libibverbs.so.1 libefa.so.1");
    if (has(words, "bare"))
        put("/usr/lib/x86_64-linux-gnu/libfabric.so.1", "\177ELF libpsm2.so.2");
    if (has(words, "dso")) {
        put("/usr/lib64/libfabric.so.1", "\177ELF");
        put("/usr/lib64/libfabric/libefa-fi.so", "");
    }
    if (has(words, "conf")) {
        put("/etc/ld.so.conf.d/000_efa.conf", "# efa\n/somewhere/lib\n");
        put("/somewhere/lib/libfabric.so.1", "\177ELF libefa.so.1");
    }
    if (has(words, "plugin"))
        put("/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu/libnccl-net.so", "");
    if (has(words, "path"))
        put("/home/user/lib/libnccl-net.so", "");
    if (has(words, "verbs"))
        put("/usr/lib/x86_64-linux-gnu/libibverbs.so.1", "");
}

static void test_fabrics(void)
{
    for (size_t i = 0; i < sizeof(fabrics) / sizeof(fabrics[0]); i++) {
        struct node_fabric fabric;
        struct error sentences[NODE_SENTENCES];
        size_t count;

        new_root();
        make_fabric(fabrics[i].has);
        node_fabric_read(root, "/nowhere:/home/user/lib", &fabric);
        fabric.locked_memory = has(fabrics[i].has, "memlock") ? 65536 : UINT64_MAX;
        ok(fabric.efa == fabrics[i].efa && fabric.verbs == fabrics[i].verbs,
           "\"%s\": %d EFA devices, %d others", fabrics[i].has, fabric.efa, fabric.verbs);
        count = node_fabric_warnings(&fabric, sentences);
        if (fabrics[i].says)
            ok(count == 1 && strstr(sentences[0].text, fabrics[i].says), "warning: %s",
               count ? sentences[0].text : "nothing");
        else
            ok(count == 0, "nothing to say%s%s", count ? ", but: " : "",
               count ? sentences[0].text : "");
        drop_root();
    }
}

static void test_here(void)
{
    struct node_fabric fabric;

    node_fabric_read("", NULL, &fabric);
    ok(fabric.efa >= 0 && fabric.locked_memory > 0, "this machine is read");
}

int main(void)
{
    test_gpus();
    test_controller();
    test_fabrics();
    test_here();
    return done_testing();
}
