/* Unit tests of what has no effect: text, mount lists, superblocks, policies, trust in a state,
 * plans. Prints TAP. */
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mountlist.h"
#include "plan.h"
#include "policy.h"
#include "superblock.h"
#include "text.h"
#include "trusted.h"

static int count;
static int failures;

#define CHECK(condition) check((condition), #condition, __LINE__)

static void check(bool passed, const char *what, int line)
{
    (void)printf("%sok %d - line %d: %s\n", passed ? "" : "not ", ++count, line, what);
    failures += passed ? 0 : 1;
}

static bool printable(const char *text)
{
    return sp_text_is_printable(text, strlen(text));
}

static void test_text(void)
{
    const char turned[] = {'\xe2', '\x80', '\xae'}; /* turns the direction of text */
    char text[] = "a\x1b[31m\xc3\xa4\xff";
    CHECK(printable(""));
    CHECK(printable("a b/~+=@%"));
    CHECK(printable("\xc3\xa4 \xe4\xb8\xad \xf0\x9f\x98\x80"));
    CHECK(!printable("a\tb"));
    CHECK(!printable("\x7f"));
    CHECK(!printable("\xc2\x85")); /* a control character of ISO 8859 */
    CHECK(!printable("\xc2\xa0")); /* a space that does not break */
    CHECK(!sp_text_is_printable(turned, sizeof turned));
    CHECK(!printable("\xed\xa0\x80"));     /* a surrogate */
    CHECK(!printable("\xc0\xaf"));         /* `/` written longer than needed */
    CHECK(!printable("\xe2\x80"));         /* cut off */
    CHECK(!printable("\xf4\x90\x80\x80")); /* beyond Unicode */
    CHECK(!printable("\xff"));
    sp_text_make_printable(text);
    CHECK(strcmp(text, "a?[31m\xc3\xa4?") == 0);
}

static void test_appended_text(void)
{
    char text[8] = "ab";
    char number[24];
    sp_text_append(text, sizeof text, "cd");
    CHECK(strcmp(text, "abcd") == 0);
    sp_text_append(text, sizeof text, "efghijk");
    CHECK(strcmp(text, "abcdefg") == 0); /* with room for the end */
    sp_text_append(text, sizeof text, "x");
    CHECK(strcmp(text, "abcdefg") == 0);
    sp_text_append(text, 4, "x"); /* what is longer than the room already stays as it is */
    CHECK(strcmp(text, "abcdefg") == 0);
    sp_text_numbered(text, sizeof text, "/d/", 0);
    CHECK(strcmp(text, "/d/0") == 0);
    sp_text_append_number(text, sizeof text, ":", 12345);
    CHECK(strcmp(text, "/d/0:12") == 0);
    sp_text_numbered(number, sizeof number, "", UINT64_MAX);
    CHECK(strcmp(number, "18446744073709551615") == 0);
}

static void count_problem(void *context, const struct sp_error *problem)
{
    size_t *problems = context;
    (void)problem;
    (*problems)++;
}

/* Parses a list of `entries` times `entry`, with commas between. */
static int parse_many(const char *entry, size_t entries, struct sp_mount_list *list,
                      struct sp_error *error)
{
    size_t length = strlen(entry);
    size_t problems = 0;
    char *text = malloc(entries * (length + 1));
    if (text == NULL) {
        abort();
    }
    for (size_t index = 0; index < entries * (length + 1); index++) {
        size_t at = index % (length + 1);
        text[index] = ',';
        if (at < length) {
            text[index] = entry[at];
        }
    }
    int result = sp_mount_list_parse(text, entries * (length + 1) - 1, list, count_problem,
                                     &problems, error);
    free(text);
    CHECK((result == 0) == (problems == 0));
    return result;
}

static void test_mount_lists(void)
{
    struct sp_mount_list list;
    struct sp_error error;
    CHECK(sp_mount_list_parse("a:/x,b", 6, &list, NULL, NULL, &error) == 0);
    CHECK(list.count == 2 && strcmp(list.entries[0].mount_point, "/x") == 0);
    CHECK(strcmp(list.entries[1].image, "b") == 0 && list.entries[1].mount_point == NULL);
    sp_mount_list_free(&list);
    CHECK(parse_many("a", SP_MAX_IMAGES, &list, &error) == 0 && list.count == SP_MAX_IMAGES);
    sp_mount_list_free(&list);
    CHECK(parse_many("a", SP_MAX_IMAGES + 1, &list, &error) != 0 && error.reason == SP_USAGE);
    CHECK(parse_many("a:/x", 10000, &list, &error) != 0 && error.reason == SP_USAGE);
    CHECK(parse_many("", 10000, &list, &error) != 0 && list.count == 0);
    CHECK(parse_many("/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 32768, &list, &error) != 0); /* 1 MB */
    CHECK(sp_bad_mount_point("/usr", 4) != NULL);
    CHECK(sp_bad_mount_point("/usrlocal", 4) != NULL); /* the length counts, not the text */
    CHECK(sp_bad_mount_point("/usrlocal", 9) == NULL);
}

static void put(unsigned char *head, size_t at, size_t bytes, uint64_t value)
{
    for (size_t index = 0; index < bytes; index++) {
        head[at + index] = (unsigned char)(value >> (8 * index));
    }
}

/* A superblock as mksquashfs 4.5 writes it: 1000 bytes used. */
static void make_superblock(unsigned char *head)
{
    memset(head, 0, SP_SUPERBLOCK_BYTES);
    put(head, 0, 4, 0x73717368); /* hsqs */
    put(head, 4, 4, 3);
    put(head, 12, 4, 131072);
    put(head, 16, 4, 1);
    put(head, 20, 2, 6);
    put(head, 22, 2, 17);
    put(head, 26, 2, 1);
    put(head, 28, 2, 4);
    put(head, 32, 8, 0x40);
    put(head, 40, 8, 1000);
    put(head, 48, 8, 950);
    put(head, 56, 8, UINT64_MAX);
    put(head, 64, 8, 400);
    put(head, 72, 8, 600);
    put(head, 80, 8, 700);
    put(head, 88, 8, 800);
}

/* Returns the reason for which a superblock with one other value is refused; 0 if it is not. */
static int refused(size_t at, size_t bytes, uint64_t value)
{
    unsigned char head[SP_SUPERBLOCK_BYTES];
    struct sp_superblock superblock;
    struct sp_error error;
    make_superblock(head);
    put(head, at, bytes, value);
    int result = sp_superblock_parse(head, sizeof head, 4096, "a", &superblock, &error);
    return result == 0 ? 0 : (int)error.reason;
}

static void test_superblocks(void)
{
    unsigned char head[SP_SUPERBLOCK_BYTES];
    struct sp_superblock superblock;
    struct sp_error error;
    CHECK(refused(0, 1, 'h') == 0);
    CHECK(refused(4, 4, 0) == SP_IMAGE_NOT_SQUASHFS);      /* no inodes */
    CHECK(refused(12, 4, 65536) == SP_IMAGE_NOT_SQUASHFS); /* block size and its log differ */
    CHECK(refused(22, 2, 63) == SP_IMAGE_NOT_SQUASHFS);
    CHECK(refused(22, 2, 0) == SP_IMAGE_NOT_SQUASHFS);
    CHECK(refused(20, 2, 0) == SP_IMAGE_NOT_SQUASHFS); /* compressor */
    CHECK(refused(20, 2, 7) == SP_IMAGE_NOT_SQUASHFS);
    CHECK(refused(26, 2, 0) == SP_IMAGE_NOT_SQUASHFS);      /* no ids */
    CHECK(refused(28, 2, 3) == SP_IMAGE_NOT_SQUASHFS);      /* version */
    CHECK(refused(32, 8, 0xFFFF) == SP_IMAGE_NOT_SQUASHFS); /* root inode */
    CHECK(refused(32, 8, UINT64_MAX << 16) == SP_IMAGE_NOT_SQUASHFS);
    CHECK(refused(40, 8, 95) == SP_IMAGE_NOT_SQUASHFS); /* bytes used */
    CHECK(refused(40, 8, UINT64_MAX) == SP_IMAGE_NOT_SQUASHFS);
    CHECK(refused(40, 8, 4097) == SP_IMAGE_TRUNCATED);
    CHECK(refused(40, 8, 949) == SP_IMAGE_NOT_SQUASHFS);        /* ids behind the end */
    CHECK(refused(48, 8, UINT64_MAX) == SP_IMAGE_NOT_SQUASHFS); /* there are always ids */
    CHECK(refused(64, 8, 95) == SP_IMAGE_NOT_SQUASHFS);         /* inodes in the superblock */
    CHECK(refused(64, 8, 600) == SP_IMAGE_NOT_SQUASHFS);        /* inodes at the directories */
    CHECK(refused(72, 8, 701) == SP_IMAGE_NOT_SQUASHFS);
    CHECK(refused(72, 8, UINT64_MAX) == SP_IMAGE_NOT_SQUASHFS);
    CHECK(refused(80, 8, UINT64_MAX) == SP_IMAGE_NOT_SQUASHFS); /* there is a fragment */
    CHECK(refused(88, 8, UINT64_MAX) == 0);                     /* not exported */
    CHECK(refused(88, 8, 951) == SP_IMAGE_NOT_SQUASHFS);
    CHECK(refused(56, 8, 1001) == SP_IMAGE_NOT_SQUASHFS);
    CHECK(refused(56, 8, 990) == 0);
    make_superblock(head);
    for (size_t length = 0; length < SP_SUPERBLOCK_BYTES; length++) {
        if (sp_superblock_parse(head, length, length, "a", &superblock, &error) == 0) {
            CHECK(length == SP_SUPERBLOCK_BYTES);
        }
    }
    put(head, 0, 4, 0x68737173); /* sqsh */
    CHECK(sp_superblock_parse(head, sizeof head, 4096, "a", &superblock, &error) != 0);
}

static bool state_is_trusted(mode_t mode, uid_t owner)
{
    const struct stat state = {.st_mode = S_IFREG | mode, .st_uid = owner};
    return sp_trusted_state(&state, 0);
}

/* Whether a policy of one line takes an image of mode `mode` on a kind of file system; its owner is
 * this process's user. */
static bool policy_takes(const char *line, mode_t mode, uint64_t filesystem)
{
    struct sp_policy policy;
    struct sp_error error;
    char name[] = "/tmp/stackproof-unit-XXXXXX";
    struct sp_image image = {.descriptor = mkstemp(name), .filesystem = filesystem};
    if (image.descriptor < 0 || fchmod(image.descriptor, mode) != 0 ||
        sp_policy_parse(line, strlen(line), "mount.conf", &policy, &error) != 0) {
        abort();
    }
    bool taken = sp_policy_check_image(&policy, &image, name, &error) == 0;
    sp_policy_free(&policy);
    (void)unlink(name);
    (void)close(image.descriptor);
    return taken;
}

static void test_images_of_a_policy(void)
{
    char mine[64];
    char others[64];
    sp_text_numbered(mine, sizeof mine, "image-owner = ", (unsigned long)geteuid());
    sp_text_numbered(others, sizeof others, "image-owner = ", (unsigned long)geteuid() + 1);
    CHECK(policy_takes("", 0666, EXT4_SUPER_MAGIC));
    CHECK(policy_takes(mine, 0644, EXT4_SUPER_MAGIC));
    CHECK(!policy_takes(mine, 0664, EXT4_SUPER_MAGIC));
    CHECK(!policy_takes(mine, 0646, EXT4_SUPER_MAGIC));
    CHECK(!policy_takes(others, 0644, EXT4_SUPER_MAGIC));
    CHECK(policy_takes("image-folder = /tmp", 0644, EXT4_SUPER_MAGIC));
    CHECK(!policy_takes("image-folder = /tm", 0644, EXT4_SUPER_MAGIC));
    CHECK(!policy_takes("image-folder = /tmp/stackproof-unit", 0644, EXT4_SUPER_MAGIC));
    CHECK(!policy_takes("", 0644, FUSE_SUPER_MAGIC));
    CHECK(!policy_takes("", 0644, 0x1234));
    CHECK(policy_takes("image-filesystem = 0x1234", 0644, 0x1234));
}

static bool load_is_permitted(size_t images, uint64_t memory)
{
    static const char text[] = "images-per-command = 3\nimage-memory = 2";
    struct sp_policy policy;
    struct sp_error error;
    if (sp_policy_parse(text, strlen(text), "mount.conf", &policy, &error) != 0) {
        abort();
    }
    bool permitted = sp_policy_check_load(&policy, images, memory, &error) == 0;
    sp_policy_free(&policy);
    return permitted;
}

static void test_loads_of_a_policy(void)
{
    const uint64_t mib = 1024 * 1024;
    CHECK(load_is_permitted(3, 2 * mib));
    CHECK(!load_is_permitted(4, 2 * mib));
    CHECK(!load_is_permitted(3, 2 * mib + 1));
}

/* Each bit is tried by itself: one that is not looked at is not hidden by another. */
static void test_trust(void)
{
    CHECK(state_is_trusted(0755, 0) && state_is_trusted(0644, 0) && state_is_trusted(0, 0));
    for (unsigned bit = 1; bit <= 04000; bit <<= 1) {
        CHECK(state_is_trusted(bit, 0) == (bit != S_IWGRP && bit != S_IWOTH));
    }
    CHECK(!state_is_trusted(0755, 1) && !state_is_trusted(0755, 65534));
}

static bool policy_is_good(const char *text)
{
    struct sp_policy policy;
    struct sp_error error;
    if (sp_policy_parse(text, strlen(text), "mount.conf", &policy, &error) != 0) {
        return false;
    }
    sp_policy_free(&policy);
    return true;
}

static void test_policies(void)
{
    const char text[] = "# ours\n\n mount-point=/a//b/ # here\nmount-point = /c\r\n"
                        "image-folder = /apps/\nimage-owner = 0\nunprivileged = no";
    struct sp_policy policy;
    struct sp_error error;
    CHECK(sp_policy_parse(text, strlen(text), "mount.conf", &policy, &error) == 0);
    CHECK(policy.mount_point_count == 2 && !policy.unprivileged);
    CHECK(sp_policy_check_mount_point(&policy, "/a/b", &error) == 0);
    CHECK(sp_policy_check_mount_point(&policy, "/a/b/c", &error) == 0);
    CHECK(sp_policy_check_mount_point(&policy, "/a/bc", &error) != 0);
    CHECK(sp_policy_check_mount_point(&policy, "/a", &error) != 0);
    CHECK(error.reason == SP_NOT_PERMITTED);
    CHECK(strcmp(error.hint, "permitted are `/a/b` and `/c`") == 0);
    CHECK(strcmp(policy.image_folders[0], "/apps") == 0 && policy.image_owners[0] == 0);
    sp_policy_free(&policy);
    CHECK(policy_is_good(""));
    CHECK(!policy_is_good("mount-point"));
    CHECK(!policy_is_good("mount-points = /a"));
    CHECK(!policy_is_good("mount-point = /etc"));
    CHECK(!policy_is_good("mount-point = /"));
    CHECK(!policy_is_good("mount-point = a"));
    CHECK(!policy_is_good("mount-point = /a/../etc"));
    CHECK(!policy_is_good("image-folder = apps"));
    CHECK(!policy_is_good("image-folder = /a/../b"));
    CHECK(!policy_is_good("image-folder = /a/.."));
    CHECK(!policy_is_good("image-owner = root"));
    CHECK(!policy_is_good("image-owner = -1"));
    CHECK(!policy_is_good("image-owner = 4294967295"));
    CHECK(!policy_is_good("unprivileged = maybe"));
    CHECK(sp_policy_parse("a\0b", 3, "mount.conf", &policy, &error) != 0);
}

static void test_plans(void)
{
    const char images[] = "a:/x/y,b:/x-y,c:/x,d:/x/y/z";
    const char overlays[] = "e:/x,f:/x-y";
    const char *const order[] = {"c", "e", "a", "d", "b", "f"};
    struct sp_mount_list base;
    struct sp_mount_list over;
    struct sp_plan plan;
    struct sp_error error;
    CHECK(sp_mount_list_parse(images, strlen(images), &base, NULL, NULL, &error) == 0);
    CHECK(sp_mount_list_parse(overlays, strlen(overlays), &over, NULL, NULL, &error) == 0);
    CHECK(sp_plan_make(&base, &over, &plan, &error) == 0 && plan.count == 6);
    for (size_t index = 0; index < plan.count; index++) {
        CHECK(strcmp(plan.steps[index].image_path, order[index]) == 0);
    }
    CHECK(plan.steps[1].overlay && !plan.steps[2].overlay);
    sp_plan_release(&plan);
    CHECK(sp_plan_make(&over, &base, &plan, &error) != 0 && error.reason == SP_USAGE);
    sp_mount_list_free(&base);
    CHECK(sp_mount_list_parse("a", 1, &base, NULL, NULL, &error) == 0);
    CHECK(sp_plan_make(&base, NULL, &plan, &error) != 0 && error.reason == SP_USAGE);
    sp_mount_list_free(&base);
    sp_mount_list_free(&over);
}

static void test_errors(void)
{
    struct sp_error error;
    char longer[2 * SP_MESSAGE_BYTES];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    CHECK(sp_fail(&error, SP_USAGE, "%s", longer) == -1);
    CHECK(strlen(error.message) == SP_MESSAGE_BYTES - 1 && error.hint[0] == '\0');
    CHECK(sp_hint(&error, "a\nb") == -1 && strcmp(error.hint, "a?b") == 0);
    for (int reason = SP_USAGE; reason <= SP_INJECTION_FAILS; reason++) {
        CHECK(strcmp(sp_reason_name((enum sp_reason)reason), "bug") != 0);
        CHECK(sp_reason_exit_code((enum sp_reason)reason) >= 2);
    }
}

int main(void)
{
    test_text();
    test_appended_text();
    test_mount_lists();
    test_superblocks();
    test_policies();
    test_trust();
    test_images_of_a_policy();
    test_loads_of_a_policy();
    test_plans();
    test_errors();
    (void)printf("1..%d\n", count);
    return failures == 0 ? 0 : 1;
}
