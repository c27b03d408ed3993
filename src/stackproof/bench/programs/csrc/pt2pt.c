/* Point-to-point benchmarks, with the semantics of the OSU micro-benchmarks (osu_latency, osu_bw,
 * osu_bibw, osu_mbw_mr), so that numbers can be compared: blocking ping-pong; a window of
 * non-blocking sends answered by one 4-byte message; both directions at once without an answer;
 * the window over all pairs (i, i + ranks/2). In the timed part all messages of a window use one
 * buffer, as OSU does by default. */
#include "bench.h"

enum { TAG_DATA = 100, TAG_ANSWER = 101, ANSWER_BYTES = 4 };

static double run_latency(struct job *job, int iterations)
{
    int size = (int)job->size;
    int peer = job->pair.peer;
    if (peer < 0) {
        return 0.0;
    }
    double start = now_seconds();
    if (job->rank == 0) {
        for (int i = 0; i < iterations; i++) {
            MPI_Send(job->send, size, MPI_CHAR, peer, TAG_DATA, MPI_COMM_WORLD);
            MPI_Recv(job->recv, size, MPI_CHAR, peer, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    } else {
        for (int i = 0; i < iterations; i++) {
            MPI_Recv(job->recv, size, MPI_CHAR, peer, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(job->send, size, MPI_CHAR, peer, TAG_DATA, MPI_COMM_WORLD);
        }
    }
    double elapsed = now_seconds() - start;
    return job->rank == 0 ? elapsed : 0.0;
}

static void post_receives(struct job *job, MPI_Request *requests)
{
    for (int w = 0; w < job->window; w++) {
        MPI_Irecv(job->recv + (size_t)w * job->stride, (int)job->size, MPI_CHAR, job->pair.peer,
                  TAG_DATA, MPI_COMM_WORLD, &requests[w]);
    }
}

static void post_sends(struct job *job, MPI_Request *requests)
{
    for (int w = 0; w < job->window; w++) {
        MPI_Isend(job->send + (size_t)w * job->stride, (int)job->size, MPI_CHAR, job->pair.peer,
                  TAG_DATA, MPI_COMM_WORLD, &requests[w]);
    }
}

static double run_one_way(struct job *job, int iterations)
{
    char answer[ANSWER_BYTES] = {0};
    int peer = job->pair.peer;
    if (peer < 0) {
        return 0.0;
    }
    double start = now_seconds();
    if (job->pair.sends) {
        for (int i = 0; i < iterations; i++) {
            post_sends(job, job->requests);
            MPI_Waitall(job->window, job->requests, MPI_STATUSES_IGNORE);
            MPI_Recv(answer, ANSWER_BYTES, MPI_CHAR, peer, TAG_ANSWER, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        }
    } else {
        for (int i = 0; i < iterations; i++) {
            post_receives(job, job->requests);
            MPI_Waitall(job->window, job->requests, MPI_STATUSES_IGNORE);
            MPI_Send(answer, ANSWER_BYTES, MPI_CHAR, peer, TAG_ANSWER, MPI_COMM_WORLD);
        }
    }
    double elapsed = now_seconds() - start;
    return job->pair.sends ? elapsed : 0.0;
}

static double run_both_ways(struct job *job, int iterations)
{
    if (job->pair.peer < 0) {
        return 0.0;
    }
    MPI_Request *sends = job->requests + job->window;
    double start = now_seconds();
    for (int i = 0; i < iterations; i++) {
        post_receives(job, job->requests);
        post_sends(job, sends);
        MPI_Waitall(job->window, sends, MPI_STATUSES_IGNORE);
        MPI_Waitall(job->window, job->requests, MPI_STATUSES_IGNORE);
    }
    double elapsed = now_seconds() - start;
    return job->rank == 0 ? elapsed : 0.0;
}

static struct pair first_two(const struct job *job, bool both)
{
    struct pair nobody = {.peer = -1, .sends = false, .receives = false};
    if (job->rank > 1) {
        return nobody;
    }
    struct pair pair = {.peer = 1 - job->rank,
                        .sends = both || job->rank == 0,
                        .receives = both || job->rank == 1};
    return pair;
}

static struct pair pair_both(const struct job *job)
{
    return first_two(job, true);
}

static struct pair pair_one_way(const struct job *job)
{
    return first_two(job, false);
}

static struct pair pair_halves(const struct job *job)
{
    int pairs = job->ranks / 2;
    struct pair pair = {.peer = -1, .sends = false, .receives = false};
    if (job->rank < pairs) {
        pair.peer = job->rank + pairs;
        pair.sends = true;
    } else if (job->rank < 2 * pairs) {
        pair.peer = job->rank - pairs;
        pair.receives = true;
    }
    return pair;
}

static int counting_one(const struct job *job)
{
    (void)job;
    return 1;
}

static int counting_pairs(const struct job *job)
{
    return job->ranks / 2;
}

static double value_latency(const struct job *job, int iterations, double seconds)
{
    (void)job;
    return 1e6 * seconds / (2.0 * iterations);
}

static double value_bandwidth(const struct job *job, int iterations, double seconds)
{
    return 1e-6 * (double)job->size * job->window * iterations / seconds;
}

static double value_bibandwidth(const struct job *job, int iterations, double seconds)
{
    return 2.0 * value_bandwidth(job, iterations, seconds);
}

static double value_rate(const struct job *job, int iterations, double seconds)
{
    return (double)job->window * iterations * (job->ranks / 2) / seconds;
}

static void need(const struct job *job, size_t size, size_t slots, size_t *send, size_t *recv)
{
    (void)job;
    *send = size * slots;
    *recv = size * slots;
}

static int slot_count(const struct job *job)
{
    return job->stride == 0 ? 1 : job->window;
}

static void fill(struct job *job, uint64_t iteration)
{
    for (int slot = 0; job->pair.sends && slot < slot_count(job); slot++) {
        pattern_fill(job->send + (size_t)slot * job->stride, job->size,
                     pattern_seed(job->rank, job->pair.peer, iteration, slot));
    }
}

static int received(const struct job *job)
{
    return job->pair.receives ? slot_count(job) : 0;
}

static struct block block(const struct job *job, int index, uint64_t iteration)
{
    struct block found = {
        .at = job->recv + (size_t)index * job->stride,
        .seed = pattern_seed(job->pair.peer, job->rank, iteration, index),
        .source = job->pair.peer,
        .message = index,
    };
    return found;
}

static void expect(const struct job *job, const struct block *of, size_t offset, size_t bytes,
                   char *to)
{
    (void)job;
    pattern_part(to, offset, bytes, of->seed);
}

const struct benchmark bench_latency = {
    .name = "latency", .unit = "us", .sized = true, .granularity = 1, .run = run_latency,
    .value = value_latency, .counting = counting_one, .pair = pair_both, .need = need,
    .fill = fill, .received = received, .block = block, .expect = expect,
};

const struct benchmark bench_bandwidth = {
    .name = "bandwidth", .unit = "MB/s", .sized = true, .windowed = true, .smallest = 1,
    .granularity = 1, .run = run_one_way, .value = value_bandwidth, .counting = counting_one,
    .pair = pair_one_way, .need = need, .fill = fill, .received = received, .block = block,
    .expect = expect,
};

const struct benchmark bench_bibandwidth = {
    .name = "bibandwidth", .unit = "MB/s", .sized = true, .windowed = true, .smallest = 1,
    .granularity = 1, .run = run_both_ways, .value = value_bibandwidth, .counting = counting_one,
    .pair = pair_both, .need = need, .fill = fill, .received = received, .block = block,
    .expect = expect,
};

const struct benchmark bench_message_rate = {
    .name = "message_rate", .unit = "msg/s", .sized = true, .windowed = true, .granularity = 1,
    .run = run_one_way, .value = value_rate, .counting = counting_pairs, .pair = pair_halves,
    .need = need, .fill = fill, .received = received, .block = block, .expect = expect,
};
