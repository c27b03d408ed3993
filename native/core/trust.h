/* What a site asks of images before they are mounted: /etc/stackproof/trust.conf.
 *
 *     # PATTERN  ACTION  SIGNER[,SIGNER…]
 *     image = prgenv-*   refuse  release@site
 *     image = *          warn    *
 *
 * src/stackproof/share/trust/policy.py says what that means and decides the same. No signature is
 * looked at here: who signed an image, as which label, stands in a record that root wrote
 * (record.h). An image that comes without the label that it was asked for is what root's record
 * says. Whoever gives a label can lose by it, and gain nothing. Without the
 * file nothing is asked; with an error in it, or doubt about who can write to it or to a record,
 * nothing is mounted. */
#ifndef STACKPROOF_TRUST_H
#define STACKPROOF_TRUST_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "image.h"
#include "record.h"

enum { SP_TRUST_RULES = 64, SP_TRUST_BYTES = 64 * 1024 };

#define SP_TRUST_NAME "trust.conf"
#define SP_RECORDS_NAME "trust"

enum sp_trust_action { SP_TRUST_ALLOW, SP_TRUST_WARN, SP_TRUST_REFUSE };

struct sp_trust_rule {
    const char *pattern;
    const char *signers; /* patterns with commas between them */
    enum sp_trust_action action;
};

struct sp_trust {
    size_t count;
    struct sp_trust_rule rules[SP_TRUST_RULES];
    char *memory; /* NULL: the site asks for nothing */
};

/* Hears why an image should not be mounted where the site only wants that told. */
typedef void sp_trust_listener(void *context, const struct sp_error *warning);

/* Parses the text of such a file; `path` is for messages. Free it when this returned 0. */
int sp_trust_parse(const char *text, size_t length, const char *path, struct sp_trust *trust,
                   struct sp_error *error);

void sp_trust_free(struct sp_trust *trust);

/* Says what happens with an image that has these signatures and was asked for as a label, NULL for
 * none. `why` has the reason and what is missing; where one of them is as asked, an empty message,
 * and it returns SP_TRUST_ALLOW. */
enum sp_trust_action sp_trust_decide(const struct sp_trust *trust, const struct sp_record *record,
                                     const char *asked, int64_t now, struct sp_error *why);

/* What a site asks, and where its records are; made by sp_trust_open. */
struct sp_trust_site {
    struct sp_trust trust;
    int records; /* O_PATH, or -1 */
    char records_path[256];
};

/* Reads SP_TRUST_NAME in `folder` with the rights of this thread. Close it when this returned 0. */
int sp_trust_open(const char *folder, struct sp_trust_site *site, struct sp_error *error);

void sp_trust_close(struct sp_trust_site *site);

/* An open image, its path for messages, and the label that it was asked for, NULL for none. */
struct sp_trust_subject {
    const struct sp_image *image;
    const char *path;
    const char *label;
};

/* Fails unless the site lets the image be mounted: unsigned, another-label, wrong-signer,
 * key-expired, image-damaged. `listener` may be NULL. */
int sp_trust_check(const struct sp_trust_site *site, const struct sp_trust_subject *subject,
                   sp_trust_listener *listener, void *context, struct sp_error *error);

#endif
