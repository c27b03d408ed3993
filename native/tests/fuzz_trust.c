/* libFuzzer: no text of trust.conf and none of a record breaks a parser, and what nobody signed is
 * never let through by a policy that refuses. The input is both, with a NUL between them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "record.h"
#include "trust.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Asks a policy, and one that refuses all, about a record. */
static void decide(const struct sp_trust *trust, const struct sp_record *record)
{
    const struct sp_trust nothing = {.count = 0};
    struct sp_error why;
    enum sp_trust_action by_itself = sp_trust_decide(trust, record, NULL, 0, &why);
    for (size_t index = 0; index < record->count; index++) {
        const char *asked = record->rows[index].label;
        if (sp_trust_decide(trust, record, asked, 0, &why) < by_itself) {
            abort(); /* by a label that is asked for nobody gains */
        }
    }
    if (sp_trust_decide(trust, record, "other::a/1", 0, &why) < by_itself ||
        sp_trust_decide(&nothing, record, NULL, 0, &why) != SP_TRUST_REFUSE) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct sp_record unsigned_image = {.count = 0};
    struct sp_trust trust;
    struct sp_record record;
    struct sp_error error;
    const uint8_t *middle = size == 0 ? NULL : memchr(data, 0, size);
    size_t length = middle == NULL ? size : (size_t)(middle - data);
    size_t rest = middle == NULL ? 0 : size - length - 1;
    if (sp_trust_parse((const char *)data, length, "trust.conf", &trust, &error) != 0) {
        trust = (struct sp_trust){.count = 0};
    }
    char *text = malloc(rest + 1);
    if (text == NULL) {
        abort();
    }
    if (rest > 0) {
        memcpy(text, middle + 1, rest);
    }
    text[rest] = '\0';
    decide(&trust, &unsigned_image);
    if (sp_record_parse(text, rest, "record", &record, &error) == 0) {
        decide(&trust, &record);
    } else if (record.count != 0) {
        abort();
    }
    free(text);
    sp_trust_free(&trust);
    return 0;
}
