#!/bin/sh
# collbench_test -- ./collbench as a command: what it says, refuses, measures and writes.
# shellcheck source=tests/lib.sh
. "${srcdir:-.}/tests/lib.sh"
limit=120
quick="-n 2 -w 1"

# run_on RANKS OPTIONS...
run_on() {
    ranks=$1
    shift
    run "$mpirun" -np "$ranks" ./collbench "$machine" "$@"
}

# points FILE: how many, and that each has all that was promised
keys="op bytes count type algo in_place time_s min_s p99_s algbw_Bps busbw_Bps predicted_s limit_s wrong mpi_s"
all_have_keys() {
    grep '"record":"point"' "$folder/$1" >"$folder/points"
    for key in $keys; do
        [ "$(grep -c "\"$key\":" "$folder/points")" -eq "$(wc -l <"$folder/points")" ] || return 1
    done
}

# right N: N points, none of them wrong
right() {
    [ "$(grep -c '"record":"point"' "$folder/points.jsonl")" -eq "$1" ] &&
        [ "$(grep -c '"record":"point".*"wrong":0,' "$folder/points.jsonl")" -eq "$1" ]
}

# ---- about itself
run ./collbench --help && ! [ -s "$folder/err" ] &&
    has out --op --minbytes --maxbytes --stepbytes --stepfactor --iters --warmup --check --redop \
        --datatype --mesh --axis --algo --race --print-schedule --ranks --hosts --vs --overlap \
        --off-cache --fresh --csv --json --plot --machine --recalibrate --usage --version "mpirun -np 8" &&
    ! grep -q '.\{81\}' "$folder/out"
verdict "--help names every option, within 80 columns" $?
run ./collbench --version && grep -q '^purlin [0-9]' "$folder/out"
verdict "--version names purlin and its version" $?
run "$mpirun" -np 2 ./collbench --help && [ "$(grep -c 'Usage:' "$folder/out")" -eq 1 ]
verdict "one of two ranks answers" $?

# ---- refusals
refused "an unknown option is named" "unrecognized option '--frobnicate'" ./collbench --frobnicate
refused "an unknown operation is named with those there are" "'scan'.*all_gather" ./collbench --op scan
refused "a size that is none is refused" "^--minbytes: " ./collbench -b many
refused "sizes in the wrong order are refused" "^--minbytes: 2048 .*--maxbytes 1024" ./collbench -b 2K -e 1K
refused "a mesh of other ranks says what to start" "^--mesh: .*mpirun -np 4" ./collbench --mesh dp:2+tp:2
refused "an axis that is not there is refused with those that are" "^--axis: .*'tp'.* dp" ./collbench \
    --mesh dp:1 --axis tp
refused "an unknown algorithm is refused" "carrier-pigeon" ./collbench --algo all_gather=carrier-pigeon
refused "a CSV file that cannot be written is refused" "nowhere/x.csv" ./collbench --csv "$folder/nowhere/x.csv"
refused "a JSON file that cannot be written is refused" "nowhere/x" ./collbench --json "$folder/nowhere/x"
refused "a plot that cannot be written is refused" "nowhere/x.svg" ./collbench --plot "$folder/nowhere/x.svg"
refused "a machine file that is not there is refused" "nowhere.json" ./collbench \
    --machine "$folder/nowhere.json"
refused "more memory than there is is refused before it is taken" "^--maxbytes: .* GB a rank" ./collbench \
    "$machine" -b 4096G

echo kept >"$folder/old.csv"
run ./collbench "$machine" -b 4096G --csv "$folder/old.csv"
[ "$(cat "$folder/old.csv")" = kept ]
verdict "a refused command line leaves the old file alone" $?

# ---- measurements: every operation and type, in and out of place, exact
for ranks in 1 2 3; do
    # 6 operations, 4 of them also in place; 3 types; sum and max for two of them
    # shellcheck disable=SC2086
    run_on $ranks $quick -b 4 -e 4001 -f 1000 -d all -o all --json "$folder/points.jsonl" &&
        right $((2 * 3 * (2 + 2 + 1 + 1 + 2 * 4)))
    verdict "every operation, type and reduction is exact on $ranks ranks" $?
done
all_have_keys points.jsonl && has points '"op":"all_gather"' '"op":"reduce_scatter"' \
    '"op":"all_reduce"' '"op":"all_to_all"' '"op":"permute"' '"op":"broadcast"' \
    '"type":"float32"' '"type":"bfloat16"' '"type":"int32"' '"in_place":true'
verdict "each point has every key that is promised" $?
[ "$(grep -c '"record":"summary"' "$folder/points.jsonl")" -eq 7 ] &&
    has points.jsonl '"record":"summary","op":"all"'
verdict "summaries by operation and over all end the file" $?

# shellcheck disable=SC2086
run_on 2 $quick -b 64K -e 64K --vs mpi --json "$folder/points.jsonl" --csv "$folder/points.csv" \
    --plot "$folder/points.svg" && right 10 &&
    has out "MPI's time / ours" "one way" "both ways" "Geometric means" "#wrong" "busbw"
verdict "MPI's collectives are timed beside ours" $?
all_have_keys points.jsonl && ! grep -q '"mpi_s":null' "$folder/points"
verdict "their times are in the records" $?
[ "$(wc -l <"$folder/points.csv")" -eq 11 ] &&
    head -n 1 "$folder/points.csv" | grep -q '^op,bytes,count,type,' &&
    [ "$(awk -F, '{print NF}' "$folder/points.csv" | sort -u | wc -l)" -eq 1 ]
verdict "CSV has a heading, a line a point, and as many fields in each" $?
[ "$(grep -c '<polyline' "$folder/points.svg")" -eq 24 ] && grep -q '</svg>' "$folder/points.svg" &&
    ! grep -q nan "$folder/points.svg"
verdict "the plot has a panel of four lines for each operation" $?

# shellcheck disable=SC2086
run_on 4 $quick -b 8K -e 8K --mesh dp:2+tp:2 --axis tp --json "$folder/points.jsonl" && right 10 &&
    has out "2 of 2 ranks along tp"
verdict "groups along an axis run side by side" $?
# shellcheck disable=SC2086
run_on 4 $quick -b 8K -e 8K --mesh dp:2+tp:2 --axis dp,tp --json "$folder/points.jsonl" && right 10
verdict "a group may extend along two axes" $?
# shellcheck disable=SC2086
run_on 2 $quick -b 8K -e 8K --op all_gather,all_reduce --off-cache --overlap \
    --json "$folder/points.jsonl" && right 4 && has out hidden "off the caches"
verdict "buffers may rotate, and a matmul may hide what can be hidden" $?
# shellcheck disable=SC2086
run_on 3 $quick -b 8K -e 8K -d all --fresh --json "$folder/points.jsonl" && right 30 &&
    has out "written again"
verdict "inputs may be written again before each call" $?
# shellcheck disable=SC2086
run_on 2 $quick -b 1K -e 4K --op all_gather --algo all_gather=ring --json "$folder/points.jsonl" &&
    right 4 && [ "$(grep -c '"algo":"ring"' "$folder/points.jsonl")" -eq 4 ]
verdict "--algo names the algorithm" $?
# shellcheck disable=SC2086
PURLIN_ALGO=all_gather=ring run_on 2 $quick -b 1K -e 4K --op all_gather \
    --json "$folder/points.jsonl" &&
    [ "$(grep -c '"algo":"ring"' "$folder/points.jsonl")" -eq 4 ]
verdict "so does PURLIN_ALGO" $?
# shellcheck disable=SC2086
run env PURLIN_SHARED_MEMORY=off "$mpirun" -np 2 ./collbench "$machine" $quick -b 8K -e 8K \
    --json "$folder/points.jsonl" && right 10 && has out "messages only"
verdict "without shared memory all goes by messages" $?
# shellcheck disable=SC2086
run_on 2 $quick -b 1K -e 16K -f 16 --op all_gather,reduce_scatter --race \
    --json "$folder/points.jsonl" && has points.jsonl '"algo":"ring"' '"algo":"shared"' &&
    ! grep '"record":"point"' "$folder/points.jsonl" | grep -q -v '"wrong":0,' &&
    has out chosen fastest "fastest, predicted:" "fastest, measured:" "regret of the choice: median"
verdict "--race times all that apply, and says what the choice cost" $?
# shellcheck disable=SC2086
run_on 2 $quick -b 8K -e 8K --op permute -c 0 --json "$folder/points.jsonl" &&
    has points.jsonl '"wrong":null'
verdict "-c 0 verifies nothing, and says so" $?

# shellcheck disable=SC2086
run_on 8 $quick -b 8 -e 8 --op all_reduce --json "$folder/points.jsonl" && right 2 &&
    has points.jsonl '"bytes":8,"count":2,'
verdict "eight bytes are reduced by eight ranks" $?

# ---- the picture
run ./collbench --print-schedule --op all_gather --ranks 4 --algo all_gather=ring -b 1K &&
    has out "AllGather by ring: 4 ranks on 1 host, 1024 bytes" "rank 3" "out[3] <- 3" "out[3] -> 1"
verdict "--print-schedule shows the messages of each round" $?
run ./collbench --print-schedule --ranks 3 --op reduce_scatter --algo reduce_scatter=shared &&
    has out "await" "signal 1" "in[0]@1"
verdict "it shows who reads whose memory" $?
run ./collbench --print-schedule "$machine" --ranks 1000 --hosts 125 -b 1M &&
    has out "1000 ranks on 125 hosts" "ranks 16 to 999 are not shown" "predicted:"
verdict "it simulates any number of ranks and hosts" $?
exit $failed
