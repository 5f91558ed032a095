#include "config.h"

#include "collectives/check.h"

#include "src/base/panic.h"
#include "src/base/rng.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Elements to (or from) each peer over all rounds; is_peer[] notes the peers that there are, those
 * that share memory in both directions. */
static void sum_elements(const pl_schedule *s, bool sends, int64_t *elements, bool *is_peer)
{
    for (int r = 0; r < pl_schedule_n_rounds(s); r++) {
        int n_steps;
        const pl_step *steps = pl_schedule_round(s, r, &n_steps);

        for (int i = 0; i < n_steps; i++) {
            const pl_step_kind kind = steps[i].kind;
            const bool is_message =
                sends ? kind == PL_STEP_SEND : kind == PL_STEP_RECV || kind == PL_STEP_RECV_REDUCE;

            if (is_message)
                elements[steps[i].peer] += pl_region_elements(steps[i].region);
            if (is_message || kind == PL_STEP_AWAIT)
                is_peer[steps[i].peer] = true;
        }
    }
}

static int count_true(const bool *x, int n)
{
    int n_true = 0;

    for (int i = 0; i < n; i++)
        n_true += x[i];
    return n_true;
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
    int64_t *to = pl_alloc((size_t)n_ranks * sizeof *to);
    int64_t *from = pl_alloc((size_t)n_ranks * sizeof *from);
    bool *to_peer = pl_alloc((size_t)n_ranks * sizeof *to_peer);
    bool *from_peer = pl_alloc((size_t)n_ranks * sizeof *from_peer);
    int in = 0, out = 0;

    sum_elements(s, true, to, to_peer);
    sum_elements(s, false, from, from_peer);
    check->n_out = count_true(to_peer, n_ranks);
    check->n_in = count_true(from_peer, n_ranks);
    check->out = pl_alloc((size_t)check->n_out * sizeof *check->out);
    check->in = pl_alloc((size_t)check->n_in * sizeof *check->in);
    check->expected = pl_alloc((size_t)check->n_in * sizeof *check->expected);
    check->in_peer = pl_alloc((size_t)check->n_in * sizeof *check->in_peer);
    check->requests = pl_alloc((size_t)(check->n_in + check->n_out) * sizeof(MPI_Request));
    for (int p = 0; p < n_ranks; p++) {
        if (!from_peer[p])
            continue;
        check->expected[in] = note_of(s, dtype, name, tag, from[p]);
        check->in_peer[in] = p;
        PL_MPI(MPI_Recv_init(&check->in[in], bytes, MPI_BYTE, p, note_tag, comm,
                             &check->requests[in]));
        in++;
    }
    for (int p = 0; p < n_ranks; p++) {
        if (!to_peer[p])
            continue;
        check->out[out] = note_of(s, dtype, name, tag, to[p]);
        PL_MPI(MPI_Send_init(&check->out[out], bytes, MPI_BYTE, p, note_tag, comm,
                             &check->requests[in + out]));
        out++;
    }
    pl_free(from_peer);
    pl_free(to_peer);
    pl_free(from);
    pl_free(to);
}

void pl_check_free(pl_check *check)
{
    for (int i = 0; i < check->n_in + check->n_out; i++)
        PL_MPI(MPI_Request_free(&check->requests[i]));
    pl_free(check->requests);
    pl_free(check->in_peer);
    pl_free(check->expected);
    pl_free(check->in);
    pl_free(check->out);
    *check = (pl_check){0};
}

void pl_check_start(pl_check *check, int64_t run)
{
    for (int i = 0; i < check->n_out; i++)
        check->out[i].run = run;
    for (int i = 0; i < check->n_in; i++)
        check->expected[i].run = run;
    if (check->n_in + check->n_out > 0)
        PL_MPI(MPI_Startall(check->n_in + check->n_out, check->requests));
}

static bool agree(const pl_check_note *here, const pl_check_note *there)
{
    return here->name_hash == there->name_hash && here->tag == there->tag &&
           here->run == there->run && here->elements == there->elements &&
           here->operation == there->operation && here->dtype == there->dtype &&
           here->whole == there->whole;
}

void pl_check_compare(const pl_check *check)
{
    for (int i = 0; i < check->n_in; i++) {
        const pl_check_note *here = &check->expected[i], *there = &check->in[i];

        if (!agree(here, there))
            pl_panic(__FILE__, __LINE__,
                     "operations out of step: here '%s' (tag %" PRId64 ", run %" PRId64
                     ", %s) of %" PRId64 " elements awaits %" PRId64
                     " from rank %d of its group, which has begun '%.*s' (tag %" PRId64
                     ", run %" PRId64 ", %s) of %" PRId64 " elements to send %" PRId64,
                     here->name, here->tag, here->run, pl_dtype_name((pl_dtype)here->dtype),
                     here->whole, here->elements, check->in_peer[i], PL_CHECK_NAME - 1, there->name,
                     there->tag, there->run, pl_dtype_name((pl_dtype)there->dtype), there->whole,
                     there->elements);
    }
}
