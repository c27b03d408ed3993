/* GPUs through the libraries of their drivers: libcuda.so.1 and libamdhip64.so. */
#ifndef STACKPROOF_GPU_H
#define STACKPROOF_GPU_H

#include <stdbool.h>
#include <stddef.h>

enum { GPU_TEXT = 128 };

/* A GPU that is open. `driver` is the number that the driver calls itself. */
struct gpu {
    int device;
    int devices;
    int driver;
    char name[GPU_TEXT];
};

/* Why a call failed: whose it was, and the driver's name for the error. */
struct gpu_fault {
    const char *reason; /* no-driver, no-device, out-of-memory or device-fault */
    char text[3 * GPU_TEXT];
};

struct gpu_driver {
    bool (*open)(int local, struct gpu *gpu, struct gpu_fault *fault);
    char *(*allocate)(size_t bytes, struct gpu_fault *fault);
    void (*release)(char *block);
    bool (*put)(char *to, const char *from, size_t bytes, struct gpu_fault *fault);
    bool (*get)(char *to, const char *from, size_t bytes, struct gpu_fault *fault);
};

extern const struct gpu_driver gpu_cuda, gpu_rocm;

#endif
