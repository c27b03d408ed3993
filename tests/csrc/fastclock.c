/* Preloaded into a program, this lets its monotonic clock start elsewhere and run too fast:
 * STACKPROOF_CLOCK_OFFSET_NS nanoseconds are added, and STACKPROOF_CLOCK_PPM microseconds for each
 * second since the first reading. So two ranks of one machine have clocks as two machines have.
 * Compile with -shared -fPIC -ldl.
 */
#define _GNU_SOURCE 1

#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t id, struct timespec *time)
{
    static int (*real)(clockid_t, struct timespec *);
    static long long first = -1;
    static long long offset;
    static double ppm;
    if (real == NULL) {
        const char *text = getenv("STACKPROOF_CLOCK_OFFSET_NS");
        const char *rate = getenv("STACKPROOF_CLOCK_PPM");
        offset = text == NULL ? 0 : strtoll(text, NULL, 10);
        ppm = rate == NULL ? 0.0 : strtod(rate, NULL);
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    }
    int code = real(id, time);
    if (code != 0 || id != CLOCK_MONOTONIC) {
        return code;
    }
    long long now = (long long)time->tv_sec * 1000000000 + time->tv_nsec;
    first = first < 0 ? now : first;
    now += offset + (long long)(1e-6 * ppm * (double)(now - first));
    time->tv_sec = (time_t)(now / 1000000000);
    time->tv_nsec = (long)(now % 1000000000);
    return code;
}
