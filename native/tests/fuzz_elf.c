/* libFuzzer: no library and no ld.so.cache makes the hook's readers leave their bytes or not end.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "elfread.h"
#include "ldcache.h"
#include "mpiabi.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool count(void *context, const char *node)
{
    size_t *nodes = context;
    *nodes += strlen(node);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_elf *elf = calloc(1, sizeof *elf);
    struct sp_error error;
    char name[SP_ELF_NAME];
    size_t nodes = 0;
    size_t step = 0;
    if (elf == NULL) {
        return 0;
    }
    elf->descriptor = -1;
    elf->memory = data;
    elf->size = size;
    if (size > 0 && sp_elf_read(elf, "library", &error) == 0) {
        (void)sp_elf_soname(elf, name);
        (void)sp_elf_each_definition(elf, count, &nodes);
        (void)sp_elf_each_need(elf, "libc.so.6", count, &nodes);
        (void)sp_elf_defines(elf, "NODE_1.0");
        (void)sp_elf_exports(elf, "first");
        (void)sp_elf_exports(elf, "absent");
        (void)sp_abi_of(elf);
    }
    while (sp_ldcache_next((const char *)data, size, "libc.so.6", &step) != NULL) {
        nodes++;
    }
    free(elf);
    return 0;
}
