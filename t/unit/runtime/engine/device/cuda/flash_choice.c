/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel an attention gets: the fastest, and ours only if it agrees with cuDNN's. With fakes
 * of the kernels, their times and results. */
#include "config.h"

#include "engine/device/cuda/cuda.h"
#include "engine/device/cuda/hopper_attention.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KERNELS = 3 };

struct flash {
    int number;
};

static struct {
    double seconds[KERNELS]; /* of cuDNN's kernels 0 and 1, and ours; 0: there is none */
    double result[KERNELS];  /* the numbers of each fingerprint */
    int version;             /* of ours */
    int no_memory;
    int crashes; /* when kernels are timed */
    int timed;
    int last; /* the kernel that ran last */
} fake;

static int index_of(int number)
{
    return number == FLASH_OURS ? KERNELS - 1 : number;
}

/* --- Fakes ------------------------------------------------------------------------------------ */

int hopper_attention_version(const struct flash_shape *shape)
{
    (void)shape;
    return fake.version;
}

struct flash *flash_create(cudnnHandle_t handle, const struct flash_shape *shape, int backward,
                           int choice, struct error *err)
{
    struct flash *flash;

    (void)handle;
    (void)shape;
    (void)backward;
    if (choice != FLASH_OURS && choice >= KERNELS - 1) {
        error_set(err, "no such kernel");
        return NULL;
    }
    if (fake.seconds[index_of(choice)] == 0) {
        error_set(err, "no kernel");
        return NULL;
    }
    flash = malloc(sizeof(*flash));
    if (flash)
        flash->number = choice;
    return flash;
}

void flash_destroy(struct flash *flash)
{
    free(flash);
}

size_t flash_workspace(const struct flash *flash)
{
    return flash->number == FLASH_OURS ? 128 : flash->number == 1 ? 256 : 512;
}

static int run(const struct flash *flash)
{
    fake.last = index_of(flash->number);
    return fake.seconds[fake.last] > 0 ? 0 : -1;
}

int flash_forward(const struct flash *flash, const void *q, const void *k, const void *v, void *o,
                  float *lse, const int64_t *seed, struct flash_bounds bounds, void *workspace,
                  struct error *err)
{
    (void)q, (void)k, (void)v, (void)o, (void)lse, (void)seed, (void)bounds, (void)workspace;
    (void)err;
    return run(flash);
}

int flash_backward(const struct flash *flash, const void *q, const void *k, const void *v,
                   const void *o, const float *lse, const void *d_o, void *dq, void *dk, void *dv,
                   const int64_t *seed, struct flash_bounds bounds, void *workspace,
                   struct error *err)
{
    (void)q, (void)k, (void)v, (void)o, (void)lse, (void)d_o, (void)dq, (void)dk, (void)dv;
    (void)seed, (void)bounds, (void)workspace, (void)err;
    return run(flash);
}

int gemm_rank(struct gemm_context *context, struct timing_candidate *candidates, int count,
              struct error *err)
{
    fake.timed++;
    if (fake.crashes) {
        context->broken = 1;
        return error_set(err, "the GPU crashed");
    }
    for (int i = 0; i < count; i++)
        candidates[i].seconds =
            candidates[i].call(candidates[i].argument) < 0 ? -1 : fake.seconds[fake.last];
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && candidates[j].seconds < candidates[j - 1].seconds; j--) {
            struct timing_candidate other = candidates[j];

            candidates[j] = candidates[j - 1];
            candidates[j - 1] = other;
        }
    return count;
}

void kernel_noise(cudaStream_t stream, enum device_type type, int64_t count, void *out)
{
    (void)stream, (void)type, (void)count, (void)out;
}

void kernel_fingerprint(cudaStream_t stream, enum device_type type, int64_t count, const void *x,
                        double *out, double *workspace)
{
    (void)stream, (void)type, (void)count, (void)x, (void)workspace;
    for (int i = 0; i < FINGERPRINT; i++)
        out[i] = fake.result[fake.last];
}

cudaError_t cudaMalloc(void **to, size_t bytes)
{
    *to = fake.no_memory ? NULL : calloc(1, bytes);
    return *to ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *memory)
{
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    memset(to, value, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)kind, (void)stream;
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    (void)handle, (void)stream;
    return CUDNN_STATUS_SUCCESS;
}

size_t cudnnGetVersion(void)
{
    return 91400;
}

/* --- Tests ------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    double seconds[KERNELS], result[KERNELS];
    int version, untuned, no_memory, expected; /* -1: no kernel */
} rows[] = {
    {"cuDNN's is the fastest", {1, 2, 3}, {1, 1.001, 1.002}, 1, 0, 0, 0},
    {"ours is, and agrees", {2, 3, 1}, {1, 1.001, 1.002}, 1, 0, 0, FLASH_OURS},
    {"ours is wrong", {2, 3, 1}, {1, 1.001, 1.2}, 1, 0, 0, 0},
    {"ours is NaN", {3, 2, 1}, {1, 1.001, NAN}, 1, 0, 0, 1},
    {"ours is infinite", {3, 2, 1}, {1, 1.001, INFINITY}, 1, 0, 0, 1},
    {"cuDNN's is infinite", {3, 2, 1}, {INFINITY, INFINITY, INFINITY}, 1, 0, 0, 1},
    {"ours is slower and wrong", {2, 3, 2.5}, {1, 1.001, 2}, 1, 0, 0, 0},
    {"ours alone", {0, 0, 1}, {1, 1.001, 1.002}, 1, 0, 0, FLASH_OURS},
    {"cuDNN's alone", {1, 0, 0}, {1, 1.001, 1.002}, 1, 0, 0, 0},
    {"ours does not support it", {2, 3, 1}, {1, 1.001, 1.002}, 0, 0, 0, 0},
    {"nothing is timed", {2, 3, 4}, {1, 1.001, 1.002}, 2, 1, 0, FLASH_OURS},
    {"nothing is timed or compared", {2, 3, 1}, {1, 1.001, 1.002}, 1, 1, 0, 0},
    {"nothing is timed, ours alone", {0, 0, 1}, {1, 1.001, 1.002}, 1, 1, 0, FLASH_OURS},
    {"no memory: the smallest workspace", {2, 3, 1}, {1, 1.001, 1.002}, 2, 0, 1, FLASH_OURS},
    {"no memory for a comparison", {2, 3, 1}, {1, 1.001, 1.002}, 1, 0, 1, 1},
    {"no memory, ours alone", {0, 0, 1}, {1, 1.001, 1.002}, 1, 0, 1, FLASH_OURS},
    {"none", {0, 0, 0}, {1, 1.001, 1.002}, 1, 0, 0, -1},
};

static char directory[64] = "/tmp/megatron-flash.XXXXXX";

/* The number of the kernel that a new process gets; -1: none. */
static int choose(const char *file, int width, int untuned, int backward)
{
    struct flash_strides strides = {4 * width * 128, width, 4 * width};
    struct flash_shape shape = {.batch = 2,
                                .heads = 4,
                                .groups = 4,
                                .queries = 128,
                                .keys = 128,
                                .width = width,
                                .q = strides,
                                .k = strides,
                                .v = strides,
                                .o = strides,
                                .dq = strides,
                                .dk = strides,
                                .dv = strides,
                                .type = CUDNN_DATA_BFLOAT16,
                                .scale = 1,
                                .causal = 1,
                                .documents = 1};
    double workspace[64];
    struct cuda_device device = {.gemm = {.candidates = untuned ? 1 : 24, .workspace = workspace}};
    struct error err = {0};
    struct flash *flash;
    int number = -1;

    device.gemm.tuning = tuning_open(directory, NULL, file);
    flash = cuda_flash(&device, &shape, backward, &err);
    if (flash)
        number = flash->number;
    else
        ok(err.text[0], "no kernel: there is a reason");
    flash_destroy(flash);
    tuning_save(device.gemm.tuning, NULL);
    tuning_destroy(device.gemm.tuning);
    return number;
}

static void remove_file(const char *file)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", directory, file);
    remove(path);
}

static void test_row(size_t i, int backward)
{
    const int width = rows[i].version == 2 ? 64 : 96;
    char name[80], file[32];

    memset(&fake, 0, sizeof(fake));
    memcpy(fake.seconds, rows[i].seconds, sizeof(fake.seconds));
    memcpy(fake.result, rows[i].result, sizeof(fake.result));
    fake.version = rows[i].version;
    fake.no_memory = rows[i].no_memory;
    snprintf(file, sizeof(file), "row%zu-%d", i, backward);
    snprintf(name, sizeof(name), "%s, %s", rows[i].name, backward ? "gradient" : "forward");
    is_int(choose(file, width, rows[i].untuned, backward), rows[i].expected, name);
    is_int(choose(file, width, rows[i].untuned, backward), rows[i].expected,
           "  the same in the next process");
    ok(fake.timed <= 1, "  it is timed once at most");
    remove_file(file);
}

/* Ours is the fastest, but the process dies while kernels are timed. */
static void test_crash(int width, int expected)
{
    static const double seconds[KERNELS] = {2, 3, 1}, result[KERNELS] = {1, 1.001, 1.002};
    char file[32];

    memset(&fake, 0, sizeof(fake));
    memcpy(fake.seconds, seconds, sizeof(fake.seconds));
    memcpy(fake.result, result, sizeof(fake.result));
    fake.version = 1;
    fake.crashes = 1;
    snprintf(file, sizeof(file), "crash%d", width);
    choose(file, width, 0, 0);
    fake.crashes = 0;
    is_int(choose(file, width, 0, 0), expected,
           width == 64 ? "after a crash with heads of 64" : "after a crash with others");
    is_int(choose(file, width, 0, 0), expected, "  the same in the next process");
    is_int(fake.timed, 2, "  without being timed again");
    remove_file(file);
}

int main(void)
{
    if (!mkdtemp(directory))
        return 1;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        test_row(i, 0);
        test_row(i, 1);
    }
    test_crash(64, FLASH_OURS);
    test_crash(96, 0);
    remove_file(".tuning.lock");
    remove(directory);
    return done_testing();
}
