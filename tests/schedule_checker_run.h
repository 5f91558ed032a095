/* schedule_checker_run -- one run of the checker, shared by its files and by nobody else:
 *
 *   schedule_checker.c          worlds, and ranks that go round by round in one order or another
 *   schedule_checker_memory.c   where cells are, and who touched them when: vector clocks, races
 *   schedule_checker_steps.c    what each kind of step does to symbols, clocks, and messages
 *   schedule_checker_form.c     what is wrong with schedules before they run
 *
 * Whatever finds a fault says so by sc_blame; the first one counts, and loops stop at it. */
#ifndef PURLIN_TESTS_SCHEDULE_CHECKER_RUN_H
#define PURLIN_TESTS_SCHEDULE_CHECKER_RUN_H

#include "tests/schedule_checker.h"

/* Elements of memory, by the numbers of their cells. */
typedef struct {
    int64_t n;
    int64_t *cell; /* [n] */
} sc_span;

/* One end of a message under way. */
typedef struct {
    sc_span at;
    int run;
} sc_end;

typedef struct {
    sc_end *ends;
    int n, n_max, n_done;
} sc_queue;

/* Who touched a cell last, by the ranks' own clocks. */
typedef struct {
    int writer, written_at; /* written_at 0: nobody did */
    uint64_t readers;       /* since then; when is in read_at */
    bool is_secret;         /* written by a move into own memory that was not to be published */
} sc_touch;

typedef struct {
    int run, round, n_rounds; /* run > SC_RUNS: finished */
    bool flies;               /* the round has begun */
    int n_open;               /* its messages not through */
    int *clock;               /* [n_ranks] what has happened before now; own: step by step */
    int *posted;              /* [n_ranks] the clock when the round's messages were posted */
    int *arrived;             /* [n_ranks] what happened before the messages that came */
    int *signals;             /* [SC_RUNS + 1][n_stages + 2][n_ranks] clock of each; last: end */
    int stage, n_stages;
    int round_at, messages_at, combines_at, reductions_at; /* clocks when these began */
    int64_t n_staging, n_scratch;
} sc_runner;

typedef struct {
    sc_world *w;
    const sc_callers *callers;
    sc_runner ranks[SC_MAX_RANKS];
    sc_queue *sends, *recvs; /* [n_ranks: from][n_ranks: to] */
    sc_touch *touches;       /* [all cells] */
    int *read_at;            /* [all cells][n_ranks], where `readers` says so */
    char fault[320];
} sc_checker;

enum { NOT_YET = 1 << 30 };

/** The first fault is the one that counts. */
void sc_blame(sc_checker *x, int rank, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- memory */

/** The cell of an element of a rank's arrays; of array n_arrays: of its staging and scratch. */
int64_t sc_number_of(const sc_world *w, int rank, int array, int64_t offset);

/** The cells of a region of `owner`, as `rank` sees it, in order; free them. None, after blame. */
sc_span sc_span_of(sc_checker *x, int rank, int owner, pl_region region);

/** A new moment on the rank's own clock. */
int sc_tick(sc_checker *x, int rank);
/** What happened before `other` happened before clock too. */
void sc_clock_join(const sc_checker *x, int *clock, const int *other);

/** The rank writes a cell now; blame where an access of another rank need not have happened before.
 */
void sc_note_write(sc_checker *x, int rank, int64_t c, const char *does);

/** When the rank itself wrote or read a cell last, if it did since `since`; 0 otherwise. */
int sc_own_write(const sc_checker *x, int rank, int64_t c, int since);
int sc_own_read(const sc_checker *x, int rank, int64_t c, int since);

void sc_blame_disturbance(sc_checker *x, int rank, int64_t c);

/** A step reads: what copies of the round wrote, but not what other steps of it write. */
void sc_step_reads(sc_checker *x, int rank, sc_span s);
/** A step will write: nothing that the round has read or written. */
void sc_step_may_write(sc_checker *x, int rank, sc_span s);
void sc_step_writes(sc_checker *x, int rank, sc_span s);
/** After a move wrote its own rank's memory. Staging need not be told. */
void sc_keep_secret(sc_checker *x, int rank, const pl_step *step, sc_span s, pl_region region);

/* ---- steps */

/** The tree that is rank r's own term. */
uint64_t sc_tree_of_term(int rank);

bool sc_is_message(const pl_step *step);

void sc_copy(sc_checker *x, int rank, const pl_step *step);
void sc_post_message(sc_checker *x, int rank, const pl_step *step);
/** Carry what the round's messages can carry, from this rank or to it: both ends are posted. */
void sc_carry_round(sc_checker *x, int rank);
void sc_combine(sc_checker *x, int rank, const pl_step *step);
/** After the round's messages. May write what the round copied, sent, or reduced before. */
void sc_reduce(sc_checker *x, int rank, const pl_step *step);
void sc_signal(sc_checker *x, int rank, int stage);
/** The clock of the signal awaited; NULL if it has not come. Before the first run all was quiet. */
const int *sc_awaited(const sc_checker *x, int rank, const pl_step *step);

/* ---- form */

/** Peers that exist, stages that are signalled. */
void sc_check_steps(sc_checker *x, int rank);
/** Partners find each other's memory through their awaits, which therefore go both ways. */
void sc_check_partners(sc_checker *x, int rank);

#endif
