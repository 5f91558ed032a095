#!/bin/sh
# stops_test -- runs that end early: asked to (signals), because a number is not finite, or because a
# rank is gone.
#
# shellcheck disable=SC2086 # the words of $train are wanted
# shellcheck source=tests/lib.sh
. "${srcdir:-.}/tests/lib.sh"
train="./train $machine --model tiny --steps 1000000"

# start COMMAND...: in the background, until its third step; its id in $pid
start() {
    "$@" >"$folder/out" 2>"$folder/err" </dev/null &
    pid=$!
    for _ in $(seq 200); do
        grep -q '^ *3/' "$folder/out" && return
        sleep 0.1
    done
}

# finish: wait 20 s for it to end, in $status; kill it otherwise
finish() {
    for _ in $(seq 200); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    if kill -9 "$pid" 2>/dev/null; then
        echo "still running after 20 s"
    fi
    wait "$pid"
    status=$?
}

# ---- signals
start $train
kill -INT "$pid"
finish
[ $status -eq 0 ] && has out 'all kernels' 'all communication' &&
    grep -q 'stopped after .* as asked' "$folder/err"
verdict "Ctrl-C finishes the step, prints the table and exits with 0" $?

if "$mpirun" --version 2>/dev/null | grep -q 'Open MPI\|OpenRTE'; then
    # Open MPI kills ranks a second after it has asked them to stop, and may drop what they print
    # meanwhile: the table is promised for SIGUSR1, which it passes on.
    start "$mpirun" -np 2 $train --strategy dp
    kill -INT "$pid"
    finish
    [ $status -ne 137 ] # that of finish's own kill
    verdict "Ctrl-C for the launcher ends the job" $?

    start "$mpirun" -np 3 $train --strategy pp
    kill -USR1 "$pid"
    finish
    [ $status -eq 0 ] && has out 'all kernels' &&
        grep -q 'stopped after .* as asked' "$folder/err"
    verdict "SIGUSR1 for the launcher stops all ranks, and the job exits with 0" $?
else
    echo "skipped: signals by way of the launcher: not Open MPI"
fi

# ---- a rank is killed

# ranks: the processes of the job below; not the launcher's own, which may stand between
ranks() {
    for process in /proc/[0-9]*; do
        [ "$(cat "$process/comm")" = train ] && [ "$(readlink "$process/cwd")" = "$PWD" ] &&
            grep -q "$folder/killed" "$process/cmdline" && echo "${process#/proc/}"
    done 2>/dev/null
}

start "$mpirun" -np 3 $train --strategy dp:3 --save "$folder/killed"
victim=$(ranks | head -n 1)
if [ -n "$victim" ]; then
    kill -9 "$victim"
    finish
    for _ in $(seq 50); do
        left=$(ranks)
        [ -n "$left" ] || break
        sleep 0.1
    done
    [ $status -ne 0 ] && [ -z "$left" ] && ! [ -e "$folder/killed/model.safetensors" ]
    verdict "killing one rank ends the job within seconds, and nothing is saved" $?
    [ -z "$left" ] || kill -9 $left
else
    kill -9 "$pid"
    echo "skipped: killing one rank: there is no /proc to find it in"
fi

# ---- not finite
train="./train $machine --model tiny"
save=$folder/save

# stopped CLAIM PATTERN COMMAND...: ends with 1 and one message, and leaves the folder saved to alone
stopped() {
    claim=$1 pattern=$2
    shift 2
    run "$@" --save "$save"
    [ $status -eq 1 ] && [ "$(grep -c 'is not finite' "$folder/err")" -eq 1 ] &&
        grep -q -e "$pattern" "$folder/err" && cmp -s "$save/model.safetensors" "$folder/before" &&
        [ "$(ls -A "$save")" = "$listing" ]
    verdict "$claim" $?
}

run $train --steps 0 --save "$save"
cp "$save/model.safetensors" "$folder/before"
listing=$(ls -A "$save")
stopped "a rate that is too high stops the run before the update" \
    'step [1-9].* loss .* rank 0: grad\..* is not finite. Nothing was updated' \
    $train --lr 1e20 --warmup 0 --steps 40
stopped "so it does on two ranks, and one of them says so" \
    'step [1-9].* loss .* rank [01]: .* is not finite' \
    "$mpirun" -np 2 $train --strategy fsdp:2 --lr 1e20 --warmup 0 --steps 40

# A NaN among the weights of layers.1; the offset of the tensor is in the file's header.
mkdir "$folder/nan"
cp "$save/config.json" "$save/model.safetensors" "$folder/nan"
length=$(od -A n -t u8 -N 8 "$folder/before" | tr -d ' ')
begin=$(dd if="$folder/before" bs=1 skip=8 count="$length" 2>/dev/null |
    sed 's/.*"model.layers.1.mlp.up_proj.weight":{[^}]*"data_offsets":\[\([0-9]*\),.*/\1/')
printf '\000\000\300\177' |
    dd of="$folder/nan/model.safetensors" bs=1 seek=$((8 + length + begin + 400)) conv=notrunc \
        2>/dev/null
train="./train $machine --init $folder/nan --steps 3"
stopped "a NaN among the weights stops the first step and is named" \
    'step 0: .* rank 0: layers.1.ffn.w_up is not finite' $train
stopped "so it does with --check" 'step 0: .* rank 0: layers.1.ffn.w_up is not finite' $train --check
stopped "so it does on two ranks that hold half of it each" \
    'step 0: .* rank [01]: layers.1.ffn.w_up is not finite' \
    "$mpirun" -np 2 $train --strategy tp:2 --check
stopped "so it does in a pipeline, and the rank that has it speaks" \
    'step 0: .* rank 1: layers.1.ffn.w_up is not finite' \
    "$mpirun" -np 5 $train --strategy pp:5
exit $failed
