#include "config.h"

#include "src/mesh/mesh.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* A letter, then letters and digits: what the notation can tell apart from everything else. */
static bool is_axis_name(const char *name)
{
    if (!isalpha((unsigned char)name[0]))
        return false;
    for (const char *c = name; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c))
            return false;
    return true;
}

pl_status pl_mesh_add(pl_mesh *mesh, const char *name, int size)
{
    if (!is_axis_name(name) || strlen(name) >= PL_AXIS_NAME)
        return pl_refuse(PL_BAD_INPUT,
                         "mesh: \"%s\" is no name for an axis (1 to %d letters and digits)", name,
                         PL_AXIS_NAME - 1);
    if (pl_mesh_family(mesh, name) != 0)
        return pl_refuse(PL_BAD_INPUT, "mesh: axis %s is given twice", name);
    if (size < 1)
        return pl_refuse(PL_BAD_INPUT, "mesh: axis %s has size %d; it must be at least 1", name,
                         size);
    if (mesh->n_axes == PL_MAX_AXES)
        return pl_refuse(PL_BAD_INPUT, "mesh: axis %s is one too many; there may be %d", name,
                         PL_MAX_AXES);
    if (pl_mesh_size(mesh) > INT_MAX / size)
        return pl_refuse(PL_BAD_INPUT, "mesh: with axis %s:%d there are more than %d ranks", name,
                         size, INT_MAX);

    pl_axis *axis = &mesh->axes[mesh->n_axes++];
    memset(axis, 0, sizeof *axis);
    strcpy(axis->name, name);
    strcpy(axis->family, name);
    axis->size = size;
    return PL_OK;
}

pl_status pl_mesh_factor(pl_mesh *mesh, const char *name, int outer)
{
    const int a = pl_mesh_axis(mesh, name);

    if (a < 0)
        return pl_refuse(PL_BAD_INPUT, "mesh: there is no axis %s to factor", name);
    const pl_axis whole = mesh->axes[a];
    if (strcmp(whole.name, whole.family) != 0 || strlen(name) + 2 >= PL_AXIS_NAME)
        return pl_refuse(PL_BAD_INPUT, "mesh: axis %s cannot be factored", name);
    if (outer < 1 || whole.size % outer != 0)
        return pl_refuse(PL_BAD_INPUT, "mesh: axis %s:%d has no factor %d", name, whole.size,
                         outer);
    if (mesh->n_axes == PL_MAX_AXES)
        return pl_refuse(PL_BAD_INPUT,
                         "mesh: factoring %s gives one axis too many; there may be %d", name,
                         PL_MAX_AXES);

    memmove(&mesh->axes[a + 1], &mesh->axes[a], (size_t)(mesh->n_axes - a) * sizeof mesh->axes[0]);
    mesh->n_axes++;
    strcat(mesh->axes[a].name, ".0");
    strcat(mesh->axes[a + 1].name, ".1");
    mesh->axes[a].size = outer;
    mesh->axes[a + 1].size = whole.size / outer;
    return PL_OK;
}

int64_t pl_mesh_size(const pl_mesh *mesh)
{
    int64_t size = 1;

    for (int a = 0; a < mesh->n_axes; a++)
        size *= mesh->axes[a].size;
    return size;
}

int pl_mesh_axis(const pl_mesh *mesh, const char *name)
{
    for (int a = 0; a < mesh->n_axes; a++)
        if (strcmp(mesh->axes[a].name, name) == 0)
            return a;
    return -1;
}

pl_axes pl_mesh_family(const pl_mesh *mesh, const char *family)
{
    pl_axes set = 0;

    for (int a = 0; a < mesh->n_axes; a++)
        if (strcmp(mesh->axes[a].family, family) == 0)
            set |= (pl_axes)1 << a;
    return set;
}

int pl_mesh_extent(const pl_mesh *mesh, pl_axes set)
{
    int extent = 1;

    for (int a = 0; a < mesh->n_axes; a++)
        if (set >> a & 1)
            extent *= mesh->axes[a].size;
    return extent;
}

pl_coords pl_mesh_coords(const pl_mesh *mesh, int64_t rank)
{
    pl_coords coords = {{0}};

    for (int a = mesh->n_axes - 1; a >= 0; a--) {
        coords.at[a] = (int)(rank % mesh->axes[a].size);
        rank /= mesh->axes[a].size;
    }
    return coords;
}

int64_t pl_mesh_rank(const pl_mesh *mesh, pl_coords coords)
{
    int64_t rank = 0;

    for (int a = 0; a < mesh->n_axes; a++)
        rank = rank * mesh->axes[a].size + coords.at[a];
    return rank;
}

int pl_mesh_position(const pl_mesh *mesh, pl_axes set, pl_coords coords)
{
    int position = 0;

    for (int a = 0; a < mesh->n_axes; a++)
        if (set >> a & 1)
            position = position * mesh->axes[a].size + coords.at[a];
    return position;
}

pl_coords pl_mesh_member(const pl_mesh *mesh, pl_axes set, pl_coords coords, int position)
{
    for (int a = mesh->n_axes - 1; a >= 0; a--)
        if (set >> a & 1) {
            coords.at[a] = position % mesh->axes[a].size;
            position /= mesh->axes[a].size;
        }
    return coords;
}

/* snprintf onto the end of what `text` already holds; cut off at its size. */
static void append(char *text, size_t size, const char *separator, const char *word)
{
    const size_t used = strlen(text);

    snprintf(text + used, size - used, "%s%s", separator, word);
}

void pl_mesh_print(const pl_mesh *mesh, char *text, size_t size)
{
    if (size == 0)
        return;
    text[0] = '\0';
    for (int a = 0; a < mesh->n_axes; a++) {
        const pl_axes family = pl_mesh_family(mesh, mesh->axes[a].family);
        char word[PL_AXIS_NAME + 16];

        if (family & (((pl_axes)1 << a) - 1))
            continue; /* shown with its first factor */
        snprintf(word, sizeof word, "%s:%d", mesh->axes[a].family, pl_mesh_extent(mesh, family));
        append(text, size, text[0] == '\0' ? "" : " ", word);
    }
}

void pl_axes_print(const pl_mesh *mesh, pl_axes set, char *text, size_t size)
{
    if (size == 0)
        return;
    text[0] = '\0';
    for (int a = 0; a < mesh->n_axes; a++) {
        const pl_axes family = pl_mesh_family(mesh, mesh->axes[a].family);
        const bool complete = (set & family) == family;

        if (!(set >> a & 1) || (complete && (family & (((pl_axes)1 << a) - 1))))
            continue;
        append(text, size, text[0] == '\0' ? "" : ",",
               complete ? mesh->axes[a].family : mesh->axes[a].name);
    }
}
