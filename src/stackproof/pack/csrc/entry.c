/* The entry point of a program of a pack: environment, loader, exec. Nothing waits, nothing is left.
 *
 * It finds the pack by its own place, changes the environment as the table says, and becomes the
 * program: by this machine's loader where its C library has what the pack needs, else by the loader
 * that came along. It uses no library, since to map one takes as long as to map the program.
 *
 * The table, which `stackproof pack` writes into a copy of this, is one record after another, each a
 * letter, a text and a zero; an empty one ends it. `stackproof/pack/entries.py` has the letters.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

enum { PATH_BYTES = 4096, ARENA_BYTES = 1 << 20, LINKS = 40, EXTRA = 16 };
enum { NEWEST_MINOR = 99, CANNOT_START = 126, ROOT_MARK = 1 };

/* Beside the code, so that one page fault brings both; in assembly, as its content is not known yet. */
extern const char table[];
__asm__(".section .rodata\n.balign 16\n.globl table\n"
        "table: .asciz \"STACKPROOF-PACK-TABLE\"\n.zero 16384 - 22\n.text\n");

/* Everything that is written lies together: each further page of memory costs a page fault. */
static char arena[ARENA_BYTES];
static size_t used;
static char *root;
static char *entry;
static char *program;

#if defined __x86_64__
static long call(long number, long a, long b, long c, long d)
{
    long answer;
    register long fourth __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(answer)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
                     : "rcx", "r11", "memory");
    return answer;
}
__asm__(".globl _start\n_start: mov %rsp, %rdi\nand $-16, %rsp\ncall begin\n");
#elif defined __aarch64__
static long call(long number, long a, long b, long c, long d)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
}
__asm__(".globl _start\n_start: mov x0, sp\nbl begin\n");
#else
#error "entry points are for x86_64 and aarch64"
#endif

static size_t length(const char *text)
{
    size_t count = 0;
    while (text[count] != '\0') {
        count++;
    }
    return count;
}

static void say(const char *text)
{
    call(SYS_write, 2, (long)text, (long)length(text), 0);
}

static void say_number(unsigned number)
{
    char digits[12];
    size_t place = sizeof digits - 1;
    digits[place] = '\0';
    do {
        digits[--place] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    say(digits + place);
}

__attribute__((noreturn)) static void stop(const char *what, const char *which, const char *hint)
{
    say("error: ");
    say(what);
    say(which);
    say("\nhint: ");
    say(hint);
    say("\n");
    for (;;) {
        call(SYS_exit_group, CANNOT_START, 0, 0, 0);
    }
}

/* Return whether a text begins with a name, and what follows it. */
static const char *after(const char *text, const char *name)
{
    while (*name != '\0') {
        if (*text++ != *name++) {
            return NULL;
        }
    }
    return text;
}

static char *kept(const char *text, size_t count)
{
    if (count >= ARENA_BYTES - used) {
        stop("the environment is too large for an entry point of a pack", "",
             "unset what is large, or start the program in a smaller environment");
    }
    char *place = arena + used;
    for (size_t i = 0; i < count; i++) {
        place[i] = text[i];
    }
    used += count;
    return place;
}

static char *end_text(char *begin)
{
    kept("", 1);
    return begin;
}

static void *room(size_t bytes)
{
    used = (used + 15) & ~(size_t)15;
    if (bytes >= ARENA_BYTES - used) {
        kept("", ARENA_BYTES);
    }
    void *place = arena + used;
    used += bytes;
    return place;
}

/* Texts one after another, as a path. */
static char *joined(const char *first, const char *second, const char *third)
{
    char *begin = arena + used;
    kept(first, length(first));
    kept(second, length(second));
    kept(third, length(third));
    if (length(first) + length(second) + length(third) >= PATH_BYTES) {
        stop("the path of this pack is longer than the kernel takes: ", first,
             "move the pack to a folder with a shorter name");
    }
    return end_text(begin);
}

/* Cut the last name off a path, leaving its folder. */
static void cut(char *path)
{
    size_t last = length(path);
    while (last > 0 && path[last] != '/') {
        last--;
    }
    path[last] = '\0';
}

/* What a link points to, empty for what is none; it takes no more of the arena than it is long. */
static char *target_of(const char *link)
{
    char *begin = room(PATH_BYTES);
    long count = call(SYS_readlinkat, AT_FDCWD, (long)link, (long)begin, PATH_BYTES - 1);
    count = count < 0 ? 0 : count;
    used -= PATH_BYTES - (size_t)count - 1;
    begin[count] = '\0';
    return begin;
}

static char *working_folder(const char *started)
{
    char *begin = room(PATH_BYTES);
    if (call(SYS_getcwd, (long)begin, PATH_BYTES, 0, 0) <= 0 || begin[0] != '/') {
        stop("the place of this pack cannot be found out: ", started,
             "start the program by its full path");
    }
    return begin;
}

/* Find out where this is: from /proc, or else from the name it was started by. */
static void find_entry(const char *started)
{
    entry = target_of("/proc/self/exe");
    if (entry[0] == '/') {
        return;
    }
    if (started == NULL) {
        stop("the place of this pack cannot be found out: /proc is not mounted", "",
             "start the program by its full path");
    }
    entry = started[0] == '/' ? joined(started, "", "") : joined(working_folder(started), "/", started);
    for (int i = 0; i < LINKS; i++) {
        char *target = target_of(entry);
        if (target[0] == '\0') {
            return;
        }
        if (target[0] == '/') {
            entry = target;
        } else {
            cut(entry);
            entry = joined(entry, "/", target);
        }
    }
}

/* Set the folder of the pack: as many above the entry point's as `up` has parts. */
static void find_root(const char *up)
{
    root = joined(entry, "", "");
    cut(root);
    for (; *up != '\0'; up++) {
        if (up[0] == '.' && (up[1] == '/' || up[1] == '\0')) {
            cut(root);
        }
    }
}

/* The next record of the table; a text of no letter at its end. */
static const char *next(const char *record)
{
    return record + length(record) + 1;
}

static const char *find(char letter)
{
    for (const char *record = table; *record != '\0'; record = next(record)) {
        if (*record == letter) {
            return record + 1;
        }
    }
    return NULL;
}

/* Keep a text of the table, with the folder of the pack put in. */
static char *filled(const char *text)
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

static unsigned number_of(const char *text)
{
    unsigned number = 0;
    for (; text != NULL && *text >= '0' && *text <= '9'; text++) {
        number = number * 10 + (unsigned)(*text - '0');
    }
    return number;
}

static uint32_t hash_of_minor(unsigned minor)
{
    /* As the gABI hashes names, of `GLIBC_2.` and a number. */
    char name[16] = "GLIBC_2.";
    size_t count = length(name);
    char digits[4];
    size_t some = 0;
    do {
        digits[some++] = (char)('0' + minor % 10);
        minor /= 10;
    } while (minor != 0);
    while (some > 0) {
        name[count++] = digits[--some];
    }
    uint32_t hash = 0;
    for (size_t i = 0; i < count; i++) {
        hash = (hash << 4) + (unsigned char)name[i];
        uint32_t high = hash & 0xf0000000U;
        hash = (hash ^ (high >> 24)) & ~high;
    }
    return hash;
}

/* Read from a place of a file; 0 where it has too few bytes. */
static size_t read_at(int file, void *target, size_t least, size_t most, uint64_t offset)
{
    long count = call(SYS_pread64, file, (long)target, (long)most, (long)offset);
    return count < (long)least ? 0 : (size_t)count;
}

/* The newest GLIBC_2.x among version definitions. */
static unsigned newest_in(const char *definitions, size_t bytes)
{
    uint32_t hashes[NEWEST_MINOR + 1];
    for (unsigned minor = 0; minor <= NEWEST_MINOR; minor++) {
        hashes[minor] = hash_of_minor(minor);
    }
    unsigned newest = 0;
    size_t place = 0;
    while (place + sizeof(Elf64_Verdef) <= bytes) {
        const Elf64_Verdef *one = (const Elf64_Verdef *)(const void *)(definitions + place);
        for (unsigned minor = newest + 1; minor <= NEWEST_MINOR; minor++) {
            newest = hashes[minor] == one->vd_hash ? minor : newest;
        }
        if (one->vd_next == 0 || one->vd_next % sizeof(uint32_t) != 0) {
            break;
        }
        place += one->vd_next;
    }
    return newest;
}

/* The newest GLIBC_2.x that a C library defines; 0 where it cannot be read as one.
 *
 * The version definitions are in the first, read-only part of the file, where addresses are offsets.
 */
static unsigned newest_of(int file)
{
    struct {
        Elf64_Ehdr head;
        Elf64_Phdr parts[16];
    } begin;
    Elf64_Dyn dynamic[40];
    _Alignas(8) char definitions[2048];
    size_t bytes = read_at(file, &begin, sizeof begin, sizeof begin, 0);
    if (bytes == 0 || begin.head.e_phoff != sizeof begin.head || begin.head.e_phnum > 16) {
        return 0;
    }
    bytes = 0;
    for (int i = 0; i < begin.head.e_phnum; i++) {
        if (begin.parts[i].p_type == PT_DYNAMIC) {
            bytes = read_at(file, dynamic, sizeof *dynamic, sizeof dynamic, begin.parts[i].p_offset);
        }
    }
    for (size_t i = 0; i < bytes / sizeof *dynamic; i++) {
        if (dynamic[i].d_tag == DT_VERDEF) {
            uint64_t at = dynamic[i].d_un.d_ptr;
            return newest_in(definitions, read_at(file, definitions, 1, sizeof definitions, at));
        }
    }
    return 0;
}

/* Why this machine's own loader cannot be used; NULL where it can. */
static const char *unfit(unsigned *newest)
{
    const char *loader = find('I');
    if (loader == NULL) {
        return NULL;
    }
    if (call(SYS_faccessat, AT_FDCWD, (long)loader, 1, 0) != 0) {
        return "this machine has no such loader";
    }
    for (const char *record = table; *record != '\0'; record = next(record)) {
        long file = *record == 'C' ? call(SYS_openat, AT_FDCWD, (long)(record + 1), O_RDONLY | O_CLOEXEC, 0) : -1;
        if (file >= 0) {
            *newest = newest_of((int)file);
            call(SYS_close, file, 0, 0, 0);
            return *newest >= number_of(find('F')) ? NULL : "this machine's C library is older";
        }
    }
    return "this machine's C library is not where it usually is";
}

static const char *valued(char **environment, const char *name)
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
        while (setting[same] != '\0' && setting[same] != '=' && environment[place][same] == setting[same]) {
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

static char **changed(char **before)
{
    size_t count = 0;
    while (before[count] != NULL) {
        count++;
    }
    for (const char *record = table; *record != '\0'; record = next(record)) {
        count++;
    }
    char **environment = room((count + 1) * sizeof *environment);
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

/* The name the program is told: that of this file for launchers, which look beside themselves. */
static char *shown_name(char *given)
{
    if (find('N') != NULL) {
        return filled(find('N'));
    }
    if (find('A') == NULL) {
        return given;
    }
    char *base = given;
    for (char *at = given; *at != '\0'; at++) {
        base = *at == '/' ? at + 1 : base;
    }
    char *begin = arena + used;
    kept(entry, length(entry));
    while (arena[used - 1] != '/') {
        used--;
    }
    kept(base, length(base));
    return end_text(begin);
}

static void explain(const char *why, unsigned newest)
{
    say("stackproof pack: tier 0, no namespace: ");
    say(program);
    say("\nstackproof pack: needs GLIBC_2.");
    say_number(number_of(find('F')));
    if (newest != 0) {
        say(", and this machine has GLIBC_2.");
        say_number(newest);
    }
    say(why == NULL ? ": by the loader of this machine, " : ": by the loader of the pack, as ");
    say(why == NULL ? find('I') : why);
    say("\n");
}

__attribute__((noreturn)) static void start(char **given, size_t count, char **environment)
{
    unsigned newest = 0;
    const char *why = unfit(&newest);
    program = joined(root, "/", find('P'));
    if (valued(environment, "STACKPROOF_PACK_EXPLAIN") != NULL) {
        explain(why, newest);
    }
    char *loader = program;
    char **arguments = room((count + EXTRA + 1) * sizeof *arguments);
    size_t place = 0;
    char *name = shown_name(count > 0 ? given[0] : entry);
    if (why != NULL) {
        if (find('L') == NULL) {
            stop("this pack cannot run here, and has no loader of its own: ", why,
                 "pack it again, with the C library of the machine that packs");
        }
        loader = joined(root, "/", find('L'));
        char *folder = joined(root, "/", find('D'));
        char *words[] = {loader, "--argv0", name, "--library-path", folder, program};
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            arguments[place++] = words[i];
        }
    } else {
        arguments[place++] = name;
    }
    for (const char *record = table; *record != '\0'; record = next(record)) {
        if (*record == 'X' && place < EXTRA) {
            arguments[place++] = filled(record + 1);
        }
    }
    for (size_t i = 1; i < count; i++) {
        arguments[place++] = given[i];
    }
    arguments[place] = NULL;
    long fault = call(SYS_execve, (long)loader, (long)arguments, (long)environment, 0);
    stop(fault == -ENOENT    ? "the pack is not whole, or its program needs what this machine lacks: "
         : fault == -EACCES  ? "the pack lies where you may not run programs (mounted noexec, or closed to you): "
         : fault == -ENOEXEC ? "the program is for another kind of machine: "
         : fault == -E2BIG   ? "arguments and environment are too large to start: "
                             : "the kernel does not start the program: ",
         loader, "unpack the pack again, to a folder where programs may run");
}

__attribute__((noreturn, used)) void begin(long *stack)
{
    size_t count = (size_t)stack[0];
    char **given = (char **)(stack + 1);
    char **environment = given + count + 1;
    char **end = environment;
    while (*end != NULL) {
        end++;
    }
    const char *started = NULL;
    for (Elf64_auxv_t *fact = (Elf64_auxv_t *)(end + 1); fact->a_type != AT_NULL; fact++) {
        if (fact->a_type == AT_EXECFN) {
            started = (const char *)fact->a_un.a_val;
        }
        if (fact->a_type == AT_SECURE && fact->a_un.a_val != 0) {
            stop("a program of a pack does not run with more rights than its user", "",
                 "take the set-uid bit, or the capabilities, from the file");
        }
    }
    find_entry(started);
    if (find('P') == NULL || find('U') == NULL) {
        stop("this file is no entry point yet: ", entry, "make a pack with `stackproof pack`");
    }
    find_root(find('U'));
    start(given, count, changed(environment));
}
