/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "facts.h"

#include <dirent.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/checksum.h"
#include "lib/file.h"
#include "lib/node.h"

enum { PROGRAM_LIMIT = 1 << 30 };

/* The first line of a file below 'root', without its end; "" if it cannot be read. */
static void read_line(const char *root, const char *path, char *line, size_t size)
{
    char whole[PATH_MAX];

    line[0] = '\0';
    if (snprintf(whole, sizeof(whole), "%s%s", root, path) < (int)sizeof(whole))
        file_read_line(whole, line, size);
}

/* Programs of one release may still differ, so compare the files. */
static void read_program(char *program, size_t size)
{
    struct file_bytes bytes;

    if (file_read("/proc/self/exe", PROGRAM_LIMIT, &bytes, NULL) < 0)
        return;
    snprintf(program, size, "checksum %016" PRIx64, checksum_of(bytes.data, bytes.length));
    file_bytes_clear(&bytes);
}

static void read_nccl(char *version, size_t size)
{
    void *library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "ncclGetVersion") : NULL;
    int (*get)(int *number);
    int number;

    version[0] = '\0';
    if (symbol) {
        memcpy(&get, &symbol, sizeof(get));
        if (get(&number) == 0 && number >= 10000) /* since 2.9: 22803 is 2.28.3 */
            snprintf(version, size, "%d.%d.%d", number / 10000, number / 100 % 100, number % 100);
        else if (number > 0)
            snprintf(version, size, "%d", number);
    }
    if (library)
        dlclose(library);
}

/* RDMA ports ------------------------------------------------------------------------------------
 */

typedef void port_visitor(void *context, const char *root, const char *device, const char *port);

/* NVLink controllers (HGX B200) are RDMA devices, but not NICs. Only root can tell. */
static int is_nic(const char *root, const char *device)
{
    char path[PATH_MAX], target[PATH_MAX];
    struct pci_address pci;
    const char *name;
    ssize_t length;

    snprintf(path, sizeof(path), "%.2000s/sys/class/infiniband/%.200s/device", root, device);
    length = readlink(path, target, sizeof(target) - 1);
    if (length <= 0)
        return 1;
    target[length] = '\0';
    name = strrchr(target, '/');
    return pci_parse(name ? name + 1 : target, &pci) < 0 || !node_is_nvlink_controller(root, &pci);
}

/* Call 'visit' for the first port of every NIC. */
static void each_port(const char *root, port_visitor *visit, void *context)
{
    char path[PATH_MAX], port[PATH_MAX];
    struct dirent *entry;
    DIR *devices;

    snprintf(path, sizeof(path), "%s/sys/class/infiniband", root);
    devices = opendir(path);
    while (devices && (entry = readdir(devices))) {
        if (entry->d_name[0] == '.' || !is_nic(root, entry->d_name))
            continue;
        snprintf(port, sizeof(port), "/sys/class/infiniband/%.200s/ports/1", entry->d_name);
        visit(context, root, entry->d_name, port);
    }
    if (devices)
        closedir(devices);
}

static void count_port(void *context, const char *root, const char *device, const char *port)
{
    struct node_facts *node = context;
    char path[PATH_MAX], state[32];

    node->nics++;
    snprintf(path, sizeof(path), "%.1000s/state", port);
    read_line(root, path, state, sizeof(state));
    if (state[0] && !strstr(state, "ACTIVE") && node->nics_down++ == 0)
        snprintf(node->first_down, sizeof(node->first_down), "%.23s", device);
}

static void add_counters(void *context, const char *root, const char *device, const char *port)
{
    static const char *const names[] = {
        /* EFA */
        "hw_counters/retrans_timeout_events",
        "hw_counters/unresponsive_remote_events",
        "hw_counters/impaired_remote_conn_events",
        "hw_counters/rx_drops",
        "hw_counters/rdma_read_wr_err",
        "hw_counters/rdma_write_wr_err",
        /* InfiniBand and RoCE */
        "hw_counters/local_ack_timeout_err",
        "hw_counters/packet_seq_err",
        "counters/symbol_error",
        "counters/port_rcv_errors",
        "counters/local_link_integrity_errors",
        "counters/link_error_recovery",
        "counters/link_downed",
    };
    struct counter_facts *counters = context;
    int last = counters->count < FACTS_PORTS ? counters->count++ : FACTS_PORTS - 1;
    struct port_counters *sums = &counters->ports[last];

    snprintf(sums->device, sizeof(sums->device), "%.23s", device);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        char path[PATH_MAX], text[32];

        snprintf(path, sizeof(path), "%.1000s/%s", port, names[i]);
        read_line(root, path, text, sizeof(text));
        *(strcmp(names[i], "counters/link_downed") == 0 ? &sums->downs : &sums->errors) +=
            strtoull(text, NULL, 10);
    }
}

void facts_read_counters(struct counter_facts *counters, const char *root)
{
    memset(counters, 0, sizeof(*counters));
    each_port(root, add_counters, counters);
}

static void read_fabric(struct node_facts *node, const char *root)
{
    struct node_fabric fabric;
    char path[PATH_MAX], modules[256];

    node_fabric_read(root, getenv("LD_LIBRARY_PATH"), &fabric);
    node->efa = fabric.efa;
    node->openable = fabric.openable;
    node->efa_provider = fabric.efa_provider;
    node->nccl_plugin = fabric.nccl_plugin;
    node->locked_memory = fabric.locked_memory;
    each_port(root, count_port, node);
    /* EFA's driver uses the GPU driver's own interface; others need nvidia-peermem, or dma-buf,
     * which the open kernel modules have. */
    node->gpudirect = -1;
    if (node->gpus > 0 && node->nics > 0) {
        snprintf(path, sizeof(path), "%s/sys/module/nvidia_peermem", root);
        read_line(root, "/proc/driver/nvidia/version", modules, sizeof(modules));
        node->gpudirect =
            fabric.efa > 0 || access(path, F_OK) == 0 || strstr(modules, "Open Kernel") != NULL;
    }
}

static int count_gpus(const char *root)
{
    struct node_gpu *gpus = NULL;
    size_t count = 0;

    if (node_gpus(root, &gpus, &count, NULL) < 0)
        count = 0;
    free(gpus);
    return (int)count;
}

static void read_gpus(struct node_facts *node, struct nvml_gpus *nvml)
{
    int count = nvml ? nvml_gpus_count(nvml) : 0;

    if (!nvml)
        return;
    snprintf(node->driver, sizeof(node->driver), "%.31s", nvml_gpus_driver(nvml));
    node->gpu_count = count < FACTS_GPUS ? count : FACTS_GPUS;
    for (int i = 0; i < node->gpu_count; i++)
        node->gpus_lost += nvml_gpus_read(nvml, i, &node->gpu[i]) < 0;
    if (node->gpu_count > node->gpus)
        node->gpus = node->gpu_count;
}

void facts_read_node(struct node_facts *node, const char *root, struct nvml_gpus *nvml)
{
    struct rlimit limit;

    memset(node, 0, sizeof(*node));
    read_line(root, "/sys/class/dmi/id/product_name", node->kind, sizeof(node->kind));
    read_program(node->program, sizeof(node->program));
    read_nccl(node->nccl, sizeof(node->nccl));
    node->gpus = count_gpus(root);
    read_fabric(node, root);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        node->open_files = limit.rlim_max == RLIM_INFINITY ? UINT64_MAX : limit.rlim_max;
    read_gpus(node, nvml);
    xid_read(node, root);
    facts_read_counters(&node->before, root);
}
