/* SPDX-License-Identifier: Apache-2.0 */
/* How the kernels of attention are launched. */
#ifndef MEGATRON_HOPPER_ATTENTION_LAUNCH_CUH
#define MEGATRON_HOPPER_ATTENTION_LAUNCH_CUH

#include "hopper_attention.cuh"
#include "hopper_attention.h"

/* Launch a kernel for heads of 'width' channels on 'stream'. Returns 0, or -1 on failure. */
int launch_attention(cudaStream_t stream, cudnnDataType_t type, int width,
                     const struct attention_arguments &a);
int launch_query_gradient(cudaStream_t stream, cudnnDataType_t type, int width,
                          const struct attention_arguments &a);
int launch_key_gradient(cudaStream_t stream, cudnnDataType_t type, int width,
                        const struct attention_arguments &a);

/* Does the current device have architecture-specific code for it? */
bool has_attention(int width);
bool has_query_gradient(int width);
bool has_key_gradient(int width);

/* Run a statement with WIDTH if there are kernels for heads of this size. */
#define WITH_WIDTH(width, ...)         \
    do {                               \
        switch (width) {               \
        case 64: {                     \
            constexpr int WIDTH = 64;  \
            __VA_ARGS__;               \
            break;                     \
        }                              \
        case 80: {                     \
            constexpr int WIDTH = 80;  \
            __VA_ARGS__;               \
            break;                     \
        }                              \
        case 96: {                     \
            constexpr int WIDTH = 96;  \
            __VA_ARGS__;               \
            break;                     \
        }                              \
        case 128: {                    \
            constexpr int WIDTH = 128; \
            __VA_ARGS__;               \
            break;                     \
        }                              \
        default:                       \
            break;                     \
        }                              \
    } while (0)

namespace
{

/* WORKER: the consumers of one of the three kernels. */
template <typename WORKER>
__global__ void __launch_bounds__(GROUPS *GROUP, 1)
    attention_kernel(const __grid_constant__ struct attention_arguments a)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) uint8_t memory[];

    run_groups<WORKER>(a, memory);
#endif
}

inline bool has_code(void (*kernel)(struct attention_arguments))
{
    return has_hopper_code((const void *)kernel, GROUPS,
                           LOADER_REGISTERS + WORKERS * WORKER_REGISTERS);
}

template <template <typename, int> class WORKER> bool has_kernel(int width)
{
    bool has = false;

    WITH_WIDTH(width, has = has_code(attention_kernel<WORKER<bf16, WIDTH>>) &&
                            has_code(attention_kernel<WORKER<fp16, WIDTH>>));
    return has;
}

/* Launch one block of 'kernel' per multiprocessor. Returns 0, or -1 on failure. */
template <typename SHARED>
int launch(cudaStream_t stream, void (*kernel)(struct attention_arguments),
           const struct attention_arguments &a)
{
    static_assert(sizeof(SHARED) <= 227 * 1024, "shared memory of a block");
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(SHARED)))
        return -1;
    kernel<<<(unsigned)processor_count(), GROUPS * GROUP, sizeof(SHARED), stream>>>(a);
    return cudaPeekAtLastError() ? -1 : 0;
}

template <template <typename, int> class WORKER>
int launch_kernel(cudaStream_t stream, cudnnDataType_t type, int width,
                  const struct attention_arguments &a)
{
    int status = -1;

    WITH_WIDTH(width, status = launch<typename WORKER<bf16, WIDTH>::shared_memory>(
                          stream,
                          type == CUDNN_DATA_BFLOAT16 ? attention_kernel<WORKER<bf16, WIDTH>>
                                                      : attention_kernel<WORKER<fp16, WIDTH>>,
                          a));
    return status;
}

} // namespace

#endif
