/* A stand-in for the drivers of GPUs, libcuda.so.1 and libamdhip64.so.6: both names are made of
 * this file. Its memory has addresses that nobody may touch, as a GPU's are for the host, and the
 * bytes lie elsewhere; `fake_gpu_bytes` tells where, to the stand-in for an MPI that takes such
 * addresses (gpuaware.c). So a program that reads or writes a GPU's memory as if it were the host's
 * dies here.
 *
 * Faults: *_VISIBLE_DEVICES that is empty hides the GPU, STACKPROOF_FAKE_GPU_MIB is how much memory
 * it has, STACKPROOF_FAKE_GPU_FLIP changes the first byte of every copy to the host.
 */
#define _GNU_SOURCE 1

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { NO_DEVICE = 100, OUT_OF_MEMORY = 2, INVALID_VALUE = 1 };

static char *addresses, *bytes;
static size_t size, used;
static void *current;

static int hidden(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] == '\0';
}

static int begin(void)
{
    const char *limit = getenv("STACKPROOF_FAKE_GPU_MIB");
    size = (size_t)(limit == NULL ? 256 : atoi(limit)) << 20;
    int file = memfd_create("fakegpu", 0);
    if (addresses == NULL && ftruncate(file, (off_t)size) == 0) {
        addresses = mmap(NULL, size, PROT_NONE, MAP_SHARED, file, 0);
        bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    close(file);
    return 0;
}

/* Where the bytes of an address are; any other address is its own. */
void *fake_gpu_bytes(const void *at)
{
    const char *c = at;
    return addresses != NULL && c >= addresses && c < addresses + size ? bytes + (c - addresses)
                                                                       : (void *)(uintptr_t)at;
}

static int allocate(char **to, size_t count)
{
    size_t room = (count + 511) / 512 * 512;
    if (room > size - used) {
        return OUT_OF_MEMORY;
    }
    *to = addresses + used;
    used += room;
    return 0;
}

static int copy(void *to, const void *from, size_t count)
{
    if (fake_gpu_bytes(to) == to && fake_gpu_bytes(from) == from) {
        return INVALID_VALUE;
    }
    memcpy(fake_gpu_bytes(to), fake_gpu_bytes(from), count);
    if (getenv("STACKPROOF_FAKE_GPU_FLIP") != NULL && fake_gpu_bytes(to) == to && count > 0) {
        ((char *)to)[0] ^= 1;
    }
    return 0;
}

static int version(int *to)
{
    *to = 12040;
    return 0;
}

static int one(int *to)
{
    *to = 1;
    return 0;
}

static int name(char *to, int length, const char *text)
{
    strncpy(to, text, (size_t)length);
    return 0;
}

/* CUDA's driver */

int cuInit(unsigned flags)
{
    return flags != 0 ? INVALID_VALUE : hidden("CUDA_VISIBLE_DEVICES") ? NO_DEVICE : begin();
}

int cuDriverGetVersion(int *to)
{
    return version(to);
}

int cuDeviceGetCount(int *to)
{
    return one(to);
}

int cuDeviceGet(int *to, int number)
{
    *to = number;
    return number == 0 ? 0 : 101;
}

int cuDeviceGetName(char *to, int length, int device)
{
    (void)device;
    return name(to, length, "Stand-in for CUDA");
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    (void)device;
    *context = &used;
    return 0;
}

int cuCtxSetCurrent(void *context)
{
    current = context;
    return context == &used ? 0 : 201;
}

int cuCtxSynchronize(void)
{
    return 0;
}

int cuGetErrorName(int code, const char **to)
{
    *to = code == NO_DEVICE       ? "CUDA_ERROR_NO_DEVICE"
          : code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                                  : "CUDA_ERROR_INVALID_VALUE";
    return 0;
}

int cuMemAlloc_v2(uint64_t *to, size_t count)
{
    char *block = NULL;
    int code = allocate(&block, count);
    *to = (uint64_t)(uintptr_t)block;
    return code;
}

int cuMemFree_v2(uint64_t block)
{
    (void)block;
    return 0;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t count)
{
    return copy((void *)(uintptr_t)to, from, count);
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t count)
{
    return copy(to, (const void *)(uintptr_t)from, count);
}

/* ROCm's runtime */

int hipInit(unsigned flags)
{
    return flags != 0 ? INVALID_VALUE : begin();
}

int hipDriverGetVersion(int *to)
{
    return version(to);
}

int hipGetDeviceCount(int *to)
{
    *to = !hidden("HIP_VISIBLE_DEVICES") && !hidden("ROCR_VISIBLE_DEVICES");
    return *to == 1 ? 0 : NO_DEVICE;
}

const char *hipGetErrorName(int code)
{
    return code == NO_DEVICE       ? "hipErrorNoDevice"
           : code == OUT_OF_MEMORY ? "hipErrorOutOfMemory"
                                   : "hipErrorInvalidValue";
}

int hipDeviceGetName(char *to, int length, int device)
{
    (void)device;
    return name(to, length, "Stand-in for ROCm");
}

int hipSetDevice(int device)
{
    return device == 0 ? 0 : 101;
}

int hipDeviceSynchronize(void)
{
    return 0;
}

int hipMalloc(void **to, size_t count)
{
    char *block = NULL;
    int code = allocate(&block, count);
    *to = block;
    return code;
}

int hipFree(void *block)
{
    (void)block;
    return 0;
}

int hipMemcpy(void *to, const void *from, size_t count, int kind)
{
    int host = kind == 1 ? fake_gpu_bytes(from) == from : fake_gpu_bytes(to) == to;
    return (kind == 1 || kind == 2) && host ? copy(to, from, count) : INVALID_VALUE;
}
