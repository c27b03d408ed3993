#include "bench.h"

#include "clocks.h"
#include "disturb.h"
#include "evidence.h"
#include "mapped.h"
#include "memory.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CPU_LIMIT = 1 << 16 };

/* Write a CPU set as the kernel does: "0-3,8". The caller frees. */
static char *cpu_list(const cpu_set_t *set, size_t bytes, int limit)
{
    struct text list = {0};
    text_raw(&list, "", 0);
    for (int cpu = 0; cpu < limit; cpu++) {
        if (!CPU_ISSET_S((size_t)cpu, bytes, set)) {
            continue;
        }
        int last = cpu;
        while (last + 1 < limit && CPU_ISSET_S((size_t)last + 1, bytes, set)) {
            last++;
        }
        char part[40];
        const char *comma = list.used > 0 ? "," : "";
        if (last > cpu) {
            (void)snprintf(part, sizeof part, "%s%d-%d", comma, cpu, last);
        } else {
            (void)snprintf(part, sizeof part, "%s%d", comma, cpu);
        }
        text_raw(&list, part, strlen(part));
        cpu = last;
    }
    return list.data;
}

static char *affinity(void)
{
    /* The kernel refuses a set smaller than its own, so the set grows until it fits. */
    for (int limit = 1024; limit <= CPU_LIMIT; limit *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)limit);
        if (set == NULL) {
            return NULL;
        }
        size_t bytes = CPU_ALLOC_SIZE((size_t)limit);
        CPU_ZERO_S(bytes, set);
        char *list = sched_getaffinity(0, bytes, set) == 0 ? cpu_list(set, bytes, limit) : NULL;
        CPU_FREE(set);
        if (list != NULL) {
            return list;
        }
    }
    return NULL;
}

/* Which NIC and GPU a rank was told to use. */
static const char *const device_variables[] = {
    "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",  "ROCR_VISIBLE_DEVICES",
    "FI_CXI_DEVICE_NAME",   "MPICH_OFI_NIC_POLICY", "MPICH_OFI_NIC_MAPPING",
};

static void describe_devices(struct text *members)
{
    text_key(members, "devices");
    text_raw(members, "{", 1);
    for (size_t i = 0; i < sizeof device_variables / sizeof device_variables[0]; i++) {
        const char *value = getenv(device_variables[i]);
        if (value != NULL) {
            text_string(members, device_variables[i], value);
        }
    }
    text_raw(members, "}", 1);
}

/* The one NUMA node that memory is taken from: get_mempolicy(2), which has no function in libc. */
static int memory_node(void)
{
    enum { BIND = 2, WORDS = 16, BITS = 8 * sizeof(unsigned long) };
    unsigned long mask[WORDS] = {0};
    int mode = 0;
    if (syscall(SYS_get_mempolicy, &mode, mask, WORDS * BITS + 1UL, NULL, 0UL) != 0) {
        return -2;
    }
    int found = -1;
    for (int node = 0; mode == BIND && node < (int)(WORDS * BITS); node++) {
        if ((mask[node / (int)BITS] >> (node % (int)BITS) & 1UL) != 0) {
            if (found >= 0) {
                return -1;
            }
            found = node;
        }
    }
    return found;
}

void evidence_take(struct evidence *evidence)
{
    unsigned cpu = 0;
    unsigned node = 0;
    evidence->cpus = affinity();
    evidence->cpu = -1;
    evidence->numa = -1;
    if (syscall(SYS_getcpu, &cpu, &node, NULL) == 0) {
        evidence->cpu = (int)cpu;
        evidence->numa = (int)node;
    }
    evidence->bound = memory_node();
    network_read(&evidence->network);
}

void evidence_free(struct evidence *evidence)
{
    free(evidence->cpus);
    evidence->cpus = NULL;
}

static bool is_first_of_node(int rank)
{
    char space[64] = "";
    char name[320] = "";
    (void)gethostname(name, 255);
    ssize_t length = readlink("/proc/self/ns/net", space, sizeof space - 1);
    (void)strncat(name, length > 0 ? space : "", sizeof space);
    uint64_t mine = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (const char *c = name; *c != '\0'; c++) {
        mine = (mine ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    }
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    uint64_t *all = calloc((size_t)ranks, sizeof *all);
    if (all == NULL) {
        (void)fputs(PROGRAM_NAME ": out of memory\n", stderr);
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAULT);
        exit(EXIT_FAULT);
    }
    MPI_Allgather(&mine, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, MPI_COMM_WORLD);
    bool first = true;
    for (int other = 0; other < rank; other++) {
        first = first && all[other] != mine;
    }
    free(all);
    return first;
}

void evidence_describe(const struct evidence *before, int rank, struct text *members)
{
    bool first = is_first_of_node(rank);
    char host[256] = "";
    char processor[MPI_MAX_PROCESSOR_NAME + 1] = "";
    int length = 0;
    (void)gethostname(host, sizeof host - 1);
    MPI_Get_processor_name(processor, &length);
    text_integer(members, "rank", rank);
    text_string(members, "host", host);
    text_string(members, "processor", processor);
    text_integer(members, "pid", (long long)getpid());
    text_string(members, "cpus", before->cpus == NULL ? "" : before->cpus);
    text_integer(members, "cpu_start", before->cpu);
    text_integer(members, "cpu_end", sched_getcpu());
    text_integer(members, "numa", before->numa);
    if (before->bound >= -1) {
        text_integer(members, "membind", before->bound);
    }
    describe_devices(members);
    network_describe(&before->network, first, members);
    disturb_describe(members);
    clocks_describe(members);
    memory_describe(members);
    mapped_describe(members);
}

struct clock_facts clock_measure(void)
{
    enum { READS = 20000 };
    struct clock_facts facts = {.resolution = 1.0, .overhead = 0.0};
    double first = now_seconds();
    double last = first;
    for (int i = 0; i < READS; i++) {
        double t = now_seconds();
        if (t > last && t - last < facts.resolution) {
            facts.resolution = t - last;
        }
        last = t;
    }
    facts.overhead = (last - first) / READS;
    return facts;
}
