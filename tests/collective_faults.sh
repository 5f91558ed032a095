#!/bin/sh
# collective_faults -- with checking on, ranks that do not do what the others do end the job within
# 10 s: it fails, and one line names the operation and the rank; both by messages and in shared
# memory. Of a rank that dies the launcher tells. Of one that leaves (exit status 0, never finalized)
# Open MPI's does; MPICH's kills the others at once and says nothing, or of whom it killed, and may
# even give 0 itself, so there the others are asked, with the launcher told to let them live.
here=${srcdir:-.}/tests
# shellcheck source=tests/mpi-env disable=SC1091
. "$here/mpi-env"
mpirun=${MPIRUN:-mpirun}
limit=$((10 * ${MPI_RUN_TIMEOUT_FACTOR:-1}))
options= # of the launcher
failed=0

# launch RANKS FAULT PATH: sets output, status
launch() {
    # shellcheck disable=SC2086 # the words of the options are wanted
    output=$(timeout -k 5 "$limit" "$mpirun" $options -np "$1" tests/collective_faults "$2" "$3" 2>&1 </dev/null)
    status=$?
}

# report CLAIM GOOD
report() {
    if [ "$2" -eq 0 ]; then
        echo "passed: $1"
    else
        echo "failed: $1 (exit status $status)"
        echo "$output"
        failed=1
    fi
}

# expect CLAIM FAULT PATTERN: the job fails and a line has the pattern
expect() {
    for path in messages $shared; do
        for ranks in 2 4; do
            launch "$ranks" "$2" "$path"
            [ $status -ne 0 ] && [ $status -ne 124 ] && echo "$output" | grep -Eq "$3"
            report "$1 ($path, $ranks ranks)" $?
        done
    done
}

shared=shared
launch 2 none shared
if echo "$output" | grep -q 'no shared memory'; then
    echo "skipped: there is no shared memory here"
    shared=
fi
[ $status -eq 0 ]
report "without a fault all is well" $?

op="'weights of layer 2'"
step="out of step: .*$op.*rank 1|^rank 1: .*out of step: .*$op"
expect "a rank that skips a collective is named" skip "$step"
expect "a rank that calls a different one is named" other "($step).*ReduceScatter"
expect "a rank that gives it another name is named" name "($step).*'weights of layer 3'|'weights of layer 3'.*$op"
expect "a rank that means another count is named" count "($step).* 999 "
expect "a rank that means another type is named" dtype "($step).*int32"
expect "a rank that never comes is named" late "no progress for 5 s: waits in $op,.*rank 1"
expect "a rank that does not end what others have ended is named" unended \
    "waits in 'farewell',.*rank 1|rank 1 has not ended 'farewell'"
expect "a rank that is killed is named" die "rank 1|BAD TERMINATION"
left="rank 1"
if "$mpirun" --version 2>/dev/null | grep -q HYDRA; then
    options=-disable-auto-cleanup left="no progress for 5 s: waits in $op,.*rank 1"
fi
expect "a rank that leaves is named" leave "$left"
exit $failed
