#include "config.h"

#include "src/collbench/axes.h"

#include "src/base/parse.h"

#include <stdio.h>
#include <string.h>

static pl_status add_axis(pl_mesh *mesh, char *word)
{
    char *size = strchr(word, ':');
    int64_t n;
    pl_status status;

    if (size == NULL || size == word)
        return pl_refuse(PL_BAD_INPUT, "--mesh: '%s' is not NAME:SIZE, as in dp:2+tp:2", word);
    *size++ = '\0';
    status = pl_parse_integer("--mesh", size, 1, INT32_MAX, &n);
    return status == PL_OK ? pl_mesh_add(mesh, word, (int)n) : status;
}

pl_status pl_bench_mesh_parse(const char *spec, int n_ranks, pl_mesh *mesh)
{
    char text[128], *rest = text;
    pl_status status = PL_OK;

    if (spec == NULL)
        return pl_mesh_add(mesh, "ranks", n_ranks);
    if (snprintf(text, sizeof text, "%s", spec) >= (int)sizeof text)
        return pl_refuse(PL_BAD_INPUT, "--mesh: is too long");
    for (char *word; status == PL_OK && (word = strsep(&rest, "+")) != NULL;)
        status = add_axis(mesh, word);
    if (status == PL_OK && pl_mesh_size(mesh) != n_ranks)
        return pl_refuse(PL_BAD_INPUT,
                         "--mesh: %s needs %lld ranks, the run has %d: mpirun -np %lld", spec,
                         (long long)pl_mesh_size(mesh), n_ranks, (long long)pl_mesh_size(mesh));
    return status;
}

pl_status pl_bench_axes_parse(const char *list, const pl_mesh *mesh, pl_axes *axes)
{
    char text[128], *rest = text, known[128];

    *axes = (1u << mesh->n_axes) - 1;
    pl_axes_print(mesh, *axes, known, sizeof known);
    if (list == NULL)
        return PL_OK;
    if (snprintf(text, sizeof text, "%s", list) >= (int)sizeof text)
        return pl_refuse(PL_BAD_INPUT, "--axis: is too long");
    *axes = 0;
    for (char *word; (word = strsep(&rest, ",")) != NULL;) {
        const int axis = pl_mesh_axis(mesh, word);

        if (axis < 0)
            return pl_refuse(PL_BAD_INPUT, "--axis: the mesh has no axis '%s'; it has %s", word,
                             known);
        *axes |= 1u << axis;
    }
    return PL_OK;
}

void pl_bench_site_set_axes(pl_site *site, const pl_mesh *mesh, pl_axes axes)
{
    site->n_axes = 0;
    for (int a = 0; a < mesh->n_axes; a++)
        if ((axes >> a & 1) != 0 && mesh->axes[a].size > 1)
            site->extent[site->n_axes++] = mesh->axes[a].size;
}
