#include "arguments.h"

#include <string.h>

static const char program[] = "stackproof=";

int arguments_read(int count, char *const words[], struct arguments *arguments,
                   struct sp_error *error)
{
    arguments->program = STACKPROOF_PROGRAM;
    for (int number = 0; number < count; number++) {
        const char *word = words[number];
        size_t length = sizeof program - 1;
        if (strncmp(word, program, length) != 0 || word[length] == '\0') {
            (void)sp_fail(error, SP_USAGE, "plugstack.conf: `%s` is not a setting of this plug-in",
                          word);
            return sp_hint(error, "the settings are: stackproof=PROGRAM");
        }
        arguments->program = word + length;
    }
    return 0;
}
