/* record -- measured points: kept, written as CSV and JSON lines, and summed up. */
#ifndef PURLIN_KERNBENCH_RECORD_H
#define PURLIN_KERNBENCH_RECORD_H

#include "src/base/csv.h"
#include "src/base/json.h"
#include "src/kernbench/point.h"
#include "src/mesh/topology.h"

typedef struct {
    int64_t n, room;
    pl_point *points;
    pl_csv csv;
    pl_json_lines json;
} pl_records;

/** Open the files that are asked for (paths are kept; NULL: none). Local, as is all here. */
pl_status pl_records_open(pl_records *records, const char *csv, const char *json);
/** Write what was measured of the machine, and whom we were compared with. */
pl_status pl_records_machine(pl_records *records, const pl_topology *topology,
                             const pl_stand *stand);
/** Keep a point, and write it. */
pl_status pl_records_add(pl_records *records, const pl_point *point);
/** Refuses when what was written did not reach a file. Frees everything. */
pl_status pl_records_close(pl_records *records);

/* Means over the points of a group and type; NaN where there is nothing to take one of. */
typedef struct {
    int n;
    double percent, least_percent;                     /* of the roof */
    double ratio[PL_N_PEERS], least_ratio[PL_N_PEERS]; /* a peer's time over ours */
    int64_t wrong;
} pl_summary;

/** Of group `group` (PL_N_GROUPS: of all matmuls) in `dtype`; means are geometric. */
pl_summary pl_records_summarize(const pl_records *records, pl_case_group group, pl_dtype dtype);
/** Write it as a record. */
pl_status pl_records_sum_up(pl_records *records, pl_case_group group, pl_dtype dtype,
                            const pl_summary *summary);

#endif
