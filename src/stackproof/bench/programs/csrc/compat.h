/* What differs between the MPI families and the C libraries; nothing else in this program does.
 *
 * Include this file first: it asks the C library for the Linux interfaces (CPU affinity, clocks).
 * The program uses MPI-3.0 and nothing newer, so that Open MPI 4 and 5, MPICH 3.4 to 5, Intel MPI
 * and Cray MPICH all compile it.
 */
#ifndef STACKPROOF_COMPAT_H
#define STACKPROOF_COMPAT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include <mpi.h>

#define COMPAT_TEXT_(value) #value
#define COMPAT_TEXT(value) COMPAT_TEXT_(value)

/* The family whose header the program was compiled with. The library that is loaded later may be
 * another one of the same ABI; MPI_Get_library_version tells that one. Intel MPI and Cray MPICH
 * define MPICH_VERSION too, so they come first. */
#if defined(OMPI_MAJOR_VERSION)
#define COMPAT_HEADER                                                                              \
    "Open MPI " COMPAT_TEXT(OMPI_MAJOR_VERSION) "." COMPAT_TEXT(                                   \
        OMPI_MINOR_VERSION) "." COMPAT_TEXT(OMPI_RELEASE_VERSION)
#elif defined(I_MPI_VERSION)
#define COMPAT_HEADER "Intel MPI " I_MPI_VERSION
#elif defined(CRAY_MPICH_VERSION)
#define COMPAT_HEADER "Cray MPICH " COMPAT_TEXT(CRAY_MPICH_VERSION)
#elif defined(MVAPICH2_VERSION)
#define COMPAT_HEADER "MVAPICH2 " MVAPICH2_VERSION
#elif defined(MPICH_VERSION)
#define COMPAT_HEADER "MPICH " MPICH_VERSION
#elif defined(MPI_ABI_VERSION)
#define COMPAT_HEADER "MPI ABI " COMPAT_TEXT(MPI_ABI_VERSION)
#else
#define COMPAT_HEADER "unknown"
#endif

#endif
