"""What a program of a pack costs to start, beside a bare one and a wrapper as `guix pack -R` has.

    python benchmarks/pack_start.py [--count N]

COUNT starts of each (default 2000), in turns, timed by a program in C around posix_spawn(3) and
waitpid(2): a tiny dynamic program bare; the same in a pack (entry point, then the loader of this
machine, or the pack's own); and behind a static wrapper that does what Guix documents of such
packs ("guix pack", --relocatable, engine `userns`): a folder in /tmp, a user and a mount namespace,
every entry of the root and the store bound into it, chroot, and a parent that waits and removes the
folder. The wrapper is written from that description and holds nothing of Guix. On a busy machine
`chrt -f 50` in front gives all of them the processor first. Medians, quartiles, and ratios to the
bare program within turns.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from stackproof.pack.effects import entry_files
from stackproof.pack.model import EntryPoint, Loading

INTERPRETER = "/lib64/ld-linux-x86-64.so.2"
LIBC = "/lib/x86_64-linux-gnu/libc.so.6"
TINY = "int main(void) { return 0; }"
TIMER = r"""
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
extern char **environ;
int main(int count, char **words)
{
    for (int turn = atoi(words[1]); turn > 0; turn--) {
        for (int i = 2; i < count; i++) {
            struct timespec a, b;
            char *argv[] = {words[i], NULL};
            pid_t child;
            int status;
            clock_gettime(CLOCK_MONOTONIC, &a);
            if (posix_spawn(&child, words[i], NULL, NULL, argv, environ) != 0) return 1;
            waitpid(child, &status, 0);
            clock_gettime(CLOCK_MONOTONIC, &b);
            if (status != 0) return 1;
            long long all = (b.tv_sec - a.tv_sec) * 1000000000LL + b.tv_nsec - a.tv_nsec;
            printf("%.1f ", (double)all / 1e3);
        }
        puts("");
    }
    return 0;
}
"""
WRAPPER = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static void put(const char *path, const char *text)
{
    int file = open(path, O_WRONLY);
    if (file < 0 || write(file, text, strlen(text)) < 0) exit(3);
    close(file);
}
int main(int count, char **words)
{
    char top[] = "/tmp/pack-exec-XXXXXX", here[4096], map[64], path[4200];
    (void)count;
    if (!mkdtemp(top) || !getcwd(here, sizeof here)) return 2;
    uid_t user = getuid();
    gid_t group = getgid();
    long flags = CLONE_NEWNS | CLONE_NEWUSER | SIGCHLD;
    pid_t child = (pid_t)syscall(SYS_clone, flags, 0, 0, 0, 0);
    if (child == 0) {
        snprintf(map, sizeof map, "%u %u 1", user, user);
        put("/proc/self/uid_map", map);
        put("/proc/self/setgroups", "deny");
        snprintf(map, sizeof map, "%u %u 1", group, group);
        put("/proc/self/gid_map", map);
        DIR *folder = opendir("/");
        for (struct dirent *one; folder && (one = readdir(folder));) {
            char from[300];
            struct stat state;
            if (!strcmp(one->d_name, ".") || !strcmp(one->d_name, "..")) continue;
            snprintf(from, sizeof from, "/%s", one->d_name);
            snprintf(path, sizeof path, "%s/%s", top, one->d_name);
            if (lstat(from, &state) != 0) continue;
            if (S_ISLNK(state.st_mode)) {
                char text[300] = {0};
                if (readlink(from, text, sizeof text - 1) > 0 && symlink(text, path) != 0) exit(4);
                continue;
            }
            if (S_ISDIR(state.st_mode)) mkdir(path, 0700);
            else close(open(path, O_CREAT | O_WRONLY, 0600));
            mount(from, path, "none", MS_BIND | MS_REC, NULL);
        }
        snprintf(path, sizeof path, "%s/the-store", top);
        mkdir(path, 0700);
        if (mount(STORE, path, "none", MS_BIND, NULL) != 0) exit(5);
        if (chroot(top) != 0 || chdir(here) != 0) exit(5);
        execv("/the-store/tiny", words);
        exit(6);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return 7;
    DIR *folder = opendir(top);
    for (struct dirent *one; folder && (one = readdir(folder));) {
        snprintf(path, sizeof path, "%s/%s", top, one->d_name);
        if (rmdir(path) != 0) unlink(path);
    }
    rmdir(top);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}
"""


def compile_c(code: str, target: Path, *options: str) -> str:
    """Compile a program, and return its path."""
    argv = ["gcc", "-O2", "-x", "c", "-", "-o", str(target), *options]
    subprocess.run(argv, input=code.encode(), check=True)
    return str(target)


def packed(folder: Path, tiny: str, floor: int) -> str:
    """Return the entry point of a pack with the tiny program."""
    for name in ("bin", "real", "glibc"):
        (folder / name).mkdir(parents=True)
    for source, target in ((tiny, "real/tiny"), (INTERPRETER, ""), (LIBC, "")):
        place = folder / (target or f"glibc/{Path(source).name}")
        place.write_bytes(Path(source).read_bytes())
        place.chmod(0o755)
    entry = EntryPoint(place="bin/tiny", program="real/tiny")
    own = f"glibc/{Path(INTERPRETER).name}"
    loading = Loading(floor=floor, interpreter=INTERPRETER, own=own, libraries=(LIBC,))
    entry_files.write_entries(folder, (entry,), loading)
    return str(folder / entry.place)


def main() -> None:
    """Time the starts, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stackproof-pack-start-") as text:
        folder = Path(text)
        timer = compile_c(TIMER, folder / "timer")
        (folder / "store").mkdir()
        tiny = compile_c(TINY, folder / "store/tiny")
        programs = {
            "bare": tiny,
            "pack, the machine's loader": packed(folder / "a", tiny, 17),
            "pack, its own loader": packed(folder / "b", tiny, 98),
            "bare, linked statically": compile_c(TINY, folder / "static", "-static"),
            "wrapper as of guix pack -R": compile_c(
                WRAPPER, folder / "wrapper", "-static", f'-DSTORE="{folder}/store"'
            ),
        }
        done = subprocess.run(
            [timer, str(args.count), *programs.values()],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            sys.exit("one of the programs does not run here (user namespaces off?)")
        rows = [[float(word) for word in line.split()] for line in done.stdout.splitlines()]
    print(f"{'':<28}{'median us':>10}{'quartiles':>16}{'of bare':>9}{'quartiles':>14}")
    for number, name in enumerate(programs):
        times = [row[number] for row in rows]
        low, middle, high = statistics.quantiles(times, n=4)
        ratio = statistics.quantiles([row[number] / row[0] for row in rows], n=4)
        print(
            f"{name:<28}{middle:>10.0f}{f'{low:.0f} to {high:.0f}':>16}{ratio[1]:>9.2f}"
            f"{f'{ratio[0]:.2f} to {ratio[2]:.2f}':>14}"
        )


if __name__ == "__main__":
    main()
