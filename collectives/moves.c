#include "config.h"

#include "collectives/moves.h"

#include "collectives/combine.h"
#include "src/base/panic.h"

/* Walks the contiguous runs of a bound place. */
struct pl_cursor {
    const pl_bound_place *place;
    int piece;
    int64_t run, within; /* the next element: of which run of the piece, where in it */
};
typedef struct pl_cursor cursor;

void pl_move_init(pl_move *move, pl_arena *arena, pl_dtype dtype, pl_reduction reduction, int n_to,
                  int n_from)
{
    const size_t n = (size_t)(n_to + n_from);

    *move = (pl_move){.dtype = dtype,
                      .reduction = reduction,
                      .n_to = n_to,
                      .n_from = n_from,
                      .places = pl_arena_alloc(arena, n * sizeof *move->places),
                      .at = pl_arena_alloc(arena, n * sizeof *move->at)};
}

void pl_move_close(pl_move *move, pl_arena *arena)
{
    const int n = move->n_to + move->n_from;

    move->n = pl_region_elements(*move->places[0].region);
    move->is_plain = true;
    for (int i = 0; i < n; i++) {
        const pl_region region = *move->places[i].region;

        PL_ASSERT(pl_region_elements(region) == move->n);
        move->is_plain = move->is_plain && region.n_pieces == 1 && region.pieces[0].count == 1;
    }
    if (!move->is_plain)
        move->cursors = pl_arena_alloc(arena, (size_t)n * sizeof(cursor));
}

/* Address of the next element, and how many more lie in its run. */
static char *cursor_at(const cursor *c, int64_t run, size_t element_bytes, int64_t *n)
{
    const pl_piece p = c->place->region->pieces[c->piece];
    const int64_t element = c->run * p.stride + c->within;
    const int64_t half = p.array == PL_STAGING && run % 2 == 1 ? c->place->half_bytes : 0;

    *n = p.length - c->within;
    return c->place->piece[c->piece] + half + element * (int64_t)element_bytes;
}

static void cursor_advance(cursor *c, int64_t n)
{
    const pl_piece p = c->place->region->pieces[c->piece];

    c->within += n;
    if (c->within == p.length) {
        c->within = 0;
        c->run++;
    }
    if (c->run == p.count) {
        c->run = 0;
        c->piece++;
    }
}

/* Combine the longest stretch that is contiguous everywhere, again and again. */
static void run_pieces(const pl_move *move, int64_t run)
{
    const int n_places = move->n_to + move->n_from;
    const size_t bytes = pl_dtype_bytes(move->dtype);
    cursor *cursors = move->cursors;

    for (int i = 0; i < n_places; i++)
        cursors[i] = (cursor){.place = &move->places[i]};
    for (int64_t left = move->n, n; left > 0; left -= n) {
        n = left;
        for (int i = 0; i < n_places; i++) {
            int64_t longest;

            move->at[i] = cursor_at(&cursors[i], run, bytes, &longest);
            n = longest < n ? longest : n;
        }
        pl_combine(move->dtype, move->reduction, move->at, move->n_to,
                   (const void *const *)move->at + move->n_to, move->n_from, n, move->streams);
        for (int i = 0; i < n_places; i++)
            cursor_advance(&cursors[i], n);
    }
}

void pl_move_run(const pl_move *move, int64_t run)
{
    const int n_places = move->n_to + move->n_from;

    if (!move->is_plain) {
        run_pieces(move, run);
        return;
    }
    for (int i = 0; i < n_places; i++) {
        const pl_bound_place *place = &move->places[i];
        const bool second = run % 2 == 1 && place->region->pieces[0].array == PL_STAGING;

        move->at[i] = place->piece[0] + (second ? place->half_bytes : 0);
    }
    pl_combine(move->dtype, move->reduction, move->at, move->n_to,
               (const void *const *)move->at + move->n_to, move->n_from, move->n, move->streams);
}
