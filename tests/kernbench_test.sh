#!/bin/sh
# kernbench_test -- ./kernbench as a command: what it says, refuses, measures and writes.
# shellcheck source=tests/lib.sh
. "${srcdir:-.}/tests/lib.sh"
quick="--seconds 0.001"

# points N: N points in points.jsonl, each with all that was promised
points() {
    grep '"record":"point"' "$folder/points.jsonl" >"$folder/points"
    [ "$(wc -l <"$folder/points")" -eq "$1" ] || return 1
    for key in kernel shape dtype time_s flops bytes rate roof percent vs_openblas vs_onednn; do
        [ "$(grep -c "\"$key\":" "$folder/points")" -eq "$1" ] || return 1
    done
}

# ---- about itself
run ./kernbench --help && ! [ -s "$folder/err" ] &&
    has out --kernel --group --dtype --shape --seconds --check --vs --csv --json --plot --usage \
        --version "./kernbench --vs openblas" && ! grep -q '.\{81\}' "$folder/out"
verdict "--help names every option, within 80 columns" $?
run ./kernbench --version && grep -q '^purlin [0-9]' "$folder/out"
verdict "--version names purlin and its version" $?

# ---- refusals
refused "an unknown option is named" "unrecognized option '--frobnicate'" ./kernbench --frobnicate
refused "an unknown kernel is named with those there are" "'pool'.*matmul" ./kernbench --kernel pool
refused "an unknown group is named with those there are" "'huge'.*square" ./kernbench --group huge
refused "an unknown dtype is named with those there are" "'f16'.*bf16" ./kernbench --dtype f16
refused "an unknown library is named with those there are" "'mkl'.*openblas" ./kernbench --vs mkl
refused "a shape of too few sizes says which are wanted" "^--shape: matmul.* M,N,K" ./kernbench \
    --kernel matmul --shape 8,8
refused "heads that do not divide are refused" "^--shape: attention.*K must divide N" ./kernbench \
    --kernel attention --shape 8,1,4,3,8
refused "a shape without a kernel is refused" "^--shape: .*--kernel" ./kernbench --shape 8,8,8
refused "seconds that are none are refused" "^--seconds: " ./kernbench --seconds soon
refused "an empty word is refused" "^--kernel: .*empty" ./kernbench --kernel ''
refused "a file that cannot be written is refused" "nowhere/x.json" ./kernbench --json "$folder/nowhere/x.json"
refused "a plot that cannot be written is refused before anything runs" "nowhere/x.svg" ./kernbench \
    --plot "$folder/nowhere/x.svg"
refused "what no kernel has is refused" "nothing has all three" ./kernbench --kernel adamw --group square
refused "arrays beyond the memory are refused before anything runs" "^--shape: .* GB" ./kernbench \
    --kernel matmul_nn --shape 1000000,1000000,1000000
refused "so are arrays whose size no 64 bits hold" "^--shape: .* GB" ./kernbench \
    --kernel rope --shape 1000000000,1000000000,1000000000
PURLIN_ISA=mmx run ./kernbench --kernel add
[ $? -eq 2 ] && has err "PURLIN_ISA=mmx"
verdict "an unknown ISA is refused" $?
run "$mpirun" -np 2 ./kernbench --kernel add
[ $status -eq 2 ] && [ "$(grep -c 'without mpirun' "$folder/err")" -eq 1 ]
verdict "two ranks are refused by one of them" $?

# ---- what is measured and written
# shellcheck disable=SC2086
run ./kernbench $quick --kernel matmul --shape 64,48,80 --vs openblas --check --json "$folder/points.jsonl" \
    --csv "$folder/points.csv" && points 14 && has points.jsonl '"record":"machine"' \
    '"peak_f32_per_s":' '"update":[{' '"dtype":"bf16"' '"shape":"64x48x80"' '"flops":491520.0' \
    '"rate_unit":"FLOP/s"' '"wrong":0'
verdict "a shape is measured in every type that the kernels have" $?
! grep -q '"vs_openblas":null' "$folder/points" && grep -q '"vs_onednn":null' "$folder/points"
verdict "only those asked for are compared with" $?
[ "$(wc -l <"$folder/points.csv")" -eq 15 ] &&
    [ "$(awk -F, '{ print NF }' "$folder/points.csv" | sort -u)" = 18 ]
verdict "the CSV has a heading and a line a point, alike in fields" $?
# shellcheck disable=SC2086
run ./kernbench $quick --group cache --kernel rms,swiglu,adamw --check --json "$folder/points.jsonl" \
    --plot "$folder/points.svg" && points 20 && has out GB/s memory "Geometric means" &&
    has points.jsonl '"record":"summary"' '"bound":"memory"' '"group":"cache"'
verdict "streaming kernels are held against memory" $?
[ "$(grep -c '<circle' "$folder/points.svg")" -ge 20 ] && has points.svg '</svg>' 'L1: ' 'f32: ' &&
    ! grep -q nan "$folder/points.svg"
verdict "the plot has the roofs and a dot for each point" $?
# shellcheck disable=SC2086
PURLIN_ISA=generic run ./kernbench $quick --kernel matmul_nn --shape 33,35,37 --check && has out "isa    generic"
verdict "it measures the ISA that is in use" $?
for library in onednn blis; do
    # shellcheck disable=SC2086
    run ./kernbench $quick --kernel matmul_tn --shape 31,33,35 --vs $library --check \
        --json "$folder/points.jsonl"
    if [ $status -eq 2 ] && has err "$library is not here"; then
        echo "skipped: $library's products are compared: it is not installed"
        continue
    fi
    [ $status -eq 0 ] && points 2 && grep '"dtype":"f32"' "$folder/points" | grep -q -v \
        "\"vs_$library\":null"
    verdict "$library's products are right, and compared" $?
done
exit $failed
