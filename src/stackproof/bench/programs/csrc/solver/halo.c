/* The halo: which entries a rank needs of others, and five ways to exchange them. */
#include "solver.h"

#include <stdlib.h>
#include <string.h>

enum { TAG_HALO = 200 };

static struct side side_of(int ranks, const int *lengths)
{
    struct side side = {0};
    side.rank = room(3 * (size_t)ranks, sizeof *side.rank);
    side.length = side.rank + ranks;
    side.at = side.length + ranks;
    for (int rank = 0; rank < ranks; rank++) {
        if (lengths[rank] > 0) {
            side.rank[side.count] = rank;
            side.length[side.count] = lengths[rank];
            side.at[side.count++] = side.total;
            side.total += lengths[rank];
        }
    }
    return side;
}

static int by_number(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* Return the unknowns of other ranks that the rows need, in order and each once. */
static int64_t *ghosts_of(const struct matrix *matrix, int64_t first, int *count)
{
    int64_t entries = matrix->start[matrix->rows];
    int64_t *ghost = room((size_t)entries, sizeof *ghost);
    size_t found = 0;
    for (int64_t e = 0; e < entries; e++) {
        if (matrix->column[e] < first || matrix->column[e] >= first + matrix->rows) {
            ghost[found++] = matrix->column[e];
        }
    }
    qsort(ghost, found, sizeof *ghost, by_number);
    *count = 0;
    for (size_t i = 0; i < found; i++) {
        if (i == 0 || ghost[i] != ghost[i - 1]) {
            ghost[(*count)++] = ghost[i];
        }
    }
    return ghost;
}

void halo_plan(struct halo *halo, const struct job *job, struct matrix *matrix)
{
    size_t ranks = (size_t)job->ranks;
    int *numbers = room(4 * ranks, sizeof *numbers);
    int *want = numbers;
    int *give = numbers + ranks;
    int *want_at = numbers + 2 * ranks;
    int *give_at = numbers + 3 * ranks;
    int64_t first = matrix->first[job->rank];
    int ghosts = 0;
    halo->rows = matrix->rows;
    halo->ghost = ghosts_of(matrix, first, &ghosts);
    for (int ghost = 0, rank = 0; ghost < ghosts; ghost++) {
        while (halo->ghost[ghost] >= matrix->first[rank + 1]) {
            rank++;
        }
        want[rank]++;
    }
    MPI_Alltoall(want, 1, MPI_INT, give, 1, MPI_INT, MPI_COMM_WORLD);
    halo->in = side_of(job->ranks, want);
    halo->out = side_of(job->ranks, give);
    for (size_t rank = 1; rank < ranks; rank++) {
        want_at[rank] = want_at[rank - 1] + want[rank - 1];
        give_at[rank] = give_at[rank - 1] + give[rank - 1];
    }
    halo->target = room(ranks, sizeof *halo->target);
    MPI_Alltoall(want_at, 1, MPI_INT, halo->target, 1, MPI_INT, MPI_COMM_WORLD);
    for (size_t rank = 0; rank < ranks; rank++) { /* behind what is the other rank's own */
        halo->target[rank] += (int)(matrix->first[rank + 1] - matrix->first[rank]);
    }
    int64_t *asked = room((size_t)halo->out.total, sizeof *asked);
    MPI_Alltoallv(halo->ghost, want, want_at, MPI_INT64_T, asked, give, give_at, MPI_INT64_T,
                  MPI_COMM_WORLD);
    halo->send = room((size_t)halo->out.total, sizeof *halo->send);
    for (int i = 0; i < halo->out.total; i++) {
        halo->send[i] = (int)(asked[i] - first);
    }
    for (int64_t e = 0; e < matrix->start[matrix->rows]; e++) {
        int64_t *column = &matrix->column[e];
        bool own = *column >= first && *column < first + matrix->rows;
        const int64_t *ghost = own ? NULL : bsearch(column, halo->ghost, (size_t)ghosts,
                                                    sizeof *column, by_number);
        *column = own ? *column - first : matrix->rows + (ghost - halo->ghost);
    }
    double *x = room((size_t)(halo->rows + ghosts), sizeof *x);
    for (int mode = 0; mode < MODES; mode++) {
        halo->x[mode] = x; /* but of one-sided */
    }
    halo->runs = room(2 * (size_t)halo->out.total, sizeof *halo->runs);
    halo->packed = room((size_t)halo->out.total, sizeof *halo->packed);
    halo->requests = room(4 * ranks, sizeof *halo->requests);
    halo->persistent = halo->requests + 2 * ranks;
    halo->types = room(ranks, sizeof *halo->types);
}

/* Describe what goes to a rank, runs of neighbouring entries as one block. */
static MPI_Datatype indexed_type(const struct halo *halo, const int *places, int count)
{
    int *blocks = halo->runs;
    int *at = halo->runs + count;
    int found = 0;
    for (int i = 0; i < count; i++) {
        if (i == 0 || places[i] != places[i - 1] + 1) {
            at[found] = places[i];
            blocks[found++] = 0;
        }
        blocks[found - 1]++;
    }
    MPI_Datatype type;
    MPI_Type_indexed(found, blocks, at, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

void halo_open(struct halo *halo, int mode)
{
    struct side *in = &halo->in;
    struct side *out = &halo->out;
    MPI_Group all;
    halo->mode = mode;
    if (mode == MODE_INDEXED) {
        for (int i = 0; i < out->count; i++) {
            halo->types[i] = indexed_type(halo, halo->send + out->at[i], out->length[i]);
        }
    } else if (mode == MODE_NEIGHBOUR) {
        MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in->count, in->rank, in->length,
                                       out->count, out->rank, out->length, MPI_INFO_NULL, 0,
                                       &halo->graph);
    } else if (mode == MODE_PERSISTENT) {
        for (int i = 0; i < in->count; i++) {
            MPI_Recv_init(halo->x[mode] + halo->rows + in->at[i], in->length[i], MPI_DOUBLE,
                          in->rank[i], TAG_HALO, MPI_COMM_WORLD, &halo->persistent[i]);
        }
        for (int i = 0; i < out->count; i++) {
            MPI_Send_init(halo->packed + out->at[i], out->length[i], MPI_DOUBLE, out->rank[i],
                          TAG_HALO, MPI_COMM_WORLD, &halo->persistent[in->count + i]);
        }
    } else if (mode == MODE_ONESIDED) {
        MPI_Aint bytes = (MPI_Aint)sizeof(double) * (halo->rows + in->total);
        MPI_Win_allocate(bytes, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &halo->x[mode],
                         &halo->window);
        MPI_Comm_group(MPI_COMM_WORLD, &all);
        MPI_Group_incl(all, in->count, in->rank, &halo->sources);
        MPI_Group_incl(all, out->count, out->rank, &halo->targets);
        MPI_Group_free(&all);
    }
}

/* Receive into the ghosts, and send what was packed or, by a type, what lies in `x`. */
static void send_and_receive(struct halo *halo)
{
    const struct side *in = &halo->in;
    const struct side *out = &halo->out;
    bool typed = halo->mode == MODE_INDEXED;
    double *x = halo->x[halo->mode];
    for (int i = 0; i < in->count; i++) {
        MPI_Irecv(x + halo->rows + in->at[i], in->length[i], MPI_DOUBLE, in->rank[i],
                  TAG_HALO, MPI_COMM_WORLD, &halo->requests[i]);
    }
    for (int i = 0; i < out->count; i++) {
        MPI_Isend(typed ? x : halo->packed + out->at[i], typed ? 1 : out->length[i],
                  typed ? halo->types[i] : MPI_DOUBLE, out->rank[i], TAG_HALO, MPI_COMM_WORLD,
                  &halo->requests[in->count + i]);
    }
    MPI_Waitall(in->count + out->count, halo->requests, MPI_STATUSES_IGNORE);
}

/* Put what was packed into the ghosts of others, between those who are concerned alone. */
static void put(struct halo *halo)
{
    const struct side *out = &halo->out;
    MPI_Win_post(halo->sources, 0, halo->window);
    MPI_Win_start(halo->targets, 0, halo->window);
    for (int i = 0; i < out->count; i++) {
        MPI_Aint at = halo->target[out->rank[i]];
        MPI_Put(halo->packed + out->at[i], out->length[i], MPI_DOUBLE, out->rank[i], at,
                out->length[i], MPI_DOUBLE, halo->window);
    }
    MPI_Win_complete(halo->window);
    MPI_Win_wait(halo->window);
}

void halo_exchange(struct halo *halo)
{
    const struct side *in = &halo->in;
    const struct side *out = &halo->out;
    int both = in->count + out->count;
    double *x = halo->x[halo->mode];
    for (int i = 0; halo->mode != MODE_INDEXED && i < out->total; i++) {
        halo->packed[i] = x[halo->send[i]];
    }
    if (halo->mode == MODE_NEIGHBOUR) {
        MPI_Neighbor_alltoallv(halo->packed, out->length, out->at, MPI_DOUBLE,
                               x + halo->rows, in->length, in->at, MPI_DOUBLE, halo->graph);
    } else if (halo->mode == MODE_PERSISTENT) {
        MPI_Startall(both, halo->persistent);
        MPI_Waitall(both, halo->persistent, MPI_STATUSES_IGNORE);
    } else if (halo->mode == MODE_ONESIDED) {
        put(halo);
    } else {
        send_and_receive(halo);
    }
    halo->exchanges[halo->mode]++;
}

void halo_close(struct halo *halo, int mode)
{
    if (mode == MODE_NEIGHBOUR) {
        MPI_Comm_free(&halo->graph);
    } else if (mode == MODE_ONESIDED) {
        MPI_Group_free(&halo->sources);
        MPI_Group_free(&halo->targets);
        MPI_Win_free(&halo->window);
    }
    for (int i = 0; mode == MODE_INDEXED && i < halo->out.count; i++) {
        MPI_Type_free(&halo->types[i]);
    }
    for (int i = 0; mode == MODE_PERSISTENT && i < halo->in.count + halo->out.count; i++) {
        MPI_Request_free(&halo->persistent[i]);
    }
}
