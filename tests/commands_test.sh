#!/bin/sh
# commands_test -- what ./train says when it is asked about itself, and runs without a step.
# shellcheck source=tests/lib.sh
. "${srcdir:-.}/tests/lib.sh"

run ./train --help && ! [ -s "$folder/err" ] &&
    has out --strategy --zero --schedule --model --init --save --data --order --batch --micro-batch \
        --seq --steps --lr= --lr-schedule --warmup --weight-decay --beta1 --beta2 --eps --clip \
        --seed --eval-every --eval-only --log --trace --print --dry-run --machine --matmul --dtype --check \
        --tied --untied --recalibrate --explain --against --within --compare --usage --version "Exit status" "mpirun -np 8"
verdict "--help names every option, examples and exit codes" $?
! grep -q '.\{81\}' "$folder/out"
verdict "--help fits 80 columns" $?
run ./train --usage && has out --strategy --matmul
verdict "--usage is the options in short" $?
run ./train --version && grep -q '^purlin [0-9]' "$folder/out"
verdict "--version names purlin and its version" $?
run "$mpirun" -np 2 ./train --help && [ "$(grep -c 'Usage:' "$folder/out")" -eq 1 ]
verdict "one of two ranks answers" $?

run ./calibrate --help && ! [ -s "$folder/err" ] &&
    has out --output --json --dtype --quick --recalibrate --machine= "Exit status"
verdict "calibrate --help names every option and exit codes" $?
run ./calibrate "$machine" --output "$folder/machine.json" && has out knee "same host" "other host" &&
    run ./calibrate --machine "$folder/machine.json" --output "$folder/again.json" &&
    cmp "$folder/machine.json" "$folder/again.json"
verdict "calibrate shows a machine and writes what it reads, bit for bit" $?
run ./calibrate "$machine" --json && grep -q '^{"figure":"peak_f32","value":40000000000.0,"unit":"FLOP/s","spread":0.0,"trusted":true}$' \
    "$folder/out" && [ "$(grep -vc '^{"figure":.*"unit":' "$folder/out")" -eq 0 ]
verdict "calibrate --json is one object with a unit for each figure" $?
for words in "--machine /nowhere" "surplus" "--machine=" "$machine --output /nowhere/file"; do
    run ./calibrate $words
    [ $? -eq 2 ] && [ -s "$folder/err" ] && ! has err "no reason"
    verdict "calibrate $words is refused" $?
done

# A cache that is empty: measuring the machine would show.
mkdir "$folder/cache"
run env HOME="$folder/cache" XDG_CACHE_HOME="$folder/cache" ./train --model tiny --print \
    --strategy fsdp+tp && has out "Program of a step" && ! has err calibrat
verdict "--print measures nothing where there is nothing to choose" $?
run "$mpirun" -np 2 ./train "$machine" --model tiny --print --strategy fsdp &&
    [ "$(grep -c 'Program of a step' "$folder/out")" -eq 1 ] && has out AllGather ReduceScatter
verdict "--print shows the collectives of two ranks, once" $?
run ./train "$machine" --model tiny --dry-run --log "$folder/dry.jsonl" && has out memory &&
    ! grep -q '^ *1/' "$folder/out" && grep -q '"record":"run"' "$folder/dry.jsonl" &&
    ! grep -q '"record":"step"' "$folder/dry.jsonl"
verdict "--dry-run shows the prediction and runs nothing" $?
# tests/machine.json: C = 40 GFLOP/s; 3 GB/s both ways between two ranks: W = 3 x 2/1 = 6 GB/s. Elements
# of 4 B: alpha = 40/6 x 2 = 13.33; B = 8 x 256 tokens on 2 ranks; F = 1536: Y < 115.2, B/N > 0.1157.
run "$mpirun" -np 2 ./train "$machine" --model small --dry-run --explain --strategy dp --batch 8 --seq 256 &&
    has out "alpha = C/W x 4/2 = 13.33 FLOP/B" "= 1024 tokens a rank > C/W = 13.33: compute-bound" \
        "B = 26.67 tokens" "Y = 2 < M_Y F / alpha = 1536 / 13.33 = 115.2: compute-bound" \
        "B/N = 1024 > alpha^2 / (M_X M_Y F) = 0.1157: compute-bound" "X_opt = sqrt(B N / F) = 1.63" \
        "= 20.0% of a step with p = 2 stages, m = 4"
verdict "--explain puts this machine's numbers into the book's inequalities" $?
run "$mpirun" -np 2 ./train "$machine" --model tiny --compare 1 --steps 2 --batch 4 --log "$folder/log" &&
    has out "dp:2" "fsdp:2" "tp:2" "pp:2" "rank correlation" "slower than the fastest" &&
    [ "$(grep -c '"record":"plan"' "$folder/log")" -eq 4 ] && has log '"regret_fraction":' &&
    ! grep -q '"measured_step_s":null' "$folder/log"
verdict "--compare runs the best of every kind in turn and says what the choice costs" $?
run "$mpirun" -np 2 ./train "$machine" --model tiny --compare all --dry-run --batch 4 --log "$folder/log" &&
    has out "tp:2" "memory (GB/rank)" && [ "$(grep -c '"measured_step_s":null' "$folder/log")" -eq 4 ]
verdict "--compare --dry-run predicts every strategy and runs none" $?
MPIRUN=$mpirun run ./plan verify --np 2 --model tiny --batch 4 --steps 1 --top 1 "$machine" --json &&
    [ "$(wc -l <"$folder/out")" -eq 1 ] && has out '"regret_fraction":' '"measured_step_s":' '"plans":'
verdict "plan verify --json is one object of what train --compare measured" $?
for program in /nowhere "$folder" "$here/machine.json"; do
    run ./plan verify --train "$program"
    [ $? -eq 2 ] && [ "$(wc -l <"$folder/err")" -eq 1 ] && has err "--train: cannot run $program"
    verdict "plan verify --train $program is refused" $?
done

# values FILE RECORD KEY: of all such records, a line each
values() {
    sed -n "/\"record\":\"$2\"/s/.*\"$3\":\([^,}]*\).*/\1/p" "$folder/$1"
}

run "$mpirun" -np 2 ./train "$machine" --model tiny --strategy dp --explain measure --against tp \
    --seq 15 --within 30 --log "$folder/measure.jsonl" &&
    has out "both take as long: predicted" && has err "about" "point 5 of 5" &&
    [ "$(values measure.jsonl crossover_point measured_step_s | grep -c '^[0-9]')" -ge 10 ] &&
    [ "$(values measure.jsonl crossover_point strategy | paste - - | sort -u)" = '"dp:2"	"tp:2"' ]
verdict "--explain measure --against runs both strategies at five batches or more" $?
[ "$(values measure.jsonl crossover_point measured_comm_s | uniq)" = null ]
verdict "it runs no communication by itself, since only steps are compared" $?
batch=$(values measure.jsonl crossover_point batch | head -1)
run "$mpirun" -np 2 ./train "$machine" --model tiny --strategy dp --seq 15 --batch "$batch" \
    --dry-run --log "$folder/dry.jsonl" &&
    [ "$(values dry.jsonl summary predicted_s)" = \
        "$(values measure.jsonl crossover_point predicted_step_s | head -1)" ]
verdict "its predictions are those of the same runs by themselves" $?
# Messages at 30 MB/s: C/W is 100 times that above. Inside a host they are work of the cores, so that
# kernels hide nothing, whatever the batch.
sed 's/"\(one_way\|both_ways\)_bytes_per_s": .e9/"\1_bytes_per_s": 3e7/' "$here/machine.json" \
    >"$folder/slow.json"
run env PURLIN_SHARED_MEMORY=off "$mpirun" -np 2 ./train --machine "$folder/slow.json" \
    --model tiny --strategy dp --explain=measure --dry-run --log "$folder/measure.jsonl" &&
    [ "$(values measure.jsonl crossover_point measured_step_s | uniq)" = null ] &&
    [ "$(values measure.jsonl crossover predicted | tr '\n' ' ' | sed 's/[0-9.]\+/N/')" = "N null " ] &&
    has out "T_math = T_comms: predicted" "measured nothing" && ! has err point
verdict "--explain measure --dry-run predicts where T_math = T_comms, and runs nothing" $?
run env PURLIN_SHARED_MEMORY=off "$mpirun" -np 2 ./train --machine "$folder/slow.json" \
    --model tiny --strategy dp --explain=measure --within 20 --log "$folder/measure.jsonl" &&
    [ "$(for what in kernels comm exposed step; do
        values measure.jsonl crossover_point "measured_${what}_s"
    done | grep -c '^[0-9]')" -eq $((4 * $(values measure.jsonl crossover_point steps | wc -l))) ] &&
    [ "$(values measure.jsonl crossover_point spread | grep -c '^[0-9]')" -eq \
        "$(values measure.jsonl crossover_point steps | wc -l)" ] &&
    has out "T_math (ms)" "T_comms (ms)" "T_math = T_comms: predicted" "rounds" &&
    has err "their kernels and their communication by themselves"
verdict "--explain measure runs steps, their kernels and their communication" $?
for words in "--explain=what" "--against tp" "--explain measure --against zp" \
    "--explain measure --save $folder/x" "--explain measure --within 0"; do
    run "$mpirun" -np 2 ./train "$machine" --model tiny $words
    [ $? -eq 2 ] && [ -s "$folder/err" ]
    verdict "train $words is refused" $?
done
run ./train "$machine" --model tiny --dry-run --matmul openblas --log "$folder/dry.jsonl" &&
    grep -q '"matmul":"OpenBLAS' "$folder/dry.jsonl" && has out "matmul     OpenBLAS"
verdict "--matmul openblas is what multiplies, and header and log say so" $?
run env HOME="$folder/trial" XDG_CACHE_HOME="$folder/trial" ./train "$machine" --model tiny \
    --dry-run --log "$folder/dry.jsonl" &&
    grep -q '"matmul_tried":0,"matmul_openblas":\[\]' "$folder/dry.jsonl" && ! has out "by trial" &&
    ! [ -e "$folder/trial" ]
verdict "with --machine no product is tried" $?
run ./train "$machine" --model tiny --steps 0 --save "$folder/zero" &&
    [ -s "$folder/zero/model.safetensors" ]
verdict "--steps 0 saves what there is" $?

weights=$data/weights/stories260K/stories260K_wrong_layout.bin
tokens=$data/corpora/tinystories_sample.tok512.bin
if [ -r "$weights" ] && [ -r "$tokens" ]; then
    run ./train "$machine" --init "$weights" --data "$tokens" --eval-only --seq 256 &&
        has out "mean loss 11.179" && has err "worse than a uniform guess (ln 512 = 6.24)"
    verdict "weights of another layout are warned of" $?
    run ./train "$machine" --init "$data/weights/stories260K/stories260K.bin" --data "$tokens" \
        --eval-only --seq 256 && has out "mean loss 1.34121" && ! has err uniform
    verdict "good weights are not warned of" $?
else
    echo "skipped: weights of another layout: no real data"
fi
exit $failed
