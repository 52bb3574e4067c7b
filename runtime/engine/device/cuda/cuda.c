/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda.h"
#include "cuda_error.h"
#include "base/core/gib.h"
#include "base/core/xmalloc.h"
#include "nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CANDIDATES = 24 };
/* Minimum compute capability: kernels use asynchronous copies. */
enum { LEAST_MAJOR = 8 };
/* Less than this may be used by the driver and this process themselves. */
static const size_t CONTEXT_BYTES = (size_t)2 << 30;

static void keep_failure(struct cuda_device *device, const struct error *failure)
{
    /* A capture that fails is not an error: the work is then run without a graph. */
    if (device->recording && pthread_equal(device->recorder, pthread_self())) {
        device->recording = RECORDING_SPOILT;
        return;
    }
    failure_record(&device->failure, failure);
}

void cuda_fail_text(struct cuda_device *device, const char *text)
{
    struct error failure;

    error_set(&failure, "%s", text);
    keep_failure(device, &failure);
}

/* An allocation of 'bytes' failed. */
static int lack(struct cuda_device *device, size_t bytes, struct error *err)
{
    size_t available, total;

    cudaGetLastError(); /* reported here, not at the next launch */
    device->base.ran_out = 1;
    if (cudaMemGetInfo(&available, &total)) {
        cudaGetLastError();
        return error_set(err, "GPU %d (%s) is out of memory%s", device->index, device->base.model,
                         cuda_remedy(cudaErrorMemoryAllocation));
    }
    return error_set(err,
                     "GPU %d (%s) has %.2f of its %.2f GiB left, and %.2f GiB are needed; "
                     "nvidia-smi shows whether other processes use the rest",
                     device->index, device->base.model, gib((double)available), gib((double)total),
                     gib((double)bytes));
}

void cuda_fail(struct cuda_device *device, const char *what, cudaError_t status)
{
    char text[512];

    if (status == cudaErrorMemoryAllocation && !device->recording)
        device->base.ran_out = 1;
    snprintf(text, sizeof(text), "GPU %d (%s): %s: %s%s", device->index, device->base.model, what,
             cudaGetErrorString(status), cuda_remedy(status));
    cuda_fail_text(device, text);
}

static void fail(struct device *base, const struct error *failure)
{
    keep_failure((struct cuda_device *)base, failure);
}

static int memory_call(struct device *base, struct device_memory *memory, struct error *err)
{
    cudaError_t status = cudaMemGetInfo(&memory->available, &memory->total);

    (void)base;
    if (status)
        return cuda_error(err, status, "cannot query the memory of the GPU");
    return 0;
}

/* Before this process has allocated any memory beyond its context. */
static int health_call(struct device *base, char *text, size_t size, struct error *err)
{
    struct cuda_device *device = (struct cuda_device *)base;
    struct device_memory memory;
    char bus[32];
    size_t used, taken;
    cudaError_t status = cudaDeviceGetPCIBusId(bus, sizeof(bus), device->index);

    if (!status)
        status = cudaMemGetInfo(&memory.available, &memory.total);
    if (status)
        return error_set(err,
                         "GPU %d (%s) does not respond: %s; check nvidia-smi and dmesg (Xid), or "
                         "exclude this node",
                         device->index, base->model, cudaGetErrorString(status));
    if (nvml_check(NULL, bus, device->local_rank == 0, text, size, err))
        return -1;
    used = strlen(text);
    taken = memory.total - memory.available;
    if (taken > CONTEXT_BYTES)
        snprintf(text + used, size - used,
                 "%.1f of its %.1f GiB are in use by other processes; check nvidia-smi\n",
                 gib((double)taken), gib((double)memory.total));
    return 0;
}

/* The compute capability with fp8 in tensor cores, and casts in hardware. */
enum { HOPPER = 9 };

static int supports(struct device *device, enum device_type type)
{
    if (type == TYPE_E4M3 || type == TYPE_E5M2)
        return ((struct cuda_device *)device)->capability >= HOPPER;
    return type == TYPE_FP32 || type == TYPE_BF16 || type == TYPE_FP16;
}

/* The library has blockwise scales from this version on, and for Hopper only: Blackwell has other
 * blocks. */
enum { CUBLASLT_BLOCKS = 120900 };

static int supports_blocks(struct device *device)
{
    return ((struct cuda_device *)device)->capability == HOPPER &&
           cublasLtGetVersion() >= CUBLASLT_BLOCKS && CUBLAS_VERSION >= CUBLASLT_BLOCKS;
}

static void *allocate(struct device *device, size_t bytes, struct error *err)
{
    void *memory = NULL;
    cudaError_t status = cudaMalloc(&memory, bytes ? bytes : DEVICE_ALIGNMENT);

    if (status == cudaErrorMemoryAllocation) {
        lack((struct cuda_device *)device, bytes, err);
        return NULL;
    }
    if (status) {
        cudaGetLastError();
        cuda_error(err, status, "cannot allocate %.2f GiB of GPU memory", gib((double)bytes));
        return NULL;
    }
    return memory;
}

static void release(struct device *device, void *memory)
{
    (void)device;
    cudaFree(memory);
}

static void *host_allocate(struct device *device, size_t bytes, struct error *err)
{
    void *memory = NULL;
    cudaError_t status = cudaMallocHost(&memory, bytes ? bytes : DEVICE_ALIGNMENT);

    (void)device;
    if (status) {
        cudaGetLastError();
        error_set(err,
                  "cannot allocate %.2f GiB of pinned host memory: %s; raise the memory limit of "
                  "the job (sbatch --mem)",
                  gib((double)bytes), cudaGetErrorString(status));
        return NULL;
    }
    return memory;
}

static void host_release(struct device *device, void *memory)
{
    (void)device;
    cudaFreeHost(memory);
}

/* The stream's workspace, at least as large as any plan created so far needs. Captured work keeps
 * its address: plans that run on a stream are created before anything on it is captured, and the
 * first run of one allocates enough for all. */
static void *stream_workspace(struct cuda_device *device, struct cuda_stream *stream, size_t bytes)
{
    struct error err;
    cudaError_t status;

    if (stream->bytes >= bytes)
        return stream->workspace;
    if (device->recording) {
        cuda_fail_text(device, "internal error: the workspace would have to grow while work is "
                               "recorded; please report this bug with the command and its output");
        return NULL;
    }
    status = cudaStreamSynchronize(stream->native);
    if (!status)
        status = cudaFree(stream->workspace);
    stream->workspace = NULL;
    stream->bytes = 0;
    if (!status)
        status = cudaMalloc(&stream->workspace, device->workspace);
    if (status == cudaErrorMemoryAllocation) {
        lack(device, device->workspace, &err);
        error_prefix(&err, "workspace");
        cuda_fail_text(device, err.text);
    } else if (status) {
        cuda_fail(device, "cannot allocate the workspace", status);
    }
    if (status)
        return NULL;
    stream->bytes = device->workspace;
    return stream->workspace;
}

static void plan_run(struct device_plan *base, struct device_stream *base_stream,
                     const void *operands, size_t size)
{
    struct cuda_plan *plan = (struct cuda_plan *)base;
    struct cuda_stream *stream = (struct cuda_stream *)base_stream;
    struct cuda_device *device = cuda_device_of(plan);
    void *workspace = NULL;
    cudaError_t status;

    (void)size;
    if (failure_exists(&device->failure))
        return;
    if (plan->workspace) {
        cuda_attention_settle(device);
        if (failure_exists(&device->failure))
            return;
        workspace = stream_workspace(device, stream, plan->workspace);
        if (!workspace)
            return;
    }
    if (device->profile)
        cuda_profile_begin(device, stream->native, &plan->operation);
    plan->work(plan, stream, workspace, operands);
    if (device->profile)
        cuda_profile_end(device, stream->native);
    status = cudaPeekAtLastError();
    if (status)
        cuda_fail(device, "cannot start an operation", status);
}

static int (*planner_of(const struct operation *operation))(struct cuda_plan *plan,
                                                            struct error *err)
{
    switch (operation->kind) {
    case OPERATION_LINEAR_FORWARD:
    case OPERATION_LINEAR_DGRAD:
    case OPERATION_LINEAR_WGRAD:
        return cuda_linear_is_fp8(operation) ? cuda_plan_linear_fp8 : cuda_plan_linear;
    case OPERATION_ATTENTION:
    case OPERATION_ATTENTION_BACKWARD:
        return cuda_plan_attention;
    default:
        return cuda_plan_kernel;
    }
}

static void plan_destroy_call(struct device_plan *base)
{
    struct cuda_plan *plan = (struct cuda_plan *)base;

    if (plan->destroy)
        plan->destroy(plan);
    free(plan);
}

static struct device_plan *plan_create_call(struct device *base, const struct operation *operation,
                                            struct error *err)
{
    struct cuda_device *device = (struct cuda_device *)base;
    struct cuda_plan *plan = xcalloc(1, sizeof(*plan));

    plan->base.device = base;
    plan->base.kind = operation->kind;
    plan->base.run = plan_run;
    plan->operation = *operation;
    if (cudaSetDevice(device->index) || planner_of(operation)(plan, err)) {
        plan_destroy_call(&plan->base);
        return NULL;
    }
    if (plan->workspace > device->workspace)
        device->workspace = plan->workspace;
    /* Losing tuning results only costs time at the next start. */
    tuning_save(device->gemm.tuning, NULL);
    return &plan->base;
}

static void settle_call(struct device *base)
{
    cuda_attention_settle((struct cuda_device *)base);
}

static char *choices_call(struct device *base, struct error *err)
{
    struct cuda_device *device = (struct cuda_device *)base;

    (void)err;
    cuda_attention_settle(device);
    return tuning_text(device->gemm.tuning);
}

/* Ranks that tuned at the same time have left a mixture of their choices in the file. Without this,
 * the same run started again would compute with that mixture instead of the choices taken now. */
static int choose_call(struct device *base, const char *text, int remember, struct error *err)
{
    struct tuning *tuning = ((struct cuda_device *)base)->gemm.tuning;

    if (tuning_take(tuning, text, remember, err) < 0)
        return -1;
    tuning_save(tuning, NULL); /* if not, the next run tunes again */
    return 0;
}

static void close_call(struct device *base)
{
    struct cuda_device *device = (struct cuda_device *)base;

    tuning_destroy(device->gemm.tuning);
    cudaFree(device->gemm.workspace);
    if (device->gemm.stream)
        cudaStreamDestroy(device->gemm.stream);
    if (device->gemm.handle)
        cublasLtDestroy(device->gemm.handle);
    if (device->cudnn)
        cudnnDestroy(device->cudnn);
    pthread_mutex_destroy(&device->making);
    free(device);
}

/* The index of the GPU to use, or -1 with an error that names the missing driver, library, device
 * or permission. */
static int find_gpu(const struct device_options *options, struct error *err)
{
    int count = 0, driver = 0, runtime = 0;
    cudaError_t status = cudaGetDeviceCount(&count);

    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    if (driver == 0 && access("/proc/driver/nvidia/version", F_OK) == 0)
        return error_set(err,
                         "the NVIDIA driver is loaded on this node, but its library "
                         "libcuda.so.1 is not found; install it, or make it available in the image "
                         "(NVIDIA_DRIVER_CAPABILITIES=compute,utility)");
    if (driver == 0)
        return error_set(
            err, "no NVIDIA driver is loaded on this node; load it, or request a node with GPUs");
    if (status == cudaErrorInsufficientDriver)
        return error_set(err,
                         "the NVIDIA driver of this node supports CUDA %d.%d, this program needs "
                         "%d.%d; ask the administrator to update the driver, or leave the node out "
                         "(srun --exclude)",
                         driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    if (status)
        return error_set(err,
                         "no GPU can be used on this node: %s; run nvidia-smi here, and request "
                         "GPUs (srun --gpus)",
                         cudaGetErrorString(status));
    if (options->index >= count || count == 0)
        return error_set(err,
                         "GPU %d was requested, but this process sees %d GPUs; check "
                         "CUDA_VISIBLE_DEVICES and srun --gpus",
                         options->index, count);
    return options->index >= 0 ? options->index : options->local_rank % count;
}

/* Kernels without code for the GPU would fail at their first launch, in the middle of the run. */
static int check_code(struct cuda_device *device, const struct cudaDeviceProp *properties,
                      struct error *err)
{
    cudaError_t status = kernel_check();

    if (!status)
        return 0;
    cudaGetLastError();
    if (status != cudaErrorNoKernelImageForDevice && status != cudaErrorInvalidDeviceFunction)
        return cuda_error(err, status, "GPU %d (%s) cannot load this program's kernels",
                          device->index, device->base.model);
    if (properties->major < LEAST_MAJOR)
        return error_set(err,
                         "GPU %d (%s) has compute capability %d.%d, and this program's kernels "
                         "need %d.0 (V100 is not supported, A100 is); ask for another GPU",
                         device->index, device->base.model, properties->major, properties->minor,
                         LEAST_MAJOR);
    return error_set(err,
                     "GPU %d (%s) has compute capability %d.%d, and this program was built for "
                     "the architectures " ARCHITECTURES "; configure it with "
                     "NVCC_ARCHITECTURES=\"" ARCHITECTURES " %d%d\" and build it again",
                     device->index, device->base.model, properties->major, properties->minor,
                     properties->major, properties->minor);
}

static int open_gpu(struct cuda_device *device, struct error *err)
{
    struct cudaDeviceProp properties;
    cudaError_t status = cudaGetDeviceProperties(&properties, device->index);

    if (status)
        return error_set(err,
                         "GPU %d cannot be used: %s; run nvidia-smi on this node, and drain it if "
                         "other processes fail too",
                         device->index, cudaGetErrorString(status));
    snprintf(device->base.model, sizeof(device->base.model), "%.127s", properties.name);
    device->processors = properties.multiProcessorCount;
    device->capability = properties.major;
    status = cudaSetDevice(device->index);
    if (!status)
        status = cudaStreamCreateWithFlags(&device->gemm.stream, cudaStreamNonBlocking);
    if (!status)
        status = cudaMalloc(&device->gemm.workspace, GEMM_WORKSPACE);
    if (status == cudaErrorMemoryAllocation)
        return lack(device, GEMM_WORKSPACE, err);
    if (status)
        return error_set(err,
                         "GPU %d (%s) cannot be used: %s; run nvidia-smi on this node, and drain "
                         "it if other processes fail too",
                         device->index, device->base.model, cudaGetErrorString(status));
    return check_code(device, &properties, err);
}

/* Open the cache, and what was installed for this kind of GPU. */
static void open_tuning(struct cuda_device *device, const struct device_options *options)
{
    char name[512];

    snprintf(name, sizeof(name), "tuning%d-%s-%d-cublaslt%zu", TUNING_METHOD, device->base.model,
             device->processors, cublasLtGetVersion());
    for (char *c = name; *c; c++) {
        if (*c == ' ' || *c == '/')
            *c = '_';
    }
    device->gemm.tuning = tuning_open(options->cache_dir, options->tuning_dir, name);
}

static int open_libraries(struct cuda_device *device, const struct device_options *options,
                          struct error *err)
{
    cudnnStatus_t cudnn;

    if (cublasLtCreate(&device->gemm.handle))
        return error_set(err,
                         "cannot initialize cuBLASLt on GPU %d (%s); check that the GPU has free "
                         "memory (nvidia-smi) and that libcublasLt is of the driver's CUDA version",
                         device->index, device->base.model);
    cudnn = cudnnCreate(&device->cudnn);
    if (cudnn)
        return error_set(err,
                         "cannot initialize cuDNN %zu on GPU %d (%s): %s; check that the GPU has "
                         "free memory (nvidia-smi) and that all libcudnn*.so are of one version",
                         cudnnGetVersion(), device->index, device->base.model,
                         cudnnGetErrorString(cudnn));
    device->gemm.candidates = options->untuned ? 1 : CANDIDATES;
    open_tuning(device, options);
    if (options->untuned)
        tuning_read_only(device->gemm.tuning);
    return 0;
}

__attribute__((visibility("default"))) struct device *
device_backend_open(const struct device_options *options, struct error *err);

struct device *device_backend_open(const struct device_options *options, struct error *err)
{
    struct cuda_device *device;
    int index = find_gpu(options, err);

    if (index < 0)
        return NULL;
    device = xcalloc(1, sizeof(*device));
    device->failure.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_init(&device->making, NULL);
    device->index = index;
    device->deterministic = options->deterministic;
    device->unfused_attention = options->unfused_attention;
    device->local_rank = options->local_rank;
    device->base = (struct device){
        .abi = DEVICE_ABI,
        .name = "cuda",
        .can_capture = 1,
        .asynchronous = 1,
        .close = close_call,
        .fail = fail,
        .memory = memory_call,
        .health = health_call,
        .supports = supports,
        .supports_blocks = supports_blocks,
        .allocate = allocate,
        .release = release,
        .host_allocate = host_allocate,
        .host_release = host_release,
        .plan_create = plan_create_call,
        .plan_destroy = plan_destroy_call,
        .settle = settle_call,
        .choices = choices_call,
        .choose = choose_call,
    };
    cuda_stream_calls(&device->base);
    cuda_profile_calls(&device->base);
    if (open_gpu(device, err) || open_libraries(device, options, err)) {
        close_call(&device->base);
        return NULL;
    }
    return &device->base;
}
