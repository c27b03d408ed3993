#include "loop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "kernel.h"
#include "text.h"

enum {
    TRIES = 256,
    TRIES_WITHOUT_PAUSE = 16, /* the other program is done by then, unless there are many */
    PAUSE_NANOSECONDS = 1000000,
    LOOP_DEVICE_MAJOR = 7, /* linux/major.h */
    SECTOR_BYTES = 512,
    IDLE_DEVICES = 16, /* that stay: the kernel hands out the lowest, so others are not disturbed */
    TOO_MANY_IDLE = 24,
    NUMBERS = 4096,
    MOST_DEVICES = 1 << 20, /* as many minor numbers as Linux has */
    LIST_BYTES = 1024, /* read at once; a line has less than 100 */
    KIB = 1024,
    MOST_DIGITS = 18,
};

static int not_permitted(struct sp_error *error, const char *device, int fault)
{
    (void)sp_fail(error, fault == ENOENT ? SP_MOUNT_FAILED : SP_NOT_PERMITTED,
                  "cannot use loop device `%s`: %s", device, strerror(fault));
    return sp_hint(error, "the kernel module `loop` must be loaded, and containers given its "
                          "devices; or mount with squashfuse: --way=userns");
}

/* The name of a device says whose it is; of which file, the kernel says itself. */
static void write_name(const struct sp_loop_owner *owner, char *name, size_t room)
{
    sp_text_numbered(name, room, "stackproof:", owner == NULL ? 0UL : (unsigned long)owner->user);
    sp_text_append(name, room, ":");
}

static struct loop_info64 information(const struct sp_loop_owner *owner, const char *path)
{
    struct loop_info64 info = {.lo_flags = LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR};
    char *name = (char *)info.lo_file_name;
    write_name(owner, name, sizeof info.lo_file_name);
    sp_text_append(name, sizeof info.lo_file_name, path);
    return info;
}

/* Sets a device up by two calls, as before Linux 5.8. Only between them does the device outlive a
 * process that is killed. */
static int configure_in_two_steps(int device, int image, const struct loop_info64 *info)
{
    if (ioctl(device, LOOP_SET_FD, image) != 0) {
        return -1;
    }
    if (ioctl(device, LOOP_SET_STATUS64, info) != 0) {
        int fault = errno;
        (void)ioctl(device, LOOP_CLR_FD, 0);
        errno = fault;
        return -1;
    }
    return 0;
}

static int configure(int device, int image, const struct loop_info64 *info, unsigned flags)
{
    struct sp_loop_config config = {
        .descriptor = (uint32_t)image,
        .info = *info,
    };
    if ((flags & SP_OLD_KERNEL) == 0) {
        if (ioctl(device, SP_LOOP_CONFIGURE, &config) == 0) {
            return 0;
        }
        if (errno != EINVAL && errno != ENOTTY && errno != ENOSYS) {
            return -1;
        }
    }
    return configure_in_two_steps(device, image, &config.info);
}

/* Opens a device by its number; -1 with errno. */
static int open_device(int number, char *name)
{
    struct stat state;
    sp_text_numbered(name, SP_DEVICE_NAME_BYTES, "/dev/loop", (unsigned long)number);
    int device = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (device < 0) {
        return -1;
    }
    if (fstat(device, &state) != 0 || !S_ISBLK(state.st_mode) ||
        major(state.st_rdev) != LOOP_DEVICE_MAJOR) {
        (void)close(device);
        errno = ENODEV;
        return -1;
    }
    return device;
}

/* Opens the device that the kernel says is free; -1 with errno. */
static int open_free_device(int control, char *name)
{
    int number = ioctl(control, LOOP_CTL_GET_FREE);
    return number < 0 ? -1 : open_device(number, name);
}

static bool another_was_faster(int fault)
{
    return fault == EBUSY || fault == ENXIO || fault == EINTR;
}

/* What devices in use are looked through for, and how many were seen. */
struct survey {
    const struct sp_image *image; /* whose file one may have already; or NULL */
    const char *own_name;         /* that those of a user begin with; or NULL: not counted */
    struct sp_loop *loop;
    unsigned used;
    unsigned owned;
};

/* Returns whether a device has the whole of a file as this library attaches it. */
static bool has_file(const struct loop_info64 *info, const struct sp_image *image)
{
    uint32_t wanted = LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR;
    return info->lo_device == image->device && info->lo_inode == image->inode &&
           info->lo_offset == 0 && info->lo_sizelimit == 0 && info->lo_flags == wanted &&
           strncmp((const char *)info->lo_file_name, "stackproof:", strlen("stackproof:")) == 0;
}

/* Looks at a device that is in use; returns whether the loop has become it. Open, it stays what it
 * is: the kernel frees a device with its last user alone. */
static bool look_at(int number, struct survey *survey)
{
    struct loop_info64 info;
    int device = open_device(number, survey->loop->name);
    if (device < 0) {
        return false;
    }
    if (ioctl(device, LOOP_GET_STATUS64, &info) == 0) {
        const char *name = (const char *)info.lo_file_name;
        survey->owned += survey->own_name != NULL &&
                         strncmp(name, survey->own_name, strlen(survey->own_name)) == 0;
        if (survey->image != NULL && has_file(&info, survey->image)) {
            survey->loop->descriptor = device;
            return true;
        }
    }
    (void)close(device);
    return false;
}

/* Returns the number that all of a text is; -1 where it is none, or a large one. */
static int64_t number_in(const char *text)
{
    int64_t number = 0;
    size_t length = strlen(text);
    if (length == 0 || length > MOST_DIGITS) {
        return -1;
    }
    for (size_t index = 0; index < length; index++) {
        if (text[index] < '0' || text[index] > '9') {
            return -1;
        }
        number = number * 10 + (text[index] - '0');
    }
    return number;
}

/* Returns the number in a device's name, -1 where it is none of a whole loop device. */
static int number_of(const char *name)
{
    int64_t number = strncmp(name, "loop", 4) == 0 ? number_in(name + 4) : -1;
    return number <= MOST_DEVICES ? (int)number : -1;
}

/* Looks at the device of a line of /proc/partitions (major, minor, KiB, name) where that is needed:
 * only one of the same size can have the file. Returns whether it has. */
static bool look_at_line(char *line, struct survey *survey)
{
    char *name = strrchr(line, ' ');
    int number = name == NULL ? -1 : number_of(name + 1);
    if (number < 0) {
        return false;
    }
    survey->used++;
    *name = '\0';
    const char *size = strrchr(line, ' ');
    bool alike = survey->image != NULL && size != NULL &&
                 number_in(size + 1) == (int64_t)(survey->image->size / KIB);
    return (alike || survey->own_name != NULL) && look_at(number, survey);
}

/* Looks at the devices of a piece of the list, line by line; returns whether one has the file. What
 * is left over, the beginning of a line, goes to the front of the text. */
static bool look_at_lines(char *text, struct survey *survey)
{
    bool found = false;
    char *line = text;
    for (char *end = strchr(line, '\n'); !found && end != NULL; end = strchr(line, '\n')) {
        *end = '\0';
        found = look_at_line(line, survey);
        line = end + 1;
    }
    memmove(text, line, strlen(line) + 1);
    return found;
}

/* Looks through all devices in use, which are those with a size; returns whether one has the file.
 * One list of the kernel's tells them: each look into /sys would be a path of its own. Without it
 * nothing is found. (Read by `read`: stdio would double what the list costs.) */
static bool look_through(struct survey *survey)
{
    char text[LIST_BYTES];
    bool found = false;
    ssize_t length = 1;
    text[0] = '\0';
    int list = open("/proc/partitions", O_RDONLY | O_CLOEXEC);
    while (list >= 0 && !found && length > 0) {
        size_t held = strlen(text);
        length = read(list, text + held, sizeof text - 1 - held);
        text[held + (size_t)(length > 0 ? length : 0)] = '\0';
        found = look_at_lines(text, survey);
    }
    if (list >= 0) {
        (void)close(list);
    }
    return found;
}

/* Returns how many devices a user has at most: they are only looked at where all that are in use
 * would be too many. */
static unsigned count_owned(const struct sp_loop_owner *owner, unsigned used)
{
    char own_name[SP_DEVICE_NAME_BYTES];
    struct sp_loop looked_at = {.descriptor = -1};
    struct survey survey = {.own_name = own_name, .loop = &looked_at};
    if (used < owner->most) {
        return used;
    }
    write_name(owner, own_name, sizeof own_name);
    (void)look_through(&survey);
    return survey.owned;
}

/* Returns how many devices nobody uses, and their numbers. */
static size_t idle_devices(int *numbers)
{
    size_t count = 0;
    DIR *stream = opendir("/sys/block");
    if (stream == NULL) {
        return 0;
    }
    for (const struct dirent *entry = readdir(stream); entry != NULL && count < NUMBERS;
         entry = readdir(stream)) {
        char path[sizeof entry->d_name + 32];
        int number = number_of(entry->d_name);
        (void)snprintf(path, sizeof path, "/sys/block/%s/loop/backing_file", entry->d_name);
        if (number >= 0 && access(path, F_OK) != 0) {
            numbers[count++] = number;
        }
    }
    (void)closedir(stream);
    return count;
}

static int compare_numbers(const void *left, const void *right)
{
    return *(const int *)left - *(const int *)right;
}

/* As the kernel hands out the lowest number, there can only be too many where a high one exists: so
 * high that none which stays has it, or each mount would look for idle ones in vain. */
static bool may_be_too_many(unsigned used)
{
    char path[SP_DEVICE_NAME_BYTES];
    sp_text_numbered(path, sizeof path, "/dev/loop", used + TOO_MANY_IDLE);
    return access(path, F_OK) == 0;
}

/* Gives devices back that nobody uses; whoever takes one meanwhile keeps it (EBUSY). */
static void remove_idle(int control)
{
    int numbers[NUMBERS];
    size_t idle = idle_devices(numbers);
    qsort(numbers, idle, sizeof numbers[0], compare_numbers);
    for (size_t index = idle; index > IDLE_DEVICES; index--) {
        (void)ioctl(control, LOOP_CTL_REMOVE, numbers[index - 1]);
    }
}

static int attach(int control, const struct sp_image *image, const struct loop_info64 *info,
                  unsigned flags, struct sp_loop *loop)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NANOSECONDS};
    for (int attempt = 0; attempt < TRIES; attempt++) {
        int device = open_free_device(control, loop->name);
        if (device >= 0) {
            if (configure(device, image->descriptor, info, flags) == 0) {
                loop->descriptor = device;
                return 0;
            }
            int fault = errno;
            (void)close(device);
            errno = fault;
        }
        if (!another_was_faster(errno)) {
            return -1;
        }
        if (attempt >= TRIES_WITHOUT_PAUSE) {
            (void)nanosleep(&pause, NULL);
        }
    }
    errno = EBUSY;
    return -1;
}

/* Shares a device, or finds out that another one may be taken; -1 where it may not. */
static int prepare(int control, const struct sp_image *image, const struct sp_loop_owner *owner,
                   unsigned flags, struct sp_loop *loop, struct sp_error *error)
{
    bool may_share = (flags & SP_OWN_DEVICE) == 0;
    struct survey survey = {.image = may_share ? image : NULL, .loop = loop};
    if (look_through(&survey)) {
        return 0;
    }
    if (may_be_too_many(survey.used)) {
        remove_idle(control);
    }
    unsigned owned = owner == NULL ? 0 : count_owned(owner, survey.used);
    if (owner != NULL && owned >= owner->most) {
        (void)sp_fail(error, SP_NOT_PERMITTED,
                      "your images hold %u loop devices of this machine; more are not permitted",
                      owned);
        return sp_hint(error, "end what uses them, or mount with squashfuse: --way=userns");
    }
    return 0;
}

int sp_loop_attach(const struct sp_image *image, const char *path,
                   const struct sp_loop_owner *owner, unsigned flags, struct sp_loop *loop,
                   struct sp_error *error)
{
    struct loop_info64 info = information(owner, path);
    *loop = (struct sp_loop){.descriptor = -1};
    if (image->size % SECTOR_BYTES != 0) {
        (void)sp_fail(error, SP_MOUNT_FAILED,
                      "`%s` has %llu bytes; the kernel needs whole sectors of %d", path,
                      (unsigned long long)image->size, SECTOR_BYTES);
        return sp_hint(error, "make the image without `-nopad`, or use --way=userns");
    }
    int control = open("/dev/loop-control", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (control < 0) {
        return not_permitted(error, "/dev/loop-control", errno);
    }
    int result = prepare(control, image, owner, flags, loop, error);
    if (result != 0 || loop->descriptor >= 0) {
        (void)close(control);
        return result;
    }
    result = attach(control, image, &info, flags, loop);
    int fault = errno;
    (void)close(control);
    if (result == 0) {
        return 0;
    }
    if (fault == EACCES || fault == EPERM || fault == ENOENT || fault == ENODEV) {
        return not_permitted(error, loop->name[0] == '\0' ? "/dev/loop-control" : loop->name,
                             fault);
    }
    return sp_fail(error, SP_MOUNT_FAILED, "cannot attach `%s` to a loop device: %s", path,
                   strerror(fault));
}

void sp_loop_release(struct sp_loop *loop)
{
    if (loop->descriptor >= 0) {
        (void)close(loop->descriptor);
    }
    loop->descriptor = -1;
}
