/* The words of the solver: settings, a matrix by rows, the halo that a product with it needs. */
#ifndef STACKPROOF_SOLVER_H
#define STACKPROOF_SOLVER_H

#include "bench.h"

#include <stdio.h>

enum { MODES = 5, DIMENSIONS = 4, HISTORY = 10, BINS = 48 };

/* How the entries that other ranks own are brought; see docs/explanation/benchmark-program.md. */
enum mode { MODE_INDEXED, MODE_PACK, MODE_NEIGHBOUR, MODE_PERSISTENT, MODE_ONESIDED };
extern const char *const mode_names[MODES];

enum part { PART_HALO, PART_SOLVE, PARTS }; /* what is timed: an exchange, an iteration */

struct settings {
    bool modes[MODES];
    int extent[DIMENSIONS];
    int components;       /* unknowns of a site */
    const char *matrix;   /* a file, NULL for the lattice */
    const char *solution; /* where the solution is written, NULL: nowhere */
    int samples;
    int iterations; /* the most of one solve */
    int expect_ranks;
};

/* The rows of one rank. Unknowns are numbered so that those of a rank follow each other. */
struct matrix {
    int64_t unknowns;
    int64_t *first; /* the first unknown of each rank, and the number of all */
    int rows;
    int64_t *start;  /* rows + 1: where the entries of a row begin */
    int64_t *column; /* of all unknowns; after `halo_plan` a place in `halo.x` */
    double *value;
    double *right; /* the right-hand side, which the known solution has */
    double *known; /* that solution, of this rank's unknowns */
    int grid[DIMENSIONS]; /* ranks each way; of a lattice, as all below */
    int local[DIMENSIONS];
    int components; /* 0: the matrix is from a file */
};

/* Why this rank cannot go on; false, so that it can be returned. */
extern char fault[256]; /* main.c */
#define REFUSE(...) ((void)snprintf(fault, sizeof fault, __VA_ARGS__), false)

/* settings.c: return EXIT_DONE to go on, another code to end with, -1 to end well (--help). */
int settings_parse(int argc, char **argv, struct settings *settings);

/* matrix.c: make or read this rank's rows; false, with why, where they cannot be had. */
bool matrix_make(const struct settings *settings, const struct job *job, struct matrix *matrix);
/* Return an unknown's number in the order of the lattice or of the file. */
int64_t matrix_name(const struct matrix *matrix, int64_t unknown);
/* Return the known solution at the unknown with this name, in [1, 2). */
double matrix_known(int64_t name);

/* The ranks that one receives from, or sends to. */
struct side {
    int count;
    int total;   /* entries */
    int *rank;
    int *length; /* how many entries of each, */
    int *at;     /* and where they begin */
};

/* halo.c */
struct halo {
    int mode; /* the one that is used now */
    int rows;
    double *x[MODES]; /* the own entries, and behind them the ghosts, by owner and number */
    int64_t *ghost; /* which unknowns the ghosts are */
    struct side in;
    struct side out;
    int *target;  /* of all ranks: where in its `x` what this one sends begins */
    int *send;    /* places in `x` */
    int *runs;    /* room for their lengths and beginnings */
    double *packed;
    MPI_Request *requests;
    MPI_Request *persistent;
    MPI_Datatype *types;
    MPI_Comm graph;
    MPI_Win window;
    MPI_Group sources;
    MPI_Group targets;
    uint64_t exchanges[MODES];
};

void halo_plan(struct halo *halo, const struct job *job, struct matrix *matrix);
/* Set a mode up, and use it; `halo.mode` chooses among those that are. */
void halo_open(struct halo *halo, int mode);
void halo_exchange(struct halo *halo);
void halo_close(struct halo *halo, int mode);

/* krylov.c */
struct solver {
    const struct job *job;
    const struct matrix *matrix;
    struct halo *halo;
    int64_t *start; /* of the factors L and U, in the pattern of the rank's own block */
    int64_t *diagonal;
    int *column;
    double *factor;
    double *vectors; /* one block */
    double *x;       /* the last solution */
    double *sums;
    int most;               /* iterations */
    double *residuals[MODES]; /* of the last solve, relative to the right-hand side */
    double *seconds;        /* of each iteration its PARTS */
    uint64_t bins[MODES][BINS]; /* exchanges that took from 2^bin to 2^(bin+1) ns */
};

bool solver_begin(struct solver *solver);
/* Solve from zero; return the number of iterations, negative where it did not converge. */
int solver_run(struct solver *solver);

/* main.c: memory of zeroes until the end, or the end of all ranks. */
void *room(size_t count, size_t bytes);

#endif
