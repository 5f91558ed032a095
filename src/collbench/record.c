#include "config.h"

#include "src/collbench/record.h"

#include "src/base/memory.h"
#include "src/base/sample.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int64_t pl_bench_point_bytes(const pl_bench_point *p)
{
    return p->c.count * (int64_t)pl_dtype_bytes(p->c.dtype);
}

double pl_bench_algbw(const pl_bench_point *p, double time_s)
{
    return (double)pl_bench_point_bytes(p) / time_s;
}

double pl_bench_busbw(const pl_bench_point *p, double time_s)
{
    return pl_bench_algbw(p, time_s) * pl_bench_bus_factor(p->c.collective, p->c.n_ranks);
}

pl_status pl_bench_records_open(pl_bench_records *r, const char *csv, const char *json)
{
    *r = (pl_bench_records){.n = 0};
    const pl_status status =
        pl_csv_open(&r->csv, csv,
                    "op,bytes,count,type,redop,algo,in_place,time_s,min_s,p99_s,algbw_Bps,"
                    "busbw_Bps,predicted_s,limit_s,wrong,mpi_s,hidden");

    return status == PL_OK && json != NULL ? pl_json_lines_open(&r->json, json) : status;
}

static const char *redop(const pl_bench_point *p)
{
    if (!pl_bench_reduces(p->c.collective))
        return "none";
    return p->c.reduction == PL_SUM ? "sum" : "max";
}

static void write_csv(pl_bench_records *r, const pl_bench_point *p)
{
    pl_csv_begin(&r->csv, "%s,%lld,%lld,%s,%s,%s,%d", pl_collective_key(p->c.collective),
                 (long long)pl_bench_point_bytes(p), (long long)p->c.count,
                 pl_dtype_name(p->c.dtype), redop(p), p->algo, p->c.in_place);
    pl_csv_number(&r->csv, p->time_s);
    pl_csv_number(&r->csv, p->min_s);
    pl_csv_number(&r->csv, p->p99_s);
    pl_csv_number(&r->csv, pl_bench_algbw(p, p->time_s));
    pl_csv_number(&r->csv, pl_bench_busbw(p, p->time_s));
    pl_csv_number(&r->csv, p->predicted_s);
    pl_csv_number(&r->csv, p->limit_s);
    pl_csv_number(&r->csv, p->wrong >= 0 ? (double)p->wrong : NAN);
    pl_csv_number(&r->csv, p->mpi_s);
    pl_csv_number(&r->csv, p->hidden);
    pl_csv_end(&r->csv);
}

static pl_status write_json(pl_bench_records *r, const pl_bench_point *p)
{
    json_t *o = json_object();

    json_object_set_new(o, "record", json_string("point"));
    json_object_set_new(o, "op", json_string(pl_collective_key(p->c.collective)));
    json_object_set_new(o, "bytes", json_integer(pl_bench_point_bytes(p)));
    json_object_set_new(o, "count", json_integer(p->c.count));
    json_object_set_new(o, "type", json_string(pl_dtype_name(p->c.dtype)));
    json_object_set_new(o, "redop", json_string(redop(p)));
    json_object_set_new(o, "algo", json_string(p->algo));
    json_object_set_new(o, "in_place", json_boolean(p->c.in_place));
    json_object_set_new(o, "time_s", pl_json_real(p->time_s));
    json_object_set_new(o, "min_s", pl_json_real(p->min_s));
    json_object_set_new(o, "p99_s", pl_json_real(p->p99_s));
    json_object_set_new(o, "algbw_Bps", pl_json_real(pl_bench_algbw(p, p->time_s)));
    json_object_set_new(o, "busbw_Bps", pl_json_real(pl_bench_busbw(p, p->time_s)));
    json_object_set_new(o, "predicted_s", pl_json_real(p->predicted_s));
    json_object_set_new(o, "limit_s", pl_json_real(p->limit_s));
    json_object_set_new(o, "wrong", p->wrong >= 0 ? json_integer(p->wrong) : json_null());
    json_object_set_new(o, "mpi_s", pl_json_real(p->mpi_s));
    json_object_set_new(o, "hidden", pl_json_real(p->hidden));
    return pl_json_lines_write(&r->json, o);
}

pl_status pl_bench_records_add(pl_bench_records *r, const pl_bench_point *point)
{
    r->points = pl_room_for_one(r->points, r->n, &r->room, sizeof *r->points);
    r->points[r->n++] = *point;
    write_csv(r, point);
    return write_json(r, point);
}

pl_status pl_bench_records_close(pl_bench_records *r)
{
    const pl_status of_json = pl_json_lines_close(&r->json), of_csv = pl_csv_close(&r->csv);

    pl_free(r->points);
    *r = (pl_bench_records){.n = 0};
    return of_json != PL_OK ? of_json : of_csv;
}

pl_bench_summary pl_bench_summarize(const pl_bench_records *r, pl_collective c)
{
    pl_geometric busbw = {.n = 0}, ratio = {.n = 0}, share = {.n = 0};
    double *errors = pl_alloc((size_t)r->n * sizeof *errors);
    pl_bench_summary s = {.n = 0};

    for (int64_t i = 0; i < r->n; i++) {
        const pl_bench_point *p = &r->points[i];

        if (c != PL_N_COLLECTIVES && p->c.collective != c)
            continue;
        pl_geometric_add(&busbw, pl_bench_busbw(p, p->time_s));
        pl_geometric_add(&ratio, p->mpi_s / p->time_s);
        pl_geometric_add(&share, p->limit_s / p->time_s);
        errors[s.n++] = fabs(p->predicted_s / p->time_s - 1);
        s.wrong += p->wrong > 0 ? p->wrong : 0;
    }
    s.busbw = pl_geometric_mean(&busbw);
    s.mpi_ratio = pl_geometric_mean(&ratio);
    s.limit_share = pl_geometric_mean(&share);
    s.median_error = s.n > 0 ? pl_bench_quantile(errors, s.n, 0.5) : NAN;
    pl_free(errors);
    return s;
}

pl_status pl_bench_records_sum_up(pl_bench_records *r, pl_collective c, const pl_bench_summary *s)
{
    json_t *o = json_object();

    json_object_set_new(o, "record", json_string("summary"));
    json_object_set_new(o, "op", json_string(c == PL_N_COLLECTIVES ? "all" : pl_collective_key(c)));
    json_object_set_new(o, "points", json_integer(s->n));
    json_object_set_new(o, "ranks", json_integer(r->n > 0 ? r->points[0].c.n_ranks : 0));
    json_object_set_new(o, "busbw_Bps", pl_json_real(s->busbw));
    json_object_set_new(o, "mpi_ratio", pl_json_real(s->mpi_ratio));
    json_object_set_new(o, "limit_share", pl_json_real(s->limit_share));
    json_object_set_new(o, "median_error", pl_json_real(s->median_error));
    json_object_set_new(o, "wrong", json_integer(s->wrong));
    return pl_json_lines_write(&r->json, o);
}
