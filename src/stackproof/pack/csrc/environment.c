/* The environment of the program, as the table changes the one that came; and the kernel's facts
 * behind it. */
#include "entry.h"

#include <elf.h>

const char *valued(char **environment, const char *name)
{
    for (; *environment != NULL; environment++) {
        const char *rest = after(*environment, name);
        if (rest != NULL && *rest == '=') {
            return rest + 1;
        }
    }
    return NULL;
}

static size_t place_of(char **environment, const char *setting)
{
    size_t place = 0;
    for (; environment[place] != NULL; place++) {
        size_t same = 0;
        while (setting[same] != '\0' && setting[same] != '=' &&
               environment[place][same] == setting[same]) {
            same++;
        }
        if ((setting[same] == '=' || setting[same] == '\0') && environment[place][same] == '=') {
            break;
        }
    }
    return place;
}

/* Whether a list with colons has words where they belong: an entry point that another one starts
   adds nothing. */
static int has(char letter, const char *list, const char *word)
{
    while (*list != '\0') {
        const char *rest = after(list, word);
        if (rest != NULL && (*rest == ':' || *rest == '\0')) {
            return 1;
        }
        if (letter == 'p') {
            return 0;
        }
        while (*list != '\0' && *list != ':') {
            list++;
        }
        list += *list == ':';
    }
    return 0;
}

static const char *behind_equals(const char *setting)
{
    while (*setting != '\0' && *setting != '=') {
        setting++;
    }
    return *setting == '=' ? setting + 1 : setting;
}

/* A list with an entry more, at its begin or its end. */
static char *extended(char letter, const char *old, const char *list, const char *word)
{
    char *begin = arena + used;
    const char *first = letter == 'p' ? word : list;
    const char *last = letter == 'p' ? list : word;
    kept(old, (size_t)(list - old));
    kept(first, length(first));
    kept(":", 1);
    kept(last, length(last));
    return end_text(begin);
}

/* Change one variable as a record says: s set, u unset, p first in a list, a last in it. */
static void change(char **environment, char letter, const char *text)
{
    char *setting = filled(text);
    size_t place = place_of(environment, setting);
    char *old = environment[place];
    if (letter == 'u') {
        for (; environment[place] != NULL; place++) {
            environment[place] = environment[place + 1];
        }
        return;
    }
    if (letter != 's' && old != NULL && *behind_equals(old) != '\0') {
        const char *list = behind_equals(old);
        const char *word = behind_equals(setting);
        setting = has(letter, list, word) ? old : extended(letter, old, list, word);
    }
    environment[place] = setting;
}

char **changed(char **before)
{
    size_t count = 0;
    while (before[count] != NULL) {
        count++;
    }
    for (const char *record = table; *record != '\0'; record = next(record)) {
        count++;
    }
    char **environment = (char **)room((count + 1) * sizeof *environment);
    for (size_t i = 0; i <= count; i++) {
        environment[i] = NULL;
    }
    for (size_t i = 0; before[i] != NULL; i++) {
        environment[i] = before[i];
    }
    for (const char *record = table; *record != '\0'; record = next(record)) {
        if (*record == 's' || *record == 'u' || *record == 'p' || *record == 'a') {
            change(environment, *record, record + 1);
        }
    }
    return environment;
}

/* A variable and a list for it, without one of its words. */
static char *without(const char *name, const char *list, const char *word)
{
    char *begin = kept(name, length(name));
    size_t empty = used;
    while (*list != '\0') {
        size_t count = 0;
        while (list[count] != '\0' && list[count] != ':') {
            count++;
        }
        if (after(list, word) != list + count) {
            kept(":", used > empty);
            kept(list, count);
        }
        list += count + (list[count] == ':');
    }
    return end_text(begin);
}

void look_in_spare(char **environment, int wanted)
{
    const char *setting = joined("LD_LIBRARY_PATH=\1/", find('S'), "");
    const char *list = valued(environment, "LD_LIBRARY_PATH");
    const char *folder = behind_equals(filled(setting));
    if (wanted) {
        change(environment, 'a', setting);
    } else if (list != NULL && has('a', list, folder)) {
        char *rest = without("LD_LIBRARY_PATH=", list, folder);
        change(environment, 'u', setting);
        if (*behind_equals(rest) != '\0') {
            environment[place_of(environment, rest)] = rest;
        }
    }
}

const char *started_without_rights(char **environment)
{
    while (*environment != NULL) {
        environment++;
    }
    const char *started = NULL;
    for (Elf64_auxv_t *fact = (Elf64_auxv_t *)(environment + 1); fact->a_type != AT_NULL; fact++) {
        if (fact->a_type == AT_EXECFN) {
            /* The kernel gives addresses as numbers. */
            started = (const char *)fact->a_un.a_val; /* NOLINT(performance-no-int-to-ptr) */
        }
        if (fact->a_type == AT_SECURE && fact->a_un.a_val != 0) {
            stop("a program of a pack does not run with more rights than its user", "",
                 "take the set-uid and set-gid bits, or the capabilities, from the file");
        }
    }
    return started;
}
