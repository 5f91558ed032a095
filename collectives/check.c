#include "config.h"

#include "collectives/check.h"

#include "collectives/collective.h"
#include "collectives/engine.h"
#include "collectives/message.h"
#include "src/base/panic.h"
#include "src/base/rng.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Elements to and from each peer over all rounds; is_peer[] notes the peers that there are. */
static void sum_elements(const pl_schedule *s, int64_t *to, int64_t *from, bool *is_peer)
{
    for (int r = 0; r < pl_schedule_n_rounds(s); r++) {
        int n_steps;
        const pl_step *steps = pl_schedule_round(s, r, &n_steps);

        for (int i = 0; i < n_steps; i++) {
            const pl_step_kind kind = steps[i].kind;
            const bool receives = kind == PL_STEP_RECV || kind == PL_STEP_RECV_REDUCE;

            if (kind == PL_STEP_SEND)
                to[steps[i].peer] += pl_region_elements(steps[i].region);
            if (receives)
                from[steps[i].peer] += pl_region_elements(steps[i].region);
            if (kind == PL_STEP_SEND || receives || kind == PL_STEP_AWAIT)
                is_peer[steps[i].peer] = true;
        }
    }
}

static pl_check_note note_of(const pl_schedule *s, pl_dtype dtype, const char *name, int tag,
                             int64_t elements)
{
    pl_check_note note = {.name_hash = pl_rng_stream(name),
                          .tag = tag,
                          .elements = elements,
                          .operation = pl_schedule_operation(s),
                          .dtype = dtype,
                          .whole = pl_schedule_whole_elements(s)};

    snprintf(note.name, sizeof note.name, "%s", name);
    return note;
}

void pl_check_init(pl_check *check, const pl_schedule *s, pl_dtype dtype, int n_ranks,
                   MPI_Comm comm, int tag, int note_tag, const char *name)
{
    const int bytes = (int)sizeof(pl_check_note);
    const size_t n = (size_t)n_ranks;
    int64_t *to = pl_alloc(n * sizeof *to), *from = pl_alloc(n * sizeof *from);
    bool *is_peer = pl_alloc(n * sizeof *is_peer);

    sum_elements(s, to, from, is_peer);
    *check = (pl_check){.comm = comm,
                        .peer = pl_alloc(n * sizeof *check->peer),
                        .out = pl_alloc(n * sizeof *check->out),
                        .in = pl_alloc(n * sizeof *check->in),
                        .expected = pl_alloc(n * sizeof *check->expected),
                        .requests = pl_alloc(2 * n * sizeof(MPI_Request))};
    for (int p = 0; p < n_ranks; p++) {
        if (!is_peer[p])
            continue;
        check->out[check->n] = note_of(s, dtype, name, tag, to[p]);
        check->expected[check->n] = note_of(s, dtype, name, tag, from[p]);
        check->peer[check->n++] = p;
    }
    for (int i = 0; i < check->n; i++) {
        PL_MPI(MPI_Recv_init(&check->in[i], bytes, MPI_BYTE, check->peer[i], note_tag, comm,
                             &check->requests[i]));
        PL_MPI(MPI_Send_init(&check->out[i], bytes, MPI_BYTE, check->peer[i], note_tag, comm,
                             &check->requests[check->n + i]));
    }
    pl_free(is_peer);
    pl_free(from);
    pl_free(to);
}

void pl_check_free(pl_check *check)
{
    for (int i = 0; i < 2 * check->n; i++)
        PL_MPI(MPI_Request_free(&check->requests[i]));
    pl_free(check->requests);
    pl_free(check->peer);
    pl_free(check->expected);
    pl_free(check->in);
    pl_free(check->out);
    *check = (pl_check){0};
}

void pl_check_start(pl_check *check, int64_t run)
{
    for (int i = 0; i < check->n; i++)
        check->out[i].run = check->expected[i].run = run;
    if (check->n > 0)
        PL_MPI(MPI_Startall(2 * check->n, check->requests));
}

static bool agree(const pl_check_note *here, const pl_check_note *there)
{
    return here->name_hash == there->name_hash && here->tag == there->tag &&
           here->run == there->run && here->elements == there->elements &&
           here->operation == there->operation && here->dtype == there->dtype &&
           here->whole == there->whole;
}

/* "'gradients' (AllReduce of 100 float32, tag 3, run 1)" */
static void describe(const pl_check_note *note, char *text, size_t size)
{
    const bool known = note->operation > 0 && note->operation <= PL_N_COLLECTIVES;
    const bool typed = note->dtype >= 0 && note->dtype < PL_N_DTYPES;
    char whole[32] = "";

    if (note->whole > 0)
        snprintf(whole, sizeof whole, "%" PRId64 " ", note->whole);
    snprintf(text, size, "'%.*s' (%s of %s%s, tag %" PRId64 ", run %" PRId64 ")", PL_CHECK_NAME - 1,
             note->name,
             known ? pl_collective_name((pl_collective)(note->operation - 1)) : "operation", whole,
             typed ? pl_dtype_name((pl_dtype)note->dtype) : "unknown type", note->tag, note->run);
}

void pl_check_compare(const pl_check *check)
{
    for (int i = 0; i < check->n; i++) {
        char here[160], there[160];

        if (agree(&check->expected[i], &check->in[i]))
            continue;
        describe(&check->expected[i], here, sizeof here);
        describe(&check->in[i], there, sizeof there);
        pl_panic(__FILE__, __LINE__,
                 "operations out of step: here %s awaits %" PRId64
                 " elements from rank %d, which has begun %s and sends %" PRId64,
                 here, check->expected[i].elements, pl_world_rank(check->comm, check->peer[i]),
                 there, check->in[i].elements);
    }
}
