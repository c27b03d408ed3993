#include "unsquash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "child.h"
#include "meta.h"

/* Gets the bytes of an image's `meta/env.json`; unsquashfs decides what is in an image. */
int unsquash_meta(struct sp_arena *arena, const char *path, const char **text, size_t *length,
                  struct sp_error *error)
{
    static const char *const names[] = {"PATH", "HOME", "TMPDIR"};
    char *variables[sizeof names / sizeof names[0] + 2] = {NULL};
    char language[] = "LANG=C.UTF-8";
    char words[5][32] = {"unsquashfs", "-processors", "1", "-cat", "meta/env.json"};
    char *image = sp_arena_copy(arena, path, strlen(path));
    char *argv[] = {words[0], words[1], words[2], words[3], image, words[4], NULL};
    size_t count = 0;
    struct child child;
    int started = 0;
    variables[count++] = language;
    for (size_t name = 0; name < sizeof names / sizeof names[0]; name++) {
        const char *value = getenv(names[name]);
        size_t room = value != NULL ? strlen(names[name]) + strlen(value) + 2 : 0;
        variables[count] = value != NULL ? sp_arena_take(arena, room) : NULL;
        if (variables[count] != NULL) {
            (void)snprintf(variables[count++], room, "%s=%s", names[name], value);
        }
    }
    if (image == NULL) {
        return sp_fail(error, SP_IMAGE_NO_META, "no memory");
    }
    int result = child_run(argv, variables, META_BYTES, &child, &started);
    *text = NULL;
    if (!started) {
        (void)sp_fail(error, SP_TOOL_MISSING, "cannot start `unsquashfs`: %s",
                      strerror(child.fault));
        (void)sp_hint(error, "install squashfs-tools here, or name each mount point and no "
                                     "view: --image=IMAGE:MOUNT --view=none");
    } else if (result != 0 || !WIFEXITED(child.status) || WEXITSTATUS(child.status) != 0 ||
               child.length == 0) {
        (void)sp_fail(error, SP_IMAGE_NO_META,
                      "image `%s` has no `meta/env.json`, or one that is too large", path);
    } else {
        *text = sp_arena_copy(arena, child.output, child.length);
        *length = child.length;
    }
    child_free(&child);
    return *text != NULL ? 0 : -1;
}
