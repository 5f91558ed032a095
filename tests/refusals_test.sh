#!/bin/sh
# refusals_test -- bad input gives one message of a few lines from one rank and exit code 2, within
# seconds, on one rank and on several.
# shellcheck source=tests/lib.sh
. "${srcdir:-.}/tests/lib.sh"

# refused_alone CLAIM PATTERN OPTIONS...: on one rank, without a launcher
refused_alone() {
    claim=$1 pattern=$2
    shift 2
    limit=20
    refused "$claim" "$pattern" ./train "$@"
}

# refused_on RANKS CLAIM PATTERN OPTIONS...
refused_on() {
    ranks=$1 claim="$2 ($1 ranks)" pattern=$3
    shift 3
    limit=30
    refused "$claim" "$pattern" "$mpirun" -np "$ranks" ./train "$@"
}

# accepted CLAIM OPTIONS...
accepted() {
    claim=$1
    shift
    limit=60
    run ./train "$@"
    verdict "$claim" $?
}

# config NAME LAYERS HEADS KV_HEADS VOCAB: a small model's config.json
config() {
    cat >"$folder/$1" <<END
{"model_type": "llama", "hidden_act": "silu", "hidden_size": $((8 * $3)), "intermediate_size": 64,
 "num_hidden_layers": $2, "num_attention_heads": $3, "num_key_value_heads": $4, "vocab_size": $5,
 "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "tie_word_embeddings": false}
END
}

# bytes N: N bytes of text
bytes() {
    yes 'It is a truth universally acknowledged. ' | head -c "$1"
}

config two.json 2 4 4 256
config few.json 1 2 2 100

# ---- strategy and mesh: refused before anything is measured
refused_alone "an unknown option is named" "unrecognized option '--frobnicate'" --frobnicate
refused_alone "an option without its value is named" "'--lr' requires an argument" --lr
refused_alone "an unknown strategy is named with those there are" "'zp'.*dp, fsdp, tp and pp" \
    --strategy zp
refused_alone "an unknown algorithm is named with those there are, and the flag" \
    "^--algo.*all_reduce has no algorithm .nope.*ring" --algo all_reduce=nope
refused_alone "an unknown collective is named with those there are, and the flag" \
    "^--algo.*no collective .nope.*all_gather" --algo nope
refused_alone "more ranks wanted than there are: says what to start" "dp:2.*mpirun -np 2" --strategy dp:2
refused_alone "given degrees that divide no rank count are refused" "multiple of 3 ranks" \
    --strategy fsdp:3+tp
refused_on 3 "a product unlike the rank count says what fits" "fsdp:2 needs 2 ranks.*has 3.*-np 2" \
    --strategy fsdp:2
refused_on 3 "an unknown option is named once" "unrecognized option '--frobnicate'" --frobnicate
refused_on 3 "degrees of tp that fit the heads are listed, also for an open degree" \
    "tp:3 does not fit 8 query heads and 4 .* 1, 2, 4, 8" --model tiny --strategy tp
refused_on 2 "a batch below the data-parallel degree names the flag and a value that works" \
    "^--batch: .*at least --batch 2" --model tiny --strategy dp:2 --batch 1
refused_on 3 "more stages than layers name the flag and a value that works" \
    "^--strategy: pp:3 .*at most pp:2" --model "$folder/two.json" --strategy pp:3

export PURLIN_ISA=mmx
refused_alone "an unknown instruction set is named with those there are" \
    "PURLIN_ISA=mmx.*generic.*avx2" --model tiny
refused_on 2 "so it is on every rank" "PURLIN_ISA=mmx" --model tiny
unset PURLIN_ISA

# ---- sizes
refused_alone "more memory than there is is refused before it is taken" "^--strategy: .* GB a rank.*--batch" \
    "$machine" --model tiny --batch 16M
refused_alone "so it is with degrees that are given" "^--batch: .* GB a rank" \
    "$machine" --model tiny --batch 16M --strategy dp:1
refused_alone "microbatches without end are refused" "^--micro-batch: .*at least --micro-batch 1954" \
    "$machine" --model tiny --batch 1M --micro-batch 1
refused_alone "a warm-up longer than the run is refused" "^--warmup: 5 .*--steps 4" --warmup 5 --steps 4

# ---- data
bytes 63 >"$folder/63.txt"
bytes 64 >"$folder/64.txt"
bytes 100 >"$folder/100.txt"
: >"$folder/empty.txt"
{ printf '\210\330\064\001\001\000\000\000\012\000\000\000' && head -c 1012 /dev/zero; } \
    >"$folder/short.bin" # 10 ids, none there
refused_alone "T tokens do not train, and the message has the number needed" \
    "63 tokens.*--seq 63 needs 64" --model tiny --data "$folder/63.txt"
accepted "T + 1 tokens train" "$machine" --model tiny --data "$folder/64.txt" --steps 1
refused_alone "a validation split without a window says what is needed" "--seq 20 needs 21.*420" \
    --model tiny --seq 20 --batch 10 --eval-every 1 --data "$folder/100.txt"
refused_alone "an empty file is refused" "empty.txt: the file is empty" --model tiny \
    --data "$folder/empty.txt"
refused_alone "a file that is not there is refused" "nothere: .*No such file" --model tiny \
    --data "$folder/nothere"
refused_alone "a folder is no data" "Is a directory" --model tiny --data "$folder"
refused_alone "a token file cut short is refused" "10 token ids.*is truncated" --model tiny \
    --data "$folder/short.bin"
refused_alone "ids beyond the vocabulary are refused with both" "largest token id is 121.*100 ids" \
    --model "$folder/few.json" --data "$folder/100.txt"
if [ "$(id -u)" -ne 0 ]; then
    cp "$folder/100.txt" "$folder/secret.txt"
    chmod 0 "$folder/secret.txt"
    refused_alone "a file that may not be read is refused" "Permission denied" --model tiny \
        --data "$folder/secret.txt"
fi

# A fault that only one rank sees.
timeout -k 5 30 "$mpirun" -np 1 ./train "$machine" --model tiny --data "$folder/64.txt" : \
    -np 1 ./train "$machine" --model tiny --data "$folder/63.txt" \
    >"$folder/out" 2>"$folder/err" </dev/null
judge "data too short on one rank only stop all ranks" $? "^rank 1: .*63 tokens"

timeout -k 5 30 "$mpirun" -np 1 ./train --model tiny : -np 1 ./train --frobnicate \
    >"$folder/out" 2>"$folder/err" </dev/null
judge "an option that only one rank does not know stops all ranks" $? "^rank 1: an option"

# ---- output paths, machine file
refused_alone "a log that cannot be written is refused" "nowhere/x.jsonl: cannot write" "$machine" \
    --model tiny --log "$folder/nowhere/x.jsonl"
refused_alone "a folder is no log" "cannot write: Is a directory" "$machine" --model tiny --log "$folder"
refused_alone "a trace that cannot be written is refused" "^--trace: .*cannot write" "$machine" \
    --model tiny --trace "$folder/nowhere/t.json"
refused_alone "a file in the place of the folder to save to is refused" "^--save: .*64.txt" \
    --model tiny --save "$folder/64.txt"
refused_on 2 "a save that cannot be written is refused" "--save: .*64.txt/x" --model tiny \
    --save "$folder/64.txt/x"
# Root may write anywhere, so it steps down, where it can and the build is open to others.
as_user=
[ "$(id -u)" -ne 0 ] || as_user="setpriv --reuid=65534 --regid=65534 --clear-groups"
mkdir "$folder/read-only"
echo kept >"$folder/read-only/model.safetensors"
chmod 555 "$folder/read-only"
# shellcheck disable=SC2086 # words are wanted
if $as_user test -x ./train 2>/dev/null && $as_user test -r "$here/machine.json"; then
    for path in read-only read-only/new; do
        refused "a folder that may not be written to is refused: $path" \
            "^--save: cannot write $folder/$path: Permission denied" \
            $as_user ./train "$machine" --model tiny --save "$folder/$path"
    done
    [ "$(ls "$folder/read-only")" = model.safetensors ] &&
        [ "$(cat "$folder/read-only/model.safetensors")" = kept ]
    verdict "what was saved in a folder before a refusal is still there" $?
else
    echo "skipped: a folder that may not be written to: root cannot step down here"
fi
chmod 755 "$folder/read-only"
refused_on 2 "a log that cannot be written is refused" "cannot write" "$machine" --model tiny \
    --log "$folder"
echo '{"name": "half a machine"}' >"$folder/machine.json"
refused_alone "a machine file without its figures is refused by key" "machine.json.*ranks_per_host" \
    --model tiny --machine "$folder/machine.json"
refused_alone "text is no machine file" "64.txt: line 1" --model tiny --machine "$folder/64.txt"

echo kept >"$folder/old.jsonl"
timeout 20 ./train --strategy dp:2 --log "$folder/old.jsonl" >/dev/null 2>&1 </dev/null
if [ "$(cat "$folder/old.jsonl")" = kept ]; then
    echo "passed: a refused command line leaves the old log alone"
else
    echo "failed: a refused command line leaves the old log alone"
    failed=1
fi

# ---- weight files
save=$folder/saved
accepted "a model is saved for what follows" "$machine" --model tiny --steps 0 --save "$save"
good=$save/model.safetensors
size=$(wc -c <"$good")
bad=$folder/bad
mkdir "$bad"
cp "$save/config.json" "$bad"

# with_length OCTAL-BYTES: the model with another header length
with_length() {
    cp "$good" "$bad/model.safetensors"
    # shellcheck disable=SC2059 # the format is the bytes
    printf "$1" | dd of="$bad/model.safetensors" conv=notrunc 2>/dev/null
}

# on_every_path CLAIM PATTERN: the same verdict for every way of loading
on_every_path() {
    refused_alone "$1" "$2" "$machine" --init "$bad/model.safetensors"
    cp "$folder/said" "$folder/first"
    for strategy in tp:2 fsdp:2; do
        refused_on 2 "$1: $strategy" "$2" "$machine" --init "$bad/model.safetensors" \
            --strategy $strategy
        if ! cmp -s "$folder/said" "$folder/first"; then
            echo "failed: $1: $strategy says something else than one rank"
            failed=1
        fi
    done
}

with_length '\000\000\000\000\000\000\000\000'
refused_alone "a header length of 0 is refused" "length is given as 0 bytes" --init "$bad"
with_length '\000\000\000\000\000\001\000\000'
refused_alone "a header length of 2^40 is refused with both sizes" "1099511627776.*$size" --init "$bad"
with_length '\000\000\000\000\000\000\000\200'
refused_alone "a header length of 2^63 is refused with both sizes" "9223372036854775808.*$size" \
    --init "$bad"
with_length '\100\235\337\007\000\000\000\000'
refused_alone "a header length of 132095296 is refused with both sizes" "132095296.*$size" --init "$bad"
for n in 0 4 8 1000 2168; do
    head -c $n "$good" >"$bad/model.safetensors"
    refused_alone "a model.safetensors of $n bytes is refused" "model.safetensors: .*\(truncated\|empty\|bytes\)" --init "$bad"
done
head -c $((size - 1)) "$good" >"$bad/model.safetensors"
on_every_path "a model.safetensors without its last byte is refused" \
    "truncated: .* 1 more; tensor \"lm_head.weight\""
{ cat "$good" && printf x; } >"$bad/model.safetensors"
on_every_path "a model.safetensors with a byte too many is refused" "1 trailing byte"
sed 's/layers\.1\.mlp\.up_proj/layers.1.mlp.xp_proj/' "$good" >"$bad/model.safetensors"
refused_alone "a renamed tensor is missed by its name" \
    "model.layers.1.mlp.up_proj.weight" --init "$bad"
cp "$good" "$bad/model.safetensors"
sed 's/"num_hidden_layers": *5/"num_hidden_layers": 6/' "$save/config.json" >"$bad/config.json"
refused_alone "weights of another model than config.json's are refused" "model.layers.5" --init "$bad"
rm "$bad/config.json"
refused_alone "a model without its config.json is refused" "config.json" --init "$bad"
refused_alone "text is no weight file" "64.txt" --init "$folder/64.txt"
refused_alone "an empty weight file is refused" "empty.txt" --init "$folder/empty.txt"
refused_alone "a folder without a model is refused" "model.safetensors" --init "$folder"
refused_alone "--init brings its own model" "^--model: --init" --init "$save" --model tiny
refused_alone "--init says how long sequences may be" "^--seq: 64 .* 63" --init "$save" --seq 64

# ---- llama2.c files, and models that are not ours
stories=$data/weights/stories260K/stories260K.bin
if [ -r "$stories" ]; then
    head -c 1000000 "$stories" >"$folder/cut.bin"
    refused_alone "a llama2.c file cut short is refused" "cut.bin" --init "$folder/cut.bin"
    { cat "$stories" && printf xxxx; } >"$folder/grown.bin"
    refused_alone "a llama2.c file that has grown is refused" "grown.bin" --init "$folder/grown.bin"
    refused_alone "tokens are no weights" "tok512.bin" \
        --init "$data/corpora/tinystories_sample.tok512.bin"
    refused_alone "ids of another tokenizer are refused" "vocabulary has 512" --init "$stories" \
        --data "$data/corpora/tinystories_sample.story656K.bin"
    refused_on 3 "stories260K on three tp ranks: degrees that fit are listed" \
        "tp:3 does not fit 8 .*: 1, 2, 4, 8" --init "$stories" --strategy tp:3
    refused_on 5 "stories260K on five tp ranks: degrees that fit are listed" \
        "tp:5 does not fit 8 .*: 1, 2, 4, 8" --init "$stories" --strategy tp:5
else
    echo "skipped: refusals of files that are not ours: no real data"
fi
exit $failed
