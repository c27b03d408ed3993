/* The matrix: the hopping operator of a 4-D periodic lattice, or rows of a file.
 *
 * A row of the lattice has for its unknown 0.1 and the sum of eight weights, and for each unknown
 * one site further, either way, a weight's negative: the shape of a Dirac operator, in real
 * numbers. It is not symmetric. A hop changes the component, by the number of its direction. */
#include "solver.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ENTRIES = 2 * DIMENSIONS + 1, HEADER = 32 };

static const double mass = 0.1;
static const char magic[8] = "SPCSR 1\n";
static const int rows_most = 1 << 26;                   /* of one rank */
static const uint64_t entries_most = INT_MAX;           /* of a file, as its rows */

/* Return a number in [0, 1) that depends on nothing but the key. */
static double unit(uint64_t key)
{
    return (double)(pattern_mix(key * UINT64_C(0x9e3779b97f4a7c15)) >> 11) * 0x1p-53;
}

double matrix_known(int64_t name)
{
    return 1.0 + unit(ENTRIES * (uint64_t)name + 2 * DIMENSIONS);
}

int64_t matrix_name(const struct matrix *matrix, int64_t unknown)
{
    if (matrix->components == 0) {
        return unknown;
    }
    int64_t owner = unknown / matrix->rows;
    int64_t site = unknown % matrix->rows / matrix->components;
    int64_t name = 0;
    int64_t stride = 1;
    for (int d = 0; d < DIMENSIONS; d++) {
        name += stride * (owner % matrix->grid[d] * matrix->local[d] + site % matrix->local[d]);
        stride *= (int64_t)matrix->grid[d] * matrix->local[d];
        owner /= matrix->grid[d];
        site /= matrix->local[d];
    }
    return name * matrix->components + unknown % matrix->components;
}

static int64_t unknown_at(const struct matrix *matrix, const int *at, int component)
{
    int64_t owner = 0;
    int64_t site = 0;
    for (int d = DIMENSIONS - 1; d >= 0; d--) {
        owner = owner * matrix->grid[d] + at[d] / matrix->local[d];
        site = site * matrix->local[d] + at[d] % matrix->local[d];
    }
    return owner * matrix->rows + site * matrix->components + component;
}

/* Divide the lattice among the ranks: each prime factor of their number divides the longest side
 * that it can. (What MPI_Dims_create gives may differ between MPIs.) */
static bool divide(const int *extent, int ranks, struct matrix *matrix)
{
    memcpy(matrix->local, extent, sizeof matrix->local);
    for (int d = 0; d < DIMENSIONS; d++) {
        matrix->grid[d] = 1;
    }
    for (int prime = 2; ranks > 1; prime++) {
        for (; ranks % prime == 0; ranks /= prime) {
            int side = -1;
            for (int d = 0; d < DIMENSIONS; d++) {
                bool fits = matrix->local[d] % prime == 0;
                side = fits && (side < 0 || matrix->local[d] > matrix->local[side]) ? d : side;
            }
            if (side < 0) {
                return false;
            }
            matrix->local[side] /= prime;
            matrix->grid[side] *= prime;
        }
    }
    return true;
}

/* Put an entry into a row at its place, or add it to the one that is there. */
static int insert(int64_t *columns, double *values, int count, int64_t column, double value)
{
    int at = count;
    while (at > 0 && columns[at - 1] >= column) {
        at--;
    }
    if (at < count && columns[at] == column) {
        values[at] += value;
        return count;
    }
    memmove(columns + at + 1, columns + at, (size_t)(count - at) * sizeof *columns);
    memmove(values + at + 1, values + at, (size_t)(count - at) * sizeof *values);
    columns[at] = column;
    values[at] = value;
    return count + 1;
}

static int lattice_row(const int *extent, const struct matrix *matrix, int64_t unknown,
                       int64_t *columns, double *values)
{
    int64_t name = matrix_name(matrix, unknown);
    int64_t site = name / matrix->components;
    int at[DIMENSIONS];
    int count = 0;
    double sum = mass;
    for (int d = 0; d < DIMENSIONS; d++) {
        at[d] = (int)(site % extent[d]);
        site /= extent[d];
    }
    for (int direction = 0; direction < 2 * DIMENSIONS; direction++) {
        int d = direction / 2;
        int here = at[d];
        int hop = d % matrix->components;
        bool back = direction % 2 != 0;
        int64_t to = name % matrix->components + (back ? matrix->components - hop : hop);
        double weight = 0.5 + 0.5 * unit(ENTRIES * (uint64_t)name + (uint64_t)direction);
        at[d] = (here + (back ? extent[d] - 1 : 1)) % extent[d];
        count = insert(columns, values, count,
                       unknown_at(matrix, at, (int)(to % matrix->components)), -weight);
        at[d] = here;
        sum += weight;
    }
    return insert(columns, values, count, unknown, sum);
}

static bool make_lattice(const struct settings *settings, const struct job *job,
                         struct matrix *matrix)
{
    const int *extent = settings->extent;
    int64_t rows = settings->components;
    if (!divide(extent, job->ranks, matrix)) {
        return REFUSE("the lattice %dx%dx%dx%d cannot be divided among %d ranks: each prime "
                      "factor of their number must divide a side", extent[0], extent[1], extent[2],
                      extent[3], job->ranks);
    }
    for (int d = 0; d < DIMENSIONS && rows <= rows_most; d++) {
        rows *= matrix->local[d];
    }
    if (rows > rows_most) {
        return REFUSE("the lattice has too many unknowns for %d ranks: each can have %d",
                      job->ranks, rows_most);
    }
    matrix->components = settings->components;
    matrix->rows = (int)rows;
    matrix->unknowns = rows * job->ranks;
    for (int rank = 0; rank <= job->ranks; rank++) {
        matrix->first[rank] = rows * rank;
    }
    matrix->start = room((size_t)rows + 1, sizeof *matrix->start);
    matrix->column = room(ENTRIES * (size_t)rows, sizeof *matrix->column);
    matrix->value = room(ENTRIES * (size_t)rows, sizeof *matrix->value);
    for (int row = 0; row < matrix->rows; row++) {
        int64_t at = matrix->start[row];
        matrix->start[row + 1] = at + lattice_row(extent, matrix, matrix->first[job->rank] + row,
                                                  matrix->column + at, matrix->value + at);
    }
    return true;
}

static bool read_at(FILE *file, void *to, size_t numbers, uint64_t offset)
{
    return fseeko(file, (off_t)offset, SEEK_SET) == 0 && fread(to, 8, numbers, file) == numbers;
}

/* Look whether what was read are rows of a matrix. */
static bool rows_are_good(const struct matrix *matrix, int64_t first)
{
    for (int row = 0; row < matrix->rows; row++) {
        const char *what = NULL;
        for (int64_t e = matrix->start[row]; e < matrix->start[row + 1] && what == NULL; e++) {
            bool ascends = e == matrix->start[row] || matrix->column[e] > matrix->column[e - 1];
            bool there = matrix->column[e] >= 0 && matrix->column[e] < matrix->unknowns;
            what = !there                       ? "a column that the matrix does not have"
                   : !ascends                   ? "columns that are not in ascending order"
                   : !isfinite(matrix->value[e]) ? "a value that is not a finite number"
                                                : NULL;
        }
        if (what != NULL) {
            return REFUSE("row %" PRId64 " of the matrix (counted from 0) has %s",
                          first + row, what);
        }
    }
    return true;
}

static bool read_rows(const struct job *job, FILE *file, const uint64_t *head,
                      struct matrix *matrix)
{
    uint64_t ranks = (uint64_t)job->ranks;
    for (uint64_t rank = 0; rank <= ranks; rank++) {
        matrix->first[rank] = (int64_t)(head[1] / ranks * rank + head[1] % ranks * rank / ranks);
    }
    int64_t first = matrix->first[job->rank];
    int64_t own = matrix->first[job->rank + 1] - first;
    if (own > rows_most) {
        return REFUSE("the matrix has too many rows for %d ranks: each can have %d",
                      job->ranks, rows_most);
    }
    matrix->rows = (int)own;
    matrix->unknowns = (int64_t)head[1];
    int64_t *start = matrix->start = room((size_t)own + 1, sizeof *matrix->start);
    bool read = read_at(file, start, (size_t)own + 1, HEADER + 8 * (uint64_t)first);
    int64_t base = start[0];
    int64_t most = (int64_t)head[3];
    bool grows = base >= 0 && (first > 0 || base == 0) && start[own] <= most &&
                 (job->rank + 1 < job->ranks || start[own] == most);
    for (int64_t row = own - 1; row >= 0; row--) {
        grows = grows && start[row + 1] >= start[row];
    }
    if (read && !grows) {
        return REFUSE("where the rows of the matrix begin does not grow from 0 to its "
                      "number of entries, %" PRId64, most);
    }
    size_t count = read ? (size_t)(start[own] - base) : 0;
    matrix->column = room(count, sizeof *matrix->column);
    matrix->value = room(count, sizeof *matrix->value);
    uint64_t columns = HEADER + 8 * (head[1] + 1) + 8 * (uint64_t)base;
    if (!read || !read_at(file, matrix->column, count, columns) ||
        !read_at(file, matrix->value, count, columns + 8 * head[3])) {
        return REFUSE("the matrix cannot be read: %s", strerror(errno));
    }
    for (int64_t row = 0; row <= own; row++) {
        start[row] -= base;
    }
    return rows_are_good(matrix, first);
}

static bool read_file(const char *path, const struct job *job, struct matrix *matrix)
{
    uint64_t head[HEADER / 8];
    struct stat facts;
    FILE *file = stat(path, &facts) == 0 && S_ISREG(facts.st_mode) ? fopen(path, "rb") : NULL;
    if (file == NULL) {
        return REFUSE("the matrix `%.120s` is no file that can be read", path);
    }
    bool good = read_at(file, head, HEADER / 8, 0) && memcmp(head, magic, sizeof magic) == 0;
    uint64_t size = good && head[1] <= entries_most && head[3] <= entries_most
                        ? HEADER + 8 * (head[1] + 1 + 2 * head[3]) : 0;
    const char *what = !good                              ? "does not begin with `SPCSR 1`"
                       : head[1] != head[2]               ? "is not square"
                       : size == 0                        ? "is too large"
                       : size > (uint64_t)facts.st_size   ? "is cut"
                       : size < (uint64_t)facts.st_size   ? "has more behind its end"
                       : head[1] < (uint64_t)job->ranks   ? "has fewer rows than there are ranks"
                                                          : NULL;
    if (what == NULL) {
        good = read_rows(job, file, head, matrix);
    } else {
        (void)REFUSE("the matrix `%.120s` %s: %" PRIu64 " rows, %" PRIu64 " columns and %"
                     PRIu64 " entries in %" PRId64 " bytes", path, what, good ? head[1] : 0,
                     good ? head[2] : 0, good ? head[3] : 0, (int64_t)facts.st_size);
        good = false;
    }
    (void)fclose(file);
    return good;
}

bool matrix_make(const struct settings *settings, const struct job *job, struct matrix *matrix)
{
    matrix->first = room((size_t)job->ranks + 1, sizeof *matrix->first);
    if (!(settings->matrix != NULL ? read_file(settings->matrix, job, matrix)
                                   : make_lattice(settings, job, matrix))) {
        return false;
    }
    matrix->right = room((size_t)matrix->rows, sizeof *matrix->right);
    matrix->known = room((size_t)matrix->rows, sizeof *matrix->known);
    for (int row = 0; row < matrix->rows; row++) {
        matrix->known[row] = matrix_known(matrix_name(matrix, matrix->first[job->rank] + row));
        for (int64_t e = matrix->start[row]; e < matrix->start[row + 1]; e++) {
            double known = matrix_known(matrix_name(matrix, matrix->column[e]));
            matrix->right[row] += matrix->value[e] * known;
        }
    }
    return true;
}
