/* What the stand-in's programs share: options, headings and rows of releases 5.9, 6.2 and 7.4. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int first = 1, last = 1 << 12, window = 64, full, check, repeats = 20;
static const char *tails;
static int rank, ranks;

static int usage(const char *word)
{
    if (rank == 0) {
        fprintf(stderr, "Invalid Option [%s]\n", word);
    }
    MPI_Finalize();
    return 1;
}

/* Return 0 to go on. */
static int begin(int argc, char **argv, int collective, int pair)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-m") == 0) {
            char *colon = strchr(argv[++i], ':');
            first = colon == NULL ? 1 : atoi(argv[i]);
            last = atoi(colon == NULL ? argv[i] : colon + 1);
        } else if (strcmp(argv[i], "-W") == 0 && !collective) {
            window = atoi(argv[++i]);
        } else if (strcmp(argv[i], "-i") == 0) {
            repeats = atoi(argv[++i]);
        } else if (strcmp(argv[i], "-f") == 0 && collective) {
            full = 1;
        } else if (strcmp(argv[i], "-c") == 0) {
            check = 1;
        } else if (strncmp(argv[i], "-z", 2) == 0 && RELEASE[0] >= '7') {
            tails = argv[i] + 2;
        } else {
            return usage(argv[i]);
        }
    }
    if (pair && ranks != 2) {
        if (rank == 0) {
            fprintf(stderr, "This test requires exactly two processes\n");
        }
        MPI_Finalize();
        return 1;
    }
    return 0;
}

static void head(const char *title, const char *column, int sized)
{
    if (rank != 0) {
        return;
    }
    if (getenv("STANDIN_TITLE") != NULL) {
        title = getenv("STANDIN_TITLE");
    }
    if (getenv("STANDIN_COLUMN") != NULL) {
        column = getenv("STANDIN_COLUMN");
    }
    printf("\n# OSU %s Test v%s\n", title, RELEASE);
    if (RELEASE[0] >= '7') {
        printf("# Datatype: MPI_CHAR.\n");
    }
    printf(sized ? "# %-8s%*s" : "# ", "Size", 20, column);
    if (!sized) {
        printf("%s", column);
    }
    if (full) {
        printf("%18s%18s%12s", "Min Latency(us)", "Max Latency(us)", "Iterations");
    }
    printf(check ? "%18s" : "", "Validation");
    int speed = strstr(column, "MB/s") != NULL;
    printf(tails != NULL ? "%22s" : "", speed ? "P50 Tail BW(MB/s)" : "P50 Tail Lat(us)");
    printf("\n");
}

static void row(int size, int sized, double value)
{
    double least = value, most = value, sum = value;
    const char *nan = getenv("STANDIN_NAN");
    if (full) {
        MPI_Reduce(&value, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
        MPI_Reduce(&value, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        MPI_Reduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        sum /= ranks;
    }
    if (rank != 0) {
        return;
    }
    if (nan != NULL && atoi(nan) == size) {
        sum = 0.0 / (double)(size - size);
    }
    printf(sized ? "%-10d%18.2f" : "%.0d%17.2f", sized ? size : 0, sum);
    if (full) {
        printf("%18.2f%18.2f%12d", least, most, repeats);
    }
    printf(check ? "%18s" : "", getenv("STANDIN_FAIL") != NULL ? "Fail" : "Pass");
    if (tails != NULL) {
        printf("%22.2f", sum);
    }
    printf("\n");
    fflush(stdout);
    if (getenv("STANDIN_ENDS") != NULL && atoi(getenv("STANDIN_ENDS")) == size) {
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
}

static int next(int size)
{
    return size == 0 ? 1 : 2 * size;
}
