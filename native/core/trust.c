#include "trust.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "text.h"
#include "trusted.h"

enum { WORDS = 3 };

static const char blanks[] = " \t\r";

static int bad_line(struct sp_error *error, const char *path, size_t line, const char *why)
{
    (void)sp_fail(error, SP_INVALID_VALUE, "`%s` line %zu: %s", path, line, why);
    return sp_hint(error, "see trust.conf in stackproof-mount(8); until it is right, nothing is "
                          "mounted");
}

/* Cuts a text at blanks; returns how many words it has, one more than WORDS for more. */
static size_t cut(char *text, char **words)
{
    size_t count = 0;
    for (text += strspn(text, blanks); *text != '\0'; text += strspn(text, blanks)) {
        if (count == WORDS) {
            return WORDS + 1;
        }
        words[count++] = text;
        text += strcspn(text, blanks);
        if (*text != '\0') {
            *text++ = '\0';
        }
    }
    return count;
}

static bool parse_action(const char *word, enum sp_trust_action *action)
{
    static const char *const names[] = {
        [SP_TRUST_ALLOW] = "allow",
        [SP_TRUST_WARN] = "warn",
        [SP_TRUST_REFUSE] = "refuse",
    };
    for (int index = SP_TRUST_ALLOW; index <= SP_TRUST_REFUSE; index++) {
        if (strcmp(word, names[index]) == 0) {
            *action = (enum sp_trust_action)index;
            return true;
        }
    }
    return false;
}

static bool has_empty_signer(const char *signers)
{
    size_t length = strlen(signers);
    return signers[0] == ',' || signers[length - 1] == ',' || strstr(signers, ",,") != NULL;
}

/* Returns what is wrong with a line, or NULL. */
static const char *take(struct sp_trust *trust, char *line)
{
    static const char form[] = "it is not `image = PATTERN ACTION SIGNER[,SIGNER…]`";
    char *words[WORDS];
    char *equals = strchr(line, '=');
    char *key[WORDS];
    if (equals == NULL) {
        return form;
    }
    *equals = '\0';
    if (cut(line, key) != 1 || strcmp(key[0], "image") != 0) {
        return form;
    }
    if (cut(equals + 1, words) != WORDS) {
        return "it needs a pattern, an action and who may sign";
    }
    struct sp_trust_rule rule = {.pattern = words[0], .signers = words[2]};
    if (!parse_action(words[1], &rule.action)) {
        return "its action is none of allow, warn and refuse";
    }
    if (has_empty_signer(rule.signers)) {
        return "a signer is empty";
    }
    if (trust->count == SP_TRUST_RULES) {
        return "there are too many lines";
    }
    trust->rules[trust->count++] = rule;
    return NULL;
}

int sp_trust_parse(const char *text, size_t length, const char *path, struct sp_trust *trust,
                   struct sp_error *error)
{
    *trust = (struct sp_trust){.count = 0};
    if (length > SP_TRUST_BYTES || memchr(text, '\0', length) != NULL ||
        !sp_text_is_utf8(text, length)) {
        return sp_fail(error, SP_INVALID_VALUE, "`%s` is not a text of at most %d bytes", path,
                       SP_TRUST_BYTES);
    }
    trust->memory = malloc(length + 1);
    if (trust->memory == NULL) {
        return sp_fail(error, SP_MOUNT_FAILED, "no memory for `%s`", path);
    }
    memcpy(trust->memory, text, length);
    trust->memory[length] = '\0';
    char *rest = trust->memory;
    for (size_t number = 1; rest != NULL; number++) {
        char *line = rest;
        rest = strchr(line, '\n');
        if (rest != NULL) {
            *rest++ = '\0';
        }
        line[strcspn(line, "#")] = '\0';
        const char *fault = line[strspn(line, blanks)] == '\0' ? NULL : take(trust, line);
        if (fault != NULL) {
            sp_trust_free(trust);
            return bad_line(error, path, number, fault);
        }
    }
    return 0;
}

void sp_trust_free(struct sp_trust *trust)
{
    free(trust->memory);
    *trust = (struct sp_trust){.count = 0};
}

/* Returns whether a text is what a pattern of so many bytes says, in which `*` is any text. */
static bool fits(const char *pattern, size_t length, const char *text)
{
    const char *end = pattern + length;
    const char *star = NULL; /* where to go on in the pattern, and in the text, when it fails */
    const char *from = NULL;
    while (*text != '\0') {
        if (pattern < end && *pattern == '*') {
            star = ++pattern;
            from = text;
        } else if (pattern < end && *pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL) {
            pattern = star;
            text = ++from;
        } else {
            return false;
        }
    }
    while (pattern < end && *pattern == '*') {
        pattern++;
    }
    return pattern == end;
}

/* Returns a label without the namespace before it. */
static const char *without_namespace(const char *label)
{
    const char *rest = label;
    for (const char *found = strstr(label, "::"); found != NULL; found = strstr(found + 1, "::")) {
        rest = found + 2;
    }
    return rest;
}

/* Returns the first rule about a label, NULL for no label: of these only `*` says anything. */
static const struct sp_trust_rule *rule_for(const struct sp_trust *trust, const char *label)
{
    for (size_t index = 0; index < trust->count; index++) {
        const struct sp_trust_rule *rule = &trust->rules[index];
        bool whole = strstr(rule->pattern, "::") != NULL;
        if (label == NULL ? strcmp(rule->pattern, "*") == 0
                          : fits(rule->pattern, strlen(rule->pattern),
                                 whole ? label : without_namespace(label))) {
            return rule;
        }
    }
    return NULL;
}

static bool may_sign(const struct sp_trust_rule *rule, const char *signer)
{
    for (const char *pattern = rule == NULL ? NULL : rule->signers; pattern != NULL;) {
        size_t length = strcspn(pattern, ",");
        if (fits(pattern, length, signer)) {
            return true;
        }
        pattern = pattern[length] == ',' ? pattern + length + 1 : NULL;
    }
    return false;
}

static enum sp_trust_action action_of(const struct sp_trust_rule *rule)
{
    return rule == NULL ? SP_TRUST_REFUSE : rule->action;
}

static enum sp_trust_action stricter(enum sp_trust_action one, enum sp_trust_action other)
{
    return one > other ? one : other;
}

/* Returns how long the namespace of a label is, with the `::` behind it; 0 for none. */
static size_t namespace_of(const char *label)
{
    size_t length = (size_t)(without_namespace(label) - label);
    return length > strlen("::") ? length : 0;
}

/* Returns whether a signature as `label` is one for what was asked for: the same label, in the same
 * namespace where both name one. */
static bool counts(const char *asked, const char *label)
{
    if (asked == NULL) {
        return true;
    }
    size_t wanted = namespace_of(asked);
    size_t named = namespace_of(label);
    return strcmp(asked + wanted, label + named) == 0 &&
           (wanted == 0 || named == 0 ||
            (wanted == named && strncmp(asked, label, wanted) == 0));
}

/* A signature that does not fulfil the policy; `rank` is 0 where it is none for the label. */
struct lack {
    int rank;
    enum sp_trust_action action;
    struct sp_error why;
};

/* Returns whether a signature is as the site asks, else what it lacks. */
static bool is_as_asked(const struct sp_trust *trust, const struct sp_signed *row,
                        const char *asked, int64_t now, struct lack *lack)
{
    bool same = counts(asked, row->label);
    bool in_namespace = same && asked != NULL && namespace_of(asked) > 0;
    const struct sp_trust_rule *rule = rule_for(trust, in_namespace ? asked : row->label);
    *lack = (struct lack){.rank = 1, .action = action_of(rule)};
    bool for_namespace = rule != NULL && strstr(rule->pattern, "::") != NULL;
    if (!same || (for_namespace && namespace_of(row->label) == 0)) {
        lack->rank = 0;
        (void)sp_fail(&lack->why, SP_ANOTHER_LABEL, "`%s` signed it as `%s`, not as `%s`",
                      row->signer, row->label, asked == NULL ? "*" : asked);
        return false;
    }
    if (!may_sign(rule, row->signer)) {
        (void)sp_fail(&lack->why, SP_WRONG_SIGNER, "`%s` may not sign `%s` here", row->signer,
                      row->label);
        return false;
    }
    if (row->until != 0 && row->until <= now) {
        (void)sp_fail(&lack->why, SP_KEY_EXPIRED, "the key of `%s` is no longer good",
                      row->signer);
        return false;
    }
    return true;
}

enum sp_trust_action sp_trust_decide(const struct sp_trust *trust, const struct sp_record *record,
                                     const char *asked, int64_t now, struct sp_error *why)
{
    enum sp_trust_action strictest =
        stricter(action_of(rule_for(trust, NULL)), action_of(rule_for(trust, asked)));
    struct lack worst = {.rank = -1};
    (void)sp_fail(&worst.why, SP_UNSIGNED,
                  "no record says that somebody signed it whom this site knows");
    for (size_t index = 0; index < record->count; index++) {
        struct lack lack;
        if (is_as_asked(trust, &record->rows[index], asked, now, &lack)) {
            why->message[0] = '\0';
            return SP_TRUST_ALLOW;
        }
        strictest = stricter(stricter(strictest, lack.action),
                             action_of(rule_for(trust, record->rows[index].label)));
        if (lack.rank > worst.rank || (lack.rank == worst.rank && lack.action > worst.action)) {
            worst = lack;
        }
    }
    *why = worst.why;
    return strictest;
}

int sp_trust_open(const char *folder, struct sp_trust_site *site, struct sp_error *error)
{
    char path[PATH_MAX];
    struct stat state;
    char *text = NULL;
    size_t length = 0;
    int parent = -1;
    *site = (struct sp_trust_site){.records = -1};
    path[0] = '\0';
    sp_text_append(path, sizeof path, folder);
    sp_text_append(path, sizeof path, "/" SP_TRUST_NAME);
    if (lstat(path, &state) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        return 0; /* whether the folder is root's counts where there is something in it */
    }
    if (sp_trusted_folder(AT_FDCWD, folder, folder, SP_TRUSTED_UNMAPPED, &parent, error) != 0) {
        return -1;
    }
    int result = parent < 0 ? 0
                            : sp_trusted_read(parent, SP_TRUST_NAME, path, SP_TRUST_BYTES,
                                              SP_TRUSTED_UNMAPPED, &text, &length, error);
    if (result == 0 && text != NULL) {
        result = sp_trust_parse(text, length, path, &site->trust, error);
    }
    free(text);
    sp_text_append(site->records_path, sizeof site->records_path, folder);
    sp_text_append(site->records_path, sizeof site->records_path, "/" SP_RECORDS_NAME);
    if (result == 0 && site->trust.memory != NULL) {
        result = sp_trusted_folder(parent, SP_RECORDS_NAME, site->records_path,
                                   SP_TRUSTED_UNMAPPED, &site->records, error);
    }
    if (parent >= 0) {
        (void)close(parent);
    }
    if (result != 0) {
        sp_trust_close(site);
    }
    return result;
}

void sp_trust_close(struct sp_trust_site *site)
{
    sp_trust_free(&site->trust);
    if (site->records >= 0) {
        (void)close(site->records);
    }
    site->records = -1;
}

int sp_trust_check(const struct sp_trust_site *site, const struct sp_trust_subject *subject,
                   sp_trust_listener *listener, void *context, struct sp_error *error)
{
    struct sp_record record;
    struct sp_error why;
    bool stale = false;
    char *text = NULL;
    if (site->trust.memory == NULL) {
        return 0;
    }
    why.message[0] = '\0';
    int result = sp_record_find(site->records, site->records_path, subject->image, &text, &record,
                                &stale, error);
    enum sp_trust_action action =
        result == 0
            ? sp_trust_decide(&site->trust, &record, subject->label, (int64_t)time(NULL), &why)
            : SP_TRUST_REFUSE;
    if (stale) {
        (void)sp_fail(&why, SP_IMAGE_DAMAGED,
                      "it was changed, or replaced, since it was verified");
    }
    free(text); /* signer and label of the record are in the message */
    if (result != 0 || action == SP_TRUST_ALLOW) {
        return result;
    }
    struct sp_error told = {.reason = SP_UNSIGNED};
    if (action == SP_TRUST_WARN) {
        (void)sp_fail(&told, why.reason, "`%s` is not signed as this site asks: %s",
                      subject->path, why.message);
        if (listener != NULL) {
            listener(context, &told);
        }
        return 0;
    }
    (void)sp_fail(error, why.reason, "this site does not let `%s` be mounted: %s",
                  subject->path, why.message);
    return sp_hint(error, "`stackproof image verify IMAGE` says who signed it; an administrator "
                          "records that by `--record`");
}
