#include "tests/schedule_checker_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void sc_blame(sc_checker *x, int rank, const char *format, ...)
{
    const sc_runner *k = &x->ranks[rank];
    va_list args;
    int n;

    if (x->fault[0])
        return;
    n = snprintf(x->fault, sizeof x->fault, "rank %d, run %d, round %d: ", rank, k->run, k->round);
    va_start(args, format);
    vsnprintf(x->fault + n, sizeof x->fault - (size_t)n, format, args);
    va_end(args);
}

int64_t sc_number_of(const sc_world *w, int rank, int array, int64_t offset)
{
    return rank * w->stride + array * w->n_elements + offset;
}

/* The cell of an element as `rank` sees it; -1 and blame where there is none. */
static int64_t locate(sc_checker *x, int rank, int owner, int array, int64_t offset)
{
    const sc_world *w = x->w;
    const sc_runner *o = &x->ranks[owner];
    const int64_t staging = sc_number_of(w, owner, w->n_arrays, 0);

    if (array >= 0 && array < w->n_arrays && offset >= 0 && offset < w->n_elements)
        return sc_number_of(w, owner, array, offset);
    if (array == PL_STAGING && offset >= 0 && offset < o->n_staging)
        return staging + x->ranks[rank].run % 2 * o->n_staging + offset;
    if (array == PL_SCRATCH && owner == rank && offset >= 0 && offset < o->n_scratch)
        return staging + 2 * o->n_staging + offset;
    sc_blame(x, rank, "outside of memory: element %lld of rank %d's array %d", (long long)offset,
             owner, array);
    return -1;
}

/* A piece in cells; blame where it cuts one. */
static pl_piece in_cells(sc_checker *x, int rank, pl_piece p)
{
    const int64_t grain = x->w->grain;

    if (p.offset % grain != 0 || p.length % grain != 0 || (p.count > 1 && p.stride % grain != 0))
        sc_blame(x, rank, "cuts a grain of %lld elements: %lld at %lld", (long long)grain,
                 (long long)p.length, (long long)p.offset);
    p.offset /= grain;
    p.length /= grain;
    p.stride /= grain;
    return p;
}

sc_span sc_span_of(sc_checker *x, int rank, int owner, pl_region region)
{
    const int64_t n = pl_region_elements(region) / x->w->grain;
    sc_span s = {.n = 0, .cell = malloc((size_t)(n + 1) * sizeof *s.cell)};

    for (int i = 0; i < region.n_pieces && !x->fault[0]; i++) {
        const pl_piece p = in_cells(x, rank, region.pieces[i]);

        for (int64_t c = 0; c < p.count && !x->fault[0]; c++)
            for (int64_t k = 0; k < p.length; k++)
                s.cell[s.n++] = locate(x, rank, owner, p.array, p.offset + c * p.stride + k);
    }
    if (x->fault[0])
        s.n = 0;
    return s;
}

/* "element 3 of rank 1's array 0" for messages. */
static const char *cell_name(const sc_checker *x, int64_t c)
{
    static char name[96];
    const sc_world *w = x->w;
    const int owner = (int)(c / w->stride);
    const int64_t at = c % w->stride, n_arrays = w->n_arrays * w->n_elements;
    const int64_t n_staging = x->ranks[owner].n_staging;

    if (at < n_arrays)
        snprintf(name, sizeof name, "element %lld of rank %d's array %lld",
                 (long long)(at % w->n_elements), owner, (long long)(at / w->n_elements));
    else if (at < n_arrays + 2 * n_staging)
        snprintf(name, sizeof name, "element %lld of rank %d's staging, half %lld",
                 (long long)((at - n_arrays) % n_staging), owner,
                 (long long)((at - n_arrays) / n_staging));
    else
        snprintf(name, sizeof name, "element %lld of rank %d's scratch",
                 (long long)(at - n_arrays - 2 * n_staging), owner);
    return name;
}

int sc_tick(sc_checker *x, int rank)
{
    return ++x->ranks[rank].clock[rank];
}

void sc_clock_join(const sc_checker *x, int *clock, const int *other)
{
    for (int r = 0; r < x->w->n_ranks; r++)
        clock[r] = other[r] > clock[r] ? other[r] : clock[r];
}

static int *read_at(const sc_checker *x, int64_t c, int rank)
{
    return &x->read_at[c * x->w->n_ranks + rank];
}

/* Blame for a write by another rank that need not have happened before. */
static void meet_writer(sc_checker *x, int rank, int64_t c, const char *does)
{
    const sc_touch *t = &x->touches[c];

    if (t->written_at > x->ranks[rank].clock[t->writer])
        sc_blame(x, rank, "race: %s %s, which rank %d may be writing", does, cell_name(x, c),
                 t->writer);
}

static void note_read(sc_checker *x, int rank, int64_t c)
{
    meet_writer(x, rank, c, "reads");
    if (x->touches[c].is_secret && x->touches[c].writer != rank)
        sc_blame(x, rank, "reads %s, which was written unpublished", cell_name(x, c));
    x->touches[c].readers |= (uint64_t)1 << rank;
    *read_at(x, c, rank) = x->ranks[rank].clock[rank];
}

void sc_note_write(sc_checker *x, int rank, int64_t c, const char *does)
{
    const sc_runner *k = &x->ranks[rank];
    sc_touch *t = &x->touches[c];

    meet_writer(x, rank, c, does);
    for (uint64_t left = t->readers; left; left &= left - 1) {
        const int reader = __builtin_ctzll(left);

        if (*read_at(x, c, reader) > k->clock[reader])
            sc_blame(x, rank, "race: %s %s, which rank %d may be reading", does, cell_name(x, c),
                     reader);
    }
    *t = (sc_touch){.writer = rank, .written_at = k->clock[rank]};
}

int sc_own_write(const sc_checker *x, int rank, int64_t c, int since)
{
    const sc_touch *t = &x->touches[c];

    return t->writer == rank && t->written_at >= since ? t->written_at : 0;
}

int sc_own_read(const sc_checker *x, int rank, int64_t c, int since)
{
    const bool reads = x->touches[c].readers >> rank & 1;

    return reads && *read_at(x, c, rank) >= since ? *read_at(x, c, rank) : 0;
}

void sc_blame_disturbance(sc_checker *x, int rank, int64_t c)
{
    sc_blame(x, rank, "steps disturb each other: %s", cell_name(x, c));
}

void sc_step_reads(sc_checker *x, int rank, sc_span s)
{
    for (int64_t i = 0; i < s.n && !x->fault[0]; i++) {
        if (sc_own_write(x, rank, s.cell[i], x->ranks[rank].messages_at))
            sc_blame_disturbance(x, rank, s.cell[i]);
        note_read(x, rank, s.cell[i]);
    }
}

void sc_step_may_write(sc_checker *x, int rank, sc_span s)
{
    const int since = x->ranks[rank].round_at;

    for (int64_t i = 0; i < s.n && !x->fault[0]; i++)
        if (sc_own_write(x, rank, s.cell[i], since) || sc_own_read(x, rank, s.cell[i], since))
            sc_blame_disturbance(x, rank, s.cell[i]);
}

void sc_step_writes(sc_checker *x, int rank, sc_span s)
{
    for (int64_t i = 0; i < s.n && !x->fault[0]; i++)
        sc_note_write(x, rank, s.cell[i], "writes");
}

void sc_keep_secret(sc_checker *x, int rank, const pl_step *step, sc_span s, pl_region region)
{
    const bool is_staging = region.n_pieces > 0 && region.pieces[0].array == PL_STAGING;

    for (int64_t i = 0; i < s.n && !x->fault[0]; i++)
        if (s.cell[i] / x->w->stride == rank)
            x->touches[s.cell[i]].is_secret = !step->is_published && !is_staging;
}
