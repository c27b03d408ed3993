#include "plan.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mount.h"

enum { FIXED_KERNEL_BYTES = 512 * 1024 };

/* Orders paths part by part, so that a folder comes before what is inside of it: `/` counts less
 * than every other character. */
static int compare_paths(const char *left, const char *right)
{
    while (*left != '\0' && *left == *right) {
        left++;
        right++;
    }
    unsigned char first = *left == '/' ? 1 : (unsigned char)*left;
    unsigned char second = *right == '/' ? 1 : (unsigned char)*right;
    return (int)first - (int)second;
}

/* Puts a step behind all that do not come after it. */
static void insert(struct sp_plan *plan, const struct sp_mount_entry *entry, bool overlay)
{
    size_t place = plan->count++;
    while (place > 0 && compare_paths(plan->steps[place - 1].mount_point, entry->mount_point) > 0) {
        plan->steps[place] = plan->steps[place - 1];
        place--;
    }
    plan->steps[place] = (struct sp_step){
        .image_path = entry->image,
        .mount_point = entry->mount_point,
        .label = entry->label,
        .overlay = overlay,
        .image = {.descriptor = -1},
        .loop = {.descriptor = -1},
        .root = -1,
    };
}

static bool has_image(const struct sp_mount_list *images, const char *mount_point)
{
    for (size_t index = 0; index < images->count; index++) {
        if (strcmp(images->entries[index].mount_point, mount_point) == 0) {
            return true;
        }
    }
    return false;
}

static int names_no_place(const struct sp_mount_entry *entry, struct sp_error *error)
{
    (void)sp_fail(error, SP_USAGE, "`%s` is not IMAGE:MOUNT with an absolute MOUNT", entry->image);
    return sp_hint(error, "name the mount point; `stackproof run` finds it in the image");
}

int sp_plan_make(const struct sp_mount_list *images, const struct sp_mount_list *overlays,
                 struct sp_plan *plan, struct sp_error *error)
{
    size_t over = overlays == NULL ? 0 : overlays->count;
    plan->count = 0;
    if (images->count + over > SP_MAX_IMAGES) {
        return sp_fail(error, SP_USAGE, "%zu images are more than %d", images->count + over,
                       SP_MAX_IMAGES);
    }
    for (size_t index = 0; index < images->count; index++) {
        if (images->entries[index].mount_point == NULL) {
            return names_no_place(&images->entries[index], error);
        }
        insert(plan, &images->entries[index], false);
    }
    for (size_t index = 0; index < over; index++) {
        const struct sp_mount_entry *entry = &overlays->entries[index];
        if (entry->mount_point == NULL) {
            return names_no_place(entry, error);
        }
        if (!has_image(images, entry->mount_point)) {
            (void)sp_fail(error, SP_USAGE, "no image is mounted at `%s` for `%s` to lie over",
                          entry->mount_point, entry->image);
            return sp_hint(error, "an overlay needs the mount point of one of the images");
        }
        insert(plan, entry, true);
    }
    return 0;
}

int sp_plan_check_policy(const struct sp_plan *plan, const struct sp_policy *policy,
                         struct sp_error *error)
{
    for (size_t index = 0; index < plan->count; index++) {
        if (sp_policy_check_mount_point(policy, plan->steps[index].mount_point, error) != 0) {
            return -1;
        }
    }
    return 0;
}

int sp_plan_open(struct sp_plan *plan, const struct sp_identity *as, struct sp_error *error)
{
    for (size_t index = 0; index < plan->count; index++) {
        struct sp_step *step = &plan->steps[index];
        if (sp_image_open(step->image_path, as, &step->image, error) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Estimates what the kernel holds for a mounted image: three fragments and a block of cache, the
 * window of the decompressor, tables and metadata (fs/squashfs/super.c and cache.c of Linux; 64 of
 * 1 MiB blocks were seen to take 308 to 340 MiB). With a decompressor for each CPU it is more. */
static uint64_t kernel_memory(const struct sp_superblock *superblock)
{
    return UINT64_C(5) * superblock->block_size + FIXED_KERNEL_BYTES;
}

int sp_plan_check_images(const struct sp_plan *plan, const struct sp_policy *policy,
                         struct sp_error *error)
{
    uint64_t memory = 0;
    for (size_t index = 0; index < plan->count; index++) {
        memory += kernel_memory(&plan->steps[index].image.superblock);
    }
    if (sp_policy_check_load(policy, plan->count, memory, error) != 0) {
        return -1;
    }
    for (size_t index = 0; index < plan->count; index++) {
        const struct sp_step *step = &plan->steps[index];
        if (sp_policy_check_image(policy, &step->image, step->image_path, error) != 0) {
            return -1;
        }
    }
    return 0;
}

int sp_plan_check_trust(const struct sp_plan *plan, const char *folder,
                        sp_trust_listener *listener, void *context, struct sp_error *error)
{
    struct sp_trust_site site;
    if (sp_trust_open(folder, &site, error) != 0) {
        return -1;
    }
    int result = 0;
    for (size_t index = 0; index < plan->count && result == 0; index++) {
        const struct sp_step *step = &plan->steps[index];
        const struct sp_trust_subject subject = {
            .image = &step->image, .path = step->image_path, .label = step->label};
        result = sp_trust_check(&site, &subject, listener, context, error);
    }
    sp_trust_close(&site);
    return result;
}

int sp_plan_attach(struct sp_plan *plan, const struct sp_loop_owner *owner, unsigned flags,
                   struct sp_error *error)
{
    for (size_t index = 0; index < plan->count; index++) {
        struct sp_step *step = &plan->steps[index];
        /* An overlay of an image over itself needs two devices: the kernel sees one tree else. */
        unsigned how = step->overlay ? flags | SP_OWN_DEVICE : flags;
        if (sp_loop_attach(&step->image, step->image_path, owner, how, &step->loop, error) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Returns a place on which the next image of one mount point goes: for the first the empty folder,
 * for an overlay the root of what is mounted there already. */
static int open_place(const struct sp_step *step, unsigned flags, int *point,
                      struct sp_error *error)
{
    if (!step->overlay) {
        return sp_mount_point_open(step->mount_point, flags, point, error);
    }
    *point = sp_mount_root(step->mount_point, flags);
    if (*point < 0) {
        return sp_fail(error, SP_MOUNT_FAILED, "cannot open `%s` again: %s", step->mount_point,
                       strerror(errno));
    }
    return 0;
}

static int mount_step(struct sp_step *step, sp_plan_mounter *mounter, void *context, unsigned flags,
                      struct sp_error *error)
{
    int point = -1;
    if (open_place(step, flags, &point, error) != 0) {
        return -1;
    }
    int result = mounter(step, point, context, error);
    (void)close(point);
    return result;
}

static void close_roots(struct sp_plan *plan)
{
    for (size_t index = 0; index < plan->count; index++) {
        if (plan->steps[index].root >= 0) {
            (void)close(plan->steps[index].root);
        }
        plan->steps[index].root = -1;
    }
}

/* Lays the union of `count` steps, all mounted one upon another at one place, on top of them. */
static int lay_over(const struct sp_step *steps, size_t count, unsigned flags,
                    struct sp_error *error)
{
    int roots[SP_MAX_IMAGES];
    for (size_t index = 0; index < count; index++) {
        roots[index] = steps[count - 1 - index].root; /* the last one on top */
    }
    int point = sp_mount_root(steps->mount_point, flags);
    if (point < 0) {
        return sp_fail(error, SP_MOUNT_FAILED, "cannot open `%s` again: %s", steps->mount_point,
                       strerror(errno));
    }
    int result = sp_mount_overlay(roots, count, point, steps->mount_point, flags, error);
    (void)close(point);
    return result;
}

int sp_plan_mount_by(struct sp_plan *plan, sp_plan_mounter *mounter, void *context, unsigned flags,
                     struct sp_error *error)
{
    int result = 0;
    for (size_t first = 0; first < plan->count && result == 0;) {
        size_t count = 0;
        do {
            result = mount_step(&plan->steps[first + count], mounter, context, flags, error);
            count++;
        } while (result == 0 && first + count < plan->count && plan->steps[first + count].overlay);
        if (result == 0 && count > 1) {
            result = lay_over(&plan->steps[first], count, flags, error);
        }
        first += count;
    }
    close_roots(plan);
    return result;
}

static int mount_by_loop(struct sp_step *step, int point, void *context, struct sp_error *error)
{
    unsigned flags = *(const unsigned *)context;
    struct stat device;
    struct stat root;
    if (sp_mount_loop(&step->loop, step->image_path, point, flags, &step->root, error) != 0) {
        return -1;
    }
    if (step->root < 0) { /* the old call gives no descriptor: open it, and look at what it is */
        step->root = sp_mount_root(step->mount_point, flags);
    }
    if (step->root < 0 || fstat(step->root, &root) != 0 ||
        fstat(step->loop.descriptor, &device) != 0 || root.st_dev != device.st_rdev) {
        return sp_fail(error, SP_MOUNT_FAILED, "the mount point `%s` changed meanwhile",
                       step->mount_point);
    }
    return 0;
}

int sp_plan_mount(struct sp_plan *plan, unsigned flags, struct sp_error *error)
{
    return sp_plan_mount_by(plan, mount_by_loop, &flags, flags, error);
}

void sp_plan_release(struct sp_plan *plan)
{
    close_roots(plan);
    for (size_t index = 0; index < plan->count; index++) {
        sp_image_close(&plan->steps[index].image);
        sp_loop_release(&plan->steps[index].loop);
    }
}
