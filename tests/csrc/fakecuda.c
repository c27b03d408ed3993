/* The stand-in for CUDA's driver with all that MPI libraries call: libfabric 2.1 (src/hmem_cuda.c)
 * and Open MPI 5.0 (opal/mca/accelerator/cuda), of CUDA's runtime and of libnvidia-ml.so.1 too.
 * Under libraries that were built for CUDA it goes before all others (LD_PRELOAD), as libcuda.so.1,
 * and an empty library that needs it as libcudart.so: CUDA's own runtime asks a driver for more.
 */
#include "fakegpu.c"

enum { CONTEXT = 1, MEMORY_TYPE = 2, DEVICE_POINTER = 3, RANGE_START = 11, RANGE_SIZE = 12 };
enum { NOT_SUPPORTED = 801 };

static int foreign(uint64_t at)
{
    return fake_gpu_bytes((void *)(uintptr_t)at) == (void *)(uintptr_t)at;
}

int cuGetErrorString(int code, const char **to)
{
    return cuGetErrorName(code, to);
}

int cuCtxGetCurrent(void **to)
{
    *to = current;
    return 0;
}

int cuCtxPushCurrent_v2(void *context)
{
    current = context;
    return 0;
}

int cuCtxPopCurrent_v2(void **to)
{
    *to = current;
    return 0;
}

int cuCtxGetDevice(int *to)
{
    *to = 0;
    return 0;
}

int cuDeviceGetAttribute(int *to, int attribute, int device)
{
    (void)attribute, (void)device;
    *to = 0;
    return 0;
}

int cuDeviceCanAccessPeer(int *to, int device, int peer)
{
    (void)device, (void)peer;
    *to = 0;
    return 0;
}

int cuPointerGetAttribute(void *to, int attribute, uint64_t at)
{
    if (foreign(at)) {
        return INVALID_VALUE;
    }
    switch (attribute) {
    case CONTEXT:
        *(void **)to = &used;
        return 0;
    case MEMORY_TYPE:
        *(unsigned *)to = 2;
        return 0;
    case DEVICE_POINTER:
    case RANGE_START:
        *(uint64_t *)to = attribute == RANGE_START ? (uint64_t)(uintptr_t)addresses : at;
        return 0;
    case RANGE_SIZE:
        *(size_t *)to = size;
        return 0;
    case 8: /* is it managed? */
    case 9: /* which device? */
        *(unsigned *)to = 0;
        return 0;
    case 7: /* an id */
        *(uint64_t *)to = 1;
        return 0;
    default:
        return INVALID_VALUE;
    }
}

int cuPointerGetAttributes(unsigned count, int *attributes, void **to, uint64_t at)
{
    for (unsigned i = 0; i < count; i++) {
        if (cuPointerGetAttribute(to[i], attributes[i], at) != 0) {
            memset(to[i], 0, sizeof(int)); /* no error: an address that nobody registered */
        }
    }
    return 0;
}

int cuPointerSetAttribute(const void *value, int attribute, uint64_t at)
{
    (void)value, (void)attribute;
    return foreign(at) ? INVALID_VALUE : 0;
}

int cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes_there, uint64_t at)
{
    if (foreign(at)) {
        return INVALID_VALUE;
    }
    *base = (uint64_t)(uintptr_t)addresses;
    *bytes_there = size;
    return 0;
}

int cuMemcpyAsync(uint64_t to, uint64_t from, size_t count, void *stream)
{
    (void)stream;
    memcpy(fake_gpu_bytes((void *)(uintptr_t)to), fake_gpu_bytes((void *)(uintptr_t)from), count);
    return 0;
}

int cuMemRetainAllocationHandle(void *to, void *at)
{
    (void)to, (void)at;
    return INVALID_VALUE; /* no virtual memory management */
}

int cuMemGetHandleForAddressRange(void *to, uint64_t at, size_t count, int kind, uint64_t flags)
{
    (void)to, (void)at, (void)count, (void)kind, (void)flags;
    return NOT_SUPPORTED;
}

int cuStreamCreate(void **to, unsigned flags)
{
    (void)flags;
    *to = &used;
    return 0;
}

int cuEventCreate(void **to, unsigned flags)
{
    return cuStreamCreate(to, flags);
}

int cuMemHostRegister_v2(void *at, size_t count, unsigned flags)
{
    (void)at, (void)count, (void)flags;
    return 0;
}

int cuDeviceGetPCIBusId(char *to, int length, int device)
{
    (void)device;
    return name(to, length, "0000:01:00.0");
}

int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    (void)stream, (void)event, (void)flags;
    return 0;
}

/* A rank's memory is its own. */
#define NOT_SHARED(name)             \
    int name(void *to, void *of)     \
    {                                \
        (void)to, (void)of;          \
        return NOT_SUPPORTED;        \
    }
NOT_SHARED(cuIpcGetMemHandle)
NOT_SHARED(cuIpcGetEventHandle)
NOT_SHARED(cuIpcOpenEventHandle)
NOT_SHARED(cuIpcOpenMemHandle_v2)
NOT_SHARED(cuIpcCloseMemHandle)
NOT_SHARED(cudaIpcGetMemHandle)
NOT_SHARED(cudaIpcOpenMemHandle)

/* Copies are done when they return, so that nothing is waited for. */
#define DONE(name)      \
    int name(void *one) \
    {                   \
        (void)one;      \
        return 0;       \
    }
DONE(cuStreamDestroy_v2)
DONE(cuStreamSynchronize)
DONE(cuEventDestroy_v2)
DONE(cuEventQuery)
DONE(cuMemHostUnregister)
DONE(cudaHostUnregister)
DONE(cudaIpcCloseMemHandle)

int cuEventRecord(void *event, void *stream)
{
    (void)event, (void)stream;
    return 0;
}

/* CUDA's runtime, and the library that counts GPUs */

int cudaGetDeviceCount(int *to)
{
    return cuInit(0) == 0 ? one(to) : NO_DEVICE;
}

int cudaGetDevice(int *to)
{
    *to = 0;
    return 0;
}

int cudaSetDevice(int device)
{
    return device == 0 ? 0 : 101;
}

int cudaMemcpy(void *to, const void *from, size_t count, int kind)
{
    (void)kind;
    return copy(to, from, count);
}

int cudaMalloc(void **to, size_t count)
{
    char *block = NULL;
    int code = allocate(&block, count);
    *to = block;
    return code;
}

int cudaFree(void *block)
{
    (void)block;
    return 0;
}

int cudaDeviceSynchronize(void)
{
    return 0;
}

const char *cudaGetErrorName(int code)
{
    const char *found = NULL;
    (void)cuGetErrorName(code, &found);
    return found;
}

const char *cudaGetErrorString(int code)
{
    return cudaGetErrorName(code);
}

int cudaHostRegister(void *at, size_t count, unsigned flags)
{
    (void)at, (void)count, (void)flags;
    return 0;
}

int nvmlInit_v2(void)
{
    return 0;
}

int nvmlShutdown(void)
{
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *to)
{
    *to = hidden("CUDA_VISIBLE_DEVICES") ? 0 : 1;
    return 0;
}
