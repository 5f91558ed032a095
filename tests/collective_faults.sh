#!/bin/sh
# collective_faults -- with checking on, ranks that do not do what the others do end the job within
# 10 s: it fails, and one line names the operation and the rank; both by messages and in shared
# memory. Of a rank that dies the launcher tells. Of one that leaves (exit status 0, never finalized)
# Open MPI's does; MPICH's kills the others at once and says nothing, or of whom it killed, and may
# even give 0 itself, so there the others are asked, with the launcher told to let them live.
# shellcheck source=tests/lib.sh
. "${srcdir:-.}/tests/lib.sh"
limit=10
options= # of the launcher

# launch RANKS FAULT PATH
launch() {
    # shellcheck disable=SC2086 # the words of the options are wanted
    run "$mpirun" $options -np "$1" tests/collective_faults "$2" "$3"
}

# expect CLAIM FAULT PATTERN: the job fails and a line has the pattern
expect() {
    for path in messages $shared; do
        for ranks in 2 4; do
            launch "$ranks" "$2" "$path"
            [ $status -ne 0 ] && [ $status -ne 124 ] &&
                cat "$folder/out" "$folder/err" | grep -Eq "$3"
            verdict "$1 ($path, $ranks ranks)" $?
        done
    done
}

shared=shared
launch 2 none shared
if grep -q 'no shared memory' "$folder/out" "$folder/err"; then
    echo "skipped: there is no shared memory here"
    shared=
fi
[ $status -eq 0 ]
verdict "without a fault all is well" $?

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
