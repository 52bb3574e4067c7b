/* SPDX-License-Identifier: Apache-2.0 */
/* Draw a node as SVG: boxes for packages and NUMA nodes with their cores, and beside them the PCI
 * switches with GPUs and NICs. Each task has a color; unassigned devices stay white. Boxes are
 * created and measured from the inside out, then positioned and drawn from the outside in. */
#include "base/core/xmalloc.h"
#include "topo.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum box_kind { BOX_PLACE, BOX_BRIDGE, BOX_CORES, BOX_DEVICE };

struct box {
    enum box_kind kind;
    int subject; /* index of the place or device; for cores, the place they belong to */
    int first_child, last_child, next;
    int children, gpus;      /* how many; GPUs among them */
    int x, y, width, height; /* x and y relative to the parent */
};

struct drawing {
    const struct topology *topology;
    const struct placement *placement;
    FILE *file;
    struct box *boxes;
    size_t count;
    int *home;           /* for each core, the innermost place that contains it */
    struct cpuset users; /* the tasks that use what is being drawn: a set of numbers */
};

enum {
    GAP = 8,
    HEADER = 22,
    DEVICE_WIDTH = 128,
    DEVICE_HEIGHT = 36,
    CPU_WIDTH = 30,
    CPU_HEIGHT = 15,
    CORE_GAP = 4,
    PAGE = 1560, /* width at which rows wrap, unless a single box is wider */
    LEGEND_WIDTH = 225,
    LEGEND_HEIGHT = 22,
};

static void put_text(FILE *file, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '<')
            fputs("&lt;", file);
        else if (c == '>')
            fputs("&gt;", file);
        else if (c == '&')
            fputs("&amp;", file);
        else if (c >= 0x20)
            fputc(c, file);
    }
}

/* One light color per task: hues around the circle, with neighbors differing in lightness too. */
static const char *color(const struct drawing *drawing, int task, char buffer[8])
{
    double count = (double)drawing->placement->task_count;
    double hue = 6.0 * task / (count < 2 ? 2 : count), light = task % 2 ? 0.80 : 0.70;
    double chroma = (1 - fabs(2 * light - 1)) * 0.75;
    double other = chroma * (1 - fabs(hue - 2 * (int)(hue / 2) - 1)), base = light - chroma / 2;
    double parts[3] = {0, 0, 0};
    int sector = (int)hue % 6;
    static const int major[6] = {0, 1, 1, 2, 2, 0}, minor[6] = {1, 0, 2, 1, 0, 2};

    parts[major[sector]] = chroma;
    parts[minor[sector]] = other;
    snprintf(buffer, 8, "#%02x%02x%02x", (unsigned)(255 * (parts[0] + base)) & 255,
             (unsigned)(255 * (parts[1] + base)) & 255, (unsigned)(255 * (parts[2] + base)) & 255);
    return buffer;
}

/* --- Boxes ----------------------------------------------------------------------------------- */

static bool is_gpu(const struct drawing *drawing, const struct box *box)
{
    return box->kind == BOX_DEVICE && drawing->topology->devices[box->subject].kind == DEVICE_GPU;
}

static int add_box(struct drawing *drawing, enum box_kind kind, int subject, int parent)
{
    int box = (int)drawing->count++;

    drawing->boxes[box] = (struct box){
        .kind = kind, .subject = subject, .first_child = -1, .last_child = -1, .next = -1};
    if (parent < 0)
        return box;
    if (drawing->boxes[parent].first_child < 0)
        drawing->boxes[parent].first_child = box;
    else
        drawing->boxes[drawing->boxes[parent].last_child].next = box;
    drawing->boxes[parent].last_child = box;
    drawing->boxes[parent].children++;
    drawing->boxes[parent].gpus += is_gpu(drawing, &drawing->boxes[box]);
    return box;
}

/* Innermost places come last in the array. */
static void find_homes(struct drawing *drawing)
{
    const struct topology *topology = drawing->topology;

    for (size_t i = 0; i < topology->place_count; i++) {
        const struct topology_place *place = &topology->places[i];

        for (int core = place->first_core;
             place->kind != PLACE_BRIDGE && core < place->first_core + place->core_count; core++)
            drawing->home[core] = (int)i;
    }
}

static void add_devices(struct drawing *drawing, int place, int box)
{
    const struct topology *topology = drawing->topology;

    for (enum device_kind kind = DEVICE_GPU; kind <= DEVICE_OTHER; kind++)
        for (size_t i = 0; i < topology->device_count; i++)
            if (topology->devices[i].place == place && topology->devices[i].kind == kind)
                add_box(drawing, BOX_DEVICE, (int)i, box);
}

static bool is_below(const struct topology *topology, size_t device, int place)
{
    int at = topology->devices[device].place;

    while (at > place)
        at = topology->places[at].parent;
    return at == place;
}

static size_t devices_below(const struct topology *topology, int place)
{
    size_t count = 0;

    for (size_t i = 0; i < topology->device_count; i++)
        count += is_below(topology, i, place);
    return count;
}

/* Is everything below a bridge also below a single other bridge? Such chains are drawn as one. */
static bool leads_on(const struct topology *topology, int place, size_t below)
{
    for (size_t i = (size_t)place + 1; i < topology->place_count; i++)
        if (topology->places[i].parent == place && devices_below(topology, (int)i) == below)
            return true;
    return false;
}

/* GPUs first: bridges that lead to a GPU come before those that lead to NICs only. */
static int rank_of(const struct drawing *drawing, int place)
{
    const struct topology *topology = drawing->topology;
    int rank = DEVICE_OTHER;

    for (size_t i = 0; i < topology->device_count; i++)
        if ((int)topology->devices[i].kind < rank && is_below(topology, i, place))
            rank = topology->devices[i].kind;
    return rank;
}

static void add_places(struct drawing *drawing, int parent, int box)
{
    const struct topology *topology = drawing->topology;
    bool has_cores = false;

    for (size_t core = 0; core < topology->core_count; core++)
        has_cores |= drawing->home[core] == parent;
    if (has_cores)
        add_box(drawing, BOX_CORES, parent, box);
    for (size_t i = 1; i < topology->place_count; i++)
        if (topology->places[i].parent == parent && topology->places[i].kind != PLACE_BRIDGE)
            add_places(drawing, (int)i, add_box(drawing, BOX_PLACE, (int)i, box));
    for (int rank = DEVICE_GPU; rank <= DEVICE_OTHER; rank++)
        for (size_t i = 1; i < topology->place_count; i++) {
            size_t below;

            if (topology->places[i].parent != parent || topology->places[i].kind != PLACE_BRIDGE ||
                rank_of(drawing, (int)i) != rank)
                continue;
            below = devices_below(topology, (int)i);
            if (below > 1 && !leads_on(topology, (int)i, below))
                add_places(drawing, (int)i, add_box(drawing, BOX_BRIDGE, (int)i, box));
            else if (below > 0)
                add_places(drawing, (int)i, box);
        }
    add_devices(drawing, parent, box);
}

/* --- Sizes ----------------------------------------------------------------------------------- */

/* How the cores of a box are drawn: in rows of 'columns' cores, each as high as 'threads' CPUs. */
struct core_grid {
    int cores, columns, threads;
};

static struct core_grid grid_of(const struct drawing *drawing, const struct box *box)
{
    const struct topology *topology = drawing->topology;
    struct core_grid grid = {.columns = 8, .threads = 1};

    for (size_t i = 0; i < topology->core_count; i++)
        if (drawing->home[i] == box->subject) {
            grid.cores++;
            if (topology->cores[i].cpu_count > grid.threads)
                grid.threads = topology->cores[i].cpu_count;
        }
    if (grid.cores <= 8)
        grid.columns = grid.cores;
    else
        while (grid.columns < 24 && grid.columns * 2 < grid.cores)
            grid.columns += 4;
    return grid;
}

static void measure_cores(const struct drawing *drawing, struct box *box)
{
    struct core_grid grid = grid_of(drawing, box);
    int rows = (grid.cores + grid.columns - 1) / grid.columns;

    box->width = grid.columns * (CPU_WIDTH + CORE_GAP) - CORE_GAP;
    box->height = rows * (grid.threads * CPU_HEIGHT + CORE_GAP) - CORE_GAP;
}

/* Place children side by side, in rows that wrap at 'limit'. */
static void measure_rows(struct drawing *drawing, int box, int limit, int header)
{
    struct box *self = &drawing->boxes[box];
    int x = GAP, y = header, row = 0;
    bool alone = false;

    self->width = 0;
    for (int i = self->first_child; i >= 0; i = drawing->boxes[i].next) {
        struct box *child = &drawing->boxes[i];

        if (x > GAP && (alone || x + child->width + GAP > limit)) {
            x = GAP;
            y += row + GAP;
            row = 0;
        }
        /* Cores are above everything else, a GPU is above the NICs of its switch. */
        alone = child->kind == BOX_CORES ||
                (self->kind == BOX_BRIDGE && self->gpus == 1 && is_gpu(drawing, child));
        child->x = x;
        child->y = y;
        x += child->width + GAP;
        if (x > self->width)
            self->width = x;
        if (child->height > row)
            row = child->height;
    }
    self->height = y + row + GAP;
}

/* Is a box the only one in its row? */
static bool is_alone(const struct drawing *drawing, int box)
{
    int next = drawing->boxes[box].next;

    return drawing->boxes[box].x == GAP && (next < 0 || drawing->boxes[next].x == GAP);
}

/* A machine with one NUMA node and no packages: the NUMA node is the machine's box. */
static bool is_drawn(const struct drawing *drawing, const struct box *box)
{
    return box->subject != 0 || drawing->topology->numas[0].place == 0;
}

static void measure(struct drawing *drawing, int box, int limit)
{
    struct box *self = &drawing->boxes[box];

    if (self->kind == BOX_CORES)
        measure_cores(drawing, self);
    if (self->kind == BOX_DEVICE) {
        self->width = DEVICE_WIDTH;
        self->height = DEVICE_HEIGHT;
    }
    if (self->kind == BOX_CORES || self->kind == BOX_DEVICE)
        return;
    for (int i = self->first_child; i >= 0; i = drawing->boxes[i].next)
        measure(drawing, i, limit - 2 * GAP);
    if (self->kind == BOX_BRIDGE) {
        /* Two columns, or one if there is nothing for the second. */
        int columns = self->children <= 3 ? 1 : 2;

        measure_rows(drawing, box, columns * (DEVICE_WIDTH + GAP) + GAP, GAP);
    } else {
        measure_rows(drawing, box, limit, is_drawn(drawing, self) ? HEADER : GAP);
        if (self->width < 140)
            self->width = 140;
    }
    /* A single GPU is as wide as the NICs below it, and packages below each other are equally wide.
     */
    for (int i = self->first_child; i >= 0; i = drawing->boxes[i].next) {
        struct box *child = &drawing->boxes[i];

        if (self->kind == BOX_BRIDGE
                ? self->gpus == 1 && is_gpu(drawing, child)
                : child->kind == BOX_PLACE && self->subject == 0 && is_alone(drawing, i))
            child->width = self->width - 2 * GAP;
    }
}

/* --- Drawing --------------------------------------------------------------------------------- */

static void find_users(struct drawing *drawing, int cpu, const struct topology_device *device)
{
    cpuset_clear(&drawing->users);
    for (size_t t = 0; t < drawing->placement->task_count; t++) {
        const struct placement_task *task = &drawing->placement->tasks[t];
        bool uses = !device && cpuset_has(&task->cpus, cpu);

        for (size_t i = 0; device && device->kind == DEVICE_GPU && i < task->gpu_count; i++)
            uses |= pci_compare(&task->gpus[i].pci, &device->pci) == 0;
        for (size_t i = 0; i < task->nic_count; i++)
            uses |= task->nics[i] == device;
        if (uses)
            cpuset_add(&drawing->users, (int)t);
    }
}

/* "task 0", "tasks 0-3". */
static void format_users(const struct drawing *drawing, char *text, size_t size)
{
    int count = cpuset_count(&drawing->users);
    int length = snprintf(text, size, "%s", count == 0 ? "" : count == 1 ? "task " : "tasks ");

    if (count > 0)
        cpuset_format(&drawing->users, text + length, size - (size_t)length);
}

static void draw_box(const struct drawing *drawing, int x, int y, int width, int height,
                     const char *attributes, ...) __attribute__((format(printf, 6, 7)));

static void draw_box(const struct drawing *drawing, int x, int y, int width, int height,
                     const char *attributes, ...)
{
    va_list args;

    fprintf(drawing->file, "<rect x='%d' y='%d' width='%d' height='%d' ", x, y, width, height);
    va_start(args, attributes);
    vfprintf(drawing->file, attributes, args);
    va_end(args);
    fprintf(drawing->file, "/>\n");
}

/* A box with one stripe per task that uses it; white if there is none. */
static void fill(const struct drawing *drawing, int x, int y, int width, int height, int radius)
{
    int count = cpuset_count(&drawing->users), task = cpuset_next(&drawing->users, -1);
    double stripe = count > 0 ? (double)width / count : width;
    char hex[8];

    draw_box(drawing, x, y, width, height, "rx='%d' fill='%s' class='line'", radius,
             count == 1 ? color(drawing, task, hex) : "#fff");
    for (int i = 0; count > 1 && i < count; i++, task = cpuset_next(&drawing->users, task))
        fprintf(drawing->file, "<rect x='%.1f' y='%d' width='%.1f' height='%d' fill='%s'/>\n",
                x + i * stripe, y + 1, stripe, height - 2, color(drawing, task, hex));
}

static void draw_cores(struct drawing *drawing, const struct box *box, int x, int y)
{
    const struct topology *topology = drawing->topology;
    struct core_grid grid = grid_of(drawing, box);
    int at = 0;

    for (size_t i = 0; i < topology->core_count; i++) {
        const struct topology_core *core = &topology->cores[i];
        int left = x + at % grid.columns * (CPU_WIDTH + CORE_GAP);
        int top = y + at / grid.columns * (grid.threads * CPU_HEIGHT + CORE_GAP);

        if (drawing->home[i] != box->subject)
            continue;
        for (int k = 0; k < core->cpu_count; k++) {
            int cpu = topology->cpus[core->first_cpu + k];
            char tasks[64];

            find_users(drawing, cpu, NULL);
            format_users(drawing, tasks, sizeof(tasks));
            fprintf(drawing->file, "<g><title>CPU %d%s%s</title>", cpu, tasks[0] ? ": " : "",
                    tasks);
            fill(drawing, left, top + k * CPU_HEIGHT, CPU_WIDTH, CPU_HEIGHT, 0);
            fprintf(drawing->file, "<text x='%d' y='%d' class='cpu'>%d</text></g>\n",
                    left + CPU_WIDTH / 2, top + k * CPU_HEIGHT + 11, cpu);
        }
        at++;
    }
}

static void draw_device(struct drawing *drawing, const struct box *box, int x, int y)
{
    const struct topology_device *device = &drawing->topology->devices[box->subject];
    char pci[PCI_TEXT], tasks[64], name[48];

    find_users(drawing, -1, device);
    format_users(drawing, tasks, sizeof(tasks));
    pci_format(&device->pci, pci);
    if (device->kind == DEVICE_GPU)
        snprintf(name, sizeof(name), "GPU %d", topology_gpu_index(drawing->topology, &device->pci));
    else
        snprintf(name, sizeof(name), "%s", device->name[0] ? device->name : "NIC");
    fprintf(drawing->file, "<g><title>");
    put_text(drawing->file, name);
    fprintf(drawing->file, " %s%s%s</title>\n", pci, tasks[0] ? ": " : "", tasks);
    fill(drawing, x, y, box->width, DEVICE_HEIGHT, device->kind == DEVICE_GPU ? 8 : 2);
    fprintf(drawing->file, "<text x='%d' y='%d' class='%s'>", x + 7, y + 15,
            device->kind == DEVICE_GPU   ? "gpu"
            : device->kind == DEVICE_NIC ? "nic"
                                         : "other");
    put_text(drawing->file, name);
    fprintf(drawing->file, "</text><text x='%d' y='%d' class='pci'>%s</text>", x + 7, y + 29, pci);
    if (tasks[0] && strlen(tasks) < 14)
        fprintf(drawing->file, "<text x='%d' y='%d' class='task'>%s</text>", x + box->width - 6,
                y + 15, strncmp(tasks, "task ", 5) == 0 ? tasks : strchr(tasks, ' ') + 1);
    fprintf(drawing->file, "</g>\n");
}

static void draw_place(struct drawing *drawing, const struct box *box, int x, int y)
{
    const struct topology *topology = drawing->topology;
    const struct topology_place *place = &topology->places[box->subject];
    bool named = place->kind == PLACE_PACKAGE;
    int number = 0;

    draw_box(drawing, x, y, box->width, box->height, "rx='4' class='place%d'",
             place->kind == PLACE_PACKAGE);
    fprintf(drawing->file, "<text x='%d' y='%d' class='label'>", x + GAP, y + 15);
    for (int i = 0; i < box->subject; i++)
        number += topology->places[i].kind == PLACE_PACKAGE;
    if (named)
        fprintf(drawing->file, "package %d", number);
    for (size_t i = 0; i < topology->numa_count; i++)
        if (topology->numas[i].place == box->subject) {
            fprintf(drawing->file, "%sNUMA node %d", named ? ", " : "", topology->numas[i].os);
            named = true;
        }
    fprintf(drawing->file, "</text>\n");
}

static void draw(struct drawing *drawing, int number, int x, int y)
{
    const struct box *box = &drawing->boxes[number];

    x += box->x;
    y += box->y;
    if (box->kind == BOX_CORES)
        draw_cores(drawing, box, x, y);
    else if (box->kind == BOX_DEVICE)
        draw_device(drawing, box, x, y);
    else if (box->kind == BOX_BRIDGE)
        draw_box(drawing, x, y, box->width, box->height, "rx='6' class='bridge'");
    else if (is_drawn(drawing, box))
        draw_place(drawing, box, x, y);
    for (int child = box->first_child; child >= 0; child = drawing->boxes[child].next)
        draw(drawing, child, x, y);
}

static void draw_legend(struct drawing *drawing, int columns)
{
    for (size_t t = 0; t < drawing->placement->task_count; t++) {
        const struct placement_task *task = &drawing->placement->tasks[t];
        int x = GAP + (int)(t % (size_t)columns) * LEGEND_WIDTH;
        int y = 40 + (int)(t / (size_t)columns) * LEGEND_HEIGHT;
        char hex[8];

        fprintf(drawing->file,
                "<rect x='%d' y='%d' width='14' height='14' rx='3' fill='%s' class='line'/>"
                "<text x='%d' y='%d' class='label'>task %zu",
                x, y, color(drawing, (int)t, hex), x + 20, y + 11, t);
        if (task->gpu_count > 0)
            fprintf(drawing->file, ": %zu GPU%s, ", task->gpu_count,
                    task->gpu_count == 1 ? "" : "s");
        else
            fprintf(drawing->file, ": ");
        fprintf(drawing->file, "%zu NIC%s, %d CPUs</text>\n", task->nic_count,
                task->nic_count == 1 ? "" : "s", cpuset_count(&task->cpus));
    }
}

static void draw_page(struct drawing *drawing, const char *title)
{
    static const char style[] =
        "text{font-family:sans-serif;fill:#222}.line{stroke:#666;stroke-width:.7}"
        ".place0{fill:#f6f6f4;stroke:#aaa}.place1{fill:#ecece8;stroke:#888}"
        ".bridge{fill:#fff;stroke:#999;stroke-dasharray:4 2}.title{font-size:16px;font-weight:bold}"
        ".label{font-size:12px}.gpu{font-size:13px;font-weight:bold}.nic{font-size:11px}"
        ".other{font-size:11px;fill:#888}.pci{font-size:9.5px;fill:#444}"
        ".task{font-size:10px;text-anchor:end}.cpu{font-size:9px;text-anchor:middle}";
    const struct topology *topology = drawing->topology;
    int width =
        drawing->boxes[0].width < 3 * LEGEND_WIDTH ? 3 * LEGEND_WIDTH : drawing->boxes[0].width;
    int tasks = (int)drawing->placement->task_count, fitting = width / LEGEND_WIDTH;
    int rows = (tasks + fitting - 1) / fitting, columns = (tasks + rows - 1) / rows;
    int legend = rows * LEGEND_HEIGHT;
    char summary[128];

    fprintf(drawing->file,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d'>\n"
            "<style>%s</style>\n<rect width='100%%' height='100%%' fill='#fff'/>\n"
            "<text x='%d' y='24' class='title'>",
            width, drawing->boxes[0].height + 40 + legend, width,
            drawing->boxes[0].height + 40 + legend, style, GAP);
    put_text(drawing->file, title);
    topo_summarize(topology, summary, sizeof(summary));
    fprintf(drawing->file, ": %s</text>\n", summary);
    draw_legend(drawing, columns);
    draw(drawing, 0, 0, 40 + legend);
    fprintf(drawing->file, "</svg>\n");
}

void topo_draw(const char *title, const struct topology *topology,
               const struct placement *placement, FILE *file)
{
    struct drawing drawing = {
        .topology = topology,
        .placement = placement,
        .file = file,
        /* A place has one box, and perhaps one for its cores; a device has one. */
        .boxes = xcalloc(2 * topology->place_count + topology->device_count, sizeof(struct box)),
        .home = xcalloc(topology->core_count, sizeof(int))};

    find_homes(&drawing);
    add_places(&drawing, 0, add_box(&drawing, BOX_PLACE, 0, -1));
    measure(&drawing, 0, PAGE);
    draw_page(&drawing, title);
    free(drawing.boxes);
    free(drawing.home);
}
