/* A pack that is one file: this launcher, and the pack behind it as a SquashFS image.
 *
 * The first rank on a node mounts the image where only ranks of this user see it, the others join
 * it (mounts/meeting.c), and each becomes the entry point of its program in there.
 *
 *   FILE [PROGRAM] [ARGUMENT…]     PROGRAM is left out where the pack was made of one, and
 *                                  where a link to FILE has a program's name
 *   FILE --pack-list               print the programs
 *   FILE --pack-extract FOLDER     unpack the pack to a folder, and do no more
 */
#include "self.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

enum { FOLDER_MODE = 0755 };

long own_file;
struct part image;

static const char *own_path;

static int is(const char *text, const char *other)
{
    const char *rest = after(text, other);
    return rest != NULL && *rest == '\0';
}

const char *without_namespaces(void)
{
    return joined("unpack it once, `", own_path,
                  " --pack-extract FOLDER`: what is in FOLDER/bin needs no mount");
}

static const char *base(const char *path)
{
    const char *name = path;
    for (; *path != '\0'; path++) {
        name = *path == '/' ? path + 1 : name;
    }
    return name;
}

static int is_program(const char *name)
{
    for (const char *record = table; *record != '\0'; record = next(record)) {
        if (*record == 'B' && is(record + 1, name)) {
            return 1;
        }
    }
    return 0;
}

__attribute__((noreturn)) static void list(void)
{
    for (const char *record = table; *record != '\0'; record = next(record)) {
        if (*record == 'B') {
            const char *line = joined(record + 1, "\n", "");
            call(SYS_write, 1, (long)line, (long)length(line), 0);
        }
    }
    for (;;) {
        call(SYS_exit_group, 0, 0, 0, 0);
    }
}

int unpack(const char *folder)
{
    long child = call_with_five(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        const char *file = joined("/proc/self/fd/", text_of((unsigned long)own_file), "");
        const char *const last[] = {"-q",   "-n", "-no-xattrs",          "-f", "-d",
                                    folder, "-o", text_of(image.offset), file, NULL};
        call(SYS_fcntl, own_file, F_SETFD, 0, 0);
        become_tool("unsquashfs", last);
        stop("this file carries nothing that unpacks it: ", own_path, "pack it again");
    }
    int status = -1;
    return call(SYS_wait4, child, (long)&status, 0, 0) == child && status == 0;
}

__attribute__((noreturn)) static void extract(const char *folder)
{
    if (folder == NULL) {
        stop("`--pack-extract` needs a folder", "", "name one that is not there yet");
    }
    char *part = joined(folder, ".part", "");
    long fault = call(SYS_faccessat, AT_FDCWD, (long)folder, 0, 0);
    if (fault == 0) {
        stop_at("the pack cannot be unpacked to ", folder, -EEXIST,
                "name a folder that is not there yet");
    }
    fault = call(SYS_mkdirat, AT_FDCWD, (long)part, FOLDER_MODE, 0);
    if (fault != 0) {
        stop_at("the pack cannot be unpacked, by way of ", part, fault,
                "remove what an unpacking that was stopped has left, or name a folder where you "
                "may write");
    }
    if (!unpack(part)) {
        stop("the pack is unpacked in part only: ", part, "remove that, and make room");
    }
    fault = call(SYS_renameat2, AT_FDCWD, (long)part, AT_FDCWD, (long)folder);
    if (fault != 0) {
        stop_at("the pack cannot be given its name: ", part, fault, "rename it");
    }
    for (;;) {
        call(SYS_exit_group, 0, 0, 0, 0);
    }
}

/* The program to become; `count` and `given` are changed to its arguments. */
static const char *chosen(size_t *count, char ***given)
{
    const char *called = *count > 0 ? base((*given)[0]) : "";
    const char *first = *count > 1 ? (*given)[1] : "";
    if (is(first, "--pack-list")) {
        list();
    }
    if (is(first, "--pack-extract")) {
        extract(*count > 2 ? (*given)[2] : NULL);
    }
    if (is_program(called)) {
        return called;
    }
    if (find('G') != NULL) {
        return find('G');
    }
    if (!is_program(first)) {
        stop(first[0] == '\0' ? "no program is named" : "the pack has no such program: ", first,
             joined("name one first; `", own_path, " --pack-list` prints them"));
    }
    *count -= 1;
    *given += 1;
    return first;
}

__attribute__((noreturn)) static void start(size_t count, char **given, char **environment)
{
    const char *name = chosen(&count, &given);
    const char *how = meet(find('J'));
    const char *place = joined(find('J'), "/bin/", name);
    if (valued(environment, "STACKPROOF_PACK_EXPLAIN") != NULL) {
        say("stackproof pack: one file, ");
        say(how);
        say(mounted_by());
        say(": ");
        say(place);
        say("\n");
    }
    if (count > 0) {
        given[0] = joined(place, "", "");
    }
    long fault = call(SYS_execve, (long)place, (long)given, (long)environment, 0);
    stop_at("the program cannot be started: ", place, fault, "copy the file again");
}

void begin(long *stack)
{
    size_t count = (size_t)stack[0];
    char **given = (char **)(stack + 1);
    char **environment = given + count + 1;
    started_without_rights(environment);
    own_path = target_of("/proc/self/exe");
    own_file = open_at("/proc/self/exe", O_RDONLY);
    if (own_file < 0) {
        stop("this file cannot read itself", "", "start it where /proc is mounted");
    }
    if (find('J') == NULL) {
        stop("this file is no pack yet: ", own_path, "make one with `stackproof pack`");
    }
    image.offset = number_of(find('O'));
    image.bytes = number_of(find('Z'));
    start(count, given, environment);
}
