#!/bin/sh
# heap_jobs -- jobs that share memory: several at once, killed, limited, with a small /dev/shm.
#
# shellcheck disable=SC2086 # the words of $alone are wanted
# shellcheck source=tests/lib.sh
. "${srcdir:-.}/tests/lib.sh"
folder=$PWD/$folder # for jobs in a /dev/shm of their own
mkdir "$folder/tmp"

# share OUTPUT COUNT: in the background
share() {
    timeout $((limit * factor)) "$mpirun" -np 4 tests/heap_job share "$2" >"$folder/$1" \
        2>"$folder/$1.err" </dev/null &
}

share out 1000000
one=$!
share other 2000000
other=$!
wait $one && wait $other && has out shared && has other shared
verdict "two jobs on one host do not meet" $?

run "$mpirun" -np 3 sh -c 'ulimit -v 2000000 && exec tests/heap_job share 1'
if has err Sanitizer; then
    echo "skipped: the sanitizers need address space without limit"
else
    [ $status -eq 0 ] && has out messages &&
        [ "$(grep -c '^warning: .*ulimit -v' "$folder/err")" -eq 1 ]
    verdict "too little address space is said once, and the job goes on" $?
fi

run "$mpirun" -np 2 tests/heap_job stray
[ $status -eq 4 ] && has err 'is not an allocation of the shared heap'
verdict "freeing what is no allocation panics" $?

# With a mount of its own, /dev/shm shows only what this job has put there.
echo 'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$@"' >"$folder/mount"
alone="unshare -m sh $folder/mount"
cat >"$folder/fill" <<'END'
"$1" -np 4 tests/heap_job share 1 && [ "$(df -k /dev/shm | awk 'NR == 2 { print $2 }')" -le 65536 ]
END
if $alone true 2>/dev/null; then
    run $alone sh "$folder/fill" "$mpirun" && has out shared
    verdict "a /dev/shm of 64 MB is enough" $?
else
    echo "skipped: a /dev/shm of our own (needs root)"
    alone=
fi

# What a job leaves that is killed without warning; Open MPI's and MPICH's own files aside.
cat >"$folder/kill" <<'END'
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
TMPDIR=$folder/tmp $alone sh "$folder/kill" "$folder" $((limit * factor)) "$mpirun" \
    >"$folder/out" 2>&1
! [ -s "$folder/out" ]
verdict "ranks that are killed leave nothing behind" $?
exit $failed
