/* What a rank sees of itself: where it runs, what it has mapped, what its network carries. */
#ifndef STACKPROOF_EVIDENCE_H
#define STACKPROOF_EVIDENCE_H

#include "emit.h"
#include "network.h"

/* What is noted before the first benchmark. */
struct evidence {
    char *cpus; /* affinity, as the kernel writes CPU lists: "0-3,8"; NULL unknown */
    int cpu;    /* -1 unknown */
    int numa;   /* the NUMA node of that CPU, -1 unknown */
    int bound;  /* the NUMA node that memory is bound to, -1 to none or several, -2 unknown */
    struct network network;
};

void evidence_take(struct evidence *evidence);
void evidence_free(struct evidence *evidence);
/* Append the members of a `rank` record, with the differences since `before`. */
void evidence_describe(const struct evidence *before, int rank, struct text *members);

/* Smallest difference that the clock shows, and the cost of reading it, in seconds. */
struct clock_facts {
    double resolution;
    double overhead;
};

struct clock_facts clock_measure(void);

#endif
