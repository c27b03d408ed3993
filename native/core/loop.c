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

enum {
    TRIES = 256,
    TRIES_WITHOUT_PAUSE = 16, /* the other program is done by then, unless there are many */
    PAUSE_NANOSECONDS = 1000000,
    LOOP_DEVICE_MAJOR = 7, /* linux/major.h */
    SECTOR_BYTES = 512,
    IDLE_DEVICES = 16, /* that stay: the kernel hands out the lowest, so others are not disturbed */
    NUMBERS = 4096,
    MOST_DEVICES = 1 << 20, /* as many minor numbers as Linux has */
    LIST_BYTES = 1024, /* read at once; a line has less than 100 */
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
    (void)snprintf(name, room, "stackproof:%lu:", owner == NULL ? 0UL : (unsigned long)owner->user);
}

static struct loop_info64 information(const struct sp_loop_owner *owner, const char *path)
{
    struct loop_info64 info = {.lo_flags = LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR};
    char *name = (char *)info.lo_file_name;
    write_name(owner, name, sizeof info.lo_file_name);
    size_t length = strlen(name);
    (void)snprintf(name + length, sizeof info.lo_file_name - length, "%s", path);
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
    (void)snprintf(name, SP_DEVICE_NAME_BYTES, "/dev/loop%d", number);
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

/* Devices that are in use. */
struct survey {
    unsigned used;
    unsigned owned; /* attached for the user */
};

/* Returns whether a device has the whole of a file as this library attaches it. */
static bool has_file(const struct loop_info64 *info, const struct stat *file)
{
    uint32_t wanted = LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR;
    return info->lo_device == file->st_dev && info->lo_inode == file->st_ino &&
           info->lo_offset == 0 && info->lo_sizelimit == 0 && info->lo_flags == wanted &&
           strncmp((const char *)info->lo_file_name, "stackproof:", strlen("stackproof:")) == 0;
}

/* Looks at a device that is in use; returns whether `loop` has become it. Open, it stays what it
 * is: the kernel frees a device with its last user alone. */
static bool look_at(int number, const char *own_name, const struct stat *file,
                    struct survey *survey, struct sp_loop *loop)
{
    struct loop_info64 info;
    int device = open_device(number, loop->name);
    if (device < 0) {
        return false;
    }
    if (ioctl(device, LOOP_GET_STATUS64, &info) == 0) {
        const char *name = (const char *)info.lo_file_name;
        survey->owned += strncmp(name, own_name, strlen(own_name)) == 0;
        if (has_file(&info, file)) {
            loop->descriptor = device;
            return true;
        }
    }
    (void)close(device);
    return false;
}

/* Returns the number in a device's name, -1 where it is none of a whole loop device. */
static int number_of(const char *name)
{
    char *end = NULL;
    if (strncmp(name, "loop", 4) != 0 || name[4] < '0' || name[4] > '9') {
        return -1;
    }
    long number = strtol(name + 4, &end, 10);
    return *end == '\0' && number <= MOST_DEVICES ? (int)number : -1;
}

/* Looks at the devices of a piece of /proc/partitions, line by line; returns whether one has the
 * file. What is left over, the beginning of a line, goes to the front of the text. */
static bool look_at_lines(char *text, const char *own_name, const struct stat *file,
                          struct survey *survey, struct sp_loop *loop)
{
    bool found = false;
    char *line = text;
    for (char *end = strchr(line, '\n'); !found && end != NULL; end = strchr(line, '\n')) {
        *end = '\0';
        const char *name = strrchr(line, ' '); /* major, minor, blocks, name */
        int number = name == NULL ? -1 : number_of(name + 1);
        survey->used += number >= 0;
        found = number >= 0 && look_at(number, own_name, file, survey, loop);
        line = end + 1;
    }
    memmove(text, line, strlen(line) + 1);
    return found;
}

/* Looks at all devices in use, which are those with a size; returns whether one has the file. One
 * list of the kernel's tells them: each look into /sys would be a path of its own. Without it
 * nothing is found. (Read by `read`: stdio would double what the list costs.) */
static bool look_through(const struct sp_image *image, const struct sp_loop_owner *owner,
                         struct survey *survey, struct sp_loop *loop)
{
    char own_name[SP_DEVICE_NAME_BYTES];
    char text[LIST_BYTES];
    struct stat file;
    bool found = false;
    ssize_t length = 1;
    text[0] = '\0';
    write_name(owner, own_name, sizeof own_name);
    if (fstat(image->descriptor, &file) != 0) {
        return false;
    }
    int list = open("/proc/partitions", O_RDONLY | O_CLOEXEC);
    while (list >= 0 && !found && length > 0) {
        size_t held = strlen(text);
        length = read(list, text + held, sizeof text - 1 - held);
        text[held + (size_t)(length > 0 ? length : 0)] = '\0';
        found = look_at_lines(text, own_name, &file, survey, loop);
    }
    if (list >= 0) {
        (void)close(list);
    }
    return found;
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

/* Gives devices back that nobody uses; whoever takes one meanwhile keeps it (EBUSY). As the kernel
 * hands out the lowest number, there can only be too many where a high one exists. */
static void remove_idle(int control, unsigned used)
{
    char path[SP_DEVICE_NAME_BYTES];
    int numbers[NUMBERS];
    (void)snprintf(path, sizeof path, "/sys/block/loop%u", used + IDLE_DEVICES);
    if (access(path, F_OK) != 0) {
        return;
    }
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
    struct survey survey = {.used = 0};
    bool found = look_through(image, owner, &survey, loop);
    if (found && (flags & SP_OWN_DEVICE) == 0) {
        return 0;
    }
    sp_loop_release(loop);
    remove_idle(control, survey.used);
    if (owner != NULL && survey.owned >= owner->most) {
        (void)sp_fail(error, SP_NOT_PERMITTED,
                      "your images hold %u loop devices of this machine; more are not permitted",
                      survey.owned);
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
