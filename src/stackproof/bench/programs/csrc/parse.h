/* Words of a command line to values; false for a word that is none. */
#ifndef STACKPROOF_PARSE_H
#define STACKPROOF_PARSE_H

#include <stdbool.h>

bool parse_whole(const char *text, unsigned long long low, unsigned long long high,
                 unsigned long long *value);
bool parse_int(const char *text, int low, int high, int *value);
/* More than 0, and at most a day. */
bool parse_seconds(const char *text, double *value);
/* The index of one of `count` names. */
bool parse_name(const char *text, const char *const *names, int count, int *value);

#endif
