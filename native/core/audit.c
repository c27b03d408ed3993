#include "audit.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "text.h"

/* LOG_AUTHPRIV | LOG_NOTICE of syslog.h, whose functions are not wanted. */
enum { PRIORITY = (10 << 3) | 5, LINE_BYTES = 1024, SHOWN_BYTES = 700 };

static int connect_to_log(void)
{
    const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/dev/log"};
    int log = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (log >= 0 && connect(log, (const struct sockaddr *)&address, sizeof address) != 0) {
        (void)close(log);
        return -1;
    }
    return log;
}

void sp_audit(const char *program, uid_t user, const struct sp_plan *plan)
{
    int log = connect_to_log();
    for (size_t index = 0; log >= 0 && index < plan->count; index++) {
        const struct sp_step *step = &plan->steps[index];
        char line[LINE_BYTES];
        struct stat state;
        memset(&state, 0, sizeof state);
        (void)fstat(step->image.descriptor, &state);
        (void)snprintf(line, sizeof line,
                       "<%d>%s[%ld]: uid %lu mounts inode %llu of device %llx, owner %lu, at "
                       "%.200s: %.*s",
                       PRIORITY, program, (long)getpid(), (unsigned long)user,
                       (unsigned long long)state.st_ino, (unsigned long long)state.st_dev,
                       (unsigned long)state.st_uid, step->mount_point, SHOWN_BYTES,
                       step->image_path);
        sp_text_make_printable(line);
        (void)send(log, line, strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (log >= 0) {
        (void)close(log);
    }
}
