/* The few calls of each driver that a message buffer needs, looked up by name.
 *
 * CUDA: docs.nvidia.com, "CUDA Driver API"; names with _v2 are those that its header maps the plain
 * ones to. ROCm: rocm.docs.amd.com, "HIP runtime API". Both are C and keep their names and numbers.
 */
#include "compat.h"

#include "gpu.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_OF_MEMORY = 2, TO_DEVICE = 1, TO_HOST = 2 }; /* the same numbers in both */

struct symbol {
    const char *name;
    void *to; /* where the function's address goes */
};

static struct {
    int (*init)(unsigned);
    int (*driver)(int *);
    int (*count)(int *);
    int (*error)(int, const char **);
    int (*get)(int *, int);
    int (*name)(char *, int, int);
    int (*retain)(void **, int);
    int (*current)(void *);
    int (*synchronise)(void);
    int (*allocate)(uint64_t *, size_t);
    int (*release)(uint64_t);
    int (*put)(uint64_t, const void *, size_t);
    int (*take)(void *, uint64_t, size_t);
} cuda;

static const struct symbol cuda_symbols[] = {
    {"cuInit", &cuda.init},
    {"cuDriverGetVersion", &cuda.driver},
    {"cuDeviceGetCount", &cuda.count},
    {"cuGetErrorName", &cuda.error},
    {"cuDeviceGet", &cuda.get},
    {"cuDeviceGetName", &cuda.name},
    {"cuDevicePrimaryCtxRetain", &cuda.retain},
    {"cuCtxSetCurrent", &cuda.current},
    {"cuCtxSynchronize", &cuda.synchronise},
    {"cuMemAlloc_v2", &cuda.allocate},
    {"cuMemFree_v2", &cuda.release},
    {"cuMemcpyHtoD_v2", &cuda.put},
    {"cuMemcpyDtoH_v2", &cuda.take},
};

static struct {
    int (*init)(unsigned);
    int (*driver)(int *);
    int (*count)(int *);
    const char *(*error)(int);
    int (*name)(char *, int, int);
    int (*set)(int);
    int (*synchronise)(void);
    int (*allocate)(void **, size_t);
    int (*release)(void *);
    int (*copy)(void *, const void *, size_t, int);
} hip;

static const struct symbol hip_symbols[] = {
    {"hipInit", &hip.init},
    {"hipDriverGetVersion", &hip.driver},
    {"hipGetDeviceCount", &hip.count},
    {"hipGetErrorName", &hip.error},
    {"hipDeviceGetName", &hip.name},
    {"hipSetDevice", &hip.set},
    {"hipDeviceSynchronize", &hip.synchronise},
    {"hipMalloc", &hip.allocate},
    {"hipFree", &hip.release},
    {"hipMemcpy", &hip.copy},
};

/* Find all that is needed in a library; NULL is one that could not be opened, as dlerror says. The
 * names of libraries stand at each dlopen, where `stackproof inject check` can read them. */
static bool load(void *library, const struct symbol *symbols, size_t count, struct gpu_fault *fault)
{
    fault->reason = "no-driver";
    if (library == NULL) {
        const char *why = dlerror();
        (void)snprintf(fault->text, sizeof fault->text, "there is no driver: %s",
                       why == NULL ? "it cannot be opened" : why);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        void *found = dlsym(library, symbols[i].name);
        if (found == NULL) {
            (void)snprintf(fault->text, sizeof fault->text, "the driver lacks %s", symbols[i].name);
            return false;
        }
        memcpy(symbols[i].to, &found, sizeof found); /* ISO C knows no other way to a function */
    }
    return true;
}

/* Tell of a call that did not return 0; `hides` is the variable that can hide all GPUs. */
static bool failed(struct gpu_fault *fault, const char *call, const char *error, int code,
                   const char *hides)
{
    const char *value = hides == NULL ? NULL : getenv(hides);
    bool memory = code == OUT_OF_MEMORY && hides == NULL;
    fault->reason = hides != NULL ? "no-device" : memory ? "out-of-memory" : "device-fault";
    (void)snprintf(fault->text, sizeof fault->text, "%s%s: %s (%d)%s%s%s%s%s",
                   hides == NULL ? "" : "no GPU can be used: ", call, error == NULL ? "?" : error,
                   code, value == NULL ? "" : "; ", value == NULL ? "" : hides,
                   value == NULL ? "" : " is `", value == NULL ? "" : value,
                   value == NULL ? "" : "`");
    return false;
}

static bool none(struct gpu_fault *fault, const char *call, const char *hides)
{
    return failed(fault, call, "no device", 0, hides);
}

/* --- CUDA --- */

static bool cuda_good(int code, const char *call, const char *hides, struct gpu_fault *fault)
{
    const char *error = NULL;
    if (code == 0) {
        return true;
    }
    (void)cuda.error(code, &error);
    return failed(fault, call, error, code, hides);
}

static bool cuda_open(int local, struct gpu *gpu, struct gpu_fault *fault)
{
    static const char hides[] = "CUDA_VISIBLE_DEVICES";
    void *context = NULL;
    int device = 0;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!load(library, cuda_symbols, sizeof cuda_symbols / sizeof cuda_symbols[0], fault) ||
        !cuda_good(cuda.init(0), "cuInit", hides, fault) ||
        !cuda_good(cuda.count(&gpu->devices), "cuDeviceGetCount", hides, fault)) {
        return false;
    }
    if (gpu->devices < 1) {
        return none(fault, "cuDeviceGetCount", hides);
    }
    gpu->device = local % gpu->devices;
    (void)cuda.driver(&gpu->driver);
    return cuda_good(cuda.get(&device, gpu->device), "cuDeviceGet", hides, fault) &&
           cuda_good(cuda.name(gpu->name, GPU_TEXT, device), "cuDeviceGetName", hides, fault) &&
           cuda_good(cuda.retain(&context, device), "cuDevicePrimaryCtxRetain", hides, fault) &&
           cuda_good(cuda.current(context), "cuCtxSetCurrent", hides, fault);
}

static char *cuda_allocate(size_t bytes, struct gpu_fault *fault)
{
    uint64_t block = 0;
    if (!cuda_good(cuda.allocate(&block, bytes), "cuMemAlloc", NULL, fault)) {
        return NULL;
    }
    return (char *)(uintptr_t)block; // NOLINT - the driver gives addresses as numbers
}

static void cuda_release(char *block)
{
    (void)cuda.release((uintptr_t)block);
}

/* A copy may return before the GPU has it, and the MPI's next read would be too early. */
static bool cuda_put(char *to, const char *from, size_t bytes, struct gpu_fault *fault)
{
    return cuda_good(cuda.put((uintptr_t)to, from, bytes), "cuMemcpyHtoD", NULL, fault) &&
           cuda_good(cuda.synchronise(), "cuCtxSynchronize", NULL, fault);
}

static bool cuda_get(char *to, const char *from, size_t bytes, struct gpu_fault *fault)
{
    return cuda_good(cuda.take(to, (uintptr_t)from, bytes), "cuMemcpyDtoH", NULL, fault);
}

const struct gpu_driver gpu_cuda = {cuda_open, cuda_allocate, cuda_release, cuda_put, cuda_get};

/* --- ROCm --- */

static bool hip_good(int code, const char *call, const char *hides, struct gpu_fault *fault)
{
    return code == 0 || failed(fault, call, hip.error(code), code, hides);
}

static bool hip_open(int local, struct gpu *gpu, struct gpu_fault *fault)
{
    /* The plain name is of the development package; releases 7, 6 and 5 have these. */
    void *library = dlopen("libamdhip64.so", RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) {
        library = dlopen("libamdhip64.so.7", RTLD_NOW | RTLD_GLOBAL);
    }
    if (library == NULL) {
        library = dlopen("libamdhip64.so.6", RTLD_NOW | RTLD_GLOBAL);
    }
    if (library == NULL) {
        library = dlopen("libamdhip64.so.5", RTLD_NOW | RTLD_GLOBAL);
    }
    const char *hides =
        getenv("HIP_VISIBLE_DEVICES") != NULL ? "HIP_VISIBLE_DEVICES" : "ROCR_VISIBLE_DEVICES";
    if (!load(library, hip_symbols, sizeof hip_symbols / sizeof hip_symbols[0], fault) ||
        !hip_good(hip.init(0), "hipInit", hides, fault) ||
        !hip_good(hip.count(&gpu->devices), "hipGetDeviceCount", hides, fault)) {
        return false;
    }
    if (gpu->devices < 1) {
        return none(fault, "hipGetDeviceCount", hides);
    }
    gpu->device = local % gpu->devices;
    (void)hip.driver(&gpu->driver);
    return hip_good(hip.set(gpu->device), "hipSetDevice", hides, fault) &&
           hip_good(hip.name(gpu->name, GPU_TEXT, gpu->device), "hipDeviceGetName", hides, fault);
}

static char *hip_allocate(size_t bytes, struct gpu_fault *fault)
{
    void *block = NULL;
    return hip_good(hip.allocate(&block, bytes), "hipMalloc", NULL, fault) ? block : NULL;
}

static void hip_release(char *block)
{
    (void)hip.release(block);
}

static bool hip_put(char *to, const char *from, size_t bytes, struct gpu_fault *fault)
{
    return hip_good(hip.copy(to, from, bytes, TO_DEVICE), "hipMemcpy", NULL, fault) &&
           hip_good(hip.synchronise(), "hipDeviceSynchronize", NULL, fault);
}

static bool hip_get(char *to, const char *from, size_t bytes, struct gpu_fault *fault)
{
    return hip_good(hip.copy(to, from, bytes, TO_HOST), "hipMemcpy", NULL, fault);
}

const struct gpu_driver gpu_rocm = {hip_open, hip_allocate, hip_release, hip_put, hip_get};
