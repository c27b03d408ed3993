/* BiCGSTAB (H. A. van der Vorst, SIAM J. Sci. Stat. Comput. 13(2), 1992), preconditioned from the
 * right by ILU(0) of each rank's own block (J. A. Meijerink and H. A. van der Vorst, Math. Comp.
 * 31(137), 1977). Sums over the ranks are made in their order, so that every MPI and every way to
 * exchange the halo gives the same residuals. */
#include "solver.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { VECTORS = 7, SUMS = 2 };

static const double tolerance = 1e-12;

/* Copy the rank's own block and factorise it in its own pattern. */
static bool factorise(struct solver *solver)
{
    const struct matrix *matrix = solver->matrix;
    int64_t *place = room((size_t)matrix->rows, sizeof *place); /* of a column in the row, from 1 */
    int64_t count = 0;
    for (int row = 0; row < matrix->rows; row++) {
        int64_t begin = solver->start[row] = count;
        int64_t diagonal = -1;
        for (int64_t e = matrix->start[row]; e < matrix->start[row + 1]; e++) {
            if (matrix->column[e] < matrix->rows) {
                solver->column[count] = (int)matrix->column[e];
                solver->factor[count] = matrix->value[e];
                diagonal = matrix->column[e] == row ? count : diagonal;
                place[matrix->column[e]] = ++count;
            }
        }
        for (int64_t e = begin; e < count && solver->column[e] < row; e++) {
            int other = solver->column[e];
            solver->factor[e] /= solver->factor[solver->diagonal[other]];
            for (int64_t f = solver->diagonal[other] + 1; f < solver->start[other + 1]; f++) {
                if (place[solver->column[f]] > begin) {
                    solver->factor[place[solver->column[f]] - 1] -=
                        solver->factor[e] * solver->factor[f];
                }
            }
        }
        solver->start[row + 1] = count;
        double pivot = diagonal < 0 ? 0.0 : solver->factor[diagonal];
        if (!isnormal(pivot)) {
            return REFUSE("row %" PRId64 " of the matrix (counted from 0) has no pivot for "
                          "ILU(0): its diagonal entry is missing, or becomes 0",
                          matrix->first[solver->job->rank] + row);
        }
        solver->diagonal[row] = diagonal;
    }
    return true;
}

bool solver_begin(struct solver *solver)
{
    const struct matrix *matrix = solver->matrix;
    size_t rows = (size_t)matrix->rows;
    size_t entries = (size_t)matrix->start[rows];
    solver->start = room(rows + 1, sizeof *solver->start);
    solver->diagonal = room(rows, sizeof *solver->diagonal);
    solver->column = room(entries, sizeof *solver->column);
    solver->factor = room(entries, sizeof *solver->factor);
    solver->vectors = room(VECTORS * rows, sizeof *solver->vectors);
    solver->x = solver->vectors;
    solver->sums = room(SUMS * (size_t)solver->job->ranks, sizeof *solver->sums);
    for (int mode = 0; mode < MODES; mode++) {
        solver->residuals[mode] = room((size_t)solver->most, sizeof *solver->residuals[mode]);
    }
    solver->seconds = room(PARTS * (size_t)solver->most, sizeof *solver->seconds);
    return factorise(solver);
}

/* Solve with the factors: `to` = (LU)^-1 `from`. */
static void precondition(const struct solver *solver, const double *from, double *to)
{
    int rows = solver->matrix->rows;
    for (int row = 0; row < rows; row++) {
        to[row] = from[row];
        for (int64_t e = solver->start[row]; e < solver->diagonal[row]; e++) {
            to[row] -= solver->factor[e] * to[solver->column[e]];
        }
    }
    for (int row = rows - 1; row >= 0; row--) {
        for (int64_t e = solver->diagonal[row] + 1; e < solver->start[row + 1]; e++) {
            to[row] -= solver->factor[e] * to[solver->column[e]];
        }
        to[row] /= solver->factor[solver->diagonal[row]];
    }
}

/* `to` = A `from`; return the seconds that the exchange took. */
static double multiply(struct solver *solver, const double *from, double *to)
{
    const struct matrix *matrix = solver->matrix;
    double *x = solver->halo->x[solver->halo->mode];
    memcpy(x, from, (size_t)matrix->rows * sizeof *from);
    double begin = now_seconds();
    halo_exchange(solver->halo);
    double took = now_seconds() - begin;
    solver->bins[solver->halo->mode][took < 1e-9 ? 0 : ilogb(took * 1e9) % BINS]++;
    for (int row = 0; row < matrix->rows; row++) {
        to[row] = 0.0;
        for (int64_t e = matrix->start[row]; e < matrix->start[row + 1]; e++) {
            to[row] += matrix->value[e] * x[matrix->column[e]];
        }
    }
    return took;
}

/* Put (a, b) and (a, c) over all ranks into `sums`. */
static void dots(const struct solver *solver, const double *a, const double *b, const double *c,
                 double *sums)
{
    double mine[SUMS] = {0.0, 0.0};
    for (int row = 0; row < solver->matrix->rows; row++) {
        mine[0] += a[row] * b[row];
        mine[1] += a[row] * c[row];
    }
    MPI_Allgather(mine, SUMS, MPI_DOUBLE, solver->sums, SUMS, MPI_DOUBLE, MPI_COMM_WORLD);
    sums[0] = sums[1] = 0.0;
    for (int i = 0; i < SUMS * solver->job->ranks; i++) {
        sums[i % SUMS] += solver->sums[i];
    }
}

int solver_run(struct solver *solver)
{
    int rows = solver->matrix->rows;
    size_t stride = (size_t)rows;
    const double *b = solver->matrix->right;
    double *x = solver->x;
    double *r = x + stride;
    double *p = r + stride;
    double *v = p + stride;
    double *t = v + stride;
    double *p_hat = t + stride;
    double *s_hat = p_hat + stride;
    double *residuals = solver->residuals[solver->halo->mode];
    double sums[SUMS];
    double ts[SUMS];
    double rho = 1.0;
    double alpha = 1.0;
    double omega = 1.0;
    memset(solver->vectors, 0, VECTORS * stride * sizeof *solver->vectors);
    memcpy(r, b, stride * sizeof *r);
    dots(solver, b, b, r, sums); /* the shadow residual is that of the beginning, b */
    double norm = sqrt(sums[0]);
    for (int i = 0; i < solver->most; i++) {
        double begin = now_seconds();
        double beta = sums[1] / rho * (alpha / omega);
        rho = sums[1];
        for (int row = 0; row < rows; row++) {
            p[row] = r[row] + beta * (p[row] - omega * v[row]);
        }
        precondition(solver, p, p_hat);
        double halo = multiply(solver, p_hat, v);
        dots(solver, b, v, v, sums);
        alpha = rho / sums[0];
        for (int row = 0; row < rows; row++) {
            r[row] -= alpha * v[row]; /* s of the paper */
        }
        precondition(solver, r, s_hat);
        halo += multiply(solver, s_hat, t);
        dots(solver, t, t, r, ts);
        omega = ts[0] > 0.0 ? ts[1] / ts[0] : 0.0; /* 0: s is 0, and x the solution */
        for (int row = 0; row < rows; row++) {
            x[row] += alpha * p_hat[row] + omega * s_hat[row];
            r[row] -= omega * t[row];
        }
        dots(solver, r, r, b, sums);
        residuals[i] = sqrt(sums[0]) / norm;
        solver->seconds[PARTS * i + PART_HALO] = halo / 2.0;
        solver->seconds[PARTS * i + PART_SOLVE] = now_seconds() - begin;
        if (!(residuals[i] > tolerance)) {
            return isfinite(residuals[i]) ? i + 1 : -(i + 1);
        }
    }
    return -solver->most;
}
