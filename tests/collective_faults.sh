#!/bin/sh
# collective_faults -- operations out of step, and a rank that never comes, end the job with their
# names and exit code 4.
here=${srcdir:-.}/tests
# shellcheck source=tests/mpi-env
. "$here/mpi-env"
mpirun=${MPIRUN:-mpirun}
failed=0

# expect CLAIM FAULT PATTERN
expect() {
    output=$(timeout 60 "$mpirun" -np 3 tests/collective_faults "$2" 2>&1 </dev/null)
    status=$?
    if [ $status -eq 4 ] && echo "$output" | grep -q "$3"; then
        echo "passed: $1"
    else
        echo "failed: $1 (exit status $status)"
        echo "$output"
        failed=1
    fi
}

expect "operations out of step are both named" mismatch \
    "'gradients of layer 2'.*from rank 0.*'gradients of layer 1'"
expect "a rank that never comes is named by those who wait for it" late \
    "rank 0: no progress.*'gradients of layer 1'.*from rank 2"
exit $failed
