/* known_prices -- communications that depend on the same numbers are priced once. All functions are
 * local. */
#ifndef PURLIN_ROOFLINE_KNOWN_PRICES_H
#define PURLIN_ROOFLINE_KNOWN_PRICES_H

#include "src/program/program.h"
#include "src/roofline/price.h"

/* A communication whose arrays lie in cache, and one whose arrays come from memory. */
typedef struct {
    pl_op_price near, far;
} pl_price_pair;

typedef struct pl_known_prices pl_known_prices;

pl_known_prices *pl_known_prices_create(void);
void pl_known_prices_destroy(pl_known_prices *known); /* NULL is allowed */

/** The price of a communication on which all is as with `op` of p for the rank at coords, or NULL;
 * valid until one is added. */
const pl_price_pair *pl_known_prices_find(pl_known_prices *known, const pl_program *p,
                                          const pl_op *op, pl_coords coords);

/** The price of the op that was looked for last, and not found. */
void pl_known_prices_add(pl_known_prices *known, pl_price_pair price);

#endif
