#include "bench.h"

#include "disturb.h"
#include "evidence.h"
#include "memory.h"

#include <arpa/inet.h>
#include <elf.h>
#include <ifaddrs.h>
#include <link.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CPU_LIMIT = 1 << 16, LIBRARY_MAX = 96, SHARED_MAX = 32, BUILD_ID_MAX = 64 };

/* Beginnings of the names of libraries that carry messages or start ranks. */
static const char *const library_names[] = {
    "libmpi",       "libmpich",   "libfabric", "libucp",    "libuct",    "libucs",    "libucm",
    "libpmi",       "libpsm",     "libxpmem",  "libcxi",    "libopen-",  "libprrte",  "libibverbs",
    "libmlx",       "libmana",    "libefa",    "librdmacm", "libgdrapi", "libcuda",   "libcudart",
    "libamdhip",    "libhsa-",    "libnccl",   "librccl",   "libhcoll",  "libsharp",  "libze_loader",
    "libslurm_pmi", "libportals", "mca_",
};

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

/* /proc/self/net/dev follows the network namespace of this process; /sys/class/net shows the one
 * of whoever mounted it. */
static void read_network(struct network *network)
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

void evidence_part_begins(void)
{
    read_network(&part_before);
}

void evidence_part_ends(const char *benchmark, size_t size)
{
    struct network after;
    char name[64];
    read_network(&after);
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
    read_network(&evidence->network);
}

void evidence_free(struct evidence *evidence)
{
    free(evidence->cpus);
    evidence->cpus = NULL;
    text_free(&parts);
}

static bool is_communication_library(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    if (strstr(name, ".so") == NULL) {
        return false;
    }
    if (strstr(name, "-fi.so") != NULL) {
        return true; /* a libfabric provider */
    }
    for (size_t i = 0; i < sizeof library_names / sizeof library_names[0]; i++) {
        if (strncmp(name, library_names[i], strlen(library_names[i])) == 0) {
            return true;
        }
    }
    return false;
}

static bool seen_before(char *const *seen, int count, const char *path)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(seen[i], path) == 0) {
            return true;
        }
    }
    return false;
}

/* Shared memory of ranks: POSIX and System V segments, and what single-copy drivers map. */
static bool is_shared_memory(const char *path)
{
    static const char *const beginnings[] = {"/dev/shm/", "/SYSV", "/memfd:", "/dev/xpmem",
                                             "/dev/knem"};
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        if (strncmp(path, beginnings[i], strlen(beginnings[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* Write a list of the mapped paths that `wanted` takes, each once. */
static void describe_maps(struct text *members, const char *key, bool (*wanted)(const char *),
                          int limit)
{
    char *seen[LIBRARY_MAX];
    int count = 0;
    char *line = NULL;
    size_t capacity = 0;
    text_key(members, key);
    text_raw(members, "[", 1);
    FILE *file = fopen("/proc/self/maps", "re");
    while (file != NULL && count < limit && getline(&line, &capacity, file) > 0) {
        char *path = strchr(line, '/');
        if (path == NULL) {
            continue;
        }
        path[strcspn(path, "\n")] = '\0';
        if (wanted(path) && !seen_before(seen, count, path)) {
            seen[count] = strdup(path);
            if (seen[count] == NULL) {
                break;
            }
            text_item(members, seen[count]);
            count++;
        }
    }
    text_raw(members, "]", 1);
    for (int i = 0; i < count; i++) {
        free(seen[i]);
    }
    free(line);
    if (file != NULL) {
        (void)fclose(file);
    }
}

bool evidence_has_mapped(const char *beginning)
{
    char *line = NULL;
    size_t capacity = 0;
    bool found = false;
    FILE *file = fopen("/proc/self/maps", "re");
    while (file != NULL && !found && getline(&line, &capacity, file) > 0) {
        const char *slash = strrchr(line, '/');
        found = slash != NULL && strncmp(slash + 1, beginning, strlen(beginning)) == 0;
    }
    free(line);
    if (file != NULL) {
        (void)fclose(file);
    }
    return found;
}

/* Write the build-id that a segment of notes holds, if any: elf(5), "Notes (Nhdr)". */
static bool describe_build_id(struct text *members, const char *path, const char *notes,
                              size_t bytes)
{
    size_t at = 0;
    while (at + sizeof(ElfW(Nhdr)) <= bytes) {
        ElfW(Nhdr) header;
        memcpy(&header, notes + at, sizeof header);
        size_t name = at + sizeof header;
        size_t value = name + (((size_t)header.n_namesz + 3U) & ~(size_t)3U);
        size_t next = value + (((size_t)header.n_descsz + 3U) & ~(size_t)3U);
        if (value > bytes || header.n_descsz > bytes - value) {
            return false;
        }
        if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == sizeof ELF_NOTE_GNU &&
            memcmp(notes + name, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) == 0 &&
            header.n_descsz <= BUILD_ID_MAX) {
            char digits[2 * BUILD_ID_MAX + 1] = "";
            for (size_t i = 0; i < header.n_descsz; i++) {
                (void)snprintf(digits + 2 * i, 3, "%02x", (unsigned char)notes[value + i]);
            }
            text_string(members, path, digits);
            return true;
        }
        at = next;
    }
    return false;
}

/* Whether a segment is among what is loaded of its object: only then may it be read. */
static bool is_loaded(const struct dl_phdr_info *object, const ElfW(Phdr) *segment)
{
    for (int i = 0; i < (int)object->dlpi_phnum; i++) {
        const ElfW(Phdr) *load = &object->dlpi_phdr[i];
        if (load->p_type == PT_LOAD && (load->p_flags & PF_R) != 0 &&
            segment->p_vaddr >= load->p_vaddr && segment->p_filesz <= load->p_filesz &&
            segment->p_vaddr - load->p_vaddr <= load->p_filesz - segment->p_filesz) {
            return true;
        }
    }
    return false;
}

/* Called for every object that the program has. */
static int describe_object(struct dl_phdr_info *object, size_t size, void *data)
{
    (void)size;
    if (object->dlpi_name == NULL || !is_communication_library(object->dlpi_name)) {
        return 0;
    }
    /* As /proc/self/maps has it, so that both can be put together. */
    char *real = realpath(object->dlpi_name, NULL);
    const char *path = real == NULL ? object->dlpi_name : real;
    for (int i = 0; i < (int)object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        /* The address of what is mapped comes as a number. */
        const char *notes = (const char *)(object->dlpi_addr + segment->p_vaddr); // NOLINT
        if (segment->p_type == PT_NOTE && is_loaded(object, segment) &&
            describe_build_id(data, path, notes, segment->p_filesz)) {
            break;
        }
    }
    free(real);
    return 0;
}

static void describe_libraries(struct text *members)
{
    describe_maps(members, "libraries", is_communication_library, LIBRARY_MAX);
    describe_maps(members, "shared", is_shared_memory, SHARED_MAX);
    text_key(members, "build_ids");
    text_raw(members, "{", 1);
    (void)dl_iterate_phdr(describe_object, members);
    text_raw(members, "}", 1);
}

static void describe_network(const struct network *before, struct text *members)
{
    struct network after;
    read_network(&after);
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
    describe_devices(members);
    describe_network(&before->network, members);
    if (first) {
        describe_node(&before->network, members);
    }
    disturb_describe(members);
    memory_describe(members);
    describe_libraries(members);
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
