/* SPDX-License-Identifier: Apache-2.0 */
/* A topology as lines of text:
 *
 *     megatron-topology 1
 *     place KIND PARENT FIRST_CORE CORE_COUNT
 *     numa OS PLACE
 *     core NUMA CPUS                      CPUS like 0,96
 *     device KIND PCI VENDOR ID CLASS PLACE NAME    NAME is - if there is none
 *     end
 *
 * Places, NUMA nodes and cores are numbered in the order of their lines. */
#include "build.h"
#include "lib/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_core(const struct topology *topology, const struct topology_core *core,
                       FILE *file)
{
    fprintf(file, "core %d ", core->numa);
    for (int k = 0; k < core->cpu_count; k++)
        fprintf(file, "%s%d", k ? "," : "", topology->cpus[core->first_cpu + k]);
    fputc('\n', file);
}

void topology_write_text(const struct topology *topology, FILE *file)
{
    char pci[PCI_TEXT];

    fprintf(file, "megatron-topology 1\n");
    for (size_t i = 0; i < topology->place_count; i++) {
        const struct topology_place *place = &topology->places[i];

        fprintf(file, "place %d %d %d %d\n", place->kind, place->parent, place->first_core,
                place->core_count);
    }
    for (size_t i = 0; i < topology->numa_count; i++)
        fprintf(file, "numa %d %d\n", topology->numas[i].os, topology->numas[i].place);
    for (size_t i = 0; i < topology->core_count; i++)
        write_core(topology, &topology->cores[i], file);
    for (size_t i = 0; i < topology->device_count; i++) {
        const struct topology_device *device = &topology->devices[i];

        fprintf(file, "device %d %s %x %x %x %d %s\n", device->kind, pci_format(&device->pci, pci),
                device->vendor, device->id, device->class, device->place,
                device->name[0] ? device->name : "-");
    }
    fprintf(file, "end\n");
}

int topology_save(const struct topology *topology, const char *path, struct error *err)
{
    size_t size = 0;
    char *text = NULL;
    FILE *file = open_memstream(&text, &size);
    int rc;

    if (file)
        topology_write_text(topology, file);
    if (!file || fclose(file) != 0)
        rc = error_set(err, "out of memory");
    else
        rc = file_write_whole(path, text, size, 0, err);
    free(text);
    return rc;
}

/* The words of one line. Numbers are checked as they are read; 'bad' stays set. */
struct line {
    char *at;
    int bad;
};

static char *take_word(struct line *line)
{
    char *word = line->at;

    if (!word || *word == '\0') {
        line->bad = 1;
        return "";
    }
    line->at = strchr(word, ' ');
    if (line->at)
        *line->at++ = '\0';
    return word;
}

static int take_number(struct line *line, int base)
{
    char *word = take_word(line), *end;
    long number;

    errno = 0;
    number = strtol(word, &end, base);
    if (end == word || *end != '\0' || errno || number < -1 || number > 0xffffff)
        line->bad = 1;
    return line->bad ? -1 : (int)number;
}

static int read_place(struct topology *topology, struct line *line, struct error *err)
{
    int kind = take_number(line, 10), parent = take_number(line, 10);
    int first_core = take_number(line, 10), core_count = take_number(line, 10), place;

    if (line->bad || kind < PLACE_MACHINE || kind > PLACE_BRIDGE)
        return 1;
    place = topology_add_place(topology, (enum place_kind)kind, parent, err);
    if (place < 0)
        return -1;
    topology->places[place].first_core = first_core;
    topology->places[place].core_count = core_count;
    return 0;
}

static int read_numa(struct topology *topology, struct line *line, struct error *err)
{
    int os = take_number(line, 10), place = take_number(line, 10);

    if (line->bad || os < 0)
        return 1;
    return topology_add_numa(topology, os, place, err) < 0 ? -1 : 0;
}

static int read_core(struct topology *topology, struct line *line, struct error *err)
{
    int numa = take_number(line, 10);
    char *list = take_word(line), *save = NULL;

    if (line->bad)
        return 1;
    if (topology_add_core(topology, numa, err) < 0)
        return -1;
    for (char *word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        struct line single = {word, 0};
        int cpu = take_number(&single, 10);

        if (single.bad || cpu < 0)
            return 1;
        if (topology_add_cpu(topology, cpu, err) < 0)
            return -1;
    }
    return 0;
}

static int read_device(struct topology *topology, struct line *line, struct error *err)
{
    struct topology_device device = {0};
    int kind = take_number(line, 10);
    int bad_address = pci_parse(take_word(line), &device.pci) < 0;
    int vendor = take_number(line, 16), id = take_number(line, 16), class = take_number(line, 16);
    const char *name;

    device.place = take_number(line, 10);
    name = take_word(line);
    if (line->bad || bad_address || kind < DEVICE_GPU || kind > DEVICE_OTHER || vendor < 0 ||
        vendor > 0xffff || id < 0 || id > 0xffff || class < 0 || class > 0xffff ||
        strlen(name) >= sizeof(device.name))
        return 1;
    device.kind = (enum device_kind)kind;
    device.vendor = (uint16_t)vendor;
    device.id = (uint16_t)id;
    device.class = (uint16_t) class;
    if (strcmp(name, "-") != 0)
        strcpy(device.name, name);
    return topology_add_device(topology, &device, err) < 0 ? -1 : 0;
}

static const struct {
    const char *word;
    int (*read)(struct topology *topology, struct line *line, struct error *err);
} readers[] = {
    {"place", read_place},
    {"numa", read_numa},
    {"core", read_core},
    {"device", read_device},
};

/* 0: parsed, 1: not a known line, -1: failed with a sentence in 'err'. */
static int read_line(struct topology *topology, char *text, struct error *err)
{
    struct line line = {text, 0};
    const char *word = take_word(&line);

    for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++)
        if (strcmp(word, readers[i].word) == 0) {
            int rc = readers[i].read(topology, &line, err);

            return rc == 0 && line.at ? 1 : rc;
        }
    return 1;
}

static int read_lines(struct topology *topology, const char *name, char *text, struct error *err)
{
    int number = 1, ended = 0;
    char *save = NULL, *line = strtok_r(text, "\n", &save);

    if (!line || strcmp(line, "megatron-topology 1") != 0)
        return error_set(err,
                         "%s was written by another version of megatron; remove it and restart "
                         "slurmd, which writes it again",
                         name);
    while (!ended && (line = strtok_r(NULL, "\n", &save))) {
        int rc;

        number++;
        ended = strcmp(line, "end") == 0;
        rc = ended ? 0 : read_line(topology, line, err);
        if (rc > 0)
            return error_set(
                err,
                "%s: line %d is invalid; remove the file and restart slurmd, which writes it again",
                name, number);
        if (rc < 0)
            return error_prefix(err, "%s: line %d", name, number);
    }
    if (!ended)
        return error_set(
            err, "%s is truncated; remove it and restart slurmd, which writes it again", name);
    return topology_check(topology, name, err);
}

struct topology *topology_from_text(const char *name, const char *text, size_t size,
                                    struct error *err)
{
    struct topology *topology = topology_create(err);
    char *copy = strndup(text, size);

    if (!topology || !copy) {
        error_set(err, "out of memory");
    } else if (read_lines(topology, name, copy, err) == 0) {
        free(copy);
        topology_settle_devices(topology);
        return topology;
    }
    free(copy);
    topology_destroy(topology);
    return NULL;
}
