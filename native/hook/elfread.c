#include "elfread.h"

#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

enum { MOST_NODES = 4096, MOST_CHAIN = 1 << 20, MOST_DYNAMIC = 4096 };

static int bad(struct sp_error *error, const char *path, const char *why)
{
    return sp_fail(error, SP_INVALID_VALUE, "`%s` cannot be read as a library: %s", path, why);
}

/* Returns the window that has some bytes, or NULL. */
static struct sp_elf_window *look(struct sp_elf *elf, uint64_t offset, size_t length)
{
    for (size_t index = 0; index < SP_ELF_WINDOWS; index++) {
        struct sp_elf_window *window = &elf->windows[index];
        if (offset >= window->start && offset - window->start <= window->bytes &&
            length <= window->bytes - (size_t)(offset - window->start)) {
            return window;
        }
    }
    return NULL;
}

/* Reads what is at an offset into the oldest window; NULL where the file ends too early. Tables and
 * strings are read in turns, so that one window would be read again for each of them. */
static struct sp_elf_window *fill(struct sp_elf *elf, uint64_t offset, size_t length)
{
    struct sp_elf_window *window = &elf->windows[elf->next_window];
    ssize_t got = -1;
    elf->next_window = (elf->next_window + 1) % SP_ELF_WINDOWS;
    do {
        got = pread(elf->descriptor, window->content, sizeof window->content, (off_t)offset);
    } while (got < 0 && errno == EINTR);
    window->start = offset;
    window->bytes = got > 0 ? (size_t)got : 0;
    return window->bytes >= length ? window : NULL;
}

/* Copies bytes of the file; false where it has not so many there. */
static bool take(struct sp_elf *elf, uint64_t offset, void *target, size_t length)
{
    if (offset > elf->size || length > elf->size - offset || length > SP_ELF_WINDOW ||
        elf->steps == 0) {
        return false;
    }
    elf->steps--;
    if (elf->memory != NULL) {
        memcpy(target, elf->memory + offset, length);
        return true;
    }
    struct sp_elf_window *window = look(elf, offset, length);
    if (window == NULL) {
        window = fill(elf, offset, length);
    }
    if (window == NULL) {
        return false;
    }
    memcpy(target, window->content + (size_t)(offset - window->start), length);
    return true;
}

/* Turns an address into an offset in the file; false for one that no segment has. */
static bool locate(const struct sp_elf *elf, uint64_t address, uint64_t *offset)
{
    for (size_t index = 0; index < elf->segment_count; index++) {
        const struct sp_elf_segment *segment = &elf->segments[index];
        if (address >= segment->address && address - segment->address < segment->size) {
            *offset = segment->offset + (address - segment->address);
            return *offset >= segment->offset;
        }
    }
    return false;
}

static bool take_at(struct sp_elf *elf, uint64_t address, void *target, size_t length)
{
    uint64_t offset = 0;
    return locate(elf, address, &offset) && take(elf, offset, target, length);
}

/* Copies a string of the string table; false where it has no end in time. */
static bool take_text(struct sp_elf *elf, uint64_t index, char name[SP_ELF_NAME])
{
    uint64_t offset = 0;
    if (index >= elf->string_bytes || !locate(elf, elf->strings, &offset)) {
        return false;
    }
    uint64_t room = elf->string_bytes - index;
    if (offset > elf->size || index > elf->size - offset) {
        return false;
    }
    offset += index;
    room = room < elf->size - offset ? room : elf->size - offset;
    size_t length = room < SP_ELF_NAME ? (size_t)room : SP_ELF_NAME;
    return take(elf, offset, name, length) && memchr(name, '\0', length) != NULL;
}

static void take_entry(struct sp_elf *elf, const Elf64_Dyn *entry)
{
    uint64_t value = entry->d_un.d_val;
    switch (entry->d_tag) {
    case DT_STRTAB:
        elf->strings = value;
        break;
    case DT_STRSZ:
        elf->string_bytes = value;
        break;
    case DT_SYMTAB:
        elf->symbols = value;
        break;
    case DT_GNU_HASH:
        elf->gnu_hash = value;
        break;
    case DT_HASH:
        elf->hash = value;
        break;
    case DT_VERDEF:
        elf->definitions = value;
        break;
    case DT_VERDEFNUM:
        elf->definition_count = value;
        break;
    case DT_VERNEED:
        elf->needs = value;
        break;
    case DT_VERNEEDNUM:
        elf->need_count = value;
        break;
    case DT_SONAME:
        elf->soname = value;
        break;
    case DT_NEEDED:
        if (elf->needed_count < SP_ELF_NEEDED) {
            elf->needed[elf->needed_count++] = value;
        }
        break;
    default:
        break;
    }
}

static const char *read_dynamic(struct sp_elf *elf, uint64_t offset, uint64_t size)
{
    for (uint64_t index = 0; index < size / sizeof(Elf64_Dyn); index++) {
        Elf64_Dyn entry;
        if (index == MOST_DYNAMIC) {
            return "its dynamic section is too long";
        }
        if (!take(elf, offset + index * sizeof entry, &entry, sizeof entry)) {
            return "its dynamic section is cut off";
        }
        if (entry.d_tag == DT_NULL) {
            break;
        }
        take_entry(elf, &entry);
    }
    return elf->strings != 0 ? NULL : "its dynamic section has no strings";
}

static const char *read_segments(struct sp_elf *elf, const Elf64_Ehdr *header)
{
    uint64_t dynamic = 0;
    uint64_t dynamic_bytes = 0;
    if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phnum > 4 * SP_ELF_SEGMENTS) {
        return "its program headers are not the usual ones";
    }
    for (unsigned index = 0; index < header->e_phnum; index++) {
        Elf64_Phdr entry;
        if (header->e_phoff > elf->size ||
            !take(elf, header->e_phoff + (uint64_t)index * sizeof entry, &entry, sizeof entry)) {
            return "its program headers are cut off";
        }
        if (entry.p_type == PT_DYNAMIC) {
            dynamic = entry.p_offset;
            dynamic_bytes = entry.p_filesz;
        } else if (entry.p_type == PT_LOAD && elf->segment_count < SP_ELF_SEGMENTS) {
            elf->segments[elf->segment_count++] = (struct sp_elf_segment){
                .address = entry.p_vaddr, .offset = entry.p_offset, .size = entry.p_filesz};
        }
    }
    return dynamic_bytes > 0 && dynamic <= elf->size ? read_dynamic(elf, dynamic, dynamic_bytes)
                                                     : "it has no dynamic section";
}

int sp_elf_read(struct sp_elf *elf, const char *path, struct sp_error *error)
{
    Elf64_Ehdr header;
    int descriptor = elf->descriptor;
    const unsigned char *memory = elf->memory;
    uint64_t size = elf->size;
    memset(elf, 0, offsetof(struct sp_elf, windows));
    for (size_t index = 0; index < SP_ELF_WINDOWS; index++) {
        elf->windows[index].bytes = 0;
    }
    elf->descriptor = descriptor;
    elf->memory = memory;
    elf->size = size;
    elf->steps = SP_ELF_STEPS;
    if (!take(elf, 0, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
        return bad(error, path, "it is no ELF file");
    }
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
        return bad(error, path, "it is not for a 64-bit little-endian machine");
    }
    elf->machine = header.e_machine;
    const char *fault = read_segments(elf, &header);
    return fault == NULL ? 0 : bad(error, path, fault);
}

bool sp_elf_soname(struct sp_elf *elf, char name[SP_ELF_NAME])
{
    return elf->soname != 0 && take_text(elf, elf->soname, name);
}

bool sp_elf_needs(struct sp_elf *elf, const char *start)
{
    char name[SP_ELF_NAME];
    for (size_t index = 0; index < elf->needed_count; index++) {
        if (take_text(elf, elf->needed[index], name) && strncmp(name, start, strlen(start)) == 0) {
            return true;
        }
    }
    return false;
}

bool sp_elf_each_definition(struct sp_elf *elf, bool (*taker)(void *context, const char *node),
                            void *context)
{
    uint64_t at = elf->definitions;
    char name[SP_ELF_NAME];
    for (uint64_t index = 0; index < elf->definition_count && index < MOST_NODES; index++) {
        Elf64_Verdef definition;
        Elf64_Verdaux auxiliary;
        if (!take_at(elf, at, &definition, sizeof definition) ||
            !take_at(elf, at + definition.vd_aux, &auxiliary, sizeof auxiliary)) {
            break;
        }
        bool base = (definition.vd_flags & VER_FLG_BASE) != 0;
        if (!base && take_text(elf, auxiliary.vda_name, name) && !taker(context, name)) {
            return false;
        }
        if (definition.vd_next == 0) {
            break;
        }
        at += definition.vd_next;
    }
    return true;
}

/* Goes through the nodes that are needed of one library; false when `taker` returned false. */
static bool each_of_one(struct sp_elf *elf, uint64_t at, unsigned count,
                        bool (*taker)(void *context, const char *node), void *context)
{
    char name[SP_ELF_NAME];
    for (unsigned index = 0; index < count && index < MOST_NODES; index++) {
        Elf64_Vernaux auxiliary;
        if (!take_at(elf, at, &auxiliary, sizeof auxiliary)) {
            break;
        }
        bool weak = (auxiliary.vna_flags & VER_FLG_WEAK) != 0;
        if (!weak && take_text(elf, auxiliary.vna_name, name) && !taker(context, name)) {
            return false;
        }
        if (auxiliary.vna_next == 0) {
            break;
        }
        at += auxiliary.vna_next;
    }
    return true;
}

bool sp_elf_each_need(struct sp_elf *elf, const char *library,
                      bool (*taker)(void *context, const char *node), void *context)
{
    uint64_t at = elf->needs;
    char name[SP_ELF_NAME];
    for (uint64_t index = 0; index < elf->need_count && index < MOST_NODES; index++) {
        Elf64_Verneed need;
        if (!take_at(elf, at, &need, sizeof need)) {
            break;
        }
        if (take_text(elf, need.vn_file, name) && strcmp(name, library) == 0 &&
            !each_of_one(elf, at + need.vn_aux, need.vn_cnt, taker, context)) {
            return false;
        }
        if (need.vn_next == 0) {
            break;
        }
        at += need.vn_next;
    }
    return true;
}

static bool is_another(void *context, const char *node)
{
    return strcmp(context, node) != 0;
}

bool sp_elf_defines(struct sp_elf *elf, const char *node)
{
    char wanted[SP_ELF_NAME];
    size_t length = strlen(node);
    if (length >= sizeof wanted) {
        return false;
    }
    memcpy(wanted, node, length + 1);
    return !sp_elf_each_definition(elf, is_another, wanted);
}

/* Returns whether symbol number `index` is a definition of that name. */
static bool is_symbol(struct sp_elf *elf, uint64_t index, const char *wanted)
{
    Elf64_Sym symbol;
    char name[SP_ELF_NAME];
    return take_at(elf, elf->symbols + index * sizeof symbol, &symbol, sizeof symbol) &&
           symbol.st_shndx != SHN_UNDEF && take_text(elf, symbol.st_name, name) &&
           strcmp(name, wanted) == 0;
}

/* The tables of DT_GNU_HASH: four words, a Bloom filter, buckets, chains of hashes whose last bit
 * ends them (glibc, elf/dl-lookup.c). */
static bool exports_by_gnu_hash(struct sp_elf *elf, const char *symbol)
{
    uint32_t words[4];
    uint32_t hash = 5381;
    for (const char *at = symbol; *at != '\0'; at++) {
        hash = hash * 33 + (unsigned char)*at;
    }
    if (!take_at(elf, elf->gnu_hash, words, sizeof words) || words[0] == 0) {
        return false;
    }
    uint64_t buckets = elf->gnu_hash + sizeof words + (uint64_t)words[2] * 8;
    uint64_t chains = buckets + (uint64_t)words[0] * 4;
    uint32_t index = 0;
    if (!take_at(elf, buckets + (uint64_t)(hash % words[0]) * 4, &index, sizeof index) ||
        index < words[1]) {
        return false;
    }
    for (unsigned step = 0; step < MOST_CHAIN; step++, index++) {
        uint32_t value = 0;
        if (!take_at(elf, chains + (uint64_t)(index - words[1]) * 4, &value, sizeof value)) {
            return false;
        }
        if ((value | 1) == (hash | 1) && is_symbol(elf, index, symbol)) {
            return true;
        }
        if ((value & 1) != 0) {
            return false;
        }
    }
    return false;
}

/* The tables of DT_HASH (gABI, "Hash Table"): two counts, buckets, chains that end with 0. */
static bool exports_by_hash(struct sp_elf *elf, const char *symbol)
{
    uint32_t counts[2];
    uint32_t hash = 0;
    uint32_t index = 0;
    for (const char *at = symbol; *at != '\0'; at++) {
        hash = (hash << 4) + (unsigned char)*at;
        uint32_t high = hash & 0xF0000000;
        hash = (hash ^ high >> 24) & ~high;
    }
    if (!take_at(elf, elf->hash, counts, sizeof counts) || counts[0] == 0) {
        return false;
    }
    uint64_t buckets = elf->hash + sizeof counts;
    uint64_t chains = buckets + (uint64_t)counts[0] * 4;
    uint64_t at = buckets + (uint64_t)(hash % counts[0]) * 4;
    for (unsigned step = 0; step < MOST_CHAIN && step <= counts[1]; step++) {
        if (!take_at(elf, at, &index, sizeof index) || index == 0) {
            return false;
        }
        if (is_symbol(elf, index, symbol)) {
            return true;
        }
        at = chains + (uint64_t)index * 4;
    }
    return false;
}

bool sp_elf_exports(struct sp_elf *elf, const char *symbol)
{
    if (elf->symbols == 0) {
        return false;
    }
    return elf->gnu_hash != 0 ? exports_by_gnu_hash(elf, symbol) : exports_by_hash(elf, symbol);
}
