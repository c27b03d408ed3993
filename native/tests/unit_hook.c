/* Unit tests of what the hook reads: JSON, manifests, ELF files, ld.so.cache. Prints TAP. */
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "container.h"
#include "elfread.h"
#include "json.h"
#include "ldcache.h"
#include "manifest.h"
#include "mpiabi.h"

static int count;
static int failures;

#define CHECK(condition) check((condition), #condition, __LINE__)

static void check(bool passed, const char *what, int line)
{
    (void)printf("%sok %d - line %d: %s\n", passed ? "" : "not ", ++count, line, what);
    failures += passed ? 0 : 1;
}

static bool is_json(const char *text)
{
    struct sp_json value = {.start = NULL, .end = NULL};
    return sp_json_read(text, strlen(text), &value);
}

static void test_documents(void)
{
    char deep[2 * (SP_JSON_DEPTH + 1) + 1];
    static const char *const good[] = {
        "{}",
        " [] ",
        "1",
        "-1.5e+3",
        "\"\"",
        "null",
        "[1,[2,{}],\"]\"]",
        "{\"a\":{\"b\":[true]}}",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\"",
    };
    static const char *const bad[] = {
        "",      " ",          "{",   "}",         "[1,]",    "[,1]",      "{\"a\"}",
        "{1:2}", "{\"a\":1,}", "\"",  "\"\n\"",    "\"\\x\"", "\"\\u12\"", "[1 2]",
        "1 2",   "nul",        "[1}", "{\"a\":1]", "+1",      "{\"a\" 1}", "{} x",
    };
    for (size_t index = 0; index < sizeof good / sizeof good[0]; index++) {
        CHECK(is_json(good[index]));
    }
    for (size_t index = 0; index < sizeof bad / sizeof bad[0]; index++) {
        CHECK(!is_json(bad[index]));
    }
    memset(deep, '[', SP_JSON_DEPTH);
    memset(deep + SP_JSON_DEPTH, ']', SP_JSON_DEPTH);
    deep[sizeof deep - 3] = '\0';
    CHECK(is_json(deep));
    memset(deep, '[', SP_JSON_DEPTH + 1);
    memset(deep + SP_JSON_DEPTH + 1, ']', SP_JSON_DEPTH + 1);
    deep[sizeof deep - 1] = '\0';
    CHECK(!is_json(deep));
}

/* Returns the decoded text of the member `a` of an object, or NULL. */
static const char *text_of(const char *document)
{
    static char text[16];
    struct sp_json whole = {.start = NULL, .end = NULL};
    struct sp_json value = {.start = NULL, .end = NULL};
    bool found = sp_json_read(document, strlen(document), &whole) &&
                 sp_json_member(whole, "a", &value) && sp_json_text(value, text, sizeof text);
    return found ? text : NULL;
}

static bool same(const char *one, const char *two)
{
    return one != NULL && strcmp(one, two) == 0;
}

static void test_values(void)
{
    CHECK(same(text_of("{\"b\": {\"a\": \"no\"}, \"a\": \"yes\"}"), "yes"));
    CHECK(same(text_of("{\"a\": \"one\", \"a\": \"two\"}"), "two"));
    CHECK(same(text_of("{\"\\u0061\": \"x\"}"), "x"));
    CHECK(same(text_of("{\"a\": \"\\u00e4\\ud83d\\ude00\\n\"}"), "\xc3\xa4\xf0\x9f\x98\x80\n"));
    CHECK(text_of("{\"a\": \"\\u0000\"}") == NULL);
    CHECK(text_of("{\"a\": \"\\ud83d\"}") == NULL);
    CHECK(text_of("{\"a\": \"\\ude00\"}") == NULL);
    CHECK(text_of("{\"a\": \"\\ud83d\\u0041\"}") == NULL);
    CHECK(text_of("{\"a\": \"0123456789abcdef\"}") == NULL);
    CHECK(same(text_of("{\"a\": \"0123456789abcde\"}"), "0123456789abcde"));
    CHECK(text_of("{\"a\": 1}") == NULL);
    CHECK(text_of("[\"a\"]") == NULL);
}

static void test_environment(void)
{
    static const char text[] = "[\"A=1\", 2, \"AB=2\", \"A=\", \"A=x=y\", \"B\"]";
    struct sp_json list = {.start = NULL, .end = NULL};
    char value[8];
    CHECK(sp_json_read(text, sizeof text - 1, &list));
    CHECK(sp_environment_value(list, "A", value, sizeof value) && same(value, "x=y"));
    CHECK(sp_environment_value(list, "AB", value, sizeof value) && same(value, "2"));
    CHECK(!sp_environment_value(list, "B", value, sizeof value));
    CHECK(!sp_environment_value((struct sp_json){NULL, NULL}, "A", value, sizeof value));
}

static bool has_config(const char *text, const char *root)
{
    struct sp_bundle bundle = {.process = -1};
    struct sp_error error;
    int result = sp_bundle_config(&bundle, strdup(text), strlen(text), "/bundle", &error);
    bool right = root == NULL ? result != 0 : result == 0 && strcmp(bundle.root, root) == 0;
    sp_bundle_free(&bundle);
    return right;
}

static void test_bundles(void)
{
    CHECK(has_config("{\"root\": {\"path\": \"rootfs\"}}", "/bundle/rootfs"));
    CHECK(has_config("{\"root\": {\"path\": \"/r\"}}", "/r"));
    CHECK(has_config("{\"root\": {\"path\": \"\"}}", NULL));
    CHECK(has_config("{\"root\": {}}", NULL));
    CHECK(has_config("[]", NULL));
    CHECK(has_config("{", NULL));
}

static const char manifest_text[] = "stackproof-abi 1\n"
                                    "name net\n"
                                    "place //opt//net/\n"
                                    "machine 62\n"
                                    "replace libfabric libfabric.so.1 libfabric/libfabric.so.1\n"
                                    "provides libfabric.so.1 FABRIC_1.0 FABRIC_1.1\n"
                                    "env mpi A b c\n"
                                    "crc e412a023\n";

static bool parses(const char *text, size_t length)
{
    struct sp_error error;
    static struct sp_manifest manifest;
    int result = sp_manifest_parse(text, length, "manifest", &manifest, &error);
    if (result == 0) {
        const struct sp_row *row = sp_rows_named(&manifest.provides, "libfabric.so.1");
        CHECK(same(manifest.place, "/opt/net") && manifest.machine == 62 && manifest.isa == NULL);
        CHECK(row != NULL && sp_row_has(row, "FABRIC_1.1") && !sp_row_has(row, "libfabric.so.1"));
        CHECK(sp_rows_named(&manifest.provides, "FABRIC_1.0") == NULL);
        CHECK(same(manifest.environment.rows[0].words[2], "b c"));
        sp_manifest_free(&manifest);
    }
    return result == 0;
}

static void test_manifests(void)
{
    char text[sizeof manifest_text];
    size_t length = sizeof manifest_text - 1;
    CHECK(parses(manifest_text, length));
    CHECK(!parses(manifest_text, length - 1));
    CHECK(!parses(manifest_text, 0));
    bool any = false;
    for (size_t index = 0; index < length; index++) {
        memcpy(text, manifest_text, sizeof text);
        text[index] ^= 1;
        any = any || parses(text, length);
    }
    CHECK(!any);
}

/* A file in memory whose one segment ends `room` bytes behind the begin of its strings. */
static int soname_of(uint64_t room, uint64_t string_bytes, char name[SP_ELF_NAME])
{
    enum { DYNAMIC_AT = 192, STRINGS_AT = 320, BYTES = 512, ADDRESS = 0x10000 };
    static struct sp_elf elf;
    static unsigned char bytes[BYTES];
    struct sp_error error;
    const Elf64_Ehdr header = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_DYN,
        .e_machine = EM_X86_64,
        .e_phoff = sizeof header,
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = 2,
    };
    const Elf64_Phdr segments[] = {
        {.p_type = PT_LOAD, .p_vaddr = ADDRESS, .p_filesz = STRINGS_AT + room},
        {.p_type = PT_DYNAMIC, .p_offset = DYNAMIC_AT, .p_filesz = 4 * sizeof(Elf64_Dyn)},
    };
    const Elf64_Dyn entries[] = {
        {.d_tag = DT_STRTAB, .d_un.d_ptr = ADDRESS + STRINGS_AT},
        {.d_tag = DT_STRSZ, .d_un.d_val = string_bytes},
        {.d_tag = DT_SONAME, .d_un.d_val = 1},
        {.d_tag = DT_NULL},
    };
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, &header, sizeof header);
    memcpy(bytes + sizeof header, segments, sizeof segments);
    memcpy(bytes + DYNAMIC_AT, entries, sizeof entries);
    memcpy(bytes + STRINGS_AT + 1, "libx.so", 8);
    elf = (struct sp_elf){.memory = bytes, .size = sizeof bytes};
    return sp_elf_read(&elf, "made", &error) == 0 && sp_elf_soname(&elf, name) ? 0 : -1;
}

static void test_edges_of_a_segment(void)
{
    char name[SP_ELF_NAME];
    CHECK(soname_of(16, 9, name) == 0 && strcmp(name, "libx.so") == 0);
    CHECK(soname_of(1, 9, name) == 0);
    CHECK(soname_of(0, 9, name) != 0); /* the strings begin where the segment ends */
    CHECK(soname_of(16, 8, name) != 0); /* the string has no end in its table */
    CHECK(soname_of(16, 1, name) != 0);
}

static void test_elf(void)
{
    static struct sp_elf elf;
    struct sp_error error;
    elf.descriptor = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    elf.size = (uint64_t)lseek(elf.descriptor, 0, SEEK_END);
    CHECK(sp_elf_read(&elf, "self", &error) == 0);
    CHECK(sp_elf_needs(&elf, "libc.so."));
    CHECK(!sp_elf_needs(&elf, "libmpi"));
    CHECK(!sp_elf_defines(&elf, "GLIBC_2.34"));
    CHECK(!sp_elf_exports(&elf, "MPI_Init"));
    CHECK(same(sp_abi_of(&elf), "unknown"));
    elf.size = 100;
    CHECK(sp_elf_read(&elf, "cut off", &error) != 0);
    (void)close(elf.descriptor);
    elf = (struct sp_elf){.memory = (const unsigned char *)"#!/bin/sh", .size = 9};
    CHECK(sp_elf_read(&elf, "script", &error) != 0 && error.reason == SP_INVALID_VALUE);
}

static void put_word(char *at, uint32_t value)
{
    memcpy(at, &value, sizeof value);
}

static void test_caches(void)
{
    char cache[128] = "";
    size_t step = 0;
    memcpy(cache + 16, "glibc-ld.so.cache1.1", 21); /* behind an older format */
    char *start = cache + 16;
    put_word(start + 20, 1);
    put_word(start + 48 + 4, 72);
    put_word(start + 48 + 8, 79);
    memcpy(start + 72, "libx.so\0/lib/libx.so", 21);
    put_word(start + 48 + 8, 80);
    CHECK(same(sp_ldcache_next(cache, sizeof cache, "libx.so", &step), "/lib/libx.so"));
    CHECK(sp_ldcache_next(cache, sizeof cache, "libx.so", &step) == NULL);
    step = 0;
    CHECK(sp_ldcache_next(cache, sizeof cache, "liby.so", &step) == NULL);
    put_word(start + 20, UINT32_MAX);
    put_word(start + 48 + 8, UINT32_MAX);
    step = 0;
    CHECK(sp_ldcache_next(cache, sizeof cache, "libx.so", &step) == NULL);
    step = 0;
    CHECK(sp_ldcache_next(cache, 40, "libx.so", &step) == NULL);
    CHECK(sp_ldcache_next(cache, 0, "libx.so", &step) == NULL);
}

/* Each of a third of a million entries names a text that ends eight megabytes later. Looking for
 * that end took twenty seconds for each library that was asked for. */
static void test_a_cache_that_is_slow_to_read(void)
{
    enum { BYTES = 8 << 20, ENTRIES = BYTES / 24 - 3, SECONDS = 8 };
    char *cache = malloc(BYTES);
    size_t step = 0;
    if (cache == NULL) {
        abort();
    }
    memset(cache, 'x', BYTES);
    memcpy(cache, "glibc-ld.so.cache1.1", 20);
    put_word(cache + 20, ENTRIES);
    for (size_t entry = 0; entry < ENTRIES; entry++) {
        put_word(cache + 48 + entry * 24 + 4, 1);
        put_word(cache + 48 + entry * 24 + 8, 1);
    }
    cache[BYTES - 1] = '\0';
    (void)alarm(SECONDS); /* ends this program */
    CHECK(sp_ldcache_next(cache, BYTES, "libx.so", &step) == NULL);
    (void)alarm(0);
    free(cache);
}

int main(void)
{
    test_a_cache_that_is_slow_to_read();
    test_documents();
    test_values();
    test_environment();
    test_bundles();
    test_manifests();
    test_elf();
    test_edges_of_a_segment();
    test_caches();
    (void)printf("1..%d\n", count);
    return failures == 0 ? 0 : 1;
}
