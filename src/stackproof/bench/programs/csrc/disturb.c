#include "bench.h"

#include "disturb.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LINE = 512, STAT_COLUMNS = 5 };

/* Seconds of a processor: of programs and their calls, and taken by a hypervisor. */
struct ticks {
    double programs; /* negative: unknown */
    double stolen;
};

static struct {
    struct disturbance sum;
    int schedstat;     /* open file, -1 for none */
    int cpu;           /* processor at the beginning */
    double began;      /* seconds */
    struct ticks busy; /* of that processor */
    double own;        /* of this process, seconds */
    double frequency;  /* lowest so far, MHz; 0: unknown */
} launch;

/* The second number of schedstat is nanoseconds on a run queue (Linux, sched-stats.rst). */
static double run_queue_seconds(void)
{
    char line[LINE];
    unsigned long long waited = 0;
    ssize_t length = launch.schedstat < 0 ? -1 : pread(launch.schedstat, line, sizeof line - 1, 0);
    if (length <= 0) {
        return -1.0;
    }
    line[length] = '\0';
    return sscanf(line, "%*u %llu", &waited) == 1 ? 1e-9 * (double)waited : -1.0;
}

static double seconds_of(const struct timeval *time)
{
    return (double)time->tv_sec + 1e-6 * (double)time->tv_usec;
}

static double own_seconds(void)
{
    struct rusage usage;
    memset(&usage, 0, sizeof usage);
    (void)getrusage(RUSAGE_SELF, &usage);
    return seconds_of(&usage.ru_utime) + seconds_of(&usage.ru_stime);
}

/* What a processor did, by proc(5). Interrupts are left out: over sockets they carry the messages
   that are timed, and the kernel counts most of them to the rank already. */
static struct ticks busy_seconds(int cpu)
{
    char line[LINE];
    struct ticks busy = {.programs = -1.0, .stolen = 0.0};
    FILE *file = fopen("/proc/stat", "re");
    while (file != NULL && busy.programs < 0.0 && fgets(line, sizeof line, file) != NULL) {
        int number = -1;
        unsigned long long user = 0, nice = 0, calls = 0, stolen = 0;
        int found = sscanf(line, "cpu%d %llu %llu %llu %*u %*u %*u %*u %llu", &number, &user, &nice,
                           &calls, &stolen);
        if (found == STAT_COLUMNS && number == cpu) {
            double ticks_per_s = (double)sysconf(_SC_CLK_TCK);
            busy.programs = (double)(user + nice + calls) / ticks_per_s;
            busy.stolen = (double)stolen / ticks_per_s;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return busy;
}

static double scaled_frequency(int cpu)
{
    char path[128];
    double khz = 0.0;
    (void)snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq",
                   cpu);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0.0;
    }
    if (fscanf(file, "%lf", &khz) != 1) {
        khz = 0.0;
    }
    (void)fclose(file);
    return khz / 1000.0;
}

/* Where the driver tells none: what the processor tells (x86), which is slow to read. */
static double told_frequency(int cpu)
{
    char line[LINE];
    int number = -1;
    double mhz = 0.0;
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        double value = 0.0;
        (void)sscanf(line, "processor : %d", &number);
        if (number == cpu && sscanf(line, "cpu MHz : %lf", &value) == 1) {
            mhz = value;
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return mhz;
}

static void note_frequency(double mhz)
{
    if (mhz > 0.0 && (launch.frequency <= 0.0 || mhz < launch.frequency)) {
        launch.frequency = mhz;
    }
}

void disturb_begin(void)
{
    memset(&launch, 0, sizeof launch);
    launch.schedstat = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
    launch.cpu = sched_getcpu();
    note_frequency(told_frequency(launch.cpu));
    launch.busy = busy_seconds(launch.cpu);
    launch.own = own_seconds();
    launch.began = now_seconds();
}

static void read_counters(struct disturbance *part)
{
    struct rusage usage;
    memset(&usage, 0, sizeof usage);
    (void)getrusage(RUSAGE_THREAD, &usage);
    part->values[DISTURB_WAIT] = run_queue_seconds();
    part->values[DISTURB_SWITCHES] = (double)usage.ru_nivcsw;
    part->values[DISTURB_WALL] = now_seconds();
}

void disturb_start(struct disturbance *part)
{
    read_counters(part);
}

void disturb_stop(struct disturbance *part)
{
    struct disturbance now;
    read_counters(&now);
    bool known = part->values[DISTURB_WAIT] >= 0.0 && now.values[DISTURB_WAIT] >= 0.0;
    for (int i = 0; i < DISTURB_COUNT; i++) {
        part->values[i] = now.values[i] - part->values[i];
        launch.sum.values[i] += part->values[i];
    }
    if (!known) {
        part->values[DISTURB_WAIT] = -1.0;
        launch.sum.values[DISTURB_WAIT] = -1.0;
    }
    note_frequency(scaled_frequency(sched_getcpu()));
}

static double share(double part, double whole)
{
    double found = part / whole;
    return found < 0.0 ? 0.0 : found > 1.0 ? 1.0 : found;
}

static void describe(const struct disturbance *of, struct text *members)
{
    text_key(members, "disturbance");
    text_raw(members, "{", 1);
    text_real(members, "wall_s", of->values[DISTURB_WALL]);
    if (of->values[DISTURB_WAIT] >= 0.0) {
        text_real(members, "run_queue_wait_s", of->values[DISTURB_WAIT]);
    }
    text_integer(members, "involuntary_switches", (long long)of->values[DISTURB_SWITCHES]);
}

void disturb_describe_part(const struct disturbance *worst, struct text *members)
{
    describe(worst, members);
    text_raw(members, "}", 1);
}

void disturb_describe(struct text *members)
{
    double wall = now_seconds() - launch.began;
    struct ticks busy = busy_seconds(launch.cpu);
    describe(&launch.sum, members);
    if (launch.busy.programs >= 0.0 && busy.programs >= 0.0 && wall > 0.0 &&
        sched_getcpu() == launch.cpu) {
        double others = busy.programs - launch.busy.programs - (own_seconds() - launch.own);
        text_real(members, "other_load", share(others, wall));
        text_real(members, "stolen", share(busy.stolen - launch.busy.stolen, wall));
    }
    note_frequency(told_frequency(sched_getcpu()));
    if (launch.frequency > 0.0) {
        text_real(members, "frequency_mhz", launch.frequency);
    }
    text_raw(members, "}", 1);
    if (launch.schedstat >= 0) {
        (void)close(launch.schedstat);
        launch.schedstat = -1;
    }
}
