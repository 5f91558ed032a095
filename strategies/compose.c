/* compose -- specs such as "dp:2+fsdp:2+tp:2": the union of the strategies' tables. */
#include "config.h"

#include "strategies/strategy.h"

#include "src/base/parse.h"
#include "src/program/unroll.h"

#include <stdio.h>
#include <string.h>

/* In the order in which their axes stand in the mesh, outermost first. */
static const pl_strategy *const strategies[PL_MAX_STRATEGIES] = {&pl_pp, &pl_dp, &pl_fsdp, &pl_tp};

static const pl_strategy *find(const char *name, size_t length)
{
    for (int i = 0; i < PL_MAX_STRATEGIES; i++)
        if (strlen(strategies[i]->name) == length &&
            strncmp(strategies[i]->name, name, length) == 0)
            return strategies[i];
    return NULL;
}

static int place_in(const pl_spec *spec, const char *name)
{
    for (int i = 0; i < spec->n; i++)
        if (strcmp(spec->strategy[i]->name, name) == 0)
            return i;
    return -1;
}

/* One part, "tp" or "tp:4", of `length` characters. */
static pl_status parse_part(const char *part, size_t length, pl_spec *spec)
{
    const char *colon = memchr(part, ':', length);
    const size_t name_length = colon != NULL ? (size_t)(colon - part) : length;
    const pl_strategy *s = find(part, name_length);
    int64_t degree = 0;

    if (s == NULL)
        return pl_refuse(PL_BAD_INPUT,
                         "--strategy: there is no strategy '%.*s'; it is built of dp, fsdp, tp and "
                         "pp, e.g. fsdp+tp or dp:2+tp:4",
                         (int)name_length, part);
    if (place_in(spec, s->name) >= 0)
        return pl_refuse(PL_BAD_INPUT, "--strategy: %s is named twice", s->name);
    if (colon != NULL) {
        char text[32], flag[32];

        snprintf(flag, sizeof flag, "--strategy: the degree of %s", s->name);
        snprintf(text, sizeof text, "%.*s", (int)(length - name_length - 1), colon + 1);
        const pl_status status = pl_parse_integer(flag, text, 1, 1 << 20, &degree);
        if (status != PL_OK)
            return status;
    }
    spec->strategy[spec->n] = s;
    spec->degree[spec->n++] = (int)degree;
    return PL_OK;
}

pl_status pl_spec_parse(const char *text, pl_spec *spec)
{
    pl_spec parsed = {0};
    const char *part = text;

    for (;;) {
        const size_t length = strcspn(part, "+");
        const pl_status status = parse_part(part, length, &parsed);

        if (status != PL_OK)
            return status;
        if (part[length] == '\0')
            break;
        part += length + 1;
    }
    *spec = parsed;
    return PL_OK;
}

void pl_spec_print(const pl_spec *spec, char *text, size_t size)
{
    size_t at = 0;

    text[0] = '\0';
    for (int i = 0; i < spec->n && at < size; i++) {
        at += (size_t)snprintf(text + at, size - at, "%s%s", i > 0 ? "+" : "",
                               spec->strategy[i]->name);
        if (spec->degree[i] > 0 && at < size)
            at += (size_t)snprintf(text + at, size - at, ":%d", spec->degree[i]);
    }
}

int pl_spec_degree(const pl_spec *spec, const char *name)
{
    const int i = place_in(spec, name);

    return i < 0 ? 1 : spec->degree[i];
}

/* tp must divide N, and divide K or be a multiple of it. */
static bool tp_fits(const pl_model_config *m, int64_t tp)
{
    return m->n_heads % tp == 0 && (m->n_kv_heads % tp == 0 || tp % m->n_kv_heads == 0);
}

static int64_t product_of(const pl_spec *spec)
{
    int64_t product = 1;

    for (int i = 0; i < spec->n; i++)
        product *= spec->degree[i];
    return product;
}

static int64_t data_parallel_ranks(const pl_spec *spec)
{
    return (int64_t)pl_spec_degree(spec, "dp") * pl_spec_degree(spec, "fsdp");
}

/* The first thing in which a spec does not suit. */
typedef enum { SUITS, WRONG_PRODUCT, WRONG_HEADS, TOO_MANY_STAGES, TOO_FEW_SEQUENCES } misfit;

static misfit misfit_of(const pl_spec *spec, const pl_model_config *model, int64_t batch,
                        int64_t n_ranks)
{
    if (product_of(spec) != n_ranks)
        return WRONG_PRODUCT;
    if (!tp_fits(model, pl_spec_degree(spec, "tp")))
        return WRONG_HEADS;
    if (pl_spec_degree(spec, "pp") > model->n_layers)
        return TOO_MANY_STAGES;
    return batch < data_parallel_ranks(spec) ? TOO_FEW_SEQUENCES : SUITS;
}

static pl_status refuse_tp(const pl_model_config *m, int tp)
{
    char fits[256];
    size_t at = 0;

    for (int64_t t = 1; t <= m->n_heads && at < sizeof fits; t++)
        if (tp_fits(m, t))
            at += (size_t)snprintf(fits + at, sizeof fits - at, "%s%lld", at > 0 ? ", " : "",
                                   (long long)t);
    return pl_refuse(PL_BAD_INPUT,
                     "--strategy: tp:%d does not fit %lld query heads and %lld key/value heads; "
                     "degrees that do: %s",
                     tp, (long long)m->n_heads, (long long)m->n_kv_heads, fits);
}

static pl_status refuse_product(const pl_spec *spec, int64_t n_ranks)
{
    const int64_t product = product_of(spec);
    char text[128];

    pl_spec_print(spec, text, sizeof text);
    return pl_refuse(PL_BAD_INPUT,
                     "--strategy: %s needs %lld ranks, but the job has %lld; start it with "
                     "mpirun -np %lld, or give degrees whose product is %lld (or leave them out)",
                     text, (long long)product, (long long)n_ranks, (long long)product,
                     (long long)n_ranks);
}

pl_status pl_spec_suits(const pl_spec *spec, const pl_model_config *model, int64_t batch,
                        int64_t n_ranks)
{
    const long long ranks = data_parallel_ranks(spec);

    switch (misfit_of(spec, model, batch, n_ranks)) {
    case WRONG_PRODUCT:
        return refuse_product(spec, n_ranks);
    case WRONG_HEADS:
        return refuse_tp(model, pl_spec_degree(spec, "tp"));
    case TOO_MANY_STAGES:
        return pl_refuse(PL_BAD_INPUT,
                         "--strategy: pp:%d has more stages than the model has layers; at most "
                         "pp:%lld",
                         pl_spec_degree(spec, "pp"), (long long)model->n_layers);
    case TOO_FEW_SEQUENCES:
        return pl_refuse(PL_BAD_INPUT,
                         "--batch: %lld sequences are fewer than the %lld data-parallel ranks "
                         "(dp x fsdp); give at least --batch %lld",
                         (long long)batch, ranks, ranks);
    case SUITS:
        break;
    }
    return PL_OK;
}

bool pl_spec_is_suitable(const pl_spec *spec, const pl_model_config *model, int64_t batch,
                         int64_t n_ranks)
{
    return misfit_of(spec, model, batch, n_ranks) == SUITS;
}

pl_status pl_spec_check(const pl_spec *spec, const pl_model_config *model, int64_t batch,
                        int64_t n_ranks)
{
    const int pp = pl_spec_degree(spec, "pp");
    const pl_status status = pl_spec_suits(spec, model, batch, n_ranks);

    if (status == PL_OK && pp > PL_MAX_STAGES)
        return pl_refuse(PL_BAD_INPUT, "--strategy: pp:%d has more than %d stages", pp,
                         PL_MAX_STAGES);
    return status;
}

pl_status pl_spec_mesh(const pl_spec *spec, const pl_model_config *model, pl_mesh *mesh)
{
    pl_status status = PL_OK;

    *mesh = (pl_mesh){0};
    for (int i = 0; i < PL_MAX_STRATEGIES && status == PL_OK; i++) {
        const int at = place_in(spec, strategies[i]->name);

        if (at >= 0)
            status = pl_mesh_add(mesh, strategies[i]->name, spec->degree[at]);
    }
    const int tp = pl_spec_degree(spec, "tp");
    if (status == PL_OK && tp > model->n_kv_heads)
        status = pl_mesh_factor(mesh, "tp", (int)model->n_kv_heads);
    return status;
}

/* A strategy of the spec on the mesh. */
typedef struct {
    const pl_strategy *strategy;
    pl_axes family;
} applied;

/* The axes that a rule splits `dim` over. With more tp ranks than key/value heads K takes only the
 * first factor: the ranks of the second share a head. */
static pl_axes axes_of_rule(pl_axes family, char dim)
{
    return dim == 'K' ? family & -family : family;
}

static void apply_rule(const pl_mesh *mesh, const pl_rule *rule, pl_axes family, int zero,
                       pl_value *v)
{
    /* Masters lie where the moments do: AdamW updates them together. */
    const pl_class class = v->class == PL_MASTER ? PL_MOMENT : v->class;

    if (class != rule->class || zero < rule->zero)
        return;
    const int d = pl_shape_dim(&v->shape, rule->dim);
    if (d < 0 || (pl_sharding_axes(&v->sharding, v->shape.n_dims) & family) != 0)
        return;
    const pl_axes axes = axes_of_rule(family, rule->dim);
    pl_split *split = &v->sharding.split[d];
    for (int a = 0; a < mesh->n_axes; a++)
        if ((axes >> a) & 1 && mesh->axes[a].size > 1)
            split->axis[split->n++] = (uint8_t)a;
}

/* Inner axes first, so that they are the major ones of a dim that several split (the order that
 * partition keeps too). */
void pl_spec_shard(const pl_spec *spec, const pl_mesh *mesh, pl_program *program, int first_value)
{
    applied list[PL_MAX_STRATEGIES];
    int n = 0;

    for (int i = PL_MAX_STRATEGIES - 1; i >= 0; i--)
        if (place_in(spec, strategies[i]->name) >= 0)
            list[n++] = (applied){strategies[i], pl_mesh_family(mesh, strategies[i]->name)};
    for (int v = first_value; v < program->n_values; v++)
        for (int i = 0; i < n; i++)
            for (int r = 0; r < list[i].strategy->n_rules; r++)
                apply_rule(mesh, &list[i].strategy->rules[r], list[i].family, spec->zero,
                           &program->values[v]);
}

void pl_spec_batch_split(const pl_spec *spec, const pl_mesh *mesh, pl_split *split)
{
    *split = (pl_split){0};
    for (int i = PL_MAX_STRATEGIES - 1; i >= 0; i--) {
        const int axis = pl_mesh_axis(mesh, strategies[i]->name);
        bool splits = false;

        for (int r = 0; r < strategies[i]->n_rules; r++)
            splits = splits || strategies[i]->rules[r].dim == 'B';
        if (place_in(spec, strategies[i]->name) >= 0 && splits && axis >= 0 &&
            mesh->axes[axis].size > 1)
            split->axis[split->n++] = (uint8_t)axis;
    }
}
