/* The table of an entry point, which `stackproof pack` writes into a copy of the program.
 *
 * It is one record after another, each a letter, a text and a zero; an empty one ends it.
 * `stackproof/pack/effects/entry_files.py` has the letters.
 */
#include "entry.h"

enum { ROOT_MARK = 1 };

char *root;

#ifndef STACKPROOF_HOSTED
/* Beside the code, so that one page fault brings both; in assembly, as its content is not known
 * yet. */
__asm__(".section .rodata\n.balign 16\n.globl table\n"
        "table: .asciz \"STACKPROOF-PACK-TABLE\"\n.zero 16384 - 22\n.text\n");
#endif

const char *next(const char *record)
{
    return record + length(record) + 1;
}

const char *find(char letter)
{
    for (const char *record = table; *record != '\0'; record = next(record)) {
        if (*record == letter) {
            return record + 1;
        }
    }
    return NULL;
}

char *filled(const char *text)
{
    char *begin = arena + used;
    for (; *text != '\0'; text++) {
        if (*text == ROOT_MARK) {
            kept(root, length(root));
        } else {
            kept(text, 1);
        }
    }
    return end_text(begin);
}

unsigned long number_of(const char *text)
{
    unsigned long number = 0;
    for (; text != NULL && *text >= '0' && *text <= '9'; text++) {
        number = number * 10 + (unsigned long)(*text - '0');
    }
    return number;
}
