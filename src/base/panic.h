/* panic -- for faults of ours and of MPI: the lowest failing rank speaks, the job ends. */
#ifndef PURLIN_BASE_PANIC_H
#define PURLIN_BASE_PANIC_H

/** Wait rank x 20 ms, print "rank R: file:line: cause", MPI_Abort(4). Local; never returns. */
_Noreturn void pl_panic(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Panic if an MPI call returned an error (the error's own text is printed). */
void pl_mpi_check(const char *file, int line, const char *call, int code);

#define PL_PANIC(...) pl_panic(__FILE__, __LINE__, __VA_ARGS__)
#define PL_MPI(call) pl_mpi_check(__FILE__, __LINE__, #call, (call))
/** An invariant of ours, checked in every build. */
#define PL_ASSERT(condition)                                                                       \
    ((condition) ? (void)0 : pl_panic(__FILE__, __LINE__, "broken invariant: %s", #condition))

#endif
