/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_products.h"
#include "engine/device/cuda/cuda.h"
#include "engine/device/cuda/hopper_linear.h"

#include "lib/clock.h"

#include <stdlib.h>
#include <string.h>

struct fake fake;
static double now; /* milliseconds */

static int offered(void)
{
    return fake.offered ? fake.offered : 3;
}

/* --- Our own products ------------------------------------------------------------------------ */

int hopper_linear_fits(const struct linear_shape *shape, int gradient)
{
    (void)shape;
    (void)gradient;
    return fake.own != 0;
}

size_t hopper_linear_workspace(const struct linear_shape *shape, int gradient)
{
    (void)shape;
    (void)gradient;
    return 0;
}

int hopper_linear_forward(cudaStream_t stream, const struct linear_shape *shape,
                          const struct linear_forward_operands *operands)
{
    (void)stream;
    (void)shape;
    (void)operands;
    fake.products++;
    fake.ours += fake.own > 0;
    now += 0.5;
    return fake.own > 0 ? 0 : -1;
}

int hopper_linear_gradient(cudaStream_t stream, const struct linear_shape *shape,
                           const struct linear_dgrad_operands *operands, float *workspace)
{
    (void)stream;
    (void)shape;
    (void)operands;
    (void)workspace;
    fake.products++;
    fake.ours += fake.own > 0;
    now += 0.5;
    return fake.own > 0 ? 0 : -1;
}

/* --- cuBLASLt: an algorithm is a number and its attributes, a description its epilogue -------- */

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *description,
                                        cublasComputeType_t compute, cudaDataType_t type)
{
    (void)compute;
    (void)type;
    *description = calloc(1, sizeof(**description));
    return *description ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description)
{
    free(description);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void *value, size_t size)
{
    if (name == CUBLASLT_MATMUL_DESC_EPILOGUE)
        memcpy(description->data, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t columns, int64_t ld)
{
    (void)type;
    (void)rows;
    (void)columns;
    (void)ld;
    *layout = calloc(1, sizeof(**layout));
    return *layout ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t name,
                                                const void *value, size_t size)
{
    (void)layout;
    (void)name;
    (void)value;
    (void)size;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = calloc(1, sizeof(**preference));
    return *preference ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void *value, size_t size)
{
    (void)preference;
    (void)name;
    (void)value;
    (void)size;
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "another status";
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *found)
{
    (void)handle;
    (void)description;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    (void)preference;
    for (*found = 0; *found < wanted && *found < offered(); (*found)++) {
        memset(&results[*found], 0, sizeof(*results));
        results[*found].algo.data[0] = (uint64_t)(1 + *found);
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algorithm,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    (void)handle;
    (void)description;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    memset(result, 0, sizeof(*result));
    return algorithm->data[0] >= 1 && algorithm->data[0] <= (uint64_t)offered()
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* The offset of an attribute in the algorithm; 0: none, or its number. */
static size_t place_of(cublasLtMatmulAlgoConfigAttributes_t name)
{
    return name == CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION      ? 1
           : name == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID ? 2
           : name == CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING    ? 3
                                                           : 0;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t name,
                                                    void *value, size_t size, size_t *written)
{
    memcpy(value, &algorithm->data[place_of(name)], size);
    *written = size;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t *algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t name,
                                                    const void *value, size_t size)
{
    memcpy(&algorithm->data[place_of(name)], value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t *algorithm,
                                                 cublasLtMatmulAlgoCapAttributes_t name,
                                                 void *value, size_t size, size_t *written)
{
    int32_t most = 1;

    (void)algorithm;
    (void)name;
    memcpy(value, &most, size);
    *written = size;
    return CUBLAS_STATUS_SUCCESS;
}

/* How often the algorithm has run in a row before. */
static int count_runs(const cublasLtMatmulAlgo_t *algorithm)
{
    static cublasLtMatmulAlgo_t last;
    static int runs;

    runs = memcmp(&last, algorithm, sizeof(last)) == 0 ? runs + 1 : 0;
    last = *algorithm;
    return runs;
}

static double slept; /* seconds */

/* Replaces libc's: sleeping takes no time. */
int nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)left;
    slept += (double)time->tv_sec + 1e-9 * (double)time->tv_nsec;
    return 0;
}

/* Has the GPU worked for 40 milliseconds longer than it has rested? */
static int is_tired(void)
{
    static double worked, last; /* seconds */
    double time = clock_now() + slept, rested = time - last;

    worked = (worked > rested ? worked - rested : 0) + 1e-3;
    last = time;
    return worked > 40e-3;
}

/* How many times longer this run takes because a kernel is loaded. */
static double load(unsigned kernel)
{
    unsigned bit = 1u << kernel;
    double longer = fake.unloaded & bit ? 2 : 1;

    fake.unloaded &= ~bit;
    return longer;
}

/* Milliseconds. The first algorithm seems to be the fastest when clocks have fallen. */
static double duration(const cublasLtMatmulAlgo_t *algorithm)
{
    int tired = is_tired();
    double time = load((unsigned)algorithm->data[0]) * (fake.length ? fake.length : 1);

    if (fake.best && algorithm->data[0] == (uint64_t)fake.best)
        time *= 0.8;
    if (!fake.tires)
        return time;
    return time * (algorithm->data[0] == 1 ? 1.02 : tired ? 1.1 : 1);
}

static int is_neighbor(const cublasLtMatmulAlgo_t *algorithm)
{
    return algorithm->data[1] || algorithm->data[2] || algorithm->data[3];
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void *alpha, const void *a, cublasLtMatrixLayout_t layout_a,
                              const void *b, cublasLtMatrixLayout_t layout_b, const void *beta,
                              const void *c, cublasLtMatrixLayout_t layout_c, void *d,
                              cublasLtMatrixLayout_t layout_d,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t bytes,
                              cudaStream_t stream)
{
    int odd = fake.epilogue == 0 || (int)description->data[0] == fake.epilogue;
    int runs = count_runs(algorithm);

    (void)handle;
    (void)alpha;
    (void)a;
    (void)layout_a;
    (void)b;
    (void)layout_b;
    (void)beta;
    (void)c;
    (void)layout_c;
    (void)layout_d;
    (void)bytes;
    (void)stream;
    fake.result = d;
    fake.products++;
    fake.timed |= 1u << algorithm->data[0];
    now += duration(algorithm);
    if (odd && (fake.fails || (fake.fails_in_layers && workspace != fake.for_gemms)))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    if (odd && fake.breaks && is_neighbor(algorithm) && runs >= fake.lasts)
        fake.broken = 1;
    return CUBLAS_STATUS_SUCCESS;
}

/* --- CUDA: an event is a time --------------------------------------------------------------- */

static cudaError_t status(void)
{
    return fake.broken ? cudaErrorIllegalAddress : cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    *event = calloc(1, sizeof(double));
    return *event ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)stream;
    memcpy(event, &now, sizeof(now));
    return status();
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    (void)event;
    return status();
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    *milliseconds = (float)(*(double *)(void *)to - *(double *)(void *)from);
    return status();
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return status();
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t number)
{
    return number ? "an illegal memory access was encountered" : "no error";
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    *memory = fake.no_memory ? NULL : malloc(bytes);
    return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *memory)
{
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    (void)memory;
    (void)value;
    (void)bytes;
    (void)stream;
    return cudaSuccess;
}

/* The fingerprint of all results is the same. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)from;
    (void)kind;
    (void)stream;
    memset(to, 0, bytes);
    return cudaSuccess;
}

/* --- The device and its kernels -------------------------------------------------------------- */

void cuda_fail_text(struct cuda_device *device, const char *text)
{
    (void)device;
    (void)text;
    fake.failures++;
}

void cuda_attention_settle(struct cuda_device *device)
{
    (void)device;
    fake.settled++;
}

void kernel_activation(cudaStream_t stream, const struct activation_shape *shape,
                       const struct activation_operands *operands)
{
    (void)stream;
    (void)shape;
    (void)operands;
    now += 1;
}

void kernel_swiglu(cudaStream_t stream, const struct swiglu_shape *shape,
                   const struct swiglu_operands *operands)
{
    (void)stream;
    (void)shape;
    fake.gates++;
    fake.gated = operands->x;
    now += load(0);
}

void kernel_swiglu_backward(cudaStream_t stream, const struct swiglu_shape *shape,
                            const struct swiglu_backward_operands *operands)
{
    (void)stream;
    (void)shape;
    fake.gates++;
    fake.gated = operands->dy;
    now += 1;
}

size_t kernel_column_sums_workspace(int64_t rows, int64_t cols)
{
    (void)rows;
    return (size_t)cols * sizeof(float);
}

void kernel_column_sums(cudaStream_t stream, enum activation activation, enum device_type type,
                        int64_t rows, int64_t cols, const void *x, const void *pre, void *y,
                        float *out, int accumulate, float *workspace)
{
    (void)stream;
    (void)activation;
    (void)type;
    (void)rows;
    (void)cols;
    (void)x;
    (void)pre;
    (void)y;
    (void)out;
    (void)accumulate;
    (void)workspace;
    now += 1;
}

void kernel_add_to_fp32(cudaStream_t stream, enum device_type type, int64_t count, const void *x,
                        float *out, int accumulate)
{
    (void)stream;
    (void)type;
    (void)count;
    (void)x;
    (void)out;
    (void)accumulate;
}

void kernel_noise(cudaStream_t stream, enum device_type type, int64_t count, void *out)
{
    (void)stream;
    (void)type;
    (void)count;
    (void)out;
}

void kernel_fingerprint(cudaStream_t stream, enum device_type type, int64_t count, const void *x,
                        double *out, double *workspace)
{
    (void)stream;
    (void)type;
    (void)count;
    (void)x;
    (void)out;
    (void)workspace;
}
