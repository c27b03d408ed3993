#include "audit.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "text.h"

enum {
    PRIORITY = (10 << 3) | 5, /* LOG_AUTHPRIV | LOG_NOTICE; no function of syslog.h is wanted */
    LINE_BYTES = 1024,
    ROOM_BEFORE_IMAGE = 400, /* of a line: the path of the image has the rest */
};

static void write_line(const char *program, uid_t user, const struct sp_step *step, char *line)
{
    struct stat state;
    memset(&state, 0, sizeof state);
    (void)fstat(step->image.descriptor, &state);
    sp_text_numbered(line, ROOM_BEFORE_IMAGE, "<", PRIORITY);
    sp_text_append(line, ROOM_BEFORE_IMAGE, ">");
    sp_text_append(line, ROOM_BEFORE_IMAGE, program);
    sp_text_append_number(line, ROOM_BEFORE_IMAGE, "[", (uint64_t)getpid());
    sp_text_append_number(line, ROOM_BEFORE_IMAGE, "]: uid ", user);
    sp_text_append_number(line, ROOM_BEFORE_IMAGE, " mounts inode ", state.st_ino);
    sp_text_append_number(line, ROOM_BEFORE_IMAGE, " of device ", major(state.st_dev));
    sp_text_append_number(line, ROOM_BEFORE_IMAGE, ":", minor(state.st_dev));
    sp_text_append_number(line, ROOM_BEFORE_IMAGE, ", owner ", state.st_uid);
    sp_text_append(line, ROOM_BEFORE_IMAGE, ", at ");
    sp_text_append(line, ROOM_BEFORE_IMAGE, step->mount_point);
    sp_text_append(line, LINE_BYTES, ": ");
    sp_text_append(line, LINE_BYTES, step->image_path);
    sp_text_make_printable(line);
}

void sp_audit(const char *program, uid_t user, const struct sp_plan *plan)
{
    const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/dev/log"};
    if (access(address.sun_path, F_OK) != 0) { /* as in most containers */
        return;
    }
    int log = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    for (size_t index = 0; log >= 0 && index < plan->count; index++) {
        char line[LINE_BYTES];
        write_line(program, user, &plan->steps[index], line);
        (void)sendto(log, line, strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT,
                     (const struct sockaddr *)&address, sizeof address);
    }
    if (log >= 0) {
        (void)close(log);
    }
}
