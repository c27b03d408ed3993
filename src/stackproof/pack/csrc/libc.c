/* This machine's own C library: which version it is, and so whether its loader will do. */
#include "entry.h"

#include <elf.h>
#include <fcntl.h>
#include <stdint.h>

enum { NEWEST_MINOR = 99 };

static uint32_t hash_of_minor(unsigned minor)
{
    /* As the gABI hashes names, of `GLIBC_2.` and a number. */
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
    uint32_t hash = 0;
    for (size_t i = 0; i < count; i++) {
        hash = (hash << 4) + (unsigned char)name[i];
        uint32_t high = hash & 0xf0000000U;
        hash = (hash ^ (high >> 24)) & ~high;
    }
    return hash;
}

/* Read from a place of a file; 0 where it has too few bytes. */
static size_t read_at(int file, void *target, size_t least, size_t most, uint64_t offset)
{
    long count = call(SYS_pread64, file, (long)target, (long)most, (long)offset);
    return count < (long)least ? 0 : (size_t)count;
}

/* The newest GLIBC_2.x among version definitions. */
static unsigned newest_in(const char *definitions, size_t bytes)
{
    uint32_t hashes[NEWEST_MINOR + 1];
    for (unsigned minor = 0; minor <= NEWEST_MINOR; minor++) {
        hashes[minor] = hash_of_minor(minor);
    }
    unsigned newest = 0;
    size_t place = 0;
    while (place + sizeof(Elf64_Verdef) <= bytes) {
        const void *here = definitions + place;
        const Elf64_Verdef *one = here;
        for (unsigned minor = newest + 1; minor <= NEWEST_MINOR; minor++) {
            newest = hashes[minor] == one->vd_hash ? minor : newest;
        }
        if (one->vd_next == 0 || one->vd_next % sizeof(uint32_t) != 0) {
            break;
        }
        place += one->vd_next;
    }
    return newest;
}

/* The newest GLIBC_2.x that a C library defines; 0 where it cannot be read as one.
 *
 * The version definitions are in the first, read-only part of the file, where addresses are
 * offsets.
 */
static unsigned newest_of(int file)
{
    struct {
        Elf64_Ehdr head;
        Elf64_Phdr parts[16];
    } begin;
    Elf64_Dyn dynamic[40];
    _Alignas(8) char definitions[2048];
    size_t bytes = read_at(file, &begin, sizeof begin, sizeof begin, 0);
    if (bytes == 0 || begin.head.e_phoff != sizeof begin.head || begin.head.e_phnum > 16) {
        return 0;
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
            return newest_in(definitions, read_at(file, definitions, 1, sizeof definitions, at));
        }
    }
    return 0;
}

const char *unfit(unsigned *newest)
{
    const char *loader = find('I');
    if (loader == NULL) {
        return NULL;
    }
    if (call(SYS_faccessat, AT_FDCWD, (long)loader, 1, 0) != 0) {
        return "this machine has no such loader";
    }
    for (const char *record = table; *record != '\0'; record = next(record)) {
        if (*record != 'C') {
            continue;
        }
        long file = call(SYS_openat, AT_FDCWD, (long)(record + 1), O_RDONLY | O_CLOEXEC, 0);
        if (file >= 0) {
            *newest = newest_of((int)file);
            call(SYS_close, file, 0, 0, 0);
            return *newest >= number_of(find('F')) ? NULL : "this machine's C library is older";
        }
    }
    return "this machine's C library is not where it usually is";
}
