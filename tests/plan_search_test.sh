#!/bin/sh
# plan_search_test -- ./plan as a command: what it finds, refuses, simulates.
# shellcheck source=tests/lib.sh
. "${srcdir:-.}/tests/lib.sh"

plan() {
    run ./plan "$@"
}

# refuses STATUS PATTERN ARGUMENT...: exit code, a text of the message, nothing on stdout
refuses() {
    wanted=$1
    pattern=$2
    shift 2
    plan "$@"
    [ $status -eq "$wanted" ] && has err "$pattern" && ! [ -s "$folder/out" ]
}

small="--model llama3-8b --hw h100 --chips 64 --batch 1M --seq 8192 --effort 10"

answered=0
for command in search verify simulate hardware inference params; do
    plan $command --help && has out "Usage:" --help --usage --version && ! [ -s "$folder/err" ] &&
        plan $command --usage && has out "Usage:" && ! has out "this text" &&
        plan $command --version && grep -q '^purlin [0-9]' "$folder/out" || answered=1
done
verdict "every command answers --help, --usage and --version" $answered
refuses 2 "'surplus' is not an option" $small surplus &&
    refuses 2 "'surplus' is not an option" verify surplus
verdict "a word that is no option is refused" $?

plan $small --tokens 15T && has out "best:" "T_math" "T_comms" "MFU" "days" "million USD" \
    "memory of a chip" "it loses by"
verdict "a search prints times, bounds, memory, days, cost and why others lose" $?
plan $small --json && [ "$(wc -l <"$folder/out")" -eq 1 ] && has out '"step_s":' '"total_bytes":' \
    '"exposed_s":' '"mfu_fraction":'
verdict "--json is one object with units in its keys" $?
refuses 2 "is 8192, not --chips 16384" --model llama3-405b --hw h100 --chips 16384 \
    --strategy tp:8+cp:16+pp:16+dp:4
verdict "degrees whose product is not the chips are refused" $?
refuses 2 "more stages than the model has layers" --model llama3-8b --hw h100 --chips 66 --strategy pp:33+dp:2 &&
    refuses 2 "tp" --model qwen2.5-0.5b --hw h100 --chips 16 --strategy tp:16 &&
    refuses 2 "give fsdp a degree too" --model llama3-8b --hw h100 --chips 64 --strategy fsdp+cp:4
verdict "degrees that do not suit the model say why" $?
refuses 2 "four shares" $small --efficiency 0.5,0.5 && refuses 2 "out of range" $small --efficiency 2,1,1,1
verdict "efficiencies that are not four shares are refused" $?
plan --model mixtral-8x7b --hw h100 --chips 64 --batch 1M --seq 4096 --effort 30 && has out "46.7 G parameters" \
    "best:" && plan --model mixtral-8x7b --hw h100 --chips 64 --batch 1M --seq 4096 --strategy dp:8+ep:8 &&
    has out "1 experts a chip" "T_comms cp, ep"
verdict "experts are planned, over ep where asked" $?
refuses 2 "llama3-70b" --model llama9 --hw h100 --chips 8
verdict "an unknown model lists those known" $?
refuses 2 "tpu-v5p" --model llama3-8b --hw h900 --chips 8
verdict "an unknown machine lists those known" $?
refuses 2 "need 92 chips" --model llama3-405b --hw h100 --chips 8 --batch 1M --seq 8192
verdict "what cannot fit says what would" $?
refuses 1 "above 100%" $small --measured-step 0.001
verdict "an MFU above 100% is refused with the peak" $?
plan simulate --model llama3-70b --hw h100 --chips 1024 --strategy pp:64+tp:8+dp:2 --batch 4M \
    --straggler 3:2 --lost-chips 1 --trace "$folder/t.json" &&
    has out "what if" "512 chips in whole replicas" && has t.json '"forward 0"' '"backward 0"' 'stage 63'
verdict "simulate shows a pipeline of 64 stages, a straggler and a lost chip" $?
refuses 2 "there is no stage 64" simulate --model llama3-70b --hw h100 --chips 1024 \
    --strategy pp:64+tp:8+dp:2 --straggler 64:2 &&
    refuses 2 "there is no stage 2000000000" simulate --model llama3-70b --hw h100 --chips 1024 \
        --strategy pp:64+tp:8+dp:2 --straggler 2000000000:2
verdict "a straggler that is no stage is refused" $?
plan $small --vary chips --effort 3 --top 1 --plot "$folder/c.svg" && has out "T_comms (s)" &&
    has c.svg "</svg>"
verdict "--vary prints and plots a curve" $?
exit $failed
