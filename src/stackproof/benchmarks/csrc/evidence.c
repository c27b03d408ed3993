#include "bench.h"

#include "evidence.h"

#include <elf.h>
#include <link.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

void evidence_take(struct evidence *evidence)
{
    evidence->cpus = affinity();
    evidence->cpu = sched_getcpu();
    read_network(&evidence->network);
}

void evidence_free(struct evidence *evidence)
{
    free(evidence->cpus);
    evidence->cpus = NULL;
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

void evidence_describe(const struct evidence *before, int rank, struct text *members)
{
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
    describe_network(&before->network, members);
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
