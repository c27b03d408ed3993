/* This machine's own libraries: which versions they define, and so whether its loader will do, and
 * whether those that the pack has to spare are needed. */
#include "entry.h"

#include <elf.h>
#include <fcntl.h>
#include <stdint.h>

enum { NEWEST_MINOR = 99, MOST_VERSIONS = 100 };

/* As the gABI hashes names. */
static uint32_t hash_of(const char *name)
{
    uint32_t hash = 0;
    for (; *name != '\0'; name++) {
        hash = (hash << 4) + (unsigned char)*name;
        uint32_t high = hash & 0xf0000000U;
        hash = (hash ^ (high >> 24)) & ~high;
    }
    return hash;
}

/* Of `GLIBC_2.` and a number. */
static uint32_t hash_of_minor(unsigned minor)
{
    char name[16] = "GLIBC_2.";
    size_t count = length(name);
    char digits[4];
    size_t some = 0;
    do {
        digits[some++] = (char)('0' + minor % 10);
        minor /= 10;
    } while (minor != 0);
    while (some > 0) {
        name[count++] = digits[--some];
    }
    return hash_of(name);
}

/* Read from a place of a file; 0 where it has too few bytes. */
static size_t read_at(int file, void *target, size_t least, size_t most, uint64_t offset)
{
    long count = call(SYS_pread64, file, (long)target, (long)most, (long)offset);
    return count < (long)least ? 0 : (size_t)count;
}

/* The hashes of version definitions, and how many. */
static size_t hashes_in(const char *definitions, size_t bytes, uint32_t *hashes)
{
    size_t count = 0;
    size_t place = 0;
    while (place + sizeof(Elf64_Verdef) <= bytes && count < MOST_VERSIONS) {
        const void *here = definitions + place;
        const Elf64_Verdef *one = here;
        hashes[count++] = one->vd_hash;
        if (one->vd_next == 0 || one->vd_next % sizeof(uint32_t) != 0) {
            break;
        }
        place += one->vd_next;
    }
    return count;
}

/* The hashes of the versions that a library defines, and how many; negative where it is none of
 * 64 bits.
 *
 * The version definitions are in the first, read-only part of the file, where addresses are
 * offsets.
 */
static long versions_of(int file, uint32_t *hashes)
{
    struct {
        Elf64_Ehdr head;
        Elf64_Phdr parts[16];
    } begin;
    Elf64_Dyn dynamic[40];
    _Alignas(8) char definitions[2048];
    size_t bytes = read_at(file, &begin, sizeof begin, sizeof begin, 0);
    if (bytes == 0 || begin.head.e_ident[EI_CLASS] != ELFCLASS64 ||
        begin.head.e_phoff != sizeof begin.head || begin.head.e_phnum > 16) {
        return -1;
    }
    bytes = 0;
    for (int i = 0; i < begin.head.e_phnum; i++) {
        if (begin.parts[i].p_type == PT_DYNAMIC) {
            uint64_t at = begin.parts[i].p_offset;
            bytes = read_at(file, dynamic, sizeof *dynamic, sizeof dynamic, at);
        }
    }
    for (size_t i = 0; i < bytes / sizeof *dynamic; i++) {
        if (dynamic[i].d_tag == DT_VERDEF) {
            uint64_t at = dynamic[i].d_un.d_ptr;
            bytes = read_at(file, definitions, 1, sizeof definitions, at);
            return (long)hashes_in(definitions, bytes, hashes);
        }
    }
    return 0;
}

/* As `versions_of`, of the file with a path; negative where there is none. */
static long versions_at(const char *path, uint32_t *hashes)
{
    long file = call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0);
    if (file < 0) {
        return file;
    }
    long count = versions_of((int)file, hashes);
    call(SYS_close, file, 0, 0, 0);
    return count;
}

static int has_loader(void)
{
    return call(SYS_faccessat, AT_FDCWD, (long)find('I'), 1, 0) == 0;
}

static int is_among(uint32_t hash, const uint32_t *hashes, long count)
{
    for (long i = 0; i < count; i++) {
        if (hashes[i] == hash) {
            return 1;
        }
    }
    return 0;
}

static unsigned newest_of(const uint32_t *hashes, long count)
{
    unsigned minor = NEWEST_MINOR;
    while (minor > 0 && !is_among(hash_of_minor(minor), hashes, count)) {
        minor--;
    }
    return minor;
}

const char *unfit(unsigned *newest)
{
    if (find('I') == NULL) {
        return NULL;
    }
    if (!has_loader()) {
        return "this machine has no such loader";
    }
    for (const char *record = table; *record != '\0'; record = next(record)) {
        uint32_t hashes[MOST_VERSIONS];
        long count = *record == 'C' ? versions_at(record + 1, hashes) : -1;
        if (count >= 0) {
            *newest = newest_of(hashes, count);
            return *newest >= number_of(find('F')) ? NULL : "this machine's C library is older";
        }
    }
    return "this machine's C library is not where it usually is";
}

/* As `versions_at`, of a library that lies in one of the folders where machines have theirs. */
static long versions_beside(const char *name, uint32_t *hashes)
{
    long count = -1;
    for (const char *record = table; *record != '\0' && count < 0; record = next(record)) {
        size_t folder = *record == 'C' ? length(record + 1) : 0;
        while (folder > 0 && record[folder] != '/') {
            folder--;
        }
        if (folder > 0) {
            char *path = kept(record + 1, folder);
            kept(name, length(name));
            end_text(path);
            count = versions_at(path, hashes);
            used = (size_t)(path - arena);
        }
    }
    return count;
}

const char *lacking(const char **version)
{
    uint32_t hashes[MOST_VERSIONS];
    long count = 0;
    const char *name = NULL;
    *version = NULL;
    for (const char *record = table; *record != '\0'; record = next(record)) {
        if (*record == 'R') {
            name = record + 1;
            count = has_loader() ? versions_beside(name, hashes) : -1;
            if (count < 0) {
                return name;
            }
        }
        if (*record == 'V' && name != NULL && !is_among(hash_of(record + 1), hashes, count)) {
            *version = record + 1;
            return name;
        }
    }
    return NULL;
}
