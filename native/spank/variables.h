/* The variables that any view may change: src/stackproof/image/view_variables.py in C.
 *
 * What is not listed is for the program to judge. tests/native/test_views.py compares the two. */
#ifndef STACKPROOF_SPANK_VARIABLES_H
#define STACKPROOF_SPANK_VARIABLES_H

#include <stdbool.h>

bool variables_has(const char *name);

#endif
