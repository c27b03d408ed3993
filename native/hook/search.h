/* Where a container has a library: every file of a name in the folders that loaders look into. */
#ifndef STACKPROOF_SEARCH_H
#define STACKPROOF_SEARCH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { SP_SEARCH_FOLDERS = 128, SP_SEARCH_FILES = 16 };

/* The folders of a container's root that are looked into, the first ones first. The folders' names
 * are the caller's, or in `memory`. */
struct sp_search {
    int root;
    size_t folder_count;
    const char *folders[SP_SEARCH_FOLDERS];
    char *memory;
    char *cache;
    size_t cache_bytes;
};

/* A file that was found: open by O_PATH. */
struct sp_found {
    int descriptor;
    dev_t device;
    ino_t number;
    char path[PATH_MAX];
};

struct sp_found_list {
    size_t count;
    struct sp_found files[SP_SEARCH_FILES];
};

/* Begins a search: `folders` that are known, LD_LIBRARY_PATH (may be empty), then the container's
 * ld.so.cache and the folders that every loader knows. */
void sp_search_begin(struct sp_search *search, int root, const char *const *folders, size_t count,
                     const char *library_path);

/* Finds regular files of a name, each once, in the order of the folders: at most `most`. */
void sp_search_find(const struct sp_search *search, const char *name, size_t most,
                    struct sp_found_list *found);

/* Adds one file by its path in the container; false where there is no regular file. */
bool sp_search_add(const struct sp_search *search, const char *path, struct sp_found_list *found);

void sp_found_close(struct sp_found_list *found);

void sp_search_end(struct sp_search *search);

#endif
