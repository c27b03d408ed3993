/* libFuzzer: no text of mount.conf breaks the parser, and none permits a path of the system. */
#include <stdint.h>
#include <stdlib.h>

#include "policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_policy policy;
    struct sp_error error;
    if (sp_policy_parse((const char *)data, size, "mount.conf", &policy, &error) != 0) {
        return 0;
    }
    if (sp_policy_check_mount_point(&policy, "/etc", &error) == 0 ||
        sp_policy_check_mount_point(&policy, "/usr/bin", &error) == 0 ||
        sp_policy_check_mount_point(&policy, "/", &error) == 0) {
        abort();
    }
    sp_policy_free(&policy);
    return 0;
}
