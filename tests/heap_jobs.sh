#!/bin/sh
# heap_jobs -- jobs that share memory: several at once, killed, limited, with a small /dev/shm.
here=${srcdir:-.}/tests
# shellcheck source=tests/mpi-env
. "$here/mpi-env"
mpirun=${MPIRUN:-mpirun}
limit=$((60 * ${MPI_RUN_TIMEOUT_FACTOR:-1}))
own=$PWD/tests/heap_jobs.$$ # what this test writes
failed=0
mkdir "$own" "$own/tmp" || exit 99
trap 'rm -rf "$own"' EXIT

# report CLAIM STATUS [FILE]: FILE is shown when STATUS is not 0
report() {
    if [ "$2" -eq 0 ]; then
        echo "passed: $1"
    else
        echo "failed: $1"
        [ $# -lt 3 ] || cat "$3"
        failed=1
    fi
}

# job RANKS OUTPUT COMMAND...
job() {
    ranks=$1 output=$2
    shift 2
    timeout "$limit" "$mpirun" -np "$ranks" "$@" >"$output" 2>"$output.err" </dev/null
}

job 4 "$own/a" tests/heap_job share 1000000 &
one=$!
job 4 "$own/b" tests/heap_job share 2000000 &
other=$!
wait $one && wait $other && grep -q shared "$own/a" && grep -q shared "$own/b"
report "two jobs on one host do not meet" $? "$own/a.err"

job 3 "$own/c" sh -c 'ulimit -v 2000000 && exec tests/heap_job share 1'
status=$?
if grep -q Sanitizer "$own/c.err"; then
    echo "skipped: the sanitizers need address space without limit"
else
    [ $status -eq 0 ] && grep -q messages "$own/c" &&
        [ "$(grep -c '^warning: .*ulimit -v' "$own/c.err")" -eq 1 ]
    report "too little address space is said once, and the job goes on" $? "$own/c.err"
fi

job 2 "$own/d" tests/heap_job stray
[ $? -eq 4 ] && grep -q 'is not an allocation of the shared heap' "$own/d.err"
report "freeing what is no allocation panics" $? "$own/d.err"

# With a mount of its own, /dev/shm shows only what this job has put there.
small='mount -t tmpfs -o size=64m tmpfs /dev/shm'
if unshare -m sh -c "$small" 2>/dev/null; then
    alone() { unshare -m sh -c "$small"' && "$@"' sh "$@"; }
else
    echo "skipped: a /dev/shm of our own (needs root)"
    alone() { "$@"; }
fi

cat >"$own/fill" <<'END'
timeout "$1" "$2" -np 4 tests/heap_job share 1 && [ "$(df -k /dev/shm | awk 'NR == 2 { print $2 }')" -le 65536 ]
END
if unshare -m sh -c "$small" 2>/dev/null; then
    alone sh "$own/fill" "$limit" "$mpirun" >"$own/e" 2>&1 </dev/null && grep -q shared "$own/e"
    report "a /dev/shm of 64 MB is enough" $? "$own/e"
fi

# What a job leaves that is killed without warning; Open MPI's and MPICH's own files aside.
cat >"$own/kill" <<'END'
list() {
    find "$TMPDIR" /dev/shm -mindepth 1 ! -path '*/ompi.*' ! -name 'vader_segment*' \
        ! -name 'sm_segment*' ! -name 'mpich_*' ! -name 'osc_rdma*' ! -path '*/pmix*' \
        ! -path '*/prte*' 2>/dev/null
    find /tmp -maxdepth 1 -name '*purlin*'
}
list | sort >"$1/before"
: >"$1/pids" # before anyone looks for it
timeout "$2" "$3" -np 4 tests/heap_job hold >"$1/pids" 2>/dev/null </dev/null &
n=0
while [ "$(grep -c held "$1/pids")" -lt 4 ] && [ $n -lt "$2" ]; do
    sleep 1
    n=$((n + 1))
done
# shellcheck disable=SC2046 # one word for every process
kill -9 $(sed -n 's/.*held by //p' "$1/pids")
wait
[ "$(grep -c held "$1/pids")" -eq 4 ] || echo "the ranks did not start"
list | sort | comm -13 "$1/before" -
END
TMPDIR=$own/tmp alone sh "$own/kill" "$own" "$limit" "$mpirun" >"$own/left" 2>&1
! grep -q . "$own/left"
report "ranks that are killed leave nothing behind" $? "$own/left"
exit $failed
