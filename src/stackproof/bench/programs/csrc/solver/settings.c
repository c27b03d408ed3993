/* The command line of the solver. Bad options are told on standard error before MPI starts. */
#include "solver.h"

#include "parse.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { EXTENT_MAX = 65535, COMPONENTS_MAX = 64, ITERATIONS_MAX = 100000, SAMPLES_MAX = 100000 };

const char *const mode_names[MODES] = {"indexed", "pack", "neighbour", "persistent", "onesided"};

static const char usage[] =
    "usage: mpiexec -n RANKS " PROGRAM_NAME " [options]\n"
    "\n"
    "  --modes LIST        ways to exchange the halo: indexed, pack, neighbour, persistent,\n"
    "                      onesided (default: all)\n"
    "  --lattice XxYxZxT   sites of the 4-D lattice (default 8x8x8x8)\n"
    "  --components N      unknowns of a site (default 4)\n"
    "  --matrix FILE       solve with this matrix in the place of the lattice's (default: none)\n"
    "  --solution FILE     write what each rank has of the solution to FILE.RANK: an unknown and\n"
    "                      its value a line (default: nowhere)\n"
    "  --samples N         solve until so many iterations of a mode were timed (default 20)\n"
    "  --iterations N      give up after so many (default 1000)\n"
    "  --expect-ranks N    end with code 3 unless there are N ranks (default: any from two)\n"
    "  --help, --version\n";

static bool take_modes(const char *list, bool *modes)
{
    char names[64] = "";
    char *next = names;
    int mode = 0;
    (void)strncpy(names, list, sizeof names - 1);
    memset(modes, 0, MODES * sizeof *modes);
    while (next != NULL) {
        if (!parse_name(strsep(&next, ","), mode_names, MODES, &mode)) {
            return false;
        }
        modes[mode] = true;
    }
    return strlen(list) < sizeof names;
}

static bool take_lattice(const char *text, int *extent)
{
    char sides[64] = "";
    char *next = sides;
    (void)strncpy(sides, text, sizeof sides - 1);
    for (int d = 0; d < DIMENSIONS; d++) {
        if (next == NULL || !parse_int(strsep(&next, "x"), 1, EXTENT_MAX, &extent[d])) {
            return false;
        }
    }
    return next == NULL && strlen(text) < sizeof sides;
}

/* Return 1 for an option that was taken, 0 for a bad value, -1 for an unknown option. */
static int take_option(const char *name, const char *value, struct settings *settings)
{
    const struct {
        const char *name;
        int *value;
        int most;
    } numbers[] = {
        {"--components", &settings->components, COMPONENTS_MAX},
        {"--samples", &settings->samples, SAMPLES_MAX},
        {"--iterations", &settings->iterations, ITERATIONS_MAX},
        {"--expect-ranks", &settings->expect_ranks, INT_MAX},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strcmp(name, numbers[i].name) == 0) {
            return parse_int(value, 1, numbers[i].most, numbers[i].value);
        }
    }
    if (strcmp(name, "--matrix") == 0 || strcmp(name, "--solution") == 0) {
        *(name[2] == 'm' ? &settings->matrix : &settings->solution) = value;
        return value[0] != '\0';
    }
    return strcmp(name, "--modes") == 0     ? take_modes(value, settings->modes)
           : strcmp(name, "--lattice") == 0 ? take_lattice(value, settings->extent)
                                            : -1;
}

int settings_parse(int argc, char **argv, struct settings *settings)
{
    *settings = (struct settings){.modes = {true, true, true, true, true},
                                  .extent = {8, 8, 8, 8}, .components = 4, .samples = 20,
                                  .iterations = 1000};
    for (int i = 1; i < argc; i += 2) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "--version") == 0) {
            bool help = argv[i][2] == 'h';
            (void)puts(help ? usage : PROGRAM_NAME " " PROGRAM_VERSION " (" COMPAT_HEADER ")");
            return -1;
        }
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        int taken = take_option(argv[i], value, settings);
        if (taken <= 0) {
            (void)fprintf(stderr, PROGRAM_NAME ": %s%s%s `%s`\n%s", taken < 0 ? "" : "`",
                          taken < 0 ? "" : value, taken < 0 ? "unknown option" :
                          "` is not a value of", argv[i], usage);
            return EXIT_USAGE;
        }
    }
    return EXIT_DONE;
}
