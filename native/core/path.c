#include "path.h"

#include <string.h>

bool sp_path_has_dots(const char *path, size_t length)
{
    size_t start = 0;
    for (size_t index = 0; index <= length; index++) {
        if (index == length || path[index] == '/') {
            size_t part = index - start;
            if (part > 0 && part <= 2 && memcmp(path + start, "..", part) == 0) {
                return true;
            }
            start = index + 1;
        }
    }
    return false;
}

size_t sp_path_write_normal(const char *path, size_t length, char *target)
{
    size_t used = 0;
    for (size_t index = 0; index < length; index++) {
        if (path[index] != '/' || used == 0 || target[used - 1] != '/') {
            target[used++] = path[index];
        }
    }
    if (used > 1 && target[used - 1] == '/') {
        used--;
    }
    target[used] = '\0';
    return used;
}

bool sp_path_is_inside(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    if (length == 1) {
        return path[0] == '/'; /* the root folder */
    }
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == '\0');
}
