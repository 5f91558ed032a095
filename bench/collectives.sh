#!/bin/sh
# collectives.sh FOLDER -- ./collbench beside the MPI library's collectives, on 2, 4 and 8 ranks of
# this host: tables and plots in FOLDER (collectives-np2.txt, collectives-np2.svg, ...).
#
# Run it on a quiet machine. Ranks are pinned where each has a core of its own. Environment: MPIRUN,
# BENCH_RANKS (which counts, default "2 4 8"), BENCH_FLAGS (more flags for ./collbench).
folder=${1:?usage: collectives.sh FOLDER}
here=$(dirname "$0")
# shellcheck source=tests/mpi-env
. "$here/../tests/mpi-env"
mpirun=${MPIRUN:-mpirun}
cores=$(nproc)
failed=0

for ranks in ${BENCH_RANKS:-2 4 8}; do
    table=$folder/collectives-np$ranks.txt
    # Fewer samples where ranks take turns: each lasts longer.
    pin='' samples=10
    [ "$ranks" -le "$cores" ] && pin='--bind-to core' samples=20
    flags="-b 1K -e 64M -f 4 -n $samples --vs mpi $BENCH_FLAGS"
    echo "mpirun -np $ranks $pin ./collbench $flags" | tr -s ' '
    # shellcheck disable=SC2086
    {
        echo "\$ mpirun -np $ranks $pin ./collbench $flags" | tr -s ' '
        $mpirun -np "$ranks" $pin ./collbench $flags --plot "$folder/collectives-np$ranks.svg" \
            </dev/null
        echo $? >"$table.status"
    } >"$table"
    [ "$(cat "$table.status")" -eq 0 ] || failed=1
    rm -f "$table.status"
    sed -n '/^Geometric means/,$p' "$table"
done
exit $failed
