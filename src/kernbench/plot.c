#include "config.h"

#include "src/kernbench/plot.h"

#include "src/base/memory.h"
#include "src/base/svg.h"
#include "src/base/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Pixels. */
enum {
    WIDTH = 1180,
    HEIGHT = 760,
    LEFT = 62,
    RIGHT = 150,
    TOP = 64,
    BOTTOM = 48,
    LETTER = 7, /* of a label, about */
    LINE_HEIGHT = 12,
    MOST_LABELS = 512,
};

static const char *const colors[PL_N_GROUPS] = {
    [PL_GROUP_SQUARE] = "#0b5fa5", [PL_GROUP_MODEL] = "#15803d",   [PL_GROUP_SMALL] = "#7c3aed",
    [PL_GROUP_SKINNY] = "#b45309", [PL_GROUP_WEIGHTS] = "#a16207", [PL_GROUP_ATTENTION] = "#be123c",
    [PL_GROUP_CACHE] = "#0e7490",  [PL_GROUP_DRAM] = "#444444",    [PL_GROUP_OTHER] = "#0b5fa5",
};

static const char *const legend[PL_N_GROUPS] = {
    [PL_GROUP_SQUARE] = "matmul, squares",
    [PL_GROUP_MODEL] = "matmul, a model's",
    [PL_GROUP_SMALL] = "matmul, small",
    [PL_GROUP_SKINNY] = "matmul, skinny",
    [PL_GROUP_WEIGHTS] = "packed, int8",
    [PL_GROUP_ATTENTION] = "attention",
    [PL_GROUP_CACHE] = "streaming, in cache",
    [PL_GROUP_DRAM] = "streaming, in memory",
    [PL_GROUP_OTHER] = "other",
};

typedef struct {
    double left, top, right, bottom;
} box;

typedef struct {
    FILE *file;
    const pl_peaks *peaks;
    const pl_records *records;
    double least_x, most_x, least_y, most_y; /* powers of ten */
    int n_labels;
    box labels[MOST_LABELS]; /* where something is written already */
} plot;

static double x_of(const plot *g, double intensity)
{
    return LEFT +
           (log10(intensity) - g->least_x) / (g->most_x - g->least_x) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const plot *g, double flops_per_s)
{
    return HEIGHT - BOTTOM -
           (log10(flops_per_s) - g->least_y) / (g->most_y - g->least_y) * (HEIGHT - TOP - BOTTOM);
}

static bool is_drawn(const pl_point *p)
{
    return p->flops > 0;
}

static double rate(const pl_point *p)
{
    return p->flops / p->time_s;
}

/* Whole decades around all points and peaks. */
static void measure(plot *g)
{
    double least_x = INFINITY, most_x = 0, least_y = INFINITY, most_y = 0;

    for (int i = 0; i < g->records->n; i++) {
        const pl_point *p = &g->records->points[i];

        if (!is_drawn(p))
            continue;
        least_x = fmin(least_x, pl_point_intensity(p));
        most_x = fmax(most_x, pl_point_intensity(p));
        least_y = fmin(least_y, rate(p));
        most_y = fmax(most_y, rate(p));
    }
    if (!(most_x > 0)) { /* nothing that counts FLOPs: the roofs alone */
        least_x = most_x = 1;
        least_y = most_y = g->peaks->flops_per_s[PL_MULTIPLY_F32];
    }
    for (int k = PL_MULTIPLY_F32; k <= PL_MULTIPLY_BF16; k++)
        most_y = fmax(most_y, g->peaks->flops_per_s[k]);
    g->least_x = floor(log10(least_x));
    g->most_x = fmax(ceil(log10(most_x)), g->least_x + 1);
    g->least_y = floor(log10(least_y));
    g->most_y = fmax(log10(2 * most_y), g->least_y + 1);
}

static void draw_grid(const plot *g)
{
    const double right = WIDTH - RIGHT, bottom = HEIGHT - BOTTOM;
    char text[32];

    for (int e = (int)g->least_x; e <= (int)g->most_x; e++) {
        const double x = x_of(g, pow(10, e));

        pl_svg_line(g->file, x, TOP, x, bottom, "#ddd", 1, "none");
        snprintf(text, sizeof text, "%g", pow(10, e));
        pl_svg_text(g->file, x, bottom + 16, "middle", "#000", text);
    }
    for (int e = (int)g->least_y; e <= (int)g->most_y; e++)
        for (int m = 1; m < 10; m = m == 1 ? 2 : m == 2 ? 5 : 10) {
            const double y = y_of(g, m * pow(10, e));

            if (y < TOP)
                continue;
            pl_svg_line(g->file, LEFT, y, right, y, m == 1 ? "#ddd" : "#f0f0f0", 1, "none");
            snprintf(text, sizeof text, "%g", 1e-9 * m * pow(10, e));
            pl_svg_text(g->file, LEFT - 5, y + 4, "end", "#000", text);
        }
    fprintf(g->file, "<rect x='%d' y='%d' width='%d' height='%d' fill='none' stroke='#333'/>\n",
            LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    pl_svg_text(g->file, (LEFT + right) / 2, bottom + 36, "middle", "#000",
                "intensity: FLOPs per byte read or written");
    fprintf(
        g->file,
        "<text transform='translate(16 %.1f) rotate(-90)' text-anchor='middle'>GFLOP/s</text>\n",
        (TOP + bottom) / 2);
}

static bool overlaps(const plot *g, box b)
{
    if (b.left < LEFT || b.right > WIDTH - RIGHT || b.top < TOP || b.bottom > HEIGHT - BOTTOM)
        return true;
    for (int i = 0; i < g->n_labels; i++)
        if (b.left < g->labels[i].right && b.right > g->labels[i].left &&
            b.top < g->labels[i].bottom && b.bottom > g->labels[i].top)
            return true;
    return false;
}

static void keep(plot *g, box b)
{
    if (g->n_labels < MOST_LABELS)
        g->labels[g->n_labels++] = b;
}

/* The highest peak of arithmetic: where slopes end. */
static double ceiling(const pl_peaks *peaks)
{
    return fmax(peaks->flops_per_s[PL_MULTIPLY_F32], peaks->flops_per_s[PL_MULTIPLY_BF16]);
}

/* A slope, flops = intensity x bytes_per_s, from the frame's edge to the ceiling; its name along
 * it.
 */
static void draw_slope(const plot *g, int level, double bytes_per_s)
{
    static const char *const levels[] = {"L1", "L2", "L3", "memory"};
    const double x_0 = fmax(pow(10, g->least_x), pow(10, g->least_y) / bytes_per_s);
    const double x_1 = fmin(pow(10, g->most_x), ceiling(g->peaks) / bytes_per_s);
    const double left = x_of(g, x_0), bottom = y_of(g, x_0 * bytes_per_s);
    const double right = x_of(g, x_1), top = y_of(g, x_1 * bytes_per_s);
    const double angle = atan2(top - bottom, right - left) * 180 / acos(-1);
    const double at = level == 3 ? 0.12 : 0.3 + 0.1 * level; /* where few dots are */

    pl_svg_line(g->file, left, bottom, right, top, "#999", level == 3 ? 2 : 1.2,
                level == 3 ? "none" : "6 3");
    fprintf(g->file,
            "<text transform='translate(%.1f %.1f) rotate(%.1f)' text-anchor='middle' "
            "fill='#666'>%s: %.0f GB/s</text>\n",
            left + at * (right - left) - 4, bottom + at * (top - bottom) - 5, angle, levels[level],
            1e-9 * bytes_per_s);
}

static void draw_roofs(const plot *g)
{
    const pl_curve *read = &g->peaks->bytes_per_s[PL_TRAFFIC_READ];
    char text[64];

    for (int i = 0; i < read->n_points; i++)
        draw_slope(g, i, read->rate[i]);
    for (int k = PL_MULTIPLY_F32; k <= PL_MULTIPLY_BF16; k++) {
        const double peak = g->peaks->flops_per_s[k], y = y_of(g, peak);

        if (!(peak > 0))
            continue;
        pl_svg_line(g->file, x_of(g, fmax(pow(10, g->least_x), peak / read->rate[0])), y,
                    WIDTH - RIGHT, y, "#333", 2, "none");
        snprintf(text, sizeof text, "%s: %.0f GFLOP/s", pl_multiply_name((pl_multiply_kind)k),
                 1e-9 * peak);
        pl_svg_text(g->file, WIDTH - RIGHT + 6, y + 4, "start", "#333", text);
    }
}

/* A dot in f32, a ring in bf16. */
static void draw_mark(FILE *file, double x, double y, pl_case_group group, pl_dtype dtype)
{
    fprintf(file, "<circle cx='%.1f' cy='%.1f' r='4' fill='%s' stroke='%s' stroke-width='1.5'/>\n",
            x, y, dtype == PL_BF16 ? "white" : colors[group], colors[group]);
}

/* Its name beside a dot, on the first of several places that is free; else not at all. */
static void draw_label(plot *g, double x, double y, const char *text, const char *color)
{
    static const int places[][2] = {
        {8, 4},     {8, -6},    {8, 14},   {-8, 4},   {-8, -6},   {-8, 14},    {14, -18}, {14, 26},
        {-14, -18}, {-14, 26},  {20, -32}, {20, 40},  {-20, -32}, {-20, 40},   {28, -48}, {-28, 56},
        {40, -64},  {-40, -64}, {60, 72},  {-60, 80}, {80, 110},  {-80, -110}, {40, 140}};
    const double width = LETTER * (double)strlen(text);

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const double at = x + places[i][0], base = y + places[i][1];
        const bool right = places[i][0] > 0;
        const box b = {right ? at : at - width, base - LINE_HEIGHT + 2, right ? at + width : at,
                       base + 3};

        if (overlaps(g, b))
            continue;
        if (i > 5)
            pl_svg_line(g->file, x, y, at, base - 4, color, 0.6, "none");
        pl_svg_text(g->file, at, base, right ? "start" : "end", color, text);
        keep(g, b);
        return;
    }
}

/* Whether one of the two is named for both: the fastest of a kernel and type in its group; of
 * matmul, whose dots lie close, of the type in the group. */
static bool alike(const pl_point *p, const pl_point *q)
{
    return q->group == p->group && q->dtype == p->dtype &&
           (p->group <= PL_GROUP_SKINNY || q->kernel == p->kernel);
}

static bool is_named(const pl_records *r, int i)
{
    const pl_point *p = &r->points[i];

    if (p->group == PL_GROUP_CACHE) /* those in memory are */
        return false;
    for (int k = 0; k < r->n; k++) {
        const pl_point *q = &r->points[k];

        if (alike(p, q) && (rate(q) > rate(p) || (rate(q) == rate(p) && k < i)))
            return false;
    }
    return true;
}

static void draw_points(plot *g)
{
    const pl_records *r = g->records;

    for (int i = 0; i < r->n; i++) { /* names keep off all dots */
        const pl_point *p = &r->points[i];
        const double x = is_drawn(p) ? x_of(g, pl_point_intensity(p)) : 0;
        const double y = is_drawn(p) ? y_of(g, rate(p)) : 0;

        if (!is_drawn(p))
            continue;
        draw_mark(g->file, x, y, p->group, p->dtype);
        keep(g, (box){x - 4, y - 4, x + 4, y + 4});
    }
    for (int i = 0; i < r->n; i++) {
        const pl_point *p = &r->points[i];
        char text[128];

        if (!is_drawn(p) || !is_named(r, i))
            continue;
        snprintf(text, sizeof text, "%s %s", p->kernel->name,
                 p->group < PL_GROUP_CACHE ? p->shape : "");
        draw_label(g, x_of(g, pl_point_intensity(p)), y_of(g, rate(p)), text, colors[p->group]);
    }
}

static bool has_group(const pl_records *r, pl_case_group group)
{
    for (int i = 0; i < r->n; i++)
        if (r->points[i].group == group && is_drawn(&r->points[i]))
            return true;
    return false;
}

static void draw_legend(const plot *g, const char *machine)
{
    double x = LEFT;
    char text[256];

    snprintf(text, sizeof text, "purlin kernels on one core of %s", machine);
    fprintf(g->file, "<text x='%d' y='22' font-size='14' font-weight='bold'>%s</text>\n", LEFT,
            text);
    for (int i = 0; i < PL_N_GROUPS; i++) {
        if (!has_group(g->records, (pl_case_group)i))
            continue;
        draw_mark(g->file, x + 5, 43, (pl_case_group)i, PL_F32);
        pl_svg_text(g->file, x + 14, 47, "start", "#000", legend[i]);
        x += 22 + LETTER * (double)strlen(legend[i]);
    }
    draw_mark(g->file, x + 5, 43, PL_GROUP_DRAM, PL_BF16);
    pl_svg_text(g->file, x + 14, 47, "start", "#000", "rings: bf16");
}

pl_status pl_kernbench_plot(const char *path, const pl_topology *topology, const pl_peaks *peaks,
                            const pl_records *records)
{
    plot *g = pl_alloc(sizeof *g);
    pl_status status;

    *g = (plot){.peaks = peaks, .records = records};
    status = pl_svg_open(path, WIDTH, HEIGHT, &g->file);
    if (status == PL_OK) {
        measure(g);
        draw_grid(g);
        draw_roofs(g);
        draw_points(g);
        draw_legend(g, topology->cpu);
        status = pl_svg_close(g->file, path);
    }
    pl_free(g);
    return status;
}
