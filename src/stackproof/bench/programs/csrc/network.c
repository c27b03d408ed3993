#include "bench.h"

#include "network.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* /proc/self/net/dev follows the network namespace of this process; /sys/class/net shows the one
 * of whoever mounted it. */
void network_read(struct network *network)
{
    network->count = 0;
    FILE *file = fopen("/proc/self/net/dev", "re");
    if (file == NULL) {
        return;
    }
    char line[512];
    while (network->count < INTERFACE_MAX && fgets(line, sizeof line, file) != NULL) {
        struct interface *next = &network->interfaces[network->count];
        char *colon = strchr(line, ':');
        if (colon == NULL) {
            continue;
        }
        *colon = '\0';
        const char *name = line + strspn(line, " ");
        int found = sscanf(colon + 1, "%llu %*u %*u %*u %*u %*u %*u %*u %llu", &next->rx_bytes,
                           &next->tx_bytes);
        if (found == 2 && strlen(name) < sizeof next->name) {
            memcpy(next->name, name, strlen(name) + 1);
            network->count++;
        }
    }
    (void)fclose(file);
}

static struct network part_before;
static struct text parts;

void network_part_begins(void)
{
    network_read(&part_before);
}

void network_part_ends(const char *benchmark, size_t size)
{
    struct network after;
    char name[64];
    network_read(&after);
    (void)snprintf(name, sizeof name, "%s %zu", benchmark, size);
    text_key(&parts, name);
    text_raw(&parts, "{", 1);
    for (int i = 0; i < after.count; i++) {
        for (int j = 0; j < part_before.count; j++) {
            const struct interface *a = &after.interfaces[i];
            const struct interface *b = &part_before.interfaces[j];
            if (strcmp(a->name, b->name) == 0 && a->tx_bytes > b->tx_bytes) {
                text_unsigned(&parts, a->name, a->tx_bytes - b->tx_bytes);
            }
        }
    }
    text_raw(&parts, "}", 1);
}

static void describe_traffic(const struct network *before, struct text *members)
{
    struct network after;
    network_read(&after);
    text_key(members, "net");
    text_raw(members, "{", 1);
    for (int i = 0; i < after.count; i++) {
        for (int j = 0; j < before->count; j++) {
            const struct interface *a = &after.interfaces[i];
            const struct interface *b = &before->interfaces[j];
            if (strcmp(a->name, b->name) == 0 && a->rx_bytes >= b->rx_bytes &&
                a->tx_bytes >= b->tx_bytes) {
                text_key(members, a->name);
                text_raw(members, "{", 1);
                text_unsigned(members, "rx", a->rx_bytes - b->rx_bytes);
                text_unsigned(members, "tx", a->tx_bytes - b->tx_bytes);
                text_raw(members, "}", 1);
            }
        }
    }
    text_raw(members, "}", 1);
}

/* The link's rate as the driver states it, MBit/s; 0 where it states none: ethtool(8). */
static unsigned link_rate(int socket, const char *name)
{
    struct ethtool_cmd command;
    struct ifreq request;
    memset(&command, 0, sizeof command);
    memset(&request, 0, sizeof request);
    command.cmd = ETHTOOL_GSET;
    request.ifr_data = (char *)&command;
    (void)snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (socket < 0 || ioctl(socket, SIOCETHTOOL, &request) != 0) {
        return 0;
    }
    unsigned rate = ((unsigned)command.speed_hi << 16) | command.speed;
    return rate == UINT32_MAX || rate == UINT16_MAX ? 0 : rate;
}

/* Return the numeric address of an IPv4 or IPv6 entry in `to`; false for any other kind. */
static bool address_of(const struct ifaddrs *entry, char *to, size_t bytes)
{
    if (entry->ifa_addr == NULL) {
        return false;
    }
    if (entry->ifa_addr->sa_family == AF_INET) {
        struct sockaddr_in at;
        memcpy(&at, entry->ifa_addr, sizeof at);
        return inet_ntop(AF_INET, &at.sin_addr, to, (socklen_t)bytes) != NULL;
    }
    if (entry->ifa_addr->sa_family == AF_INET6) {
        struct sockaddr_in6 at;
        memcpy(&at, entry->ifa_addr, sizeof at);
        return inet_ntop(AF_INET6, &at.sin6_addr, to, (socklen_t)bytes) != NULL;
    }
    return false;
}

/* The interfaces of this rank's network namespace: whether they are up, their rates, addresses. */
static void describe_interfaces(const struct network *known, struct text *members)
{
    struct ifaddrs *list = NULL;
    int probe = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    (void)getifaddrs(&list);
    text_key(members, "interfaces");
    text_raw(members, "{", 1);
    for (int i = 0; i < known->count; i++) {
        const char *name = known->interfaces[i].name;
        bool up = false;
        struct text addresses = {0};
        text_raw(&addresses, "", 0);
        for (const struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next) {
            char address[INET6_ADDRSTRLEN];
            if (strcmp(entry->ifa_name, name) != 0) {
                continue;
            }
            up = up || (entry->ifa_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
            if (address_of(entry, address, sizeof address)) {
                text_item(&addresses, address);
            }
        }
        text_key(members, name);
        text_raw(members, "{", 1);
        text_boolean(members, "up", up);
        text_unsigned(members, "mbit", link_rate(probe, name));
        text_key(members, "addresses");
        text_raw(members, "[", 1);
        text_raw(members, addresses.data, addresses.used);
        text_raw(members, "]", 1);
        text_raw(members, "}", 1);
        text_free(&addresses);
    }
    text_raw(members, "}", 1);
    freeifaddrs(list);
    if (probe >= 0) {
        (void)close(probe);
    }
}

/* What the timed parts sent is the same for all ranks of a node, so that one of them tells it. */
static void describe_node(const struct network *network, struct text *members)
{
    describe_interfaces(network, members);
    text_key(members, "parts");
    text_raw(members, "{", 1);
    if (parts.used > 0) {
        text_raw(members, parts.data, parts.used);
    }
    text_raw(members, "}", 1);
}

void network_describe(const struct network *before, bool first_of_node, struct text *members)
{
    describe_traffic(before, members);
    if (first_of_node) {
        describe_node(before, members);
    }
    text_free(&parts);
}
