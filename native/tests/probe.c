/* What tests/native calls to see the library from outside.
 *
 *   probe lists                          parses lists from standard input, see parse_lists
 *   probe reasons                        prints the names of all reasons
 *   probe superblock FILE                opens an image with the rights of the caller
 *   probe open USER GROUP FILE           the same as another user, then as itself again
 *   probe policy FOLDER                  reads a policy
 *   probe check FOLDER IMAGE             asks the policy of FOLDER about an image
 *   probe trust FOLDER IMAGE             asks the trust.conf of FOLDER about an image
 *   probe decide                         decides about records from standard input, see decide_all
 *   probe walk PATH                      follows a path as on a new and as on an old kernel
 *   probe confine PROGRAM IMAGE WORD…    becomes PROGRAM behind the walls of squashfuse
 *   probe old IMAGES OVERLAYS COMMAND…   mounts as on an old kernel, then becomes COMMAND
 *
 * Prints `ok` or the reason of the failure. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "confine.h"
#include "mount.h"
#include "plan.h"
#include "policy.h"
#include "trust.h"
#include "walk.h"

enum { LIST_BYTES = 4 * 1024 * 1024 };

static int report(int result, const struct sp_error *error)
{
    (void)printf("%s\n", result == 0 ? "ok" : sp_reason_name(error->reason));
    if (result != 0) {
        (void)fprintf(stderr, "%s\n", error->message);
    }
    return result == 0 ? 0 : 1;
}

static void print_reason(void *context, const struct sp_error *problem)
{
    (void)context;
    (void)printf(" %s", sp_reason_name(problem->reason));
}

/* Reads a length in decimal, a line end and as many bytes, until the end; prints for each list
 * either `valid` and a line `image`, TAB, `mount point` for each entry, or `invalid` and reasons.
 */
static int parse_lists(void)
{
    struct sp_mount_list list;
    struct sp_error error;
    char line[32];
    char *text = malloc(LIST_BYTES);
    while (text != NULL && fgets(line, sizeof line, stdin) != NULL) {
        size_t length = strtoul(line, NULL, 10);
        if (length > LIST_BYTES || fread(text, 1, length, stdin) != length) {
            free(text);
            return 1;
        }
        (void)printf("list");
        if (sp_mount_list_parse(text, length, &list, print_reason, NULL, &error) == 0) {
            (void)printf(" valid\n");
            for (size_t index = 0; index < list.count; index++) {
                const char *point = list.entries[index].mount_point;
                (void)printf("%s\t%s\n", list.entries[index].image, point == NULL ? "" : point);
            }
            sp_mount_list_free(&list);
        } else {
            (void)printf("\n");
        }
    }
    free(text);
    return 0;
}

static int open_image(const char *path, const struct sp_identity *as)
{
    struct sp_image image;
    struct sp_error error;
    int result = sp_image_open(path, as, &image, &error);
    int code = report(result, &error);
    sp_image_close(&image);
    return code;
}

static int open_as(char **words)
{
    const struct sp_identity identity = {
        .user = (uid_t)strtoul(words[0], NULL, 10),
        .group = (gid_t)strtoul(words[1], NULL, 10),
    };
    int first = open_image(words[2], &identity);
    return open_image(words[2], NULL) + 2 * first;
}

static int read_policy(const char *folder)
{
    struct sp_policy policy;
    struct sp_error error;
    int code = report(sp_policy_load(folder, &policy, &error), &error);
    if (code == 0) {
        (void)printf("%zu\n", policy.mount_point_count);
        sp_policy_free(&policy);
    }
    return code;
}

static int check_image(const char *folder, const char *path)
{
    struct sp_policy policy;
    struct sp_error error;
    struct sp_image image;
    int result = sp_policy_load(folder, &policy, &error);
    if (result == 0) {
        result = sp_image_open(path, NULL, &image, &error);
        result = result == 0 ? sp_policy_check_image(&policy, &image, path, &error) : result;
        sp_image_close(&image);
        sp_policy_free(&policy);
    }
    return report(result, &error);
}

static void print_warning(void *context, const struct sp_error *warning)
{
    (void)context;
    (void)printf("warning %s\n", sp_reason_name(warning->reason));
}

static int check_trust(const char *folder, const char *path)
{
    struct sp_trust_site site;
    struct sp_error error;
    struct sp_image image;
    int result = sp_trust_open(folder, &site, &error);
    if (result == 0) {
        result = sp_image_open(path, NULL, &image, &error);
        const struct sp_trust_subject subject = {.image = &image, .path = path};
        result =
            result == 0 ? sp_trust_check(&site, &subject, print_warning, NULL, &error) : result;
        sp_image_close(&image);
        sp_trust_close(&site);
    }
    return report(result, &error);
}

static void decide(const char *policy, size_t policy_length, char *text, size_t length,
                   const char *asked, int64_t now)
{
    static const char *const actions[] = {"allow", "warn", "refuse"};
    struct sp_trust trust;
    struct sp_record record = {.count = 0};
    struct sp_error error;
    if (sp_trust_parse(policy, policy_length, "trust.conf", &trust, &error) != 0) {
        (void)printf("policy %s\n", sp_reason_name(error.reason));
        return;
    }
    if (length > 0 && sp_record_parse(text, length, "record", &record, &error) != 0) {
        (void)printf("record %s\n", sp_reason_name(error.reason));
    } else {
        enum sp_trust_action action = sp_trust_decide(&trust, &record, asked, now, &error);
        (void)printf("%s %s\n", actions[action],
                     error.message[0] == '\0' ? "signed" : sp_reason_name(error.reason));
    }
    sp_trust_free(&trust);
}

/* Reads the lengths of a policy and of a record, a time, perhaps a label that is asked for, a line
 * end and both texts, until the end; prints what happens, and why. */
static int decide_all(void)
{
    char line[256];
    char *text = malloc(LIST_BYTES);
    while (text != NULL && fgets(line, sizeof line, stdin) != NULL) {
        char *next = line;
        size_t policy = strtoul(next, &next, 10);
        size_t record = strtoul(next, &next, 10);
        int64_t now = strtoll(next, &next, 10);
        next += strspn(next, " ");
        next[strcspn(next, "\n")] = '\0';
        if (policy >= LIST_BYTES || record >= LIST_BYTES - policy ||
            fread(text, 1, policy + record, stdin) != policy + record) {
            free(text);
            return 1;
        }
        text[policy + record] = '\0';
        decide(text, policy, text + policy, record, *next == '\0' ? NULL : next, now);
    }
    free(text);
    return 0;
}

static int walk_twice(const char *path)
{
    static const unsigned ways[] = {0, SP_OLD_KERNEL};
    for (size_t way = 0; way < sizeof ways / sizeof ways[0]; way++) {
        struct stat state;
        int found = sp_walk(path, ways[way]);
        if (found < 0) {
            (void)printf("%s\n", strerror(errno));
        } else if (fstat(found, &state) == 0) {
            (void)printf("%llu:%llu\n", (unsigned long long)state.st_dev,
                         (unsigned long long)state.st_ino);
            (void)close(found);
        }
    }
    return 0;
}

static int become_confined(char **words)
{
    int image = open(words[1], O_RDONLY);
    if (image < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) != 0 ||
        confine(words[0], image) != 0) {
        return 1;
    }
    words[1] = words[0];
    (void)execv(words[0], words + 1);
    return 1;
}

static int mount_as_on_an_old_kernel(char **words)
{
    struct sp_mount_list images = {.count = 0};
    struct sp_mount_list overlays = {.count = 0};
    struct sp_plan plan = {.count = 0};
    struct sp_error error;
    if (sp_mount_list_parse(words[0], strlen(words[0]), &images, NULL, NULL, &error) != 0 ||
        (words[1][0] != '\0' &&
         sp_mount_list_parse(words[1], strlen(words[1]), &overlays, NULL, NULL, &error) != 0) ||
        sp_plan_make(&images, &overlays, &plan, &error) != 0 ||
        sp_plan_open(&plan, NULL, &error) != 0 ||
        sp_plan_attach(&plan, NULL, SP_OLD_KERNEL, &error) != 0 ||
        sp_mount_namespace_enter(&error) != 0 || sp_plan_mount(&plan, SP_OLD_KERNEL, &error) != 0) {
        return report(-1, &error);
    }
    sp_plan_release(&plan);
    (void)execvp(words[2], words + 2);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "lists") == 0) {
        return parse_lists();
    }
    if (argc == 2 && strcmp(argv[1], "reasons") == 0) {
        for (int reason = SP_USAGE; reason <= SP_SINGLETONS; reason++) {
            (void)printf("%s %d\n", sp_reason_name((enum sp_reason)reason),
                         sp_reason_exit_code((enum sp_reason)reason));
        }
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "superblock") == 0) {
        return open_image(argv[2], NULL);
    }
    if (argc == 5 && strcmp(argv[1], "open") == 0) {
        return open_as(argv + 2);
    }
    if (argc == 3 && strcmp(argv[1], "policy") == 0) {
        return read_policy(argv[2]);
    }
    if (argc == 4 && strcmp(argv[1], "check") == 0) {
        return check_image(argv[2], argv[3]);
    }
    if (argc == 4 && strcmp(argv[1], "trust") == 0) {
        return check_trust(argv[2], argv[3]);
    }
    if (argc == 2 && strcmp(argv[1], "decide") == 0) {
        return decide_all();
    }
    if (argc == 3 && strcmp(argv[1], "walk") == 0) {
        return walk_twice(argv[2]);
    }
    if (argc >= 4 && strcmp(argv[1], "confine") == 0) {
        return become_confined(argv + 2);
    }
    if (argc >= 5 && strcmp(argv[1], "old") == 0) {
        return mount_as_on_an_old_kernel(argv + 2);
    }
    (void)fprintf(stderr, "see the first lines of probe.c\n");
    return 2;
}
