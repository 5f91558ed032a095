#!/bin/sh
# saves_test -- equal weights give equal bytes under every strategy, and the same command twice gives
# the same losses and weights to the bit.
# shellcheck source=tests/lib.sh
. "${srcdir:-.}/tests/lib.sh"
limit=120

# train RANKS OPTIONS...
train() {
    ranks=$1
    shift
    run "$mpirun" -np "$ranks" ./train "$machine" "$@"
}

# same_folder A B: both files are there, with the same bytes
same_folder() {
    cmp -s "$1/model.safetensors" "$2/model.safetensors" &&
        cmp -s "$1/config.json" "$2/config.json"
}

# saved_alike NAME OPTIONS...: no step, then saved, under strategies of all kinds
saved_alike() {
    name=$1
    shift
    run ./train "$machine" "$@" --steps 0 --save "$folder/$name.one"
    for how in "2 dp:2 --zero 2" "3 fsdp" "2 tp" "8 tp" "2 pp" "8 pp:2+fsdp:2+tp:2"; do
        ranks=${how%% *}
        # shellcheck disable=SC2086 # words are wanted
        train "$ranks" "$@" --steps 0 --strategy ${how#* } --save "$folder/$name.many" &&
            same_folder "$folder/$name.one" "$folder/$name.many"
        verdict "$name is saved by $how as by one rank" $?
        rm -rf "$folder/$name.many"
    done
}

# records FILE: what a step's records say of the training itself
records() {
    sed -n 's/^{"record":"step",\("step":[0-9]*\),\("loss":[^,]*\),\("grad_norm":[^,]*\),.*/\1 \2 \3/p' "$1"
}

# repeats RANKS OPTIONS...: twice the same command
repeats() {
    claim="$*"
    for turn in first second; do
        train "$@" --model tiny --steps 4 --batch 8 --log "$folder/$turn.jsonl" \
            --save "$folder/$turn"
        records "$folder/$turn.jsonl" >"$folder/$turn.records"
    done
    [ "$(wc -l <"$folder/first.records")" -eq 4 ] &&
        cmp -s "$folder/first.records" "$folder/second.records" &&
        same_folder "$folder/first" "$folder/second"
    verdict "the same command gives the same bits: $claim" $?
    rm -rf "$folder/first" "$folder/second"
}

saved_alike "a new model" --model tiny --seed 7
stories=$data/weights/stories260K/stories260K.bin
story=$data/weights/story656K/model.safetensors
if [ -r "$stories" ] && [ -r "$story" ]; then
    saved_alike stories260K --init "$stories"
    saved_alike story656K --init "$story"
    run ./train "$machine" --init "$folder/story656K.one" --steps 0 --save "$folder/again" &&
        same_folder "$folder/story656K.one" "$folder/again"
    verdict "what was saved is loaded and saved again with the same bytes" $?
else
    echo "skipped: saves of models that are not ours: no real data"
fi

repeats 8 --strategy pp:2+fsdp:2+tp:2 --micro-batch 1
repeats 8 --strategy dp:2+fsdp:2+tp:2 --zero 2
exit $failed
