/* Words of a command line to values. */
#include "parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool parse_whole(const char *text, unsigned long long low, unsigned long long high,
                 unsigned long long *value)
{
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9') {
        return false; /* strtoull would take signs and spaces */
    }
    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' && *value >= low && *value <= high;
}

bool parse_int(const char *text, int low, int high, int *value)
{
    unsigned long long whole = 0;
    if (!parse_whole(text, (unsigned long long)low, (unsigned long long)high, &whole)) {
        return false;
    }
    *value = (int)whole;
    return true;
}

bool parse_seconds(const char *text, double *value)
{
    char *end = NULL;
    if (strspn(text, "0123456789.eE-+") != strlen(text) || text[0] == '\0') {
        return false; /* strtod would take names of infinity and hexadecimal */
    }
    *value = strtod(text, &end);
    return *end == '\0' && *value > 0.0 && *value <= 86400.0;
}

bool parse_name(const char *text, const char *const *names, int count, int *value)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            *value = i;
            return true;
        }
    }
    return false;
}
