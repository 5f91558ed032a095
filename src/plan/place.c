#include "config.h"

#include "src/plan/place.h"

#include "collectives/wires.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* How much of each level has been dealt out. */
typedef struct {
    int taken[PL_MAX_LEVELS]; /* torus: chips along the axis that inner axes lie over */
    int level, left;          /* switch: the level in hand, and units of it that are left */
} state;

typedef struct {
    const pl_hardware *hw;
    const pl_slice *slice;
    const pl_mesh *mesh;
    const pl_axis_load *loads;
    int over_pods; /* the axis that goes over pods; -1: none */
    pl_wires wires[PL_MAX_AXES];
    double load_s[PL_MAX_AXES]; /* what each axis' load takes over its wires; < 0: not known yet */
    pl_wires *best;
    double best_s;
    bool found;
} search;

static int count_torus(const pl_hardware *hw)
{
    int n = 0;

    while (n < hw->n_levels && hw->level[n].kind == PL_LEVEL_TORUS)
        n++;
    return n;
}

/* Larger is better: axes that wrap around, then how near to a cube. */
static double shape_score(const pl_hardware *hw, const int *length, int n)
{
    double score = 0;
    int longest = 1;

    for (int i = 0; i < n; i++) {
        const int multiple = hw->level[i].ring_multiple;

        if (length[i] > 2 && multiple > 0 && length[i] % multiple == 0)
            score += 1e6;
        longest = length[i] > longest ? length[i] : longest;
    }
    return score - longest;
}

static void try_shapes(const pl_hardware *hw, int64_t left, int at, int *length, int n,
                       double *best_score, int *best)
{
    if (at == n) {
        const double score = shape_score(hw, length, n);

        if (left == 1 && score > *best_score) {
            *best_score = score;
            memcpy(best, length, (size_t)n * sizeof *best);
        }
        return;
    }
    for (int x = 1; x <= hw->level[at].size && x <= left; x++)
        if (left % x == 0) {
            length[at] = x;
            try_shapes(hw, left / x, at + 1, length, n, best_score, best);
        }
}

static bool find_slice(const pl_hardware *hw, int64_t chips, pl_slice *slice)
{
    const int n = count_torus(hw);
    const int64_t pod = pl_hardware_chips_below(hw, n);
    int length[PL_MAX_LEVELS];
    double score = -INFINITY;

    *slice = (pl_slice){.n_torus = n, .pods = 1};
    if (n == 0)
        return true;
    if (chips > pod) {
        slice->pods = chips / pod;
        if (chips % pod != 0 || n == hw->n_levels)
            return false;
        chips = pod;
    }
    try_shapes(hw, chips, 0, length, n, &score, slice->length);
    return score > -INFINITY;
}

pl_status pl_slice_of(const pl_hardware *hw, int64_t chips, pl_slice *slice)
{
    const int64_t most = pl_hardware_chips(hw);
    int64_t below = chips - 1, above = chips + 1;
    pl_slice other;
    char upper[64] = "";

    if (most > 0 && chips > most)
        return pl_refuse(PL_BAD_INPUT, "--chips: %s has at most %lld chips", hw->name,
                         (long long)most);
    if (find_slice(hw, chips, slice))
        return PL_OK;
    while (below > 1 && !find_slice(hw, below, &other))
        below--;
    while (above < 2 * chips && !find_slice(hw, above, &other))
        above++;
    if (above < 2 * chips)
        snprintf(upper, sizeof upper, " and %lld", (long long)above);
    return pl_refuse(PL_BAD_INPUT,
                     "--chips: no slice of %s has %lld chips; the nearest that do: %lld%s",
                     hw->name, (long long)chips, (long long)below, upper);
}

static double load_s(const pl_axis_load *load, const pl_wires *wires)
{
    return load->times > 0 && wires->n > 0
               ? load->times * pl_wires_collective(wires, load->collective, load->bytes).time_s
               : 0;
}

static void keep_if_best(search *s)
{
    double time_s = 0;

    for (int a = 0; a < s->mesh->n_axes; a++) {
        if (s->load_s[a] < 0)
            s->load_s[a] = load_s(&s->loads[a], &s->wires[a]);
        time_s += s->load_s[a];
    }
    if (s->found && time_s >= s->best_s)
        return;
    s->found = true;
    s->best_s = time_s;
    memcpy(s->best, s->wires, (size_t)s->mesh->n_axes * sizeof *s->best);
}

static int largest_divisor(int n, int most)
{
    int d = n < most ? n : most;

    while (n % d != 0)
        d--;
    return d;
}

/* The rest of axis a on switches: false when there are not enough of them. */
static bool take_switches(search *s, state *st, int a, int left)
{
    while (left > 1) {
        const pl_level *l = &s->hw->level[st->level];
        int part = left;

        if (st->level >= s->hw->n_levels)
            return false;
        if (l->size > 0) {
            part = largest_divisor(left, st->left);
            st->left = part == left ? st->left / part : 1;
        }
        pl_wires_add(&s->wires[a], pl_wire_dim_of(s->hw, st->level, part, 1, 0));
        left /= part;
        if (l->size > 0 && st->left <= 1) {
            st->level++;
            st->left = st->level < s->hw->n_levels ? s->hw->level[st->level].size : 0;
        }
    }
    return true;
}

static void place_axis(search *s, state st, int a);

/* Whether what axes from a inwards take is alone more than the best: sums of n times in another
 * order differ by less than n roundings. */
static bool is_beaten(const search *s, int a)
{
    double inner_s = 0;

    for (int k = a; k < s->mesh->n_axes; k++)
        inner_s += s->load_s[k];
    return inner_s > s->best_s * (1 + PL_MAX_AXES * DBL_EPSILON);
}

/* Axis a has its wires; now those further out, as long as that can be better than the best. Before
 * there is one, loads are priced where a layout is whole. */
static void place_outer(search *s, state st, int a)
{
    s->load_s[a] = s->found ? load_s(&s->loads[a], &s->wires[a]) : -1;
    if (!s->found || !is_beaten(s, a))
        place_axis(s, st, a - 1);
}

/* Chips along level l that inner axes do not lie over. */
static int room_on(const search *s, const state *st, int l)
{
    return s->slice->length[l] / st->taken[l];
}

/* Torus level l on gives its part of `left` to axis a, what those above it can take the rest of;
 * then the next level, the next axis. */
static void take_torus(search *s, state st, int a, int l, int left)
{
    const pl_slice *slice = s->slice;

    if (l == slice->n_torus) {
        const int pods = a == s->over_pods ? (int)slice->pods : 1;

        if (left != 1)
            return;
        if (pods > 1)
            pl_wires_add(&s->wires[a], pl_wire_dim_of(s->hw, slice->n_torus, pods, 1, 0));
        place_outer(s, st, a);
        return;
    }
    const int whole = slice->length[l], room = room_on(s, &st, l), n_dims = s->wires[a].n;
    int above = 1;
    for (int k = l + 1; k < slice->n_torus; k++)
        above *= room_on(s, &st, k);
    for (int part = (left + above - 1) / above; part <= room && part <= left; part++) {
        state next = st;

        if (left % part != 0 || room % part != 0 || above % (left / part) != 0)
            continue;
        s->wires[a].n = n_dims;
        pl_wires_add(&s->wires[a], pl_wire_dim_of(s->hw, l, part, st.taken[l], whole));
        next.taken[l] *= part;
        take_torus(s, next, a, l + 1, left / part);
    }
    s->wires[a].n = n_dims;
}

/* Axis a, then those further out. */
static void place_axis(search *s, state st, int a)
{
    if (a < 0) {
        keep_if_best(s);
        return;
    }
    const int size = s->mesh->axes[a].size;

    s->wires[a].n = 0;
    if (s->slice->n_torus == 0) {
        if (take_switches(s, &st, a, size))
            place_outer(s, st, a);
        return;
    }
    take_torus(s, st, a, 0, a == s->over_pods ? size / (int)s->slice->pods : size);
}

bool pl_lay_out(const pl_hardware *hw, const pl_slice *slice, const pl_mesh *mesh,
                const pl_axis_load *loads, pl_wires wires[PL_MAX_AXES], double *time_s)
{
    search s = {
        .hw = hw, .slice = slice, .mesh = mesh, .loads = loads, .over_pods = -1, .best = wires};
    state st = {.left = hw->level[0].size};

    for (int l = 0; l < PL_MAX_LEVELS; l++)
        st.taken[l] = 1;
    if (slice->pods == 1)
        place_axis(&s, st, mesh->n_axes - 1);
    for (s.over_pods = 0; slice->pods > 1 && s.over_pods < mesh->n_axes; s.over_pods++)
        if (mesh->axes[s.over_pods].size % slice->pods == 0)
            place_axis(&s, st, mesh->n_axes - 1);
    *time_s = s.best_s;
    return s.found;
}

void pl_wires_print(const pl_hardware *hw, const pl_wires *wires, char *text, size_t size)
{
    size_t at = 0;

    snprintf(text, size, "-");
    for (int i = 0; i < wires->n && at < size; i++) {
        const pl_wire_dim *d = &wires->dim[i];
        const pl_level *l = &hw->level[d->level];

        at +=
            (size_t)snprintf(text + at, size - at, "%s%s:%d%s", i > 0 ? " " : "", l->name,
                             d->extent, d->kind == PL_LEVEL_TORUS && !d->is_ring ? " (line)" : "");
    }
}
