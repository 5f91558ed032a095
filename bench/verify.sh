#!/bin/sh
# verify -- `plan verify` over many points (ranks, model, batch): is the plan that prediction chooses
# the fastest? For a quiet machine; run by `make bench-verify`.
#
#   verify.sh MODELS FILE [SECONDS]
#
# Appends a JSON line to FILE for every point that it does not hold yet, and stops after SECONDS (a
# whole point more at most; default: when all are there), so that it can be run in slices.
# verify_summary judges FILE. MODELS is the folder of models that are no presets. TOP and STEPS are
# `plan verify`'s; PLAN is the program.
models=$1
file=$2
seconds=${3:-1000000}
begin=$(date +%s)
status=0

# point RANKS MODEL SEQUENCES TOKENS
point() {
    name="np $1 $2 $3 x $4"
    model=$2
    [ -f "$models/$2.json" ] && model=$models/$2.json
    grep -q -F "\"point\": \"$name\"" "$file" 2>/dev/null && return
    [ $(($(date +%s) - begin)) -ge "$seconds" ] && return
    line=$("${PLAN:-./plan}" verify --json --np "$1" --model "$model" --batch "$3" --seq "$4" \
        --top "${TOP:-3}" --steps "${STEPS:-5}" 2>/dev/null) || {
        echo "plan verify failed at $name" >&2
        status=1
        return
    }
    printf '%s\n' "$line" | sed "s/^{/{\"point\": \"$name\", /" >>"$file"
    echo "$name: $(($(date +%s) - begin)) s" >&2
}

for ranks in 4 8; do
    point $ranks small 8 128
    point $ranks small 16 32
    point $ranks small 32 64
    point $ranks wide 8 64
    point $ranks wide 16 128
    point $ranks wide 64 16
    point $ranks deep 8 128
    point $ranks deep 16 64
    point $ranks deep 32 128
    point $ranks wordy 8 64
    point $ranks wordy 16 128
    point $ranks tiny 64 63
done
exit $status
