#include "bench.h"

#include "gpu.h"
#include "mapped.h"
#include "memory.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGE_ROOM = 640, PROOF_BYTES = 4096 };

const char *const memory_names[MEMORY_KINDS] = {"host", "cuda", "rocm"};

static struct {
    int kind;
    int aware;
    const struct gpu_driver *driver; /* NULL: the host */
    struct gpu gpu;
    struct gpu_fault fault;
    bool bad;
    char reason[32];
    char message[MESSAGE_ROOM];
} state;

/* Return this rank's number on its node, by what the launcher says of it; MPI is not there yet.
 * PRRTE, Hydra, Slurm, PALS (aprun(1), "PALS_LOCAL_RANKID"), Flux, MVAPICH. */
static int local_rank(void)
{
    static const char *const names[] = {
        "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",    "PALS_LOCAL_RANKID",
        "SLURM_LOCALID",              "FLUX_TASK_LOCAL_ID", "MV2_COMM_WORLD_LOCAL_RANK",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && value[0] >= '0' && value[0] <= '9') {
            return (int)(strtoul(value, NULL, 10) % INT_MAX);
        }
    }
    return 0;
}

void memory_open(int kind)
{
    state.kind = kind;
    state.driver = kind == MEMORY_CUDA ? &gpu_cuda : kind == MEMORY_ROCM ? &gpu_rocm : NULL;
    if (state.driver != NULL) {
        state.bad = !state.driver->open(local_rank(), &state.gpu, &state.fault);
    }
}

/* Ask the MPI whether it takes buffers of a GPU. Open MPI has one question for each kind of GPU,
 * MPICH 4 and its kin the same and one with the kind as a number (mpi.h: MPIX_GPU_SUPPORT_CUDA is
 * 0, MPIX_GPU_SUPPORT_HIP is 2). */
static int ask_mpi(void)
{
    static const char *const cuda[] = {"MPIX_Query_cuda_support", NULL};
    static const char *const rocm[] = {"MPIX_Query_rocm_support", "MPIX_Query_hip_support", NULL};
    const char *const *names = state.kind == MEMORY_CUDA ? cuda : rocm;
    for (; *names != NULL; names++) {
        int (*ask)(void) = NULL;
        void *found = dlsym(RTLD_DEFAULT, *names);
        if (found != NULL) {
            memcpy(&ask, &found, sizeof found);
            return ask() != 0 ? AWARE_YES : AWARE_NO;
        }
    }
    void *found = dlsym(RTLD_DEFAULT, "MPIX_GPU_query_support");
    int (*ask_kind)(int, int *) = NULL;
    int yes = 0;
    memcpy(&ask_kind, &found, sizeof found);
    if (found == NULL || ask_kind(state.kind == MEMORY_CUDA ? 0 : 2, &yes) != MPI_SUCCESS) {
        return AWARE_UNKNOWN;
    }
    return yes != 0 ? AWARE_YES : AWARE_NO;
}

/* Return whether UCX was told to carry all point-to-point messages, and can from this GPU. Open
 * MPI does not know of that, and would read a GPU's memory on the host in anything else. */
static bool ucx_carries(void)
{
    const char *pml = getenv("OMPI_MCA_pml");
    const char *part = state.kind == MEMORY_CUDA ? "libuct_cuda" : "libuct_rocm";
    return pml != NULL && strcmp(pml, "ucx") == 0 && mapped_has(part);
}

static void complain(const char *reason, const char *text)
{
    char host[256] = "";
    int rank = 0;
    (void)gethostname(host, sizeof host - 1);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)snprintf(state.reason, sizeof state.reason, "%s", reason);
    (void)snprintf(state.message, sizeof state.message, "rank %d on %s, %s memory: %s", rank, host,
                   memory_names[state.kind], text);
}

bool memory_agree(const char **reason, const char **message)
{
    int rank = 0;
    int first = INT_MAX;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (state.bad) {
        complain(state.fault.reason, state.fault.text);
    } else if (state.driver != NULL && state.aware == AWARE_UNKNOWN) {
        state.aware = ask_mpi();
        if (state.aware == AWARE_NO && ucx_carries()) {
            state.aware = AWARE_BY_UCX;
        }
        if (state.aware == AWARE_NO) {
            complain("not-gpu-aware", "this MPI says that it takes no buffers of such a GPU");
        }
    }
    int mine = state.message[0] != '\0' ? rank : INT_MAX;
    MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == INT_MAX) {
        return true;
    }
    MPI_Bcast(state.reason, sizeof state.reason, MPI_CHAR, first, MPI_COMM_WORLD);
    MPI_Bcast(state.message, sizeof state.message, MPI_CHAR, first, MPI_COMM_WORLD);
    *reason = state.reason;
    *message = state.message;
    return false;
}

bool memory_no_collectives(void)
{
    return state.aware == AWARE_BY_UCX;
}

static char *host_allocate(size_t bytes)
{
    void *block = NULL;
    if (posix_memalign(&block, (size_t)sysconf(_SC_PAGESIZE), bytes) != 0) {
        state.fault.reason = "out-of-memory";
        (void)snprintf(state.fault.text, sizeof state.fault.text,
                       "there is no memory for message buffers");
        return NULL;
    }
    return block;
}

/* Return whether what is written to a block is read from it again. */
static bool proven(char *block, size_t bytes)
{
    char wanted[PROOF_BYTES];
    char seen[PROOF_BYTES];
    size_t part = bytes < sizeof wanted ? bytes : sizeof wanted;
    pattern_part(wanted, 0, part, pattern_seed(0, 0, (uint64_t)(uintptr_t)block, 0));
    memset(seen, 0, part);
    if (!state.driver->put(block, wanted, part, &state.fault) ||
        !state.driver->get(seen, block, part, &state.fault)) {
        return false;
    }
    if (memcmp(wanted, seen, part) != 0) {
        state.fault.reason = "device-fault";
        (void)snprintf(state.fault.text, sizeof state.fault.text,
                       "what was written to the GPU is not what is read from it");
        return false;
    }
    return true;
}

char *memory_allocate(size_t bytes)
{
    char *block = NULL;
    if (state.driver == NULL) {
        block = host_allocate(bytes);
    } else {
        block = state.driver->allocate(bytes, &state.fault);
        if (block != NULL && !proven(block, bytes)) {
            state.driver->release(block);
            block = NULL;
        }
    }
    state.bad = state.bad || block == NULL;
    return block;
}

void memory_release(char *block)
{
    if (state.driver == NULL) {
        free(block);
    } else if (block != NULL) {
        state.driver->release(block);
    }
}

static void give_up(void)
{
    (void)fprintf(stderr, PROGRAM_NAME ": %s\n", state.fault.text);
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAULT);
    exit(EXIT_FAULT);
}

void memory_put(char *to, const char *from, size_t bytes)
{
    if (state.driver == NULL) {
        memcpy(to, from, bytes);
    } else if (!state.driver->put(to, from, bytes, &state.fault)) {
        give_up();
    }
}

const char *memory_view(const char *at, char *room, size_t bytes)
{
    if (state.driver == NULL) {
        return at;
    }
    if (!state.driver->get(room, at, bytes, &state.fault)) {
        give_up();
    }
    return room;
}

void memory_describe(struct text *members)
{
    static const char *const aware[] = {"unknown", "no", "yes", "ucx"};
    text_key(members, "memory");
    text_raw(members, "{", 1);
    text_string(members, "kind", memory_names[state.kind]);
    if (state.driver != NULL) {
        text_integer(members, "device", state.gpu.device);
        text_integer(members, "devices", state.gpu.devices);
        text_string(members, "name", state.gpu.name);
        text_integer(members, "driver", state.gpu.driver);
        text_string(members, "gpu_aware", aware[state.aware]);
    }
    text_raw(members, "}", 1);
}
