/* libFuzzer: no manifest with a right checksum breaks the parser, or names files outside. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manifest.h"
#include "path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t checksum(const char *text, size_t length)
{
    uint32_t value = 0xFFFFFFFF;
    for (size_t index = 0; index < length; index++) {
        value ^= (unsigned char)text[index];
        for (int bit = 0; bit < 8; bit++) {
            value = value >> 1 ^ ((value & 1) != 0 ? 0xEDB88320 : 0);
        }
    }
    return ~value;
}

static void parse(const char *text, size_t length)
{
    struct sp_error error;
    struct sp_manifest *manifest = malloc(sizeof *manifest);
    if (manifest != NULL && sp_manifest_parse(text, length, "manifest", manifest, &error) == 0) {
        for (size_t row = 0; row < manifest->replaces.count; row++) {
            const char *file = manifest->replaces.rows[row].words[2];
            if (file[0] == '/' || sp_path_has_dots(file, strlen(file))) {
                abort();
            }
        }
        (void)sp_rows_named(&manifest->needs, "libc.so.6");
        sp_manifest_free(manifest);
    }
    free(manifest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char head[] = "stackproof-abi 1\n";
    size_t start = sizeof head - 1;
    char *text = malloc(start + size + 16);
    if (text == NULL) {
        return 0;
    }
    parse((const char *)data, size);
    memcpy(text, head, start);
    memcpy(text + start, data, size);
    size_t length = start + size;
    text[length++] = '\n';
    (void)snprintf(text + length, 14, "crc %08x\n", checksum(text, length));
    parse(text, length + 13);
    free(text);
    return 0;
}
