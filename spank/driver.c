#include "driver.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* The value behind "Key:" of a line, without the blanks around it; NULL where the key is another.
 */
static char *value_of(char *line, const char *key)
{
    size_t length = strlen(key);
    char *value;

    if (strncmp(line, key, length) != 0)
        return NULL;
    value = line + length;
    value += strspn(value, " \t");
    value[strcspn(value, "\n")] = '\0';
    for (size_t end = strlen(value); end > 0 && value[end - 1] == ' ';)
        value[--end] = '\0';
    return value;
}

static int read_gpu(const char *path, struct driver_gpu *gpu)
{
    FILE *file = fopen(path, "re");
    char line[512], *value;
    int found = 0;

    if (!file)
        return 0;
    memset(gpu, 0, sizeof(*gpu));
    while (fgets(line, sizeof(line), file)) {
        if ((value = value_of(line, "Device Minor:")))
            found |= sscanf(value, "%d", &gpu->minor) == 1 ? 1 : 0;
        else if ((value = value_of(line, "Bus Location:")))
            found |= pci_parse(value, &gpu->pci) == 0 ? 2 : 0;
        else if ((value = value_of(line, "GPU UUID:")) && strlen(value) < sizeof(gpu->uuid))
            strcpy(gpu->uuid, value);
    }
    fclose(file);
    return found == 3;
}

size_t driver_read(const char *root, struct driver_gpu gpus[DRIVER_GPUS])
{
    char directory[2048], path[4096];
    struct dirent *entry;
    size_t count = 0;
    DIR *stream;

    snprintf(directory, sizeof(directory), "%s/proc/driver/nvidia/gpus", root);
    stream = opendir(directory);
    if (!stream)
        return 0;
    while (count < DRIVER_GPUS && (entry = readdir(stream))) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%.256s/information", directory, entry->d_name);
        count += read_gpu(path, &gpus[count]) ? 1 : 0;
    }
    closedir(stream);
    return count;
}

const struct driver_gpu *driver_by_minor(const struct driver_gpu *gpus, size_t count, int minor)
{
    for (size_t i = 0; i < count; i++)
        if (gpus[i].minor == minor)
            return &gpus[i];
    return NULL;
}

const struct driver_gpu *driver_by_uuid(const struct driver_gpu *gpus, size_t count,
                                        const char *uuid)
{
    size_t length;

    if (strncmp(uuid, "MIG-GPU-", 8) == 0)
        uuid += 4;
    length = strcspn(uuid, "/");
    for (size_t i = 0; i < count && length > 4; i++)
        if (strncmp(gpus[i].uuid, uuid, length) == 0)
            return &gpus[i];
    return NULL;
}
