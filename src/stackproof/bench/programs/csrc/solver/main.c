/* stackproof-solver: an iterative solver that exchanges its halo in several ways.
 *
 * Rank 0 writes the records of stackproof-bench (see emit.h): a `series` for an exchange and one
 * for an iteration of each way, and in the `rank` records what each rank sent and how long its
 * exchanges took. A result that is not the known one is an `error`, and the exit code 4. */
#include "solver.h"

#include "disturb.h"
#include "tell.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double agreement = 1e-10; /* of residuals, relative; */
static const double rounding = 1e-15;  /* below it they are nothing else */
static const double closeness = 1e-8;  /* of the solution, which is at least 1 */

struct run {
    const struct settings *settings;
    struct job job;
    struct matrix matrix;
    struct halo halo;
    struct solver solver;
    double reference[HISTORY]; /* the first residuals of the first way */
    bool solved;
    int iterations[MODES];       /* of each solve; 0: it went wrong */
    uint64_t compared[MODES][2]; /* bytes, and those of them that were wrong */
    uint64_t errors;
    struct text told;     /* of this rank: the member `halo` of its record */
};

char fault[256];
static void *blocks[64];
static size_t block_count;

void *room(size_t count, size_t bytes)
{
    void *block = calloc(count + 1, bytes);
    if (block == NULL || block_count == sizeof blocks / sizeof blocks[0]) {
        (void)fputs(PROGRAM_NAME ": out of memory\n", stderr);
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAULT);
        exit(EXIT_FAULT);
    }
    return blocks[block_count++] = block;
}

/* Return whether no rank has a fault; rank 0 tells the first. Every rank calls it. */
static bool agree(const struct job *job, bool good, const char *reason)
{
    int mine = good ? job->ranks : job->rank;
    int first = 0;
    MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first < job->ranks) {
        MPI_Bcast(fault, sizeof fault, MPI_CHAR, first, MPI_COMM_WORLD);
        if (job->rank == 0) {
            tell_error(reason, fault);
        }
    }
    return first == job->ranks;
}

/* Exchange the known solution, and compare what came of it with what others have. */
static void check_halo(struct run *run)
{
    struct halo *halo = &run->halo;
    double *x = halo->x[halo->mode];
    double *ghosts = x + halo->rows;
    memcpy(x, run->matrix.known, (size_t)halo->rows * sizeof *x);
    memset(ghosts, 0xff, (size_t)halo->in.total * sizeof *ghosts);
    halo_exchange(halo);
    for (int i = 0; i < halo->in.total; i++) {
        double known = matrix_known(matrix_name(&run->matrix, halo->ghost[i]));
        bool same = memcmp(&known, &ghosts[i], sizeof known) == 0;
        run->compared[halo->mode][1] += same ? 0 : sizeof known;
    }
    run->compared[halo->mode][0] += (uint64_t)halo->in.total * sizeof *ghosts;
}

/* Solve in the way that is used now; return whether it gave the known solution, by the residuals
 * of the first solve. */
static bool solve(struct run *run)
{
    struct solver *solver = &run->solver;
    const char *mode = mode_names[run->halo.mode];
    const double *residuals = solver->residuals[run->halo.mode];
    int iterations = solver_run(solver);
    int count = abs(iterations);
    bool good = iterations > 0 || REFUSE("with halo_%s it did not converge: the residual is %g "
                                         "after %d iterations", mode,
                                         residuals[count - 1], count);
    for (int row = 0; row < run->matrix.rows && good; row++) {
        double known = run->matrix.known[row];
        good = fabs(solver->x[row] - known) <= closeness ||
               REFUSE("with halo_%s the solution is wrong: %.12g where it should be %.12g", mode,
                      solver->x[row], known);
    }
    for (int i = 0; i < HISTORY && good; i++) {
        double own = i < count ? residuals[i] : 0.0;
        double known = run->solved ? run->reference[i] : own;
        run->reference[i] = known;
        good = fabs(own - known) <= agreement * known + rounding ||
               REFUSE("with halo_%s residual %d is %.12g, and was %.12g before", mode, i + 1, own,
                      known);
    }
    run->solved = run->solved || good;
    good = agree(&run->job, good, "wrong-physics");
    run->iterations[run->halo.mode] = good ? count : 0;
    run->errors += !good;
    return good;
}

static void tell_series(const struct run *run, int part, const double *values, int count)
{
    char name[32];
    struct text members = {0};
    int mode = run->halo.mode;
    bool halo = part == PART_HALO;
    (void)snprintf(name, sizeof name, "%s_%s", halo ? "halo" : "solve", mode_names[mode]);
    text_string(&members, "benchmark", name);
    text_integer(&members, "size", 0);
    text_string(&members, "unit", "us");
    text_integer(&members, "iterations", halo ? 2 : 1);
    text_reals(&members, "values", values + part * count, count);
    text_unsigned(&members, "validated", run->compared[mode][0]);
    text_unsigned(&members, "errors", run->compared[mode][1]);
    text_reals(&members, "residuals", run->solver.residuals[mode], run->iterations[mode]);
    (void)emit("series", &members);
    text_free(&members);
}

/* Append what this rank sent in one way, and how long its exchanges took. */
static void describe_halo(struct run *run)
{
    struct text *told = &run->told;
    int mode = run->halo.mode;
    int iterations = run->iterations[mode];
    text_key(told, mode_names[mode]);
    text_raw(told, "{", 1);
    text_integer(told, "iterations", iterations);
    text_unsigned(told, "exchanges", run->halo.exchanges[mode]);
    text_integer(told, "messages", run->halo.out.count);
    text_integer(told, "bytes", (long long)sizeof(double) * run->halo.out.total);
    text_reals(told, "residuals", run->solver.residuals[mode],
               iterations < HISTORY ? iterations : HISTORY);
    text_key(told, "histogram");
    text_raw(told, "{", 1);
    for (int bin = 0; bin < BINS; bin++) {
        char from[32];
        (void)snprintf(from, sizeof from, "%lld", 1LL << bin);
        if (run->solver.bins[mode][bin] > 0) {
            text_unsigned(told, from, run->solver.bins[mode][bin]);
        }
    }
    text_raw(told, "}}", 2);
}

/* Exchange what is known once more, and tell what one way took. */
static void finish(struct run *run, double *values, int count)
{
    int mode = run->halo.mode;
    double *slowest = values + PARTS * count;
    check_halo(run);
    MPI_Allreduce(MPI_IN_PLACE, run->compared[mode], 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce(values, slowest, PARTS * count, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    run->errors += run->compared[mode][1];
    describe_halo(run);
    for (int part = 0; part < PARTS && run->job.rank == 0 && run->iterations[mode] > 0; part++) {
        tell_series(run, part, slowest, count);
    }
    halo_close(&run->halo, mode);
}

/* Solve once in each way, and in turns as often again as gives the samples, an iteration each. The
 * first of them differs from launch to launch: what comes first on a busy machine may be slower. */
static void measure(struct run *run)
{
    struct disturbance part;
    double *values[MODES];
    int order[MODES];
    int ways = 0;
    int first = (int)fmod(1e6 * now_seconds(), MODES);
    int iterations = 0;
    MPI_Bcast(&first, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; i < MODES; i++) {
        int mode = (first + i) % MODES;
        if (run->settings->modes[mode]) {
            order[ways++] = mode;
            halo_open(&run->halo, mode);
            check_halo(run);
            iterations = solve(run) ? run->iterations[mode] : iterations;
        }
    }
    int solves = iterations > 0 ? (run->settings->samples - 1) / iterations + 1 : 0;
    int count = solves * iterations;
    for (int i = 0; i < ways; i++) {
        values[order[i]] = room(2 * PARTS * (size_t)count, sizeof *values[0]);
    }
    clocks_watch();
    disturb_start(&part);
    for (int i = 0; i < solves * ways; i++) {
        int mode = run->halo.mode = order[i % ways];
        MPI_Barrier(MPI_COMM_WORLD);
        if (run->iterations[mode] != iterations || !solve(run)) {
            continue; /* it went wrong */
        }
        for (int j = 0; j < iterations * PARTS; j++) {
            int at = i / ways * iterations + j / PARTS;
            values[mode][j % PARTS * count + at] = 1e6 * run->solver.seconds[j];
        }
    }
    disturb_stop(&part);
    clocks_watch();
    for (int mode = 0; mode < MODES; mode++) {
        if (run->settings->modes[mode]) {
            run->halo.mode = mode;
            finish(run, values[mode], count);
        }
    }
}

/* Write this rank's part of the last solution. */
static bool write_solution(const struct run *run)
{
    const struct matrix *matrix = &run->matrix;
    char path[4096];
    (void)snprintf(path, sizeof path, "%s.%d", run->settings->solution, run->job.rank);
    FILE *file = fopen(path, "w");
    for (int row = 0; row < matrix->rows && file != NULL; row++) {
        int64_t name = matrix_name(matrix, matrix->first[run->job.rank] + row);
        (void)fprintf(file, "%" PRId64 " %.17g\n", name, run->solver.x[row]);
    }
    bool good = file != NULL && ferror(file) == 0 && fclose(file) == 0;
    return good || REFUSE("the solution cannot be written to `%.120s`", path);
}

static int run_all(struct run *run)
{
    const struct settings *settings = run->settings;
    struct job *job = &run->job;
    struct text members = {0};
    struct evidence before;
    if (job->rank == 0) {
        emit_begin();
        tell_world(&members, job->ranks);
        tell_clock(&members);
        (void)emit("start", &members);
        text_free(&members);
    }
    int asked = settings->expect_ranks;
    bool right = job->ranks >= 2 && (asked == 0 || asked == job->ranks);
    if (!agree(job, right || REFUSE("the number of ranks is %d; it must be %s%d", job->ranks,
                                    asked > 0 ? "" : "at least ", asked > 0 ? asked : 2),
               "world-size")) {
        return EXIT_WORLD;
    }
    if (!agree(job, matrix_make(settings, job, &run->matrix), "bad-input")) {
        return EXIT_USAGE;
    }
    halo_plan(&run->halo, job, &run->matrix);
    run->solver = (struct solver){.job = job, .matrix = &run->matrix, .halo = &run->halo,
                                  .most = settings->iterations};
    if (!agree(job, solver_begin(&run->solver), "bad-input")) {
        return EXIT_USAGE;
    }
    evidence_take(&before);
    disturb_begin();
    clocks_begin(job);
    text_key(&run->told, "halo");
    text_raw(&run->told, "{", 1);
    measure(run);
    text_raw(&run->told, "}", 1);
    clocks_end(job);
    bool written = settings->solution == NULL || agree(job, write_solution(run), "bad-output");
    tell_ranks(job, &before, &run->told);
    evidence_free(&before);
    text_free(&run->told);
    if (job->rank == 0) {
        tell_end(run->errors);
    }
    int outcome = !emit_ok() || !written ? EXIT_FAULT : run->errors ? EXIT_VALIDATION : EXIT_DONE;
    MPI_Bcast(&outcome, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return outcome;
}

int main(int argc, char **argv)
{
    static struct options none;
    static struct settings settings;
    static struct run run = {.settings = &settings, .job = {.options = &none}};
    int outcome = settings_parse(argc, argv, &settings);
    if (outcome == EXIT_DONE) {
        MPI_Init(&argc, &argv);
        MPI_Comm_rank(MPI_COMM_WORLD, &run.job.rank);
        MPI_Comm_size(MPI_COMM_WORLD, &run.job.ranks);
        outcome = run_all(&run);
        while (block_count > 0) {
            free(blocks[--block_count]);
        }
        MPI_Finalize();
    }
    return outcome < 0 ? EXIT_DONE : outcome;
}
