/* The benchmarks, by the names that the results use. */
#include "bench.h"

const struct benchmark *const benchmark_table[BENCHMARK_COUNT] = {
    &bench_latency,  &bench_bandwidth, &bench_bibandwidth, &bench_message_rate, &bench_allreduce,
    &bench_alltoall, &bench_allgather, &bench_bcast,       &bench_barrier,
};
