/* SPDX-License-Identifier: Apache-2.0 */
/* Find out why NCCL would silently fall back to TCP: which parts of EFA and InfiniBand are missing.
 */
#include "config.h"
#include "node.h"
#include "file.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_SIZE = 4096 };

static const char *const library_folders[] = {
    "/opt/amazon/efa/lib64",
    "/opt/amazon/efa/lib",
    "/opt/amazon/ofi-nccl/lib64",
    "/opt/amazon/ofi-nccl/lib",
    "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu",
    "/opt/amazon/ofi-nccl/lib/aarch64-linux-gnu",
    "/opt/amazon/aws-ofi-nccl/lib",
    "/opt/aws-ofi-nccl/lib",
    "/usr/local/lib64",
    "/usr/local/lib",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib",
    "/lib64",
    "/lib",
};

static int starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Does a file contain 'text'? A provider built into libfabric is recognized by the libraries it
 * links. */
static int file_holds(const char *path, const char *text)
{
    enum { CHUNK = 65536, MOST = 64 << 20 };
    static const size_t overlap = 64;
    char *buffer = malloc(CHUNK);
    int fd = buffer ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1, found = 0;
    size_t kept = 0, total = 0;
    ssize_t length;

    while (fd >= 0 && !found && total < MOST &&
           (length = read(fd, buffer + kept, CHUNK - kept)) > 0) {
        size_t size = kept + (size_t)length;

        found = memmem(buffer, size, text, strlen(text)) != NULL;
        total += (size_t)length;
        kept = size < overlap ? size : overlap;
        memmove(buffer, buffer + size - kept, kept);
    }
    if (fd >= 0)
        close(fd);
    free(buffer);
    return found;
}

static void look_into(struct node_fabric *fabric, const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *entry;

    while (folder && (entry = readdir(folder))) {
        char file[PATH_SIZE];

        if (starts_with(entry->d_name, "libnccl-net"))
            fabric->nccl_plugin = 1;
        if (starts_with(entry->d_name, "libibverbs.so"))
            fabric->libibverbs = 1;
        if (!starts_with(entry->d_name, "libfabric.so") || fabric->efa_provider)
            continue;
        fabric->libfabric = 1;
        snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
        fabric->efa_provider = file_holds(file, "libefa.so");
        snprintf(file, sizeof(file), "%s/libfabric/libefa-fi.so", path);
        if (access(file, F_OK) == 0)
            fabric->efa_provider = 1;
    }
    if (folder)
        closedir(folder);
}

/* Add the directories listed in one file of /etc/ld.so.conf.d. */
static void look_into_listed(struct node_fabric *fabric, const char *root, const char *list)
{
    FILE *file = fopen(list, "re");
    char line[PATH_SIZE], path[2 * PATH_SIZE];

    while (file && fgets(line, sizeof(line), file)) {
        line[strcspn(line, " \t\r\n#")] = '\0';
        snprintf(path, sizeof(path), "%s%s", root, line);
        if (line[0] == '/')
            look_into(fabric, path);
    }
    if (file)
        fclose(file);
}

static void find_libraries(struct node_fabric *fabric, const char *root, const char *library_path)
{
    char path[PATH_SIZE];
    DIR *folder;
    struct dirent *entry;

    for (const char *at = library_path; at && *at;
         at += strcspn(at, ":") + (at[strcspn(at, ":")] == ':')) {
        snprintf(path, sizeof(path), "%s%.*s", root, (int)strcspn(at, ":"), at);
        if (*at == '/')
            look_into(fabric, path);
    }
    snprintf(path, sizeof(path), "%s/etc/ld.so.conf.d", root);
    folder = opendir(path);
    while (folder && (entry = readdir(folder))) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/etc/ld.so.conf.d/%s", root, entry->d_name);
        look_into_listed(fabric, root, path);
    }
    if (folder)
        closedir(folder);
    for (size_t i = 0; i < sizeof(library_folders) / sizeof(library_folders[0]); i++) {
        snprintf(path, sizeof(path), "%s%s", root, library_folders[i]);
        look_into(fabric, path);
    }
}

/* Is efa the driver of an RDMA device? Check its driver link, or its PCI ids. */
static int is_efa(const char *root, const char *name)
{
    char path[PATH_SIZE], target[PATH_SIZE], text[32];
    ssize_t length;
    unsigned vendor = 0, device = 0;

    snprintf(path, sizeof(path), "%s/sys/class/infiniband/%s/device/driver", root, name);
    length = readlink(path, target, sizeof(target) - 1);
    if (length > 0) {
        const char *slash;

        target[length] = '\0';
        slash = strrchr(target, '/');
        return strcmp(slash ? slash + 1 : target, "efa") == 0;
    }
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/sys/class/infiniband/%s/device/%s", root, name,
                 i == 0 ? "vendor" : "device");
        if (file_read_line(path, text, sizeof(text)) > 0)
            *(i == 0 ? &vendor : &device) = (unsigned)strtoul(text, NULL, 16);
    }
    return vendor == 0x1d0f && device >= 0xefa0 && device <= 0xefa3;
}

static void find_devices(struct node_fabric *fabric, const char *root)
{
    char path[PATH_SIZE];
    DIR *folder;
    struct dirent *entry;

    snprintf(path, sizeof(path), "%s/sys/class/infiniband", root);
    folder = opendir(path);
    while (folder && (entry = readdir(folder)))
        if (entry->d_name[0] != '.')
            *(is_efa(root, entry->d_name) ? &fabric->efa : &fabric->verbs) += 1;
    if (folder)
        closedir(folder);
    snprintf(path, sizeof(path), "%s/dev/infiniband", root);
    folder = opendir(path);
    while (folder && (entry = readdir(folder))) {
        snprintf(path, sizeof(path), "%s/dev/infiniband/%s", root, entry->d_name);
        fabric->openable += starts_with(entry->d_name, "uverbs") && access(path, R_OK | W_OK) == 0;
    }
    if (folder)
        closedir(folder);
}

void node_fabric_read(const char *root, const char *library_path, struct node_fabric *fabric)
{
    struct rlimit limit;

    *fabric = (struct node_fabric){.locked_memory = UINT64_MAX};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        fabric->locked_memory = limit.rlim_cur;
    find_devices(fabric, root);
    /* Without a fabric the libraries are not needed. */
    if (fabric->efa + fabric->verbs > 0)
        find_libraries(fabric, root, library_path);
}

size_t node_fabric_warnings(const struct node_fabric *fabric,
                            struct error sentences[NODE_SENTENCES])
{
    static const uint64_t enough = UINT64_C(1) << 30;
    size_t count = 0;

    if (fabric->efa + fabric->verbs == 0)
        return 0;
    if (fabric->efa > 0 && !fabric->efa_provider)
        error_set(&sentences[count++],
                  "this node has %d EFA device%s, but %s: NCCL will use TCP; install Amazon's EFA "
                  "software",
                  fabric->efa, fabric->efa == 1 ? "" : "s",
                  fabric->libfabric ? "its libfabric has no efa provider" : "no libfabric");
    else if (fabric->efa > 0 && !fabric->nccl_plugin)
        error_set(&sentences[count++],
                  "this node has %d EFA device%s, but no libnccl-net: NCCL will use TCP; install "
                  "aws-ofi-nccl",
                  fabric->efa, fabric->efa == 1 ? "" : "s");
    if (fabric->verbs > 0 && fabric->efa == 0 && !fabric->libibverbs)
        error_set(&sentences[count++],
                  "this node has %d RDMA device%s, but no libibverbs: NCCL will use TCP; install "
                  "libibverbs1",
                  fabric->verbs, fabric->verbs == 1 ? "" : "s");
    if (fabric->openable == 0)
        error_set(&sentences[count++],
                  "this node has RDMA devices, but no /dev/infiniband/uverbs* can be opened: NCCL "
                  "will use TCP; "
                  "load ib_uverbs and check the permissions of the device files");
    if (fabric->locked_memory < enough)
        error_set(&sentences[count++],
                  "only %" PRIu64
                  " KiB of memory can be locked, too little for RDMA; set memlock to "
                  "unlimited for users and LimitMEMLOCK=infinity for slurmd",
                  fabric->locked_memory / 1024);
    return count;
}
