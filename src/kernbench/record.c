#include "config.h"

#include "src/kernbench/record.h"

#include "kernels/isa.h"
#include "src/base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *limit_name(pl_limit limit)
{
    return limit == PL_LIMIT_FLOPS ? "FLOPs" : "memory";
}

pl_status pl_records_open(pl_records *r, const char *csv, const char *json)
{
    *r = (pl_records){.n = 0};
    const pl_status status =
        pl_csv_open(&r->csv, csv,
                    "kernel,group,shape,dtype,flops,bytes,intensity,time_s,min_s,rate,"
                    "rate_unit,roof,percent,bound,vs_openblas,vs_onednn,vs_blis,wrong");

    return status == PL_OK && json != NULL ? pl_json_lines_open(&r->json, json) : status;
}

static json_t *curve(const pl_curve *c)
{
    json_t *points = json_array();

    for (int i = 0; i < c->n_points; i++)
        json_array_append_new(points, json_pack("{s:f,s:f}", "working_set_bytes", c->size[i],
                                                "bytes_per_s", c->rate[i]));
    return points;
}

pl_status pl_records_machine(pl_records *r, const pl_topology *t, const pl_stand *stand)
{
    json_t *o = json_object(), *peers = json_object();

    json_object_set_new(o, "record", json_string("machine"));
    json_object_set_new(o, "cpu", json_string(t->cpu));
    json_object_set_new(o, "isa", json_string(pl_isa_name(pl_isa_get())));
    json_object_set_new(o, "l1_bytes", json_integer(t->l1_bytes));
    json_object_set_new(o, "l2_bytes", json_integer(t->l2_bytes));
    json_object_set_new(o, "l3_bytes", json_integer(t->l3_bytes));
    for (int k = 0; k < PL_N_MULTIPLIES; k++) {
        char key[32];

        snprintf(key, sizeof key, "peak_%s_per_s", pl_multiply_name((pl_multiply_kind)k));
        json_object_set_new(o, key,
                            stand->peaks.flops_per_s[k] > 0 ? json_real(stand->peaks.flops_per_s[k])
                                                            : json_null());
    }
    for (int u = 0; u < PL_N_TRAFFIC; u++)
        json_object_set_new(o, pl_traffic_name((pl_traffic)u), curve(&stand->peaks.bytes_per_s[u]));
    for (int i = 0; i < PL_N_PEERS; i++)
        if (stand->peers.asked[i])
            json_object_set_new(peers, pl_peer_name((pl_peer)i),
                                json_string(stand->peers.version[i]));
    json_object_set_new(o, "peers", peers);
    return pl_json_lines_write(&r->json, o);
}

static void write_csv(pl_records *r, const pl_point *p)
{
    pl_csv_begin(&r->csv, "%s,%s,%s,%s", p->kernel->name, pl_group_name(p->group), p->shape,
                 pl_dtype_short(p->dtype));
    pl_csv_number(&r->csv, p->flops);
    pl_csv_number(&r->csv, p->bytes);
    pl_csv_number(&r->csv, pl_point_intensity(p));
    pl_csv_number(&r->csv, p->time_s);
    pl_csv_number(&r->csv, p->min_s);
    pl_csv_number(&r->csv, pl_point_rate(p, p->time_s));
    pl_csv_text(&r->csv, p->counts_flops ? "FLOP/s" : "B/s");
    pl_csv_number(&r->csv, pl_point_rate(p, p->roof_s));
    pl_csv_number(&r->csv, pl_point_percent(p));
    pl_csv_text(&r->csv, limit_name(p->limit));
    for (int i = 0; i < PL_N_PEERS; i++)
        pl_csv_number(&r->csv, p->peer_s[i] / p->time_s);
    pl_csv_number(&r->csv, p->wrong >= 0 ? (double)p->wrong : NAN);
    pl_csv_end(&r->csv);
}

static pl_status write_json(pl_records *r, const pl_point *p)
{
    json_t *o = json_object();

    json_object_set_new(o, "record", json_string("point"));
    json_object_set_new(o, "kernel", json_string(p->kernel->name));
    json_object_set_new(o, "group", json_string(pl_group_name(p->group)));
    json_object_set_new(o, "shape", json_string(p->shape));
    json_object_set_new(o, "dtype", json_string(pl_dtype_short(p->dtype)));
    json_object_set_new(o, "time_s", pl_json_real(p->time_s));
    json_object_set_new(o, "min_s", pl_json_real(p->min_s));
    json_object_set_new(o, "flops", pl_json_real(p->flops));
    json_object_set_new(o, "bytes", pl_json_real(p->bytes));
    json_object_set_new(o, "working_set_bytes", pl_json_real(p->set_bytes));
    json_object_set_new(o, "intensity", pl_json_real(pl_point_intensity(p)));
    json_object_set_new(o, "rate", pl_json_real(pl_point_rate(p, p->time_s)));
    json_object_set_new(o, "rate_unit", json_string(p->counts_flops ? "FLOP/s" : "B/s"));
    json_object_set_new(o, "roof", pl_json_real(pl_point_rate(p, p->roof_s)));
    json_object_set_new(o, "percent", pl_json_real(pl_point_percent(p)));
    json_object_set_new(o, "bound", json_string(limit_name(p->limit)));
    for (int i = 0; i < PL_N_PEERS; i++) {
        char key[32];

        snprintf(key, sizeof key, "vs_%s", pl_peer_name((pl_peer)i));
        json_object_set_new(o, key, pl_json_real(p->peer_s[i] / p->time_s));
    }
    json_object_set_new(o, "wrong", p->wrong >= 0 ? json_integer(p->wrong) : json_null());
    return pl_json_lines_write(&r->json, o);
}

pl_status pl_records_add(pl_records *r, const pl_point *point)
{
    r->points = pl_room_for_one(r->points, r->n, &r->room, sizeof *r->points);
    r->points[r->n++] = *point;
    write_csv(r, point);
    return write_json(r, point);
}

pl_status pl_records_close(pl_records *r)
{
    const pl_status of_json = pl_json_lines_close(&r->json), of_csv = pl_csv_close(&r->csv);

    pl_free(r->points);
    *r = (pl_records){.n = 0};
    return of_json != PL_OK ? of_json : of_csv;
}

static bool belongs(const pl_point *p, pl_case_group group, pl_dtype dtype)
{
    const bool is_matmul = p->group <= PL_GROUP_SKINNY;

    return p->dtype == dtype && (group == PL_N_GROUPS ? is_matmul : p->group == group);
}

pl_summary pl_records_summarize(const pl_records *r, pl_case_group group, pl_dtype dtype)
{
    pl_geometric percent = {.n = 0}, ratio[PL_N_PEERS] = {{.n = 0}};
    pl_summary s = {.least_percent = NAN};

    for (int i = 0; i < PL_N_PEERS; i++)
        s.least_ratio[i] = NAN;
    for (int i = 0; i < r->n; i++) {
        const pl_point *p = &r->points[i];

        if (!belongs(p, group, dtype))
            continue;
        s.n++;
        s.wrong += p->wrong > 0 ? p->wrong : 0;
        pl_geometric_add(&percent, pl_point_percent(p));
        s.least_percent = fmin(s.least_percent, pl_point_percent(p)); /* not NaN if either is not */
        for (int k = 0; k < PL_N_PEERS; k++) {
            pl_geometric_add(&ratio[k], p->peer_s[k] / p->time_s);
            s.least_ratio[k] = fmin(s.least_ratio[k], p->peer_s[k] / p->time_s);
        }
    }
    s.percent = pl_geometric_mean(&percent);
    for (int k = 0; k < PL_N_PEERS; k++)
        s.ratio[k] = pl_geometric_mean(&ratio[k]);
    return s;
}

pl_status pl_records_sum_up(pl_records *r, pl_case_group group, pl_dtype dtype, const pl_summary *s)
{
    json_t *o = json_object();

    json_object_set_new(o, "record", json_string("summary"));
    json_object_set_new(o, "group",
                        json_string(group == PL_N_GROUPS ? "all matmul" : pl_group_name(group)));
    json_object_set_new(o, "dtype", json_string(pl_dtype_short(dtype)));
    json_object_set_new(o, "points", json_integer(s->n));
    json_object_set_new(o, "percent", pl_json_real(s->percent));
    json_object_set_new(o, "least_percent", pl_json_real(s->least_percent));
    for (int k = 0; k < PL_N_PEERS; k++) {
        char key[32];

        snprintf(key, sizeof key, "vs_%s", pl_peer_name((pl_peer)k));
        json_object_set_new(o, key, pl_json_real(s->ratio[k]));
        snprintf(key, sizeof key, "least_vs_%s", pl_peer_name((pl_peer)k));
        json_object_set_new(o, key, pl_json_real(s->least_ratio[k]));
    }
    json_object_set_new(o, "wrong", json_integer(s->wrong));
    return pl_json_lines_write(&r->json, o);
}
