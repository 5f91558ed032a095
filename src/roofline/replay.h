/* replay -- a step's actions, rank by rank or stage by stage, on cores and links; predict.c prices
 * the ops before and sums up after. */
#ifndef PURLIN_ROOFLINE_REPLAY_H
#define PURLIN_ROOFLINE_REPLAY_H

#include "src/base/memory.h"
#include "src/roofline/predict.h"

typedef struct pl_stream pl_stream;   /* roofline/streams.h */
typedef struct pl_on_link pl_on_link; /* roofline/rounds.h */

/* Where ranks take turns on cores (roofline/round_robin.h): where one is in its next action. */
typedef struct {
    int core;
    bool has_begun; /* the action, at begin_s; what it needs of the core next is left_s */
    double begin_s, left_s, parts_s; /* parts: of communication, in what it needed at first */
    double ready_s;      /* it could go on since then, but others had the core */
    int *taken, n_taken; /* [n_ops] communication of which left_s holds its own part */
} pl_turn;

/* One rank as it is replayed. Where not all are, one of each stage, whose ranks are taken to run
 * alike. */
typedef struct {
    const pl_program *p;
    pl_coords coords;
    const pl_op_price *price; /* [n_ops] */
    double *start_s;          /* [n_ops] communication: when it is started */
    double *begin_s;   /* [n_ops] communication: on the link (receives: posted) since then, */
    double *through_s; /* [n_ops] and, by what has been started so far and with no kernels
                        * beside it, until then */
    double *idle_s;           /* [n_ops] communication: how long its rank has waited meanwhile */
    double *core_left_s;      /* [n_ops] what it still needs of the cores */
    double *handed_bytes;     /* [n_ops] of what it sends, handed on when it was started */
    bool *started;            /* [n_ops] */
    bool *is_stream;          /* [n_ops] */
    bool *goes_by_message;    /* [n_ops] over its link, roofline/rounds.h; else as a whole */
    double *sent_s;           /* [n_ops] streams: when what it sends is through the link, */
    double *come_s;           /* [n_ops] and what others send that have started, */
    int *n_come;              /* [n_ops] so many */
    pl_stream *streams;       /* [n_streams] to and from it; some may be over */
    int n_streams, max_streams;
    pl_on_link *on_link;      /* NULL: nothing has gone message by message */
    int *send;                /* [n_ops] receives: the op of the peer that sends to them */
    int *in_flight;           /* [n_ops] in the order of their starts */
    int n_in_flight;
    int awaited; /* what it has waited for last, and when that was over */
    double awaited_until_s;
    double started_s; /* when it has started something last */
    int at; /* next action */
    double now_s, link_free_s[PL_MAX_LEVELS];
    double whole_until_s; /* its link is taken by what goes as a whole */
    bool is_running;     /* a kernel, that began at now_s: */
    double own_s;        /* what it needs of its core, */
    double alone_s;      /* and with turns of others: what it takes but for messages beside it */
    double kernel_end_s; /* when it ends, by what has been started so far, */
    double polled_s;     /* and what messages take of that, not the kernel (polled_byte_s) */
    double apart_s;     /* kernels' time since ranks last met: they have drifted apart in it */
    double ahead_s;     /* of its core it has so much yet before others on it go on, too */
    double idle_from_s; /* waits since then, until now_s; later than now_s: does not wait */
    bool blocked;       /* for what another stage has not started yet */
    pl_core_cost core;  /* what messages take of it; where it stands for a stage, of the rank where
                         * that is most */
    double *of_core;    /* [n_replays] where ranks take turns: the part of those on its core that it
                         * stands for */
    pl_turn turn;
    pl_stage_prediction *out;
} pl_replay;

typedef struct {
    const pl_machine *machine;
    int n_stages, n_replays;
    bool by_rank; /* every rank is replayed; else one of each stage */
    bool in_time; /* events of all stages in the order of time, since one slows another */
    pl_replay *replays; /* [n_replays] by rank, or by stage */
    pl_arena *arena;
} pl_simulation;

/** Take in the rank at coords, which runs p; all else of the simulation but its replays must be
 * set. `out` receives what becomes of each op. Local, as is everything here. */
void pl_replay_init(const pl_simulation *sim, pl_pricer *pricer, const pl_program *p,
                    pl_coords coords, pl_replay *r, pl_stage_prediction *out);

/** Note that a kernel that began at begin_s, action i, is over at r->now_s: when slots begin and
 * end. */
void pl_note_slot(pl_replay *r, int i, double begin_s);

/** Replay all together, each to its end. */
void pl_replay_all(pl_simulation *sim);

#endif
