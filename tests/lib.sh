# lib.sh -- what the tests of programs share: each sources it first.
#
# Gives: here (tests/ of the sources), mpirun, machine (the flag), data (what is not ours, may be
# empty), factor (of time limits), folder (empty, removed at the end), failed (to exit with), and the
# functions below. A test may set limit, the seconds that a command may take.
# shellcheck shell=sh disable=SC2034 # not all of the tests use everything
here=${srcdir:-.}/tests
# shellcheck source=tests/mpi-env
. "$here/mpi-env"
mpirun=${MPIRUN:-mpirun}
machine=--machine=$here/machine.json
data=${PURLIN_TESTDATA-}
factor=${MPI_RUN_TIMEOUT_FACTOR:-1}
folder=tests/$(basename "$0" .sh).tmp
limit=60
failed=0

rm -rf "$folder"
mkdir -p "$folder"
trap 'rm -rf "$folder"' EXIT

# verdict CLAIM GOOD (0: yes): a line that tests/summary counts; where the claim does not hold, what
# the last command said
verdict() {
    if [ "$2" -eq 0 ]; then
        echo "passed: $1"
    else
        echo "failed: $1${status:+ (last exit status $status)}"
        for output in "$folder/out" "$folder/err"; do
            [ -r "$output" ] && tail -n 40 "$output"
        done
        failed=1
    fi
}

# run COMMAND...: its output in $folder/out and err, its exit status in $status
run() {
    timeout -k 5 $((limit * factor)) "$@" >"$folder/out" 2>"$folder/err" </dev/null
    status=$?
    return $status
}

# has FILE PATTERN...: all of the patterns, as they stand
has() {
    file=$folder/$1
    shift
    for pattern; do
        grep -q -F -e "$pattern" "$file" || return 1
    done
}

# refused CLAIM PATTERN COMMAND...: exit status 2 and nothing on stdout; one message of a few lines, in
# $folder/said without what the launcher adds, has the pattern once
refused() {
    claim=$1 wanted=$2
    shift 2
    run "$@"
    sed '/^----------/,$d; /^mpirun: /d; /^[[:space:]]*$/d' "$folder/err" >"$folder/said"
    lines=$(wc -l <"$folder/said")
    [ $status -eq 2 ] && ! [ -s "$folder/out" ] && [ "$lines" -ge 1 ] && [ "$lines" -le 4 ] &&
        [ "$(grep -c -e "$wanted" "$folder/said")" -eq 1 ]
    verdict "$claim" $?
}
