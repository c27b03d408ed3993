#include "search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inside.h"
#include "ldcache.h"

/* What loaders of the usual distributions search at last, whatever the machine. */
static const char *const usual[] = {
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
};

static void add_folder(struct sp_search *search, const char *folder)
{
    if (folder[0] == '/' && search->folder_count < SP_SEARCH_FOLDERS) {
        search->folders[search->folder_count++] = folder;
    }
}

void sp_search_begin(struct sp_search *search, int root, const char *const *folders, size_t count,
                     const char *library_path)
{
    *search = (struct sp_search){.root = root};
    for (size_t index = 0; index < count; index++) {
        add_folder(search, folders[index]);
    }
    search->memory = strdup(library_path);
    char *rest = search->memory;
    while (rest != NULL) {
        char *folder = rest;
        rest = strpbrk(folder, ":;");
        if (rest != NULL) {
            *rest++ = '\0';
        }
        add_folder(search, folder);
    }
    search->cache =
        sp_inside_read(root, "/etc/ld.so.cache", SP_LDCACHE_BYTES, &search->cache_bytes);
}

bool sp_search_add(const struct sp_search *search, const char *path, struct sp_found_list *found)
{
    struct stat state;
    if (found->count == SP_SEARCH_FILES || strlen(path) >= PATH_MAX) {
        return false;
    }
    int descriptor = sp_inside_open(search->root, path, 0);
    if (descriptor < 0) {
        return false;
    }
    bool known = fstat(descriptor, &state) != 0 || !S_ISREG(state.st_mode);
    bool regular = !known;
    for (size_t index = 0; index < found->count && !known; index++) {
        known = found->files[index].device == state.st_dev &&
                found->files[index].number == state.st_ino;
    }
    if (known) {
        (void)close(descriptor);
        return regular;
    }
    struct sp_found *file = &found->files[found->count++];
    file->descriptor = descriptor;
    file->device = state.st_dev;
    file->number = state.st_ino;
    (void)snprintf(file->path, sizeof file->path, "%s", path);
    return true;
}

static void find_in(const struct sp_search *search, const char *folder, const char *name,
                    struct sp_found_list *found)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length > 0 && (size_t)length < sizeof path) {
        (void)sp_search_add(search, path, found);
    }
}

void sp_search_find(const struct sp_search *search, const char *name, size_t most,
                    struct sp_found_list *found)
{
    size_t step = 0;
    const char *path = NULL;
    for (size_t index = 0; index < search->folder_count && found->count < most; index++) {
        find_in(search, search->folders[index], name, found);
    }
    while (search->cache != NULL && found->count < most &&
           (path = sp_ldcache_next(search->cache, search->cache_bytes, name, &step)) != NULL) {
        (void)sp_search_add(search, path, found);
    }
    for (size_t index = 0; index < sizeof usual / sizeof usual[0] && found->count < most; index++) {
        find_in(search, usual[index], name, found);
    }
}

void sp_found_close(struct sp_found_list *found)
{
    for (size_t index = 0; index < found->count; index++) {
        (void)close(found->files[index].descriptor);
    }
    found->count = 0;
}

void sp_search_end(struct sp_search *search)
{
    free(search->memory);
    free(search->cache);
    search->memory = NULL;
    search->cache = NULL;
}
