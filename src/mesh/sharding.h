/* sharding -- how an array is cut over a mesh:  A[I_x, J_{y,z}]{U_w}
 *
 * Each dim is split over an ordered list of axes, major first; an axis splits at most one dim.
 * {U_w} says that the array is the sum over axis w of what its ranks hold; {max_w} the maximum.
 * Axes not named replicate the array.
 *
 * Splits nest: I_{y,z} cuts I into y's blocks, and each of them into z's (base/block.h), so that
 * gathering over z gives exactly I_y. Blocks differ by at most one unit at any size. */
#ifndef PURLIN_MESH_SHARDING_H
#define PURLIN_MESH_SHARDING_H

#include "src/mesh/mesh.h"

enum { PL_MAX_DIMS = 4 };

/** The axes that split one dim, major first. */
typedef struct {
    int n;
    uint8_t axis[PL_MAX_AXES];
} pl_split;

typedef struct {
    pl_split split[PL_MAX_DIMS];
    pl_axes sum; /* pending sums {U_x} */
    pl_axes max; /* pending maxima {max_x} */
} pl_sharding;

/** Names and global extents of an array's dims, in memory order, outermost first. */
typedef struct {
    int n_dims; /* 0 is a scalar */
    char name[PL_MAX_DIMS];
    int64_t extent[PL_MAX_DIMS];
} pl_shape;

/** A range of indices along one dim. */
typedef struct {
    int64_t begin, count;
} pl_range;

/** The range of 0..extent that the rank at `coords` holds. */
pl_range pl_split_range(const pl_mesh *mesh, const pl_split *split, pl_coords coords,
                        int64_t extent);
/** The largest count of any rank. */
int64_t pl_split_largest(const pl_mesh *mesh, const pl_split *split, int64_t extent);

/** Axes that split dim d; that split any dim. */
pl_axes pl_split_axes(const pl_split *split);
pl_axes pl_sharding_axes(const pl_sharding *s, int n_dims);
bool pl_split_equal(const pl_split *a, const pl_split *b);
bool pl_sharding_equal(const pl_sharding *a, const pl_sharding *b, int n_dims);

/** Refuses an axis used twice (over dims or partial sums), with the reason. */
pl_status pl_sharding_check(const pl_mesh *mesh, const char *name, const pl_shape *shape,
                            const pl_sharding *s);

/** Parse "W[D_fsdp, F_tp]{U_dp}". Dims are single capitals; several axes of a dim are written
 * D_{tp,fsdp}, or run together (I_xy) where the names allow only one reading; a family name stands
 * for its factors. Fills name (up to name_size), shape's n_dims and names (extents untouched) and
 * the sharding; refuses unknown axes, illegal shardings and syntax faults with the position. */
pl_status pl_sharding_parse(const pl_mesh *mesh, const char *text, char *name, size_t name_size,
                            pl_shape *shape, pl_sharding *s);

/** Print "W[D_fsdp, F_tp]{U_dp}" (complete families by their name). */
void pl_sharding_print(const pl_mesh *mesh, const char *name, const pl_shape *shape,
                       const pl_sharding *s, char *text, size_t size);

#endif
