#include "config.h"

#include "src/collbench/plot.h"

#include "src/base/svg.h"
#include "src/base/units.h"

#include <math.h>
#include <stdio.h>

/* Pixels. */
enum {
    COLUMNS = 3,
    PANEL_WIDTH = 400,
    PANEL_HEIGHT = 300,
    LEFT = 52,
    RIGHT = 14,
    TOP = 34,
    BOTTOM = 44,
    LEGEND = 34,
    MOST_PANELS = PL_N_COLLECTIVES * PL_N_DTYPES * 2,
};

/* What is drawn: which time of a point, and how. */
typedef enum { OURS, LIMIT, PREDICTED, MPI, N_LINES } line;

static const struct {
    const char *name, *color, *dashes;
    double width;
    bool dots;
} styles[N_LINES] = {
    [OURS] = {"purlin", "#0b5fa5", "none", 2.5, true},
    [LIMIT] = {"limit", "#777777", "2 3", 1.5, false},
    [PREDICTED] = {"predicted", "#0b5fa5", "6 4", 1.2, false},
    [MPI] = {"MPI", "#c2410c", "none", 1.8, true},
};

static double time_of(const pl_bench_point *p, line l)
{
    return l == OURS        ? p->time_s
           : l == LIMIT     ? p->limit_s
           : l == PREDICTED ? p->predicted_s
                            : p->mpi_s;
}

typedef struct {
    FILE *file;
    const pl_bench_records *records;
    const pl_bench_point *first; /* of the panel: its kind */
    double left, top;            /* of the frame */
    double least_log2, most_log2, most_y;
} panel;

static bool same_kind(const pl_bench_point *a, const pl_bench_point *b)
{
    return a->c.collective == b->c.collective && a->c.dtype == b->c.dtype &&
           a->c.reduction == b->c.reduction;
}

static bool belongs(const panel *g, const pl_bench_point *p)
{
    return !p->c.in_place && same_kind(p, g->first);
}

static double x_of(const panel *g, double bytes)
{
    const double span = fmax(g->most_log2 - g->least_log2, 1);

    return g->left + (log2(bytes) - g->least_log2) / span * (PANEL_WIDTH - LEFT - RIGHT);
}

static double y_of(const panel *g, double y)
{
    return g->top + (1 - y / g->most_y) * (PANEL_HEIGHT - TOP - BOTTOM);
}

/* A round number at or above x: 1, 2 or 5 times a power of ten. */
static double round_up(double x)
{
    const double power = pow(10, floor(log10(x)));

    return x <= power       ? power
           : x <= 2 * power ? 2 * power
           : x <= 5 * power ? 5 * power
                            : 10 * power;
}

static void measure(panel *g)
{
    double most = 0;

    g->least_log2 = INFINITY;
    g->most_log2 = -INFINITY;
    for (int64_t i = 0; i < g->records->n; i++) {
        const pl_bench_point *p = &g->records->points[i];

        if (!belongs(g, p))
            continue;
        g->least_log2 = fmin(g->least_log2, log2((double)pl_bench_point_bytes(p)));
        g->most_log2 = fmax(g->most_log2, log2((double)pl_bench_point_bytes(p)));
        for (int l = 0; l < N_LINES; l++)
            if (time_of(p, (line)l) > 0)
                most = fmax(most, 1e-9 * pl_bench_busbw(p, time_of(p, (line)l)));
    }
    g->most_y = most > 0 ? 1.05 * most : 1;
}

static void draw_axes(const panel *g)
{
    const double step = round_up(g->most_y / 6), bottom = g->top + PANEL_HEIGHT - TOP - BOTTOM;
    const double right = g->left + PANEL_WIDTH - LEFT - RIGHT;
    const int span = (int)(g->most_log2 - g->least_log2), every = span / 8 + 1;

    for (int i = 0; i * step <= g->most_y; i++) {
        const double y = y_of(g, i * step);

        fprintf(g->file, "<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='#ddd'/>\n", g->left,
                y, right, y);
        fprintf(g->file, "<text x='%.1f' y='%.1f' text-anchor='end'>%g</text>\n", g->left - 5,
                y + 4, i * step);
    }
    for (int e = (int)ceil(g->least_log2); e <= (int)g->most_log2; e += every) {
        const double x = x_of(g, ldexp(1, e));
        static const char *const units[] = {"", "Ki", "Mi", "Gi", "Ti"};
        const int u = e / 10 < 4 ? e / 10 : 4;

        fprintf(g->file, "<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='#333'/>\n", x,
                bottom, x, bottom + 4);
        fprintf(g->file, "<text x='%.1f' y='%.1f' text-anchor='middle'>%g%s</text>\n", x,
                bottom + 16, ldexp(1, e - 10 * u), units[u]);
    }
    fprintf(g->file,
            "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='none' stroke='#333'/>\n",
            g->left, g->top, right - g->left, bottom - g->top);
    fprintf(g->file,
            "<text x='%.1f' y='%.1f' text-anchor='middle'>bytes of the whole array</text>\n",
            (g->left + right) / 2, bottom + 32);
}

static void draw_title(const panel *g)
{
    const pl_bench_case *c = &g->first->c;
    const char *redop = !pl_bench_reduces(c->collective) ? ""
                        : c->reduction == PL_SUM         ? ", sum"
                                                         : ", max";

    fprintf(g->file,
            "<text x='%.1f' y='%.1f' font-size='13' font-weight='bold'>%s, %s%s, %d ranks: busbw "
            "GB/s</text>\n",
            g->left, g->top - 10, pl_collective_name(c->collective), pl_dtype_name(c->dtype), redop,
            c->n_ranks);
}

static void draw_line(const panel *g, line l)
{
    int n = 0;

    for (int pass = 0; pass < 2; pass++) { /* the line, then its dots */
        if (pass == 1 && !styles[l].dots)
            break;
        if (pass == 0)
            fprintf(g->file,
                    "<polyline fill='none' stroke='%s' stroke-width='%g' stroke-dasharray='%s' "
                    "points='",
                    styles[l].color, styles[l].width, styles[l].dashes);
        for (int64_t i = 0; i < g->records->n; i++) {
            const pl_bench_point *p = &g->records->points[i];
            const double time_s = time_of(p, l);

            if (!belongs(g, p) || !(time_s > 0))
                continue;
            const double x = x_of(g, (double)pl_bench_point_bytes(p));
            const double y = y_of(g, 1e-9 * pl_bench_busbw(p, time_s));

            if (pass == 0)
                fprintf(g->file, "%s%.1f,%.1f", n++ > 0 ? " " : "", x, y);
            else
                fprintf(g->file, "<circle cx='%.1f' cy='%.1f' r='2.5' fill='%s'/>\n", x, y,
                        styles[l].color);
        }
        if (pass == 0)
            fprintf(g->file, "'/>\n");
    }
}

static bool is_drawn(const pl_bench_records *r, line l)
{
    for (int64_t i = 0; i < r->n; i++)
        if (time_of(&r->points[i], l) > 0)
            return true;
    return false;
}

static void draw_legend(FILE *file, const pl_bench_records *r)
{
    double x = LEFT;

    for (int l = 0; l < N_LINES; l++) {
        if (!is_drawn(r, (line)l))
            continue;
        fprintf(file,
                "<line x1='%.1f' y1='18' x2='%.1f' y2='18' stroke='%s' stroke-width='%g' "
                "stroke-dasharray='%s'/>\n<text x='%.1f' y='22'>%s</text>\n",
                x, x + 30, styles[l].color, styles[l].width, styles[l].dashes, x + 36,
                styles[l].name);
        x += 120;
    }
}

/* The first point of each kind. */
static int find_panels(const pl_bench_records *r, const pl_bench_point **firsts)
{
    int n = 0;

    for (int64_t i = 0; i < r->n; i++) {
        bool known = false;

        for (int k = 0; k < n; k++)
            known = known || same_kind(firsts[k], &r->points[i]);
        if (!known && n < MOST_PANELS)
            firsts[n++] = &r->points[i];
    }
    return n;
}

pl_status pl_bench_plot(const char *path, const pl_bench_records *r)
{
    const pl_bench_point *firsts[MOST_PANELS];
    const int n = find_panels(r, firsts), columns = n < COLUMNS ? n : COLUMNS;
    const int rows = n > 0 ? (n + columns - 1) / columns : 0;
    FILE *file;
    const pl_status status =
        pl_svg_open(path, columns * PANEL_WIDTH, rows * PANEL_HEIGHT + LEGEND, &file);

    if (status != PL_OK)
        return status;
    draw_legend(file, r);
    for (int i = 0; i < n; i++) {
        panel g = {.file = file,
                   .records = r,
                   .first = firsts[i],
                   .left = i % columns * PANEL_WIDTH + LEFT,
                   .top = i / columns * PANEL_HEIGHT + LEGEND + TOP};

        measure(&g);
        draw_axes(&g);
        draw_title(&g);
        for (int l = N_LINES - 1; l >= 0; l--) /* ours on top */
            draw_line(&g, (line)l);
    }
    return pl_svg_close(file, path);
}
