/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_hopper.h"

fake_cluster cluster;
fiber *current;

static ucontext_t scheduler;
static void (*body)(void);
static fiber fibers[CLUSTER_THREADS];

uint32_t fake_random(void)
{
    static uint64_t state = 88172645463325252ull;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 11);
}

void fake_yield(void)
{
    swapcontext(&current->context, &scheduler);
}

/* Where an element of a line of 128, 64 or 32 bytes is: the 16-byte parts of lines are permuted. */
static uint32_t swizzled(uint32_t address, int line)
{
    return address ^ (address >> 3 & (uint32_t)(line - 16));
}

static void copy_element(const CUtensorMap *map, const int *at, const int *in_box, uint8_t *shared,
                         bool store)
{
    int64_t offset = 2 * (int64_t)(at[0] + in_box[0]);
    bool inside = at[0] + in_box[0] < map->dims[0];

    for (int i = 1; i < map->rank; i++) {
        inside = inside && at[i] + in_box[i] < map->dims[i];
        offset += (at[i] + in_box[i]) * map->pitch[i - 1];
    }
    if (store && inside)
        memcpy((char *)map->base + offset, shared, 2);
    else if (!store && inside)
        memcpy(shared, (char *)map->base + offset, 2);
    else if (!store)
        memset(shared, 0, 2);
}

void fake_copy(const CUtensorMap *map, const int *at, uint8_t *shared, uint32_t address, bool store)
{
    int sizes[4] = {1, 1, 1, 1}, i[4];

    if (map->box[0] * 2 != map->swizzle || address % (8 * (uint32_t)map->swizzle)) {
        cluster.error = "a box that is not aligned";
        return;
    }
    for (int d = 0; d < map->rank; d++)
        sizes[d] = map->box[d];
    for (i[3] = 0; i[3] < sizes[3]; i[3]++)
        for (i[2] = 0; i[2] < sizes[2]; i[2]++)
            for (i[1] = 0; i[1] < sizes[1]; i[1]++)
                for (i[0] = 0; i[0] < sizes[0]; i[0]++, address += 2)
                    copy_element(map, at, i, shared + swizzled(address, map->swizzle), store);
}

static void complete(const fake_load &load)
{
    int64_t bytes = load.map ? 2 : load.bytes;

    for (int i = 0; load.map && i < load.map->rank; i++)
        bytes *= load.map->box[i];
    for (int b = 0; b < 2; b++)
        if (load.blocks >> b & 1) {
            if (load.map)
                fake_copy(load.map, load.at, cluster.blocks[b].shared, load.to, false);
            else
                memcpy(cluster.blocks[b].shared + load.to, load.from, (size_t)load.bytes);
            fake_arrive(b, load.barrier, 0, -bytes);
        }
}

/* The fields of a tile's descriptor. */
struct described {
    uint32_t start, next, eight_lines, line;
};

static described describe(uint64_t descriptor)
{
    const uint32_t swizzle = (uint32_t)(descriptor >> 62);

    return {(uint32_t)(descriptor & 0x3fff) << 4, (uint32_t)(descriptor >> 16 & 0x3fff) << 4,
            (uint32_t)(descriptor >> 32 & 0x3fff) << 4, 256u >> swizzle};
}

/* Element (row or column of the result, K) of an operand. Across: the former are contiguous. */
static float element(const described &t, uint32_t at, uint32_t k, bool across)
{
    const uint32_t columns = t.line / 2;
    const uint32_t address = across ? t.start + at / columns * t.next + k / 8 * t.eight_lines +
                                          k % 8 * t.line + at % columns * 2
                                    : t.start + at / 8 * t.eight_lines + at % 8 * t.line + k * 2;
    bf16 e;

    memcpy(&e, fake_own().shared + swizzled(address, (int)t.line), sizeof(e));
    return to_float(e);
}

void fake_multiply(const fake_product &p)
{
    const uint32_t lane = (uint32_t)threadIdx.x % WARP, warp = (uint32_t)threadIdx.x % 128 / WARP;
    const described a = describe(p.a), b = describe(p.b);
    float rows[2][16], column[16];

    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t k = 0; k < 16; k++)
            rows[i][k] =
                p.held ? p.rows[i][k] : element(a, warp * 16 + lane / 4 + 8 * i, k, p.a_across);
    for (uint32_t i = 0; i < (uint32_t)p.columns / 4; i++) {
        const uint32_t n = i / 2 * 8 + lane % 4 * 2 + i % 2;

        for (uint32_t k = 0; k < 16; k++)
            column[k] = element(b, n, k, p.b_across);
        for (uint32_t j = 0; j < 2; j++) {
            float &sum = p.d[i / 2 * 4 + 2 * j + i % 2];

            if (!p.add)
                sum = 0;
            for (int k = 0; k < 16; k++)
                sum += rows[j][k] * column[k];
        }
    }
}

void fake_blocks(uint32_t address, uint32_t *words, int count, bool store, bool transposed)
{
    const int lane = threadIdx.x % WARP;
    fake_warp &warp = fake_own_warp();

    warp.address[lane] = address;
    fake_warp_sync();
    for (int b = 0; b < count; b++)
        for (int i = 0; i < 2; i++) {
            const int row = lane / 4, column = lane % 4 * 2 + i;
            const uint32_t at = transposed ? warp.address[8 * b + column] + (uint32_t)row * 2
                                           : warp.address[8 * b + row] + (uint32_t)column * 2;
            uint16_t half = (uint16_t)(words[b] >> 16 * i);

            if (store) {
                memcpy(fake_own().shared + at, &half, 2);
            } else {
                memcpy(&half, fake_own().shared + at, 2);
                words[b] = i ? words[b] | (uint32_t)half << 16 : half;
            }
        }
    fake_warp_sync();
}

static void start(void)
{
    body();
    tile_store_wait();
    current->done = true;
    cluster.progress++;
    for (;;)
        fake_yield();
}

static void begin(int number, int count)
{
    for (fake_block &block : cluster.blocks)
        free(block.shared);
    cluster = fake_cluster();
    cluster.number = number;
    cluster.count = count;
    for (fake_block &block : cluster.blocks) {
        block.shared = (uint8_t *)aligned_alloc(4096, SHARED_BYTES / 4096 * 4096 + 4096);
        memset(block.shared, 0xff, SHARED_BYTES); /* NaN */
    }
    for (int i = 0; i < CLUSTER_THREADS; i++) {
        fiber &f = fibers[i];
        char *stack = f.stack ? f.stack : (char *)malloc(STACK_BYTES);

        f = fiber();
        f.stack = stack;
        f.index.x = i % BLOCK_THREADS;
        f.block = i / BLOCK_THREADS;
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = stack;
        f.context.uc_stack.ss_size = STACK_BYTES;
        makecontext(&f.context, start, 0);
    }
}

/* Let every thread run once, beginning with a random one. False if all are done. */
static bool run_threads(void)
{
    const uint32_t first = fake_random();
    bool any = false;

    for (uint32_t i = 0; i < CLUSTER_THREADS && !cluster.error; i++) {
        current = &fibers[(first + i) % CLUSTER_THREADS];
        if (current->done)
            continue;
        any = true;
        swapcontext(&scheduler, &current->context);
    }
    return any;
}

const char *fake_run(void (*kernel)(void), int clusters)
{
    body = kernel;
    for (int n = 0; n < clusters; n++) {
        int64_t before = -1;

        begin(n, clusters);
        while (!cluster.error && run_threads()) {
            std::vector<fake_load> later;

            if (cluster.progress == before && cluster.loads.empty())
                return "a deadlock";
            before = cluster.progress;
            std::vector<fake_load> now = std::move(cluster.loads);
            cluster.loads.clear();
            for (const fake_load &load : now)
                if (fake_random() % 3 == 0)
                    complete(load);
                else
                    later.push_back(load);
            cluster.loads.insert(cluster.loads.begin(), later.begin(), later.end());
        }
        if (cluster.error || !cluster.loads.empty())
            return cluster.error ? cluster.error : "a load that nobody waits for";
    }
    return NULL;
}
