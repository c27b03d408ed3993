/* How everything here fails: a function returns -1 and fills the caller's `struct sp_error`.
 *
 * Nothing in this library exits, prints, or keeps state between two calls. */
#ifndef STACKPROOF_ERROR_H
#define STACKPROOF_ERROR_H

enum { SP_MESSAGE_BYTES = 1024, SP_HINT_BYTES = 256 };

/* The kinds of failure; each has the name of a `Reason` of the Python package (errors.py). */
enum sp_reason {
    SP_USAGE = 1,
    SP_INVALID_VALUE,
    SP_BAD_MOUNT_POINT,
    SP_TOOL_MISSING,
    SP_NO_USER_NAMESPACES,
    SP_NO_FUSE,
    SP_NOT_PERMITTED,
    SP_IMAGE_MISSING,
    SP_IMAGE_UNREADABLE,
    SP_IMAGE_NOT_SQUASHFS,
    SP_IMAGE_TRUNCATED,
    SP_IMAGE_NO_META,
    SP_UNKNOWN_VIEW,
    SP_MOUNT_POINT_MISSING,
    SP_MOUNT_POINT_OCCUPIED,
    SP_MOUNT_POINT_CLASH,
    SP_MOUNT_FAILED,
    SP_COMMAND_NOT_FOUND,
    SP_INJECTION_FAILS,
    SP_UNSIGNED,
    SP_ANOTHER_LABEL,
    SP_WRONG_SIGNER,
    SP_KEY_EXPIRED,
    SP_IMAGE_DAMAGED,
    SP_SINGLETONS,
};

/* Why something failed and what to do about it; `hint` may be empty. Both are printable UTF-8,
 * whatever a path or an image held, and are cut off where they would not fit. */
struct sp_error {
    enum sp_reason reason;
    char message[SP_MESSAGE_BYTES];
    char hint[SP_HINT_BYTES];
};

/* Fills `error`, without a hint, and returns -1. */
int sp_fail(struct sp_error *error, enum sp_reason reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Gives `error` a hint and returns -1: `return sp_hint(error, …)` behind an `sp_fail`. */
int sp_hint(struct sp_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns the stable name of a reason, such as `image-missing`. */
const char *sp_reason_name(enum sp_reason reason);

/* Returns the exit code of a program that fails for a reason: that of `stackproof.errors`. */
int sp_reason_exit_code(enum sp_reason reason);

#endif
