/* SPDX-License-Identifier: Apache-2.0 */
/* A fake GPU for programs that open a device and allocate memory: preload it before CUDA's
 * libraries. FAKE_MOST is the largest possible allocation in MiB, after which all memory is in use.
 * FAKE_USED is the memory in use before, in GiB. FAKE_CODE is the result of loading a kernel,
 * FAKE_CAPABILITY ten times the compute capability. */
#pragma GCC visibility push(default) /* of what the headers declare */
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#pragma GCC visibility pop

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int full;

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);

    return text ? atol(text) : otherwise;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    (void)device;
    memset(properties, 0, sizeof(*properties));
    strcpy(properties->name, "Fake GPU");
    properties->major = (int)number("FAKE_CAPABILITY", 80) / 10;
    properties->minor = (int)number("FAKE_CAPABILITY", 80) % 10;
    properties->multiProcessorCount = 4;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int size, int device)
{
    snprintf(text, (size_t)size, "0000:%02x:00.0", device);
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    (void)device;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function)
{
    (void)function;
    memset(attributes, 0, sizeof(*attributes));
    return (cudaError_t)number("FAKE_CODE", 0);
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    *total = (size_t)80 << 30;
    *available = full ? (size_t)32 << 20 : *total - ((size_t)number("FAKE_USED", 1) << 30);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    full = bytes > (size_t)number("FAKE_MOST", 1 << 20) << 20;
    *memory = full ? NULL : malloc(bytes);
    return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *memory)
{
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    *stream = NULL;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    (void)priority;
    return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = NULL;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    (void)event;
    return cudaSuccess;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = NULL;
    return CUBLAS_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    *handle = NULL;
    return CUDNN_STATUS_SUCCESS;
}
