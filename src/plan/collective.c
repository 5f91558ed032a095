/* plan collective -- what a collective costs over some chips of a machine: the book's formula, and
 * the price that plans are made of (collectives/wires.h). */
#include "config.h"

#include "collectives/wires.h"
#include "src/base/units.h"
#include "src/plan/ask.h"
#include "src/plan/commands.h"
#include "src/plan/slow_chip.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SIZES = 4 };

typedef struct {
    pl_collective collective;
    int n, size[MOST_SIZES]; /* innermost first */
    double chips;
} group;

/* "4x4x8" */
static pl_status parse_sizes(const char *text, group *g)
{
    const char *at = text;

    g->n = 0;
    g->chips = 1;
    for (;;) {
        char *end;
        const long size = strtol(at, &end, 10);

        if (end == at || size < 1 || size > 1 << 20 || g->n == MOST_SIZES ||
            (*end != '\0' && *end != 'x'))
            return pl_refuse(PL_BAD_INPUT,
                             "\"%s\" is no size: give chips (8) or chips by level or axis, the "
                             "innermost first (4x4, at most %d)",
                             text, MOST_SIZES);
        g->size[g->n++] = (int)size;
        g->chips *= (double)size;
        if (*end == '\0')
            return PL_OK;
        at = end + 1;
    }
}

/* One number of chips on switches fills the levels from inside. */
static pl_status spread(const pl_hardware *hw, group *g)
{
    int64_t left = g->size[0];

    if (g->n != 1 || hw->level[0].kind == PL_LEVEL_TORUS)
        return PL_OK;
    g->n = 0;
    for (int l = 0; l < hw->n_levels && left > 1; l++) {
        const int64_t most = hw->level[l].size > 0 ? hw->level[l].size : left;
        const int64_t here = left < most ? left : most;

        if (left % here != 0 || g->n == MOST_SIZES)
            return pl_refuse(PL_BAD_INPUT, "%g chips do not fill the level \"%s\" of %d evenly",
                             g->chips, hw->level[l].name, (int)most);
        g->size[g->n++] = (int)here;
        left /= here;
    }
    return PL_OK;
}

static pl_status make_wires(const pl_hardware *hw, const group *g, pl_wires *wires)
{
    wires->n = 0;
    for (int i = 0; i < g->n; i++) {
        if (i >= hw->n_levels || (hw->level[i].size > 0 && g->size[i] > hw->level[i].size))
            return pl_refuse(PL_BAD_INPUT, "%s has no level %d with %d chips: `plan hardware %s`",
                             hw->name, i, g->size[i], hw->path);
        pl_wires_add(wires, pl_wire_dim_of(hw, i, g->size[i], 1, g->size[i]));
    }
    return PL_OK;
}

/* The axes of a torus, the longest first. */
static void know_axes(pl_ask *ask, const group *g)
{
    static const char *const names[] = {"N2", "N3"};
    int longest = 0, n = 1, n_others = 0;

    for (int i = 1; i < g->n; i++)
        longest = g->size[i] > g->size[longest] ? i : longest;
    pl_ask_know(ask, "N", g->size[longest], "the longest axis");
    for (int i = 0; i < g->n; i++)
        if (i != longest && g->size[i] > 1) {
            n++;
            if (n_others < 2)
                pl_ask_know(ask, names[n_others++], g->size[i], "another axis");
        }
    pl_ask_know(ask, "axes", n, "axes used");
}

/* The book's inputs for this group. */
static void know_group(pl_ask *ask, const group *g, const pl_wires *wires)
{
    const bool torus = !ask->has_hw || ask->hw.level[0].kind == PL_LEVEL_TORUS;
    bool rings = true;

    for (int i = 0; i < wires->n; i++)
        rings = rings && (wires->dim[i].kind != PL_LEVEL_TORUS || wires->dim[i].is_ring);
    if (torus) {
        know_axes(ask, g);
        if (!pl_ask_is_given(ask, "wrap"))
            pl_ask_know(ask, "wrap", rings, "by their lengths");
        pl_ask_know(ask, "x", g->size[0], "given");
        pl_ask_know(ask, "y", g->n > 1 ? g->size[1] : 1, "given");
        pl_ask_know(ask, "z", g->n > 2 ? g->size[2] : 1, "given");
    } else {
        pl_ask_know(ask, "N", g->size[0], "chips of a node");
        pl_ask_know(ask, "M", g->n > 1 ? g->chips / g->size[0] : NAN, "nodes");
    }
}

static const char *formula_of(const pl_ask *ask, const group *g)
{
    static const char *const torus[] = {[PL_ALL_GATHER] = "all_gather",
                                        [PL_REDUCE_SCATTER] = "reduce_scatter",
                                        [PL_ALL_REDUCE] = "all_reduce"};

    if (ask->has_hw && ask->hw.level[0].kind != PL_LEVEL_TORUS)
        return g->n > 1 ? "hierarchy" : "switched";
    if (g->collective == PL_ALL_TO_ALL)
        return g->n > 1 ? "torus_all_to_all" : "all_to_all";
    return torus[g->collective];
}

static void print_price(const pl_ask *ask, const group *g, const pl_wires *wires, double bytes,
                        json_t *root)
{
    const double held = g->collective == PL_ALL_TO_ALL ? bytes / g->chips : bytes;
    const pl_wires_price p = pl_wires_collective(wires, g->collective, held);

    if (root != NULL) {
        json_object_set_new(root, "planned",
                            json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:i}", "collective",
                                      pl_collective_key(g->collective), "hardware", ask->hw.name,
                                      "array_bytes", pl_json_real(bytes), "chips",
                                      pl_json_real(g->chips), "time_s", pl_json_real(p.time_s),
                                      "latency_s", pl_json_real(p.latency_s), "transfer_s",
                                      pl_json_real(p.transfer_s), "wire_bytes_per_chip",
                                      pl_json_real(p.wire_bytes), "chunks", p.n_chunks));
        return;
    }
    printf("%s of %s over %g chips of %s, as plans price it (its schedule, message by message)\n"
           "    %s: transfer %s, latency %s; a chip sends %s, in %d chunk%s\n\n",
           pl_collective_name(g->collective), pl_si(bytes, "B").text, g->chips, ask->hw.name,
           pl_si(p.time_s, "s").text, pl_si(p.transfer_s, "s").text, pl_si(p.latency_s, "s").text,
           pl_si(p.wire_bytes, "B").text, p.n_chunks, p.n_chunks == 1 ? "" : "s");
}

/* With the links of one chip slower: factor NaN where that is not asked. */
typedef struct {
    double factor, even_s, slow_s;
} what_if;

static pl_status ask_what_if(const pl_ask *ask, const group *g, const pl_wires *wires, double bytes,
                             what_if *w)
{
    const double held = g->collective == PL_ALL_TO_ALL ? bytes / g->chips : bytes;

    w->factor = pl_ask_get(ask, "slow_link");
    if (isnan(w->factor))
        return PL_OK;
    if (!(w->factor >= 1))
        return pl_refuse(PL_BAD_INPUT, "--slow-link: %g; give by how much, 1 or more", w->factor);
    if (wires->n == 0)
        return pl_refuse(PL_BAD_INPUT,
                         "--slow-link: give the machine (--hw), and more than a chip");
    return pl_slow_chip_collective(wires, g->collective, held, w->factor, &w->even_s, &w->slow_s);
}

static void print_what_if(const what_if *w, json_t *root)
{
    if (isnan(w->factor))
        return;
    if (root != NULL)
        json_object_set_new(root, "slow_link",
                            json_pack("{s:o, s:o, s:o}", "factor", pl_json_real(w->factor),
                                      "even_time_s", pl_json_real(w->even_s), "time_s",
                                      pl_json_real(w->slow_s)));
    else
        printf("what if one chip's links took %g times as long, message by message\n"
               "    %s instead of %s: %.3g times\n\n",
               w->factor, pl_si(w->slow_s, "s").text, pl_si(w->even_s, "s").text,
               w->slow_s / w->even_s);
}

static const pl_ask_option options[] = {
    {"bytes", "V_bytes", "of the whole array: gathered, summed, or exchanged by all"},
    {"link", "link_bytes_per_s", "torus: a link, one way"},
    {"chip", "chip_bytes_per_s", "switch: a chip's port, one way"},
    {"node", "node_bytes_per_s", "a node's port, one way"},
    {"wrap", "wrap", "1: the axis is a ring; 0: a line (default: by the machine)"},
    {"directions", "directions", "1: one way round; 2: both (default)"},
    {"latency", "hop_latency_s", "of a hop"},
    {"slow-link", "slow_link", "what if the links of one chip took so many times as long"},
    {"inner", "Y", "chips of an inner axis that splits the array too"},
    {0},
};
static const char *const formulas[] = {"all_gather", "all_to_all", "torus_all_to_all",
                                       "switched",   "hierarchy",  NULL};

static pl_status price(pl_ask *ask, group *g, json_t *root)
{
    const double bytes = pl_ask_get(ask, "V_bytes");
    pl_wires wires = {0};
    pl_status status = PL_OK;
    what_if w;

    if (!(bytes > 0))
        return pl_refuse(PL_BAD_INPUT, "--bytes: give the size of the array");
    if (ask->has_hw)
        status = spread(&ask->hw, g);
    if (status == PL_OK && ask->has_hw)
        status = make_wires(&ask->hw, g, &wires);
    if (status != PL_OK)
        return status;
    status = ask_what_if(ask, g, &wires, bytes, &w);
    if (status != PL_OK)
        return status;
    know_group(ask, g, &wires);
    if (wires.n > 0)
        print_price(ask, g, &wires, bytes, root);
    print_what_if(&w, root);
    return pl_ask_answer(ask, formula_of(ask, g), false, root);
}

pl_status pl_plan_collective(int argc, char **argv)
{
    static const pl_ask_command command = {
        .usage = "OPERATION CHIPS --bytes V [--hw H] [NAME=NUMBER...]",
        .about = "A collective over CHIPS of a machine (8, or by axis or level, innermost first: "
                 "4x4). OPERATION: all_gather, reduce_scatter, all_reduce, all_to_all.",
        .options = options,
        .formulas = formulas,
        .most_words = 2,
    };
    pl_ask ask;
    group g;
    pl_status status = pl_ask_parse(&command, argc, argv, &ask);

    if (status != PL_OK || ask.done)
        return status;
    if (ask.n_words < 2)
        return pl_refuse(PL_BAD_INPUT, "collective: give an OPERATION and CHIPS: "
                                       "plan collective all_gather 4x4 --hw tpu-v4 --bytes 8M");
    g.collective = pl_collective_find(ask.words[0]);
    if (g.collective > PL_ALL_TO_ALL)
        return pl_refuse(PL_BAD_INPUT,
                         "collective: \"%s\" is none of all_gather, reduce_scatter, all_reduce, "
                         "all_to_all",
                         ask.words[0]);
    status = parse_sizes(ask.words[1], &g);
    if (status != PL_OK)
        return status;
    json_t *root = ask.json ? json_object() : NULL;
    status = price(&ask, &g, root);
    if (status == PL_OK)
        pl_ask_print_json(root);
    else
        json_decref(root);
    return status;
}
