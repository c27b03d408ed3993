/* What the network interfaces of a rank's node are and have carried. */
#ifndef STACKPROOF_NETWORK_H
#define STACKPROOF_NETWORK_H

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

void network_read(struct network *network);
/* Around what is timed of one benchmark and size: counts what the interfaces send meanwhile. */
void network_part_begins(void);
void network_part_ends(const char *benchmark, size_t size);
/* Append, once, what was carried since `before`, and of the first rank of a node its interfaces. */
void network_describe(const struct network *before, bool first_of_node, struct text *members);

#endif
