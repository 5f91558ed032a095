#!/bin/sh
# hosts.sh FILE ARGUMENT... -- how close predictions come between hosts: $MPIRUN (default mpirun) with
# these arguments starts the ranks, a core each; run in the build folder, which all hosts must see.
#     bench/hosts.sh FILE -np 4 --hostfile hosts --map-by node --bind-to core
# Calibrates, trains every case of bench/predict_bench, kept in FILE, then looks for the batches at
# which T_math = T_comms and at which dp takes as long as tp, kept in FILE.crossovers.
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

[ "${CALIBRATED:-no}" = yes ] || $MPIRUN "$@" ./calibrate --recalibrate
if [ "${CASES:-}" != none ]; then
    options=
    for case in ${CASES:-}; do
        options="$options --case $case"
    done
    $MPIRUN "$@" bench/predict_bench --runs 1 --append "$file" $options
fi
for against in '' '--against tp'; do
    [ "$model" != none ] || break
    $MPIRUN "$@" ./train --model "$model" --strategy dp --explain=measure $against \
        --within "${WITHIN:-120}" | tee -a "$file.crossovers"
done
[ ! -e "$file" ] || bench/predict_bench --summary "$file"
