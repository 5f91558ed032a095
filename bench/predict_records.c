#include "config.h"

#include "bench/predict_records.h"

#include "src/base/json.h"
#include "src/base/memory.h"
#include "src/base/panic.h"

#include <stdlib.h>
#include <string.h>

static json_t *op_json(const op_record *op)
{
    return json_pack("{s:s, s:b, s:o, s:o, s:o, s:o}", "name", op->name, "communication",
                     op->is_communication, "predicted_s", pl_json_real(op->predicted_s),
                     "measured_s", pl_json_real(op->measured_s), "predicted_busy_s",
                     pl_json_real(op->predicted_busy_s), "measured_busy_s",
                     pl_json_real(op->measured_busy_s));
}

pl_status record_append(const char *path, const record *r)
{
    json_t *ops = json_array();
    FILE *file = path == NULL ? NULL : fopen(path, "a");

    if (path != NULL && file == NULL)
        return pl_refuse(PL_BAD_INPUT, "--append: %s cannot be written", path);
    for (int i = 0; i < r->n_ops; i++)
        PL_ASSERT(json_array_append_new(ops, op_json(&r->op[i])) == 0);
    json_t *line = json_pack(
        "{s:s, s:s, s:i, s:i, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "model", r->model, "strategy",
        r->strategy, "ranks", r->n_ranks, "hosts", r->n_hosts, "shares_cores", r->shares_cores,
        "predicted_s", pl_json_real(r->predicted_s), "measured_s", pl_json_real(r->measured_s),
        "speed", pl_json_real(r->speed), "calibrated_line_s", pl_json_real(r->calibrated_line_s),
        "line_s", pl_json_real(r->line_s), "ops", ops);
    PL_ASSERT(line != NULL);
    if (file != NULL) {
        json_dumpf(line, file, JSON_COMPACT | JSON_REAL_PRECISION(9));
        fputc('\n', file);
        fclose(file);
    }
    json_decref(line);
    return PL_OK;
}

void records_add(records *list, const record *r)
{
    list->all = pl_room_for_one(list->all, list->n, &list->room, sizeof *r);
    list->all[list->n++] = *r;
}

void records_free(records *list)
{
    pl_free(list->all);
    *list = (records){0};
}

static pl_status read_name(const json_t *object, const char *where, const char *key,
                           char name[NAME])
{
    const char *text = "";
    const pl_status status = pl_json_string(object, where, key, &text);

    snprintf(name, NAME, "%s", text);
    return status;
}

static pl_status read_op(const json_t *object, const char *where, op_record *op)
{
    const struct {
        const char *key;
        double *value;
    } numbers[] = {{"predicted_s", &op->predicted_s},
                   {"measured_s", &op->measured_s},
                   {"predicted_busy_s", &op->predicted_busy_s},
                   {"measured_busy_s", &op->measured_busy_s}};
    pl_status status = read_name(object, where, "name", op->name);

    if (status == PL_OK)
        status = pl_json_boolean(object, where, "communication", &op->is_communication);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && status == PL_OK; i++)
        status = pl_json_number(object, where, numbers[i].key, 0, 1e9, numbers[i].value);
    return status;
}

static pl_status read_record(const json_t *line, const char *where, record *r)
{
    json_t *ops = NULL;
    int64_t n_ranks = 0, n_hosts = 0;
    pl_status status = read_name(line, where, "model", r->model);

    if (status == PL_OK)
        status = read_name(line, where, "strategy", r->strategy);
    if (status == PL_OK)
        status = pl_json_integer(line, where, "ranks", 1, 1 << 20, &n_ranks);
    if (status == PL_OK)
        status = pl_json_integer(line, where, "hosts", 1, 1 << 20, &n_hosts);
    if (status == PL_OK)
        status = pl_json_boolean(line, where, "shares_cores", &r->shares_cores);
    if (status == PL_OK)
        status = pl_json_number(line, where, "predicted_s", 0, 1e9, &r->predicted_s);
    if (status == PL_OK)
        status = pl_json_number(line, where, "measured_s", 1e-9, 1e9, &r->measured_s);
    if (status == PL_OK)
        status = pl_json_number(line, where, "speed", 0, 1e9, &r->speed);
    if (status == PL_OK && pl_json_has(line, "calibrated_line_s"))
        status = pl_json_number(line, where, "calibrated_line_s", 0, 1, &r->calibrated_line_s);
    if (status == PL_OK && pl_json_has(line, "line_s"))
        status = pl_json_number(line, where, "line_s", 0, 1, &r->line_s);
    if (status == PL_OK)
        status = pl_json_array(line, where, "ops", &ops);
    if (status == PL_OK && json_array_size(ops) > MOST_ROWS)
        return pl_refuse(PL_BAD_INPUT, "%s: more than %d ops", where, MOST_ROWS);
    for (size_t i = 0; status == PL_OK && i < json_array_size(ops); i++)
        status = read_op(json_array_get(ops, i), where, &r->op[r->n_ops++]);
    r->n_ranks = (int)n_ranks;
    r->n_hosts = (int)n_hosts;
    return status;
}

pl_status records_read(records *list, const char *path)
{
    FILE *file = fopen(path, "r");
    pl_status status = PL_OK;
    char *text = NULL, where[512];
    size_t room = 0;
    ssize_t length;

    if (file == NULL)
        return pl_refuse(PL_BAD_INPUT, "%s cannot be read", path);
    for (int n = 1; status == PL_OK && (length = getline(&text, &room, file)) > 0; n++) {
        json_t *line = NULL;
        record r = {.n_ops = 0};

        snprintf(where, sizeof where, "%s, line %d", path, n);
        status = pl_json_parse(where, text, (size_t)length, &line);
        if (status == PL_OK)
            status = read_record(line, where, &r);
        if (status == PL_OK)
            records_add(list, &r);
        json_decref(line);
    }
    free(text);
    fclose(file);
    return status;
}
