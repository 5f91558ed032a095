#include "config.h"

#include "collectives/halving.h"

static pl_halving halve(int first, int n, int rank)
{
    const int n_low = n - n / 2, high = first + n_low, last = first + n - 1;
    const int odd = n % 2 != 0 ? high - 1 : -1;

    if (rank >= high)
        return (pl_halving){.mine = high,
                            .n_mine = n / 2,
                            .theirs = first,
                            .n_theirs = n_low,
                            .partner = rank - n_low,
                            .odd = rank == last ? odd : -1};
    return (pl_halving){.mine = first,
                        .n_mine = n_low,
                        .theirs = high,
                        .n_theirs = n / 2,
                        .partner = rank == odd ? last : rank + n_low,
                        .is_odd = rank == odd,
                        .odd = -1};
}

int pl_halvings(int P, int rank, pl_halving at[PL_MAX_HALVINGS])
{
    int n_halvings = 0;

    for (int first = 0, n = P; n > 1; n_halvings++) {
        at[n_halvings] = halve(first, n, rank);
        first = at[n_halvings].mine;
        n = at[n_halvings].n_mine;
    }
    return n_halvings;
}
