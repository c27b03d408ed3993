#include "error.h"

#include <stdarg.h>
#include <stdio.h>

#include "text.h"

int sp_fail(struct sp_error *error, enum sp_reason reason, const char *format, ...)
{
    va_list values;
    error->reason = reason;
    error->hint[0] = '\0';
    va_start(values, format);
    (void)vsnprintf(error->message, sizeof error->message, format, values);
    va_end(values);
    sp_text_make_printable(error->message);
    return -1;
}

int sp_hint(struct sp_error *error, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    (void)vsnprintf(error->hint, sizeof error->hint, format, values);
    va_end(values);
    sp_text_make_printable(error->hint);
    return -1;
}

const char *sp_reason_name(enum sp_reason reason)
{
    switch (reason) {
    case SP_USAGE:
        return "usage";
    case SP_INVALID_VALUE:
        return "invalid-value";
    case SP_BAD_MOUNT_POINT:
        return "bad-mount-point";
    case SP_TOOL_MISSING:
        return "tool-missing";
    case SP_NO_USER_NAMESPACES:
        return "no-user-namespaces";
    case SP_NO_FUSE:
        return "no-fuse";
    case SP_NOT_PERMITTED:
        return "not-permitted";
    case SP_IMAGE_MISSING:
        return "image-missing";
    case SP_IMAGE_UNREADABLE:
        return "image-unreadable";
    case SP_IMAGE_NOT_SQUASHFS:
        return "image-not-squashfs";
    case SP_IMAGE_TRUNCATED:
        return "image-truncated";
    case SP_IMAGE_NO_META:
        return "image-no-meta";
    case SP_UNKNOWN_VIEW:
        return "unknown-view";
    case SP_MOUNT_POINT_MISSING:
        return "mount-point-missing";
    case SP_MOUNT_POINT_OCCUPIED:
        return "mount-point-occupied";
    case SP_MOUNT_POINT_CLASH:
        return "mount-point-clash";
    case SP_MOUNT_FAILED:
        return "mount-failed";
    case SP_COMMAND_NOT_FOUND:
        return "command-not-found";
    case SP_INJECTION_FAILS:
        return "injection-fails";
    case SP_UNSIGNED:
        return "unsigned";
    case SP_ANOTHER_LABEL:
        return "another-label";
    case SP_WRONG_SIGNER:
        return "wrong-signer";
    case SP_KEY_EXPIRED:
        return "key-expired";
    case SP_IMAGE_DAMAGED:
        return "image-damaged";
    case SP_SINGLETONS:
        return "singletons";
    }
    return "bug";
}

int sp_reason_exit_code(enum sp_reason reason)
{
    switch (reason) {
    case SP_USAGE:
        return 2;
    case SP_INVALID_VALUE:
    case SP_BAD_MOUNT_POINT:
        return 3;
    case SP_TOOL_MISSING:
    case SP_NO_USER_NAMESPACES:
    case SP_NO_FUSE:
    case SP_NOT_PERMITTED:
        return 4;
    case SP_IMAGE_MISSING:
    case SP_IMAGE_UNREADABLE:
    case SP_IMAGE_NOT_SQUASHFS:
    case SP_IMAGE_TRUNCATED:
    case SP_IMAGE_NO_META:
    case SP_UNKNOWN_VIEW:
    case SP_MOUNT_POINT_MISSING:
    case SP_MOUNT_POINT_OCCUPIED:
    case SP_MOUNT_POINT_CLASH:
    case SP_MOUNT_FAILED:
    case SP_COMMAND_NOT_FOUND:
    case SP_UNSIGNED:
    case SP_ANOTHER_LABEL:
    case SP_WRONG_SIGNER:
    case SP_KEY_EXPIRED:
    case SP_IMAGE_DAMAGED:
        return 6;
    case SP_INJECTION_FAILS:
        return 8;
    case SP_SINGLETONS:
        return 11;
    }
    return 1;
}
