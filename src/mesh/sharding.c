#include "config.h"

#include "src/mesh/sharding.h"

#include "src/base/block.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

pl_range pl_split_range(const pl_mesh *mesh, const pl_split *split, pl_coords coords,
                        int64_t extent)
{
    pl_range range = {.begin = 0, .count = extent};

    for (int i = 0; i < split->n; i++) {
        const int size = mesh->axes[split->axis[i]].size, at = coords.at[split->axis[i]];

        range.begin += pl_block_begin(range.count, size, at);
        range.count = pl_block_count(range.count, size, at);
    }
    return range;
}

int64_t pl_split_largest(const pl_mesh *mesh, const pl_split *split, int64_t extent)
{
    /* ceil(ceil(n / a) / b) = ceil(n / (a b)): the largest block is the largest part of a largest
     * block. */
    for (int i = 0; i < split->n; i++)
        extent = pl_block_largest(extent, mesh->axes[split->axis[i]].size);
    return extent;
}

pl_axes pl_split_axes(const pl_split *split)
{
    pl_axes set = 0;

    for (int i = 0; i < split->n; i++)
        set |= (pl_axes)1 << split->axis[i];
    return set;
}

pl_axes pl_sharding_axes(const pl_sharding *s, int n_dims)
{
    pl_axes set = 0;

    for (int d = 0; d < n_dims; d++)
        set |= pl_split_axes(&s->split[d]);
    return set;
}

bool pl_split_equal(const pl_split *a, const pl_split *b)
{
    return a->n == b->n && memcmp(a->axis, b->axis, (size_t)a->n) == 0;
}

bool pl_sharding_equal(const pl_sharding *a, const pl_sharding *b, int n_dims)
{
    bool equal = a->sum == b->sum && a->max == b->max;

    for (int d = 0; d < n_dims; d++)
        equal = equal && pl_split_equal(&a->split[d], &b->split[d]);
    return equal;
}

static pl_status refuse_twice(const pl_mesh *mesh, const char *name, const pl_shape *shape,
                              const pl_sharding *s, pl_axes axis, const char *where)
{
    char text[256], word[PL_AXIS_NAME];

    pl_sharding_print(mesh, name, shape, s, text, sizeof text);
    pl_axes_print(mesh, axis, word, sizeof word);
    return pl_refuse(PL_BAD_INPUT, "%s: axis %s is used twice%s", text, word, where);
}

pl_status pl_sharding_check(const pl_mesh *mesh, const char *name, const pl_shape *shape,
                            const pl_sharding *s)
{
    pl_axes used = 0;

    for (int d = 0; d < shape->n_dims; d++)
        for (int i = 0; i < s->split[d].n; i++) {
            const pl_axes axis = (pl_axes)1 << s->split[d].axis[i];

            if (used & axis)
                return refuse_twice(mesh, name, shape, s, axis,
                                    "; an axis splits at most one dim of an array");
            used |= axis;
        }

    const pl_axes again = used & (s->sum | s->max);
    if (again != 0)
        return refuse_twice(mesh, name, shape, s, again & ~(again - 1),
                            "; ranks that hold different blocks do not hold terms of one sum");
    if (s->sum != 0 && s->max != 0) {
        char text[256];

        pl_sharding_print(mesh, name, shape, s, text, sizeof text);
        return pl_refuse(PL_BAD_INPUT,
                         "%s: a sum and a maximum cannot both be pending; their order would matter",
                         text);
    }
    return PL_OK;
}

/* A list of axes, in the order written. */
typedef pl_split axis_list;

/* Where the parser is, and what it was given. */
typedef struct {
    const pl_mesh *mesh;
    const char *text, *at;
} parser;

static pl_status refuse_syntax(const parser *p, const char *expected)
{
    if (*p->at == '\0')
        return pl_refuse(PL_BAD_INPUT, "sharding \"%s\": expected %s at its end", p->text,
                         expected);
    return pl_refuse(PL_BAD_INPUT, "sharding \"%s\": expected %s at position %d, found '%c'",
                     p->text, expected, (int)(p->at - p->text) + 1, *p->at);
}

static void skip_blanks(parser *p)
{
    while (*p->at == ' ' || *p->at == '\t')
        p->at++;
}

static bool accept(parser *p, char c)
{
    skip_blanks(p);
    if (*p->at != c)
        return false;
    p->at++;
    return true;
}

/* Axes that a whole word names: an axis, or a family (which stands for its factors). */
static pl_axes axes_named(const pl_mesh *mesh, const char *word, int length)
{
    char name[PL_AXIS_NAME];

    if (length >= PL_AXIS_NAME)
        return 0;
    snprintf(name, sizeof name, "%.*s", length, word);
    const int a = pl_mesh_axis(mesh, name);
    return a >= 0 ? (pl_axes)1 << a : pl_mesh_family(mesh, name);
}

/* How many ways there are to read `word` as names of axes run together (2 stands for more);
 * *first receives the length of the first name of one of them. */
static int count_readings(const pl_mesh *mesh, const char *word, int length, int *first)
{
    enum { LONGEST = PL_MAX_AXES * PL_AXIS_NAME };
    int ways[LONGEST + 1] = {0}; /* of the text from i on */

    if (length > LONGEST)
        return 0;
    ways[length] = 1;
    for (int i = length - 1; i >= 0; i--)
        for (int n = 1; n < PL_AXIS_NAME && i + n <= length; n++)
            if (ways[i + n] > 0 && axes_named(mesh, word + i, n) != 0) {
                ways[i] += ways[i + n];
                ways[i] = ways[i] > 2 ? 2 : ways[i];
                if (i == 0)
                    *first = n;
            }
    return ways[0];
}

static pl_status refuse_axis(const parser *p, const char *word, int length)
{
    char known[128];

    pl_axes_print(p->mesh, (pl_axes)(((uint64_t)1 << p->mesh->n_axes) - 1), known, sizeof known);
    return pl_refuse(
        PL_BAD_INPUT, "sharding \"%s\": there is no axis %.*s (position %d); the mesh has %s",
        p->text, length, word, (int)(word - p->text) + 1, known[0] != '\0' ? known : "none");
}

/* Append the axes that one name stands for. */
static pl_status add_axes(const parser *p, const char *word, pl_axes set, axis_list *list)
{
    for (int a = 0; a < p->mesh->n_axes; a++)
        if (set >> a & 1) {
            if (list->n == PL_MAX_AXES)
                return pl_refuse(PL_BAD_INPUT,
                                 "sharding \"%s\": too many axes at position %d; an axis splits "
                                 "at most one dim, once",
                                 p->text, (int)(word - p->text) + 1);
            list->axis[list->n++] = (uint8_t)a;
        }
    return PL_OK;
}

/* One word of axes: a name, or (unless it must be one name) several run together. */
static pl_status parse_word(parser *p, bool one_name, axis_list *list)
{
    const char *word = p->at;
    int length = 0, first = 0;

    while (isalnum((unsigned char)word[length]) || word[length] == '.')
        length++;
    if (length == 0)
        return refuse_syntax(p, "the name of an axis");
    p->at = word + length;
    if (one_name && axes_named(p->mesh, word, length) != 0)
        return add_axes(p, word, axes_named(p->mesh, word, length), list);

    switch (count_readings(p->mesh, word, length, &first)) {
    case 0:
        return refuse_axis(p, word, length);
    case 1:
        break;
    default:
        return pl_refuse(PL_BAD_INPUT,
                         "sharding \"%s\": %.*s (position %d) can be read as axes in several "
                         "ways; write them as {a,b}",
                         p->text, length, word, (int)(word - p->text) + 1);
    }
    pl_status status = PL_OK;
    while (length > 0 && status == PL_OK) {
        (void)count_readings(p->mesh, word, length, &first);
        status = add_axes(p, word, axes_named(p->mesh, word, first), list);
        word += first;
        length -= first;
    }
    return status;
}

/* After an underscore: "x", "xy" or "{x,y}". */
static pl_status parse_axes(parser *p, axis_list *list)
{
    if (*p->at != '{')
        return parse_word(p, false, list);
    p->at++;
    do {
        skip_blanks(p);
        const pl_status status = parse_word(p, true, list);
        if (status != PL_OK)
            return status;
    } while (accept(p, ','));
    return accept(p, '}') ? PL_OK : refuse_syntax(p, "',' or '}'");
}

static pl_status parse_dims(parser *p, pl_shape *shape, pl_sharding *s)
{
    if (accept(p, ']'))
        return PL_OK;
    do {
        skip_blanks(p);
        if (!isupper((unsigned char)*p->at))
            return refuse_syntax(p, "a dim (one capital)");
        if (shape->n_dims == PL_MAX_DIMS)
            return pl_refuse(PL_BAD_INPUT, "sharding \"%s\": more than %d dims", p->text,
                             PL_MAX_DIMS);
        shape->name[shape->n_dims] = *p->at++;
        if (*p->at == '_') {
            p->at++;
            const pl_status status = parse_axes(p, &s->split[shape->n_dims]);
            if (status != PL_OK)
                return status;
        }
        shape->n_dims++;
    } while (accept(p, ','));
    return accept(p, ']') ? PL_OK : refuse_syntax(p, "'_', ',' or ']'");
}

/* After the brace: "U_x", "U_{x,y}", "U_x, U_y", "max_x". */
static pl_status parse_pending(parser *p, pl_sharding *s)
{
    do {
        axis_list list = {.n = 0};
        pl_axes *pending = NULL;

        skip_blanks(p);
        if (strncmp(p->at, "U_", 2) == 0) {
            pending = &s->sum;
            p->at += 2;
        } else if (strncmp(p->at, "max_", 4) == 0) {
            pending = &s->max;
            p->at += 4;
        } else {
            return refuse_syntax(p, "U_ or max_");
        }

        const char *word = p->at;
        const pl_status status = parse_axes(p, &list);
        if (status != PL_OK)
            return status;
        for (int i = 0; i < list.n; i++) {
            const pl_axes axis = (pl_axes)1 << list.axis[i];

            if ((s->sum | s->max) & axis)
                return pl_refuse(PL_BAD_INPUT,
                                 "sharding \"%s\": axis %s is used twice (position %d)", p->text,
                                 p->mesh->axes[list.axis[i]].name, (int)(word - p->text) + 1);
            *pending |= axis;
        }
    } while (accept(p, ','));
    return accept(p, '}') ? PL_OK : refuse_syntax(p, "',' or '}'");
}

/* Everything before the first bracket or brace. */
static pl_status parse_name(parser *p, char *name, size_t name_size)
{
    const size_t length = strcspn(p->at, "[]{}, \t");

    if (length == 0)
        return refuse_syntax(p, "the name of an array");
    if (length >= name_size)
        return pl_refuse(PL_BAD_INPUT, "sharding \"%s\": the name is longer than %d characters",
                         p->text, (int)name_size - 1);
    memcpy(name, p->at, length);
    name[length] = '\0';
    p->at += length;
    return PL_OK;
}

pl_status pl_sharding_parse(const pl_mesh *mesh, const char *text, char *name, size_t name_size,
                            pl_shape *shape, pl_sharding *s)
{
    parser p = {.mesh = mesh, .text = text, .at = text};
    pl_shape parsed_shape = *shape; /* extents stay */
    pl_sharding parsed = {.sum = 0};
    pl_status status;

    parsed_shape.n_dims = 0;
    skip_blanks(&p);
    status = parse_name(&p, name, name_size);
    if (status == PL_OK && accept(&p, '['))
        status = parse_dims(&p, &parsed_shape, &parsed);
    if (status == PL_OK && accept(&p, '{'))
        status = parse_pending(&p, &parsed);
    skip_blanks(&p);
    if (status == PL_OK && *p.at != '\0')
        status = refuse_syntax(&p, "'[', '{' or the end");
    if (status == PL_OK)
        status = pl_sharding_check(mesh, name, &parsed_shape, &parsed);
    if (status != PL_OK)
        return status;
    *shape = parsed_shape;
    *s = parsed;
    return PL_OK;
}

/* Text that grows to the right and is cut off at its size. */
typedef struct {
    char *text;
    size_t size, used;
} writer;

static void put(writer *w, const char *word)
{
    for (; *word != '\0' && w->used + 1 < w->size; word++)
        w->text[w->used++] = *word;
    w->text[w->used] = '\0';
}

/* How many axes from i on are exactly one complete family of several, in mesh order. */
static int family_at(const pl_mesh *mesh, const axis_list *list, int i)
{
    const pl_axes family = pl_mesh_family(mesh, mesh->axes[list->axis[i]].family);
    const int n = __builtin_popcount(family);
    pl_axes seen = 0;

    for (int k = 0; k < n && i + k < list->n; k++) {
        if (k > 0 && list->axis[i + k] < list->axis[i + k - 1])
            break;
        seen |= (pl_axes)1 << list->axis[i + k];
    }
    return seen == family ? n : 0;
}

/* "_x", "_{x,y}"; nothing for no axes. */
static void put_axes(writer *w, const pl_mesh *mesh, const axis_list *list)
{
    const char *words[PL_MAX_AXES];
    int n = 0, first = 0;

    for (int i = 0; i < list->n; n++) {
        const pl_axis *axis = &mesh->axes[list->axis[i]];
        const int n_family = family_at(mesh, list, i);

        words[n] = n_family > 0 ? axis->family : axis->name;
        i += n_family > 0 ? n_family : 1;
    }
    if (n == 0)
        return;
    const bool braces = n > 1 || count_readings(mesh, words[0], (int)strlen(words[0]), &first) > 1;
    put(w, braces ? "_{" : "_");
    for (int i = 0; i < n; i++) {
        put(w, i > 0 ? "," : "");
        put(w, words[i]);
    }
    put(w, braces ? "}" : "");
}

static axis_list list_of(const pl_mesh *mesh, pl_axes set)
{
    axis_list list = {.n = 0};

    for (int a = 0; a < mesh->n_axes; a++)
        if (set >> a & 1)
            list.axis[list.n++] = (uint8_t)a;
    return list;
}

void pl_sharding_print(const pl_mesh *mesh, const char *name, const pl_shape *shape,
                       const pl_sharding *s, char *text, size_t size)
{
    writer w = {.text = text, .size = size};
    const axis_list sum = list_of(mesh, s->sum), max = list_of(mesh, s->max);

    if (size == 0)
        return;
    text[0] = '\0';
    put(&w, name);
    put(&w, "[");
    for (int d = 0; d < shape->n_dims; d++) {
        put(&w, d > 0 ? ", " : "");
        put(&w, (const char[]){shape->name[d], '\0'});
        put_axes(&w, mesh, &s->split[d]);
    }
    put(&w, "]");
    if (sum.n + max.n == 0)
        return;
    put(&w, sum.n > 0 ? "{U" : "{max");
    put_axes(&w, mesh, sum.n > 0 ? &sum : &max);
    if (sum.n > 0 && max.n > 0) {
        put(&w, ", max");
        put_axes(&w, mesh, &max);
    }
    put(&w, "}");
}
