#include "bench.h"

#include "tell.h"

#include <stdio.h>
#include <stdlib.h>

void tell_world(struct text *members, int ranks)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
    char standard[32];
    int length = 0;
    int major = 0;
    int minor = 0;
    MPI_Get_library_version(library, &length);
    MPI_Get_version(&major, &minor);
    (void)snprintf(standard, sizeof standard, "%d.%d", major, minor);
    text_string(members, "program", PROGRAM_NAME);
    text_string(members, "version", PROGRAM_VERSION);
    text_string(members, "mpi_library", library);
    text_string(members, "mpi_standard", standard);
    text_string(members, "compiled_with", COMPAT_HEADER);
    text_integer(members, "world_size", ranks);
}

void tell_clock(struct text *members)
{
    struct clock_facts clock = clock_measure();
    text_key(members, "clock");
    text_raw(members, "{", 1);
    text_real(members, "resolution_s", clock.resolution);
    text_real(members, "overhead_s", clock.overhead);
    text_real(members, "mpi_wtick_s", MPI_Wtick());
    text_raw(members, "}", 1);
}

void tell_error(const char *reason, const char *message)
{
    struct text members = {0};
    text_string(&members, "reason", reason);
    text_string(&members, "message", message);
    (void)emit("error", &members);
    text_free(&members);
    (void)fprintf(stderr, PROGRAM_NAME ": %s\n", message);
}

void tell_ranks(const struct job *job, const struct evidence *before, const struct text *more)
{
    struct text mine = {0};
    evidence_describe(before, job->rank, &mine);
    if (more != NULL) {
        text_raw(&mine, ",", 1);
        text_raw(&mine, more->data, more->used);
    }
    int length = (int)mine.used;
    if (job->rank != 0) {
        MPI_Send(&length, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
        MPI_Send(mine.data, length, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
        text_free(&mine);
        return;
    }
    (void)emit("rank", &mine);
    text_free(&mine);
    for (int rank = 1; rank < job->ranks; rank++) {
        MPI_Recv(&length, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        char *data = calloc((size_t)length + 1, 1);
        if (data == NULL) {
            (void)fputs(PROGRAM_NAME ": out of memory\n", stderr);
            MPI_Abort(MPI_COMM_WORLD, EXIT_FAULT);
            exit(EXIT_FAULT);
        }
        MPI_Recv(data, length, MPI_CHAR, rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        struct text other = {.data = data, .used = (size_t)length, .capacity = (size_t)length + 1};
        (void)emit("rank", &other);
        text_free(&other);
    }
}

void tell_end(uint64_t errors)
{
    struct text members = {0};
    text_boolean(&members, "ok", errors == 0);
    text_unsigned(&members, "errors", errors);
    text_integer(&members, "records", emit_count() + 1);
    (void)emit("end", &members);
    text_free(&members);
}
