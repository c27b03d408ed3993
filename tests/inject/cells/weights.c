/* MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY: addresses of the library in a graph.
   build: $CC -O2 -no-pie -o $OUT $SRC $MPI */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int rank, indegree, outdegree, weighted;
    MPI_Comm graph;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int other = 1 - rank;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &other, MPI_UNWEIGHTED, 1, &other,
                                   MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
    MPI_Dist_graph_neighbors_count(graph, &indegree, &outdegree, &weighted);
    return finish(indegree == 1 && outdegree == 1 && !weighted);
}
