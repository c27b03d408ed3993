#include "bench.h"

#include "mapped.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIBRARY_MAX = 96, SHARED_MAX = 32, BUILD_ID_MAX = 64, REQUEST_MAX = 256 };

/* Beginnings of the names of libraries that carry messages or start ranks. */
static const char *const library_names[] = {
    "libmpi",       "libmpich",   "libfabric", "libucp",    "libuct",    "libucs",   "libucm",
    "libpmi",       "libpsm",     "libxpmem",  "libcxi",    "libopen-",  "libprrte", "libibverbs",
    "libmlx",       "libmana",    "libefa",    "librdmacm", "libgdrapi", "libcuda",  "libcudart",
    "libamdhip",    "libhsa-",    "libnccl",   "librccl",   "libhcoll",  "libsharp", "libze_loader",
    "libslurm_pmi", "libportals", "mca_",
};

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static bool is_communication_library(const char *path)
{
    const char *name = name_of(path);
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

bool mapped_has(const char *beginning)
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

/* The value that a variable had at the start, NULL for none: a preload may unset its own. */
static char *first_value(const char *name)
{
    size_t length = strlen(name);
    size_t capacity = 0;
    char *entry = NULL;
    char *value = NULL;
    FILE *file = fopen("/proc/self/environ", "re");
    while (file != NULL && value == NULL && getdelim(&entry, &capacity, '\0', file) > 0) {
        if (strncmp(entry, name, length) == 0 && entry[length] == '=') {
            value = strdup(entry + length + 1);
        }
    }
    free(entry);
    if (file != NULL) {
        (void)fclose(file);
    }
    return value;
}

/* Names in a variable of the loader: files or folders, and how many objects are there for each. */
struct requests {
    const char *names[REQUEST_MAX];
    char *real[REQUEST_MAX]; /* without links, NULL for what is not there */
    int objects[REQUEST_MAX];
    int count;
    bool folders;
};

static bool is_below(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    return length > 0 && strncmp(path, folder, length) == 0 && path[length] == '/';
}

/* Whether an object is the file, or lies in the folder, that was asked for. The loader itself
   finds a name without a slash, and what stands for `$LIB`. */
static bool is_requested(const struct requests *all, int at, const char *path, const char *real)
{
    const char *name = all->names[at];
    const char *place = all->real[at] == NULL ? name : all->real[at];
    if (all->folders) {
        return is_below(path, name) || is_below(real, place);
    }
    bool free_name = strchr(name, '/') == NULL || strchr(name, '$') != NULL;
    return strcmp(path, name) == 0 || strcmp(real, place) == 0 ||
           (free_name && strcmp(name_of(path), name_of(name)) == 0);
}

static int count_object(struct dl_phdr_info *object, size_t size, void *data)
{
    struct requests *all = data;
    (void)size;
    if (object->dlpi_name == NULL || object->dlpi_name[0] == '\0') {
        return 0;
    }
    char *real = realpath(object->dlpi_name, NULL);
    const char *path = real == NULL ? object->dlpi_name : real;
    for (int at = 0; at < all->count; at++) {
        all->objects[at] += is_requested(all, at, object->dlpi_name, path) ? 1 : 0;
    }
    free(real);
    return 0;
}

/* Write how many objects the program has of each name in a variable of the loader. */
static void describe_requests(struct text *members, const char *key, const char *variable,
                              const char *separators, bool folders)
{
    struct requests all = {.folders = folders};
    char *value = first_value(variable);
    char *rest = NULL;
    for (char *name = value == NULL ? NULL : strtok_r(value, separators, &rest);
         name != NULL && all.count < REQUEST_MAX; name = strtok_r(NULL, separators, &rest)) {
        all.names[all.count] = name;
        all.real[all.count] = realpath(name, NULL);
        all.count++;
    }
    (void)dl_iterate_phdr(count_object, &all);
    text_key(members, key);
    text_raw(members, "{", 1);
    for (int at = 0; at < all.count; at++) {
        text_integer(members, all.names[at], all.objects[at]);
        free(all.real[at]);
    }
    text_raw(members, "}", 1);
    free(value);
}

void mapped_describe(struct text *members)
{
    /* ld.so(8) has the separators. */
    describe_requests(members, "preloads", "LD_PRELOAD", ": ", false);
    describe_requests(members, "folders", "LD_LIBRARY_PATH", ":;", true);
    describe_maps(members, "libraries", is_communication_library, LIBRARY_MAX);
    describe_maps(members, "shared", is_shared_memory, SHARED_MAX);
    text_key(members, "build_ids");
    text_raw(members, "{", 1);
    (void)dl_iterate_phdr(describe_object, members);
    text_raw(members, "}", 1);
}
