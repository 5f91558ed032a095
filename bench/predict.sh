#!/bin/sh
# predict.sh FILE -- runs of bench/predict_bench, kept in FILE, and what they come to; run by `make
# bench-predict` in the build folder. A part of it: ROUNDS_OF_2 rounds (default 5) of 4 runs of two
# ranks with a core each, ROUNDS_OF_8 rounds (default 1) of 1 run of eight ranks.
set -eu
srcdir=$(dirname "$0")/..
. "$srcdir/tests/mpi-env"
file=$1
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT

# A round with a machine of its own: round RANKS RUNS [MPIRUN'S OPTIONS]
round() {
    ranks=$1 runs=$2
    shift 2
    XDG_CACHE_HOME=$cache $MPIRUN -np "$ranks" "$@" bench/predict_bench --runs "$runs" \
        --append "$file"
    rm -rf "$cache"/*
}

rm -f "$file"
for i in $(seq "${ROUNDS_OF_2:-5}"); do
    (unset OMPI_MCA_hwloc_base_binding_policy; round 2 4 --bind-to core)
done
for i in $(seq "${ROUNDS_OF_8:-1}"); do
    round 8 1
done
bench/predict_bench --summary "$file"
