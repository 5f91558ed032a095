#!/bin/sh
# hosts.sh FILE ARGUMENT... -- how close predictions come between hosts: $MPIRUN (default mpirun) with
# these arguments starts the ranks, a core each; run in the build folder, which all hosts must see.
#     bench/hosts.sh FILE -np 4 --hostfile hosts --map-by node --bind-to core
# ROUNDS times (default 5) calibrates and trains every case of bench/predict_bench, RUNS times
# (default 4), kept in FILE; then looks for the batches at which T_math = T_comms and at which dp
# takes as long as tp, kept in FILE.crossovers.
# CASES="small/dp deep" are the cases (default all; "none"); MODEL is the one that crosses over
# (default bench/models/lean.json, whose steps are short on a slow network; "none"); WITHIN how long
# each of the two may take (default 120 s). What is in the files stays, so that it can be done in parts:
# CALIBRATED=yes goes on with the calibration that is cached.
set -eu
srcdir=$(dirname "$0")/..
file=$1
shift
MPIRUN=${MPIRUN:-mpirun}
model=${MODEL:-$srcdir/bench/models/lean.json}

options=
for case in ${CASES:-}; do
    options="$options --case $case"
done
for i in $(seq "${ROUNDS:-5}"); do
    [ "${CALIBRATED:-no}" = yes ] || $MPIRUN "$@" ./calibrate --recalibrate
    [ "${CASES:-}" != none ] || break
    $MPIRUN "$@" bench/predict_bench --runs "${RUNS:-4}" --append "$file" $options
done
for against in '' '--against tp'; do
    [ "$model" != none ] || break
    $MPIRUN "$@" ./train --model "$model" --strategy dp --explain=measure $against \
        --within "${WITHIN:-120}" | tee -a "$file.crossovers"
done
[ ! -e "$file" ] || bench/predict_bench --summary "$file"
