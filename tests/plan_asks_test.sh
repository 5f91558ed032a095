#!/bin/sh
# plan_asks_test -- ./plan answers single questions: right numbers, in text and as JSON; refusals.
# shellcheck source=tests/lib.sh
. "${srcdir:-.}/tests/lib.sh"
limit=20
PURLIN_HARDWARE=${srcdir:-.}/doc/hardware
export PURLIN_HARDWARE

plan() {
    run ./plan "$@"
}

# says KEY NUMBER: a JSON member, within 1e-9
says() {
    sed 's/[{,]/\n/g' "$folder/out" | tr -d '"}]' | awk -F: -v key="$1" -v want="$2" '
        $1 == key { n++; d = $2 - want; if (d < 0) d = -d; if (d > 1e-9 * (want < 0 ? -want : want)) bad = 1 }
        END { exit !(n > 0 && !bad) }'
}

# refuses PATTERN...: exit code 2, nothing on stdout, one message with all patterns
refuses() {
    [ $status -eq 2 ] && ! [ -s "$folder/out" ] && has err "$@"
}

is_one_object() {
    [ "$(wc -l <"$folder/out")" -eq 1 ] && grep -q '^{.*}$' "$folder/out" && ! [ -s "$folder/err" ]
}

plan params --model llama3-70b --json && is_one_object && says params 70553706496 &&
    says kv_bytes_per_token 327680
verdict "plan params counts llama3-70b" $?
plan params --model deepseek-v3 && grep -q '671,026,419,200' "$folder/out" &&
    grep -q '37,552,297,472' "$folder/out"
verdict "plan params prints experts and what a token uses" $?
plan params --model llama9
refuses llama9 deepseek-v3 small
verdict "an unknown model is refused with those known" $?
plan matmul --m 512 --k 8192 --n 28672 --hw tpu-v5e --json && is_one_object &&
    says math_s 0.0012209044090152285 && says comms_s 0.0006189155902439024 &&
    says gap 1.5069320625544425
verdict "plan matmul: the book's bounds on a v5e" $?
plan matmul --k 4096 --n 4096 --hw tpu-v5e --weight-dtype int8 --json &&
    says critical_batch_tokens 136.08570117920073
verdict "plan matmul: bytes of weights make another critical batch" $?
plan matmul --m 512 --k 8192 --n 28672
[ $status -eq 0 ] && grep -q 'forward_flops' "$folder/out" &&
    grep -q 'more can be said with: flops_per_s hbm_bytes_per_s' "$folder/out"
verdict "plan matmul says what it needs for more" $?
plan matmul --hw tpu-v9
refuses tpu-v9 tpu-v5e h100
verdict "an unknown machine is refused with those known" $?
plan hardware h100 --json && is_one_object && says sms 132 && says node_bytes_per_s 4e11 &&
    says leaf_switches_per_su 8
verdict "plan hardware --json says what formulas ask for, and what a chip is built of" $?
plan matmul Q=3
refuses Q "w_bytes=2"
verdict "an unknown quantity is refused with those known" $?
plan matmul --m much
refuses much
verdict "what is no number is refused" $?

plan collective all_gather 16 --bytes 34M --hw tpu-v5e --json && is_one_object &&
    says bandwidth_s 0.00037777777777777777 && says hop_s 4.722222222222222e-05 && says wrap 1
verdict "plan collective: a ring of 16 on a v5e" $?
plan collective all_gather 8 --bytes 1G --hw tpu-v5e --json && says wrap 0 &&
    says bandwidth_s 0.019444444444444445
verdict "plan collective: an axis of 8 is a line" $?
plan collective all_gather 4x8 --bytes 1M --hw tpu-v5p --json && is_one_object && says latency_s 6e-06 &&
    says bound_s 6e-06 && says N 8 && says N2 4 && says axes 2 &&
    plan collective all_to_all 4x4 --bytes 1M --hw tpu-v5e --json && says wrap 0 &&
    says transfer_s 1.3888888888888889e-06 && grep -q '"time_s":1.38888888888888' "$folder/out"
verdict "plan collective: axes of two lengths, and lines" $?
plan collective all_reduce 8x32 --bytes 1G --hw h100 --json && is_one_object &&
    says all_reduce_s 0.005 && says exact_all_gather_s 0.002421875
verdict "plan collective: nodes of eight H100" $?
plan collective broadcast 8 --bytes 1G
refuses broadcast all_gather all_to_all
verdict "an unknown collective is refused with those known" $?
plan collective all_gather 4x4x4x4 --bytes 1G --hw tpu-v5e
refuses "no level"
verdict "chips that the machine has not are refused" $?

plan memory --model llama2-13b --dp 1 --fsdp 64 --seq 4096 --batch 256Ki --json && is_one_object &&
    grep -q '"fsdp":64.0' "$folder/out" && says weights_bytes 406745760 && says moments_bytes 1626983040
verdict "plan memory: fsdp divides weights and moments" $?
plan memory --model llama3-70b --hw tpu-v5p --chips 256 --batch 4Mi &&
    [ "$(grep -c 'fits$' "$folder/out")" -ge 1 ] && grep -q 'too much$' "$folder/out"
verdict "plan memory says what fits" $?

plan inference --model llama3-70b --hw tpu-v5e --weight-dtype int8 --kv-dtype int8 --context 8192 \
    --json && is_one_object && says kv_bytes_per_token 163840 && says weight_slice_chips 8 &&
    says max_batch 42
verdict "plan inference: 70B in int8 on eight v5e" $?
plan inference --model llama3-70b --hw tpu-v5e --context 8192 --chips 4
refuses "4 chips" "141 GB" "9 chips"
verdict "a model too large is refused by how much, and with what would do" $?

plan train-time --params 70e9 --tokens 15T --chips 8960 --mfu 0.4 --hw tpu-v5p --json &&
    is_one_object && says days 44.3247322076979
verdict "plan train-time: 44 days on a pod" $?
plan bounds --model llama3-70b --hw tpu-v5p --chips 8960 --batch 4Mi axes=3 --json && is_one_object &&
    grep -q '"min_tokens_per_chip":850.0' "$folder/out" && says optimal_X 1619.0861620062103
verdict "plan bounds: the book's inequalities" $?
plan bounds --model llama3-70b --hw h100 --chips 4096 --batch 4Mi --json && is_one_object &&
    has out '"alpha":2475.0' '"alpha":2200.0' '"two_node_max_ways":19.5846464' \
        '"min_tokens_per_chip":213.644845' '"binding_alpha":2475.0' && ! has out cross_pod
verdict "plan bounds: between nodes the nodes' ports decide, inside them the chips'" $?
plan bounds --model deepseek-v3 --hw h100 --chips 2048 --batch 60M --json && is_one_object &&
    has out '"min_tokens_per_chip":79200.0' '"backward_math_s":0.0278031515' '"backward_comms_s":0.0751619276'
verdict "plan bounds: of experts all weights move, of tokens k times as many are multiplied" $?
plan mfu --model llama3-8b --hw h100 --tokens-per-s 57620 && grep -q '280.4%' "$folder/err" &&
    grep -q '9.9e+14' "$folder/err"
verdict "an MFU above 100% is flagged with the peak used" $?
plan train-time --params 70e9 --tokens 15T --chips 8960 --mfu 1.4 --hw tpu-v5p &&
    grep -q '140.0%' "$folder/err"
verdict "so is one that is asked for" $?
plan matmul --m 1 --k 1 --n 1 --dtype fp4 --hw h100
refuses fp4 bf16 fp8
verdict "a format that the chip lacks is refused with those it has" $?
plan formula --json && is_one_object && grep -q '"tensor_parallel"' "$folder/out"
verdict "plan formula lists all" $?
plan formula tensor_parallel Y=8 B=64Ki --model llama3-70b --hw tpu-v5p --json && is_one_object &&
    says max_ways 11.243921568627451
verdict "plan formula takes numbers from model and machine" $?
plan formula tensor_parallel X=8
refuses X Y
verdict "a formula refuses what it does not take" $?
plan formula nonsense
refuses nonsense matmul
verdict "an unknown formula is refused with those known" $?

# Sizes that there cannot be, by the name that was typed.
for words in "matmul --m 0 --m" "matmul --m -1 --m" "inference --context -1 --context" \
    "train-time --mfu 0 --mfu" "mfu --chips 0 --chips" "bounds --batch -1 --batch" \
    "formula matmul M=0 M:" "collective all_reduce --latency -1 --latency" "matmul --m 1e308P --m"; do
    # shellcheck disable=SC2086
    plan ${words% *} --hw tpu-v5p
    refuses "${words##* }"
    verdict "plan ${words% *} is refused by name" $?
done
plan collective all_reduce 4 --bytes 1M --link 45G --latency 0 --wrap 0 --json && is_one_object
verdict "there may be no latency and no wrap" $?
for words in "simulate --strategy pp:16 --trace" "search --vary chips --effort 3 --top 1 --plot"; do
    [ -c /dev/full ] || continue
    # shellcheck disable=SC2086
    plan $words /dev/full --model llama3-8b --hw h100 --chips 16
    [ $status -eq 2 ] && grep -q -e "/dev/full" "$folder/err"
    verdict "plan $words sees that the device is full" $?
done

# 2 x 3/4 x 128 MiB at 45 GB/s on a line of four: 4.474 ms, and 6 hops of 1 us.
plan shard 'A[I, J_X] . B[J_X, K] -> C[I, K]' X:4 I=8192 J=8192 K=8192 --hw tpu-v5e --json &&
    is_one_object && grep -q '"operation":"AllReduce_X","array":"C","flops":0.0,"bytes":134217728.0,"time_s":0.00447' \
    "$folder/out"
verdict "plan shard: two split contractions are summed" $?
plan shard 'A[I_X, J] . B[J, K_X] -> C[I_X, K]' X:4 I=512 J=1024 K=2048 --hw tpu-v5e bytes_per_element=1 --json &&
    grep -q '"operation":"AllGather_X","array":"B","flops":0.0,"bytes":2097152.0' "$folder/out"
verdict "plan shard: the operand that the output does not follow is gathered" $?
plan shard 'A[I_X, J_X] . B[J, K] -> C[I, K]' X:4 I=8 J=8 K=8
refuses X twice
verdict "plan shard refuses an axis that splits two dims of an array" $?
plan shard 'A[I, J] . B[J, K] -> C[I, K]' X:4 I=8 J=8
refuses K=NUMBER
verdict "plan shard refuses a dim without a length" $?
plan shard 'A[I, J] . B[J, K]' X:4 I=8 J=8 K=8
refuses 'no product'
verdict "plan shard refuses what is no product" $?
plan shard 'A[I, J] . B[J, K] -> C[I, K]' X4 I=8 J=8 K=8
refuses 'no mesh'
verdict "plan shard refuses what is no mesh" $?

exit $failed
