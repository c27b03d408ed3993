/* What a rank sees of itself: where it runs, which libraries it has mapped, what its node's
 * network interfaces have carried. */
#ifndef STACKPROOF_EVIDENCE_H
#define STACKPROOF_EVIDENCE_H

#include "emit.h"

enum { INTERFACE_MAX = 64, INTERFACE_NAME = 32 };

struct interface {
    char name[INTERFACE_NAME];
    unsigned long long rx_bytes;
    unsigned long long tx_bytes;
};

struct network {
    int count;
    struct interface interfaces[INTERFACE_MAX];
};

/* What is noted before the first benchmark. */
struct evidence {
    char *cpus; /* affinity, as the kernel writes CPU lists: "0-3,8"; NULL unknown */
    int cpu;    /* -1 unknown */
    int numa;   /* the NUMA node of that CPU, -1 unknown */
    struct network network;
};

void evidence_take(struct evidence *evidence);
/* Around what is timed of one benchmark and size: counts what the interfaces send meanwhile. */
void evidence_part_begins(void);
void evidence_part_ends(const char *benchmark, size_t size);
void evidence_free(struct evidence *evidence);
/* Return whether a file is mapped whose name begins so. */
bool evidence_has_mapped(const char *beginning);
/* Append the members of a `rank` record, with the differences since `before`. */
void evidence_describe(const struct evidence *before, int rank, struct text *members);

/* Smallest difference that the clock shows, and the cost of reading it, in seconds. */
struct clock_facts {
    double resolution;
    double overhead;
};

struct clock_facts clock_measure(void);

#endif
