#include "config.h"

#include "src/plan/curve.h"

#include "src/base/memory.h"
#include "src/base/svg.h"
#include "src/base/units.h"
#include "src/plan/show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HALVINGS = 4 };

static bool search_at(const pl_search_command *c, double factor, pl_curve_point *p)
{
    pl_search_command here = *c;
    pl_search_result *r = pl_alloc(sizeof *r);
    bool rounded;

    here.search.n_plans = 1;
    if (c->vary == PL_VARY_CHIPS)
        here.search.chips = (int64_t)((double)c->search.chips * factor + 0.5);
    else
        here.search.sequences = pl_sequences_of(
            (double)c->search.sequences * (double)c->search.seq * factor, c->search.seq, &rounded);
    const bool found = here.search.chips > 0 && pl_search(&here.search, r) == PL_OK;
    pl_status_clear();
    if (found) {
        const pl_estimate *e = &r->best[0].estimate;

        *p = (pl_curve_point){.x = c->vary == PL_VARY_CHIPS
                                       ? (double)here.search.chips
                                       : (double)(here.search.sequences * here.search.seq),
                              .step_s = e->step_s,
                              .math_s = e->math_s,
                              .tokens_per_s = pl_tokens_per_s(&here, &r->best[0]),
                              .mfu = r->best[0].mfu};
        pl_candidate_print(&r->best[0], p->strategy, sizeof p->strategy);
        p->comm_s = e->comm_s;
        p->comm_bound = p->comm_s > p->math_s;
    }
    pl_free(r);
    return found;
}

/* Where T_comms / T_math passes 1 between two points, along a straight line of logarithms; of
 * several such places (the best plan changes) the last for batches, the first for chips. */
static double crossover_of(const pl_plan_curve *curve)
{
    double x = 0;

    for (int i = 1; i < curve->n; i++) {
        const pl_curve_point *a = &curve->point[i - 1], *b = &curve->point[i];
        const double at = log(a->comm_s / a->math_s), to = log(b->comm_s / b->math_s);

        if (a->comm_bound != b->comm_bound && (x == 0 || curve->vary == PL_VARY_BATCH))
            x = a->x * pow(b->x / a->x, at / (at - to));
    }
    return x;
}

void pl_curve_of(const pl_search_command *c, pl_plan_curve *curve)
{
    *curve = (pl_plan_curve){.vary = c->vary};
    for (int k = -HALVINGS; k <= HALVINGS; k++) {
        pl_curve_point p;

        if (search_at(c, pow(2, k), &p) && (curve->n == 0 || p.x > curve->point[curve->n - 1].x))
            curve->point[curve->n++] = p;
    }
    curve->crossover = crossover_of(curve);
}

static const char *name_of(const pl_plan_curve *curve)
{
    return curve->vary == PL_VARY_CHIPS ? "chips" : "tokens a step";
}

void pl_curve_print(const pl_plan_curve *curve)
{
    printf("\n  %-14s  %9s  %9s  %11s  %12s  %7s  best plan\n", name_of(curve), "step (s)",
           "T_math (s)", "T_comms (s)", "tokens/s", "MFU (%)");
    for (int i = 0; i < curve->n; i++) {
        const pl_curve_point *p = &curve->point[i];

        printf("  %14s  %9.4f  %9.4f  %11.4f%s %12.4g  %7.1f  %s\n",
               pl_thousands((int64_t)p->x).text, p->step_s, p->math_s, p->comm_s,
               p->comm_bound ? "*" : " ", p->tokens_per_s, 100 * p->mfu, p->strategy);
    }
    if (curve->crossover > 0)
        printf("  * communication-bound; it turns at about %s %s\n",
               pl_thousands((int64_t)curve->crossover).text, name_of(curve));
    else
        printf("  %s over the whole range\n", curve->n > 0 && curve->point[0].comm_bound
                                                  ? "* communication-bound"
                                                  : "bound by arithmetic");
}

json_t *pl_curve_json(const pl_plan_curve *curve)
{
    json_t *root = json_object(), *points = json_array();

    for (int i = 0; i < curve->n; i++) {
        const pl_curve_point *p = &curve->point[i];
        json_t *point = json_object();

        json_object_set_new(point, curve->vary == PL_VARY_CHIPS ? "chips" : "batch_tokens",
                            pl_json_real(p->x));
        json_object_set_new(point, "strategy", json_string(p->strategy));
        json_object_set_new(point, "step_s", pl_json_real(p->step_s));
        json_object_set_new(point, "math_s", pl_json_real(p->math_s));
        json_object_set_new(point, "comms_s", pl_json_real(p->comm_s));
        json_object_set_new(point, "tokens_per_s", pl_json_real(p->tokens_per_s));
        json_object_set_new(point, "mfu_fraction", pl_json_real(p->mfu));
        json_object_set_new(point, "communication_bound", json_boolean(p->comm_bound));
        json_array_append_new(points, point);
    }
    json_object_set_new(root, "points", points);
    json_object_set_new(root,
                        curve->vary == PL_VARY_CHIPS ? "crossover_chips" : "crossover_batch_tokens",
                        curve->crossover > 0 ? pl_json_real(curve->crossover) : json_null());
    return root;
}

/* ---- the picture ---- */

enum { WIDTH = 640, HEIGHT = 400, LEFT = 70, RIGHT = 20, TOP = 40, BOTTOM = 50 };

typedef struct {
    double x0, x1, y0, y1; /* logarithms */
} frame;

static double x_at(const frame *f, double x)
{
    return LEFT + (log10(x) - f->x0) / (f->x1 - f->x0) * (WIDTH - LEFT - RIGHT);
}

static double y_at(const frame *f, double y)
{
    return HEIGHT - BOTTOM - (log10(y) - f->y0) / (f->y1 - f->y0) * (HEIGHT - TOP - BOTTOM);
}

static frame frame_of(const pl_plan_curve *curve)
{
    frame f = {log10(curve->point[0].x), log10(curve->point[curve->n - 1].x), INFINITY, -INFINITY};

    for (int i = 0; i < curve->n; i++) {
        const pl_curve_point *p = &curve->point[i];

        f.y0 = fmin(f.y0, floor(log10(fmin(p->math_s, fmax(p->comm_s, p->math_s / 1e3)))));
        f.y1 = fmax(f.y1, ceil(log10(p->step_s)));
    }
    f.x1 = f.x1 > f.x0 ? f.x1 : f.x0 + 1;
    f.y1 = f.y1 > f.y0 ? f.y1 : f.y0 + 1;
    return f;
}

static void put_line(FILE *file, const pl_plan_curve *curve, const frame *f, int which,
                     const char *colour, const char *name)
{
    fprintf(file, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour);
    for (int i = 0; i < curve->n; i++) {
        const pl_curve_point *p = &curve->point[i];
        const double y = which == 0 ? p->step_s : which == 1 ? p->math_s : p->comm_s;

        if (y > 0)
            fprintf(file, "%.1f,%.1f ", x_at(f, p->x), y_at(f, fmax(y, pow(10, f->y0))));
    }
    fprintf(file, "\"/>\n<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", LEFT + 10 + 130 * which,
            TOP - 8, colour, name);
}

static void put_axes(FILE *file, const pl_plan_curve *curve, const frame *f)
{
    for (double e = f->y0; e <= f->y1; e++)
        fprintf(file,
                "<path stroke=\"#ddd\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" "
                "text-anchor=\"end\">%s</text>\n",
                LEFT, y_at(f, pow(10, e)), WIDTH - RIGHT, LEFT - 6, y_at(f, pow(10, e)) + 4,
                pl_si(pow(10, e), "s").text);
    for (int i = 0; i<curve->n; i += curve->n> 6 ? 2 : 1)
        fprintf(file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                x_at(f, curve->point[i].x), HEIGHT - BOTTOM + 18,
                pl_si(curve->point[i].x, "").text);
    fprintf(file, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, name_of(curve));
}

pl_status pl_curve_plot(const pl_search_command *c, const pl_plan_curve *curve, const char *path)
{
    FILE *file;

    if (curve->n == 0)
        return pl_refuse(PL_BAD_INPUT, "--plot: no point of the range has a plan");
    const pl_status status = pl_svg_open(path, WIDTH, HEIGHT, &file);
    if (status != PL_OK)
        return status;
    const frame f = frame_of(curve);
    fprintf(file, "<title>%s on %s</title>\n", c->search.model.name, c->search.hw.name);
    put_axes(file, curve, &f);
    put_line(file, curve, &f, 0, "#222", "step");
    put_line(file, curve, &f, 1, "#1a6", "T_math");
    put_line(file, curve, &f, 2, "#c33", "T_comms");
    if (curve->crossover > 0)
        fprintf(file, "<path stroke=\"#888\" stroke-dasharray=\"4\" d=\"M%.1f %dV%d\"/>\n",
                x_at(&f, curve->crossover), TOP, HEIGHT - BOTTOM);
    return pl_svg_close(file, path);
}
