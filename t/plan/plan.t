#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `megatron plan`: the search over layouts, its output, and bad input.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_INST/bin/megatron
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
plan() { try "$megatron" plan "$@"; }
small=(--num-layers 8 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --vocab-size 50257
    --global-batch-size 64)

# Masked models, which need a tokenizer for training only.
for model in bert-base megatron-bert-345m roberta-large; do
    plan --megatron-model $model --node p4d --global-batch-size 512 --json
    is "$rc:$(grep -c '"fit": *"fits"' <<<"$out" | sed 's/^[1-9].*/some/')" 0:some "$model" || diag "$out"
done
plan --megatron-model bert-base --node p4d --global-batch-size 512 --layout micro=64 --json
mine=$(grep -m1 -o '"memory_bytes": *[0-9]*' <<<"$out")
plan --megatron-model bert-base --node p4d --global-batch-size 512 --layout micro=64 --json -- --vocab-size 30521 --tokenizer-type NullTokenizer
is "$(grep -m1 -o '"memory_bytes": *[0-9]*' <<<"$out")" "$mine" "with the memory that it needs with a tokenizer"

plan --node list
is "$rc" 0 "--node list"
for kind in p4d.24xlarge p4de.24xlarge p5.48xlarge p5e.48xlarge p5en.48xlarge p6-b200.48xlarge \
    p6-b300.48xlarge dgx-a100 dgx-h100 dgx-h200 dgx-b200; do
    like "$out" "^$kind " "has $kind"
    "$megatron" plan "${small[@]}" --node "$kind" >"$work/out" 2>&1
    is "$?" 0 "and plans for it" || diag "$(cat "$work/out")"
done

# What the README says: with days and cost
readme=$(tr '\n' ' ' <"$top/README.md" | grep -o '`megatron plan [^`]*--nodes [^`]*`' | tr -d '`')
is "$(wc -l <<<"$readme")" 1 "README.md has a plan"
# shellcheck disable=SC2086
plan ${readme#megatron plan }
like "$out" '^whole run: .* days .*\$[0-9]+ at ' "  whose line prints days and cost"

plan --megatron-model 39.1B --nodes 64 --node p4d --global-batch-size 1536 --tokens 300B --explain
is "$rc" 0 "39.1B on 64 p4d"
like "$out" '^39.1B on 64 p4d.24xlarge nodes \(512 A100-40\): global batch 1536, 2048 tokens each' "is described"
like "$out" '^  1 +4 +4 ' "the best layout has tp 4 and pp 4, as vTrain measured on 512 A100"
like "$out" '^memory of the fullest rank .*together [0-9.]+ of 39.4 .*%\)$' "memory by kind"
like "$out" '^  1 .* 39.0! ' "the best leaves little memory and is marked"
like "$out" '^! tight: leaves less than 4% of 39.4 GiB ' "with what that means"
like "$out" '^recommended layout: number 4, ' "a safe one that is hardly slower is recommended"
like "$out" '^  matrix products +[0-9.]+ s +[0-9.]+%' "time by part"
like "$out" 'save every [0-9]+ steps' "a save interval"
like "$out" 'whole run: 300 billion tokens in [0-9.]+ days \([0-9.]+ - [0-9.]+\), \$[0-9]+ at \$21.96' "days and cost"
like "$out" '^sbatch --nodes=64 --ntasks-per-node=8 --gpus-per-node=8 --megatron-tp=4 --megatron-pp=4 .*--megatron-model=39.1B train.sbatch .*--train-samples 146484375' \
    "the sbatch line"
like "$out" '^sbatch .* --lr LR ' "  with a learning rate to fill in"
like "$out" '^ +[0-9]+  layouts over the memory of a GPU, such as: tp' "what was left out and why"
like "$out" '^ +[0-9]+  tensor parallelism across nodes' "also where it is not tried"

# The plan's command line is one that train takes, and both agree on memory to the byte.
command=$(sed -n 's/^megatron train //p' <<<"$out" | sed "s/ PREFIX/ x/; s/ --lr LR/ --lr 1e-4/; s/ DIR/ x/")
# shellcheck disable=SC2086
try "$megatron" train $command --dry-run --world-size 512
is "$rc" 0 "megatron train takes its arguments"
planned=$("$megatron" plan --megatron-model 39.1B --nodes 64 --node p4d --global-batch-size 1536 --csv --top 4 |
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["rank"] == 4 { printf "%.3f\n", ($at["memory_bytes"] - $at["context_bytes"]) / 1073741824 }')
real=$(sed -n 's/.* total \([0-9.]*\).*/\1/p' <<<"$out" | sort -n | tail -1)
is "$planned" "$real" "memory is that of megatron train --dry-run"

# Memory is what CUDA reports of a GPU, and this program's context counts on every kind of node.
plan --node list
like "$out" '^p6-b300.48xlarge +8 +B300 +267.6 ' "a B300 has 288 GB, of which CUDA reports 267.6 GiB"
for kind in dgx-a100 p4d p5; do
    is "$("$megatron" plan "${small[@]}" --node "$kind" --json --top 1 | grep -o '"context_bytes": [0-9]*' | sort -u)" \
        '"context_bytes": 3221225472' "$kind: 3 GiB of context"
done
plan --megatron-model 39.1B --nodes 64 --node p4d --global-batch-size 1536 --csv --top 10
is "$(cut -d, -f1,4 <<<"$out" | grep -m1 fits)" "4,fits" "the fourth layout is the first that is not tight"
is "$(cut -d, -f4 <<<"$out" | sort -u | xargs)" "fit fits tight" "--csv tells which are"
manual=$(sed -n '/^\.It Fl -csv/,/^\.It Fl -svg/p' "$top/runtime/run/command/megatron-plan.1")
for column in $(head -1 <<<"$out" | tr , ' '); do
    grep -qw -e "^\.It Li.* $column" <<<"$manual" || echo "$column"
done >"$work/unknown"
is "$(cat "$work/unknown")" "" "the manual explains every column of --csv"
plan --megatron-model 39.1B --nodes 64 --node p4d --global-batch-size 1536 --json --top 1
is "$(grep -o '"recommended_rank": [0-9]*\|"fit": "[a-z]*"' <<<"$out" | xargs)" "recommended_rank: 4 fit: fits fit: tight" \
    "--json has the recommended layout, whichever are listed"

# Batches of any size, also with few divisors or more micro-batches than a schedule can list
for batch in 999999937 999999936 2147483647; do
    plan --megatron-model 7.5B --node p5 --nodes 2 --global-batch-size "$batch" --layout tp=4,pp=4 --csv --top 1
    is "$rc" 0 "a global batch of $batch is planned" || diag "$out"
done
is "$("$megatron" plan "${small[@]}" --global-batch-size 96 --node p5 --layout tp=1,pp=1,cp=1,recompute=none --csv --top 100 |
    sed 1d | cut -d, -f10 | sort -n | xargs)" "1 2 3 4 6 12" "all divisors of a rank's 12 samples are tried as micro-batches"

plan --megatron-model 7.5B --node p5 --global-batch-size 512 --layout tp=1,pp=1,cp=1,micro=7
is "$rc $out" "2 megatron plan: no layout is possible: sizes that do not divide the global batch (micro-batch 7 does not divide the 64 samples of a data-parallel rank); change the batch size, the nodes or --layout" \
    "a micro-batch that does not divide is named"
# A data-parallel rank has 64, 128 or 256 samples with pp 1, 2 or 4: only the last can have a micro-batch of 256.
plan --megatron-model 7.5B --node p5 --global-batch-size 512 --layout tp=1,cp=1,vp=1,micro=256 --json
is "$(grep -o '"count": [0-9]*, "reason": "sizes that do not divide the global batch"' <<<"$out")" \
    '"count": 2, "reason": "sizes that do not divide the global batch"' "sizes that a micro-batch does not divide are counted once each" || diag "$out"
plan --megatron-model 7.5B --node "NVIDIA A100-SXM4-40GB" --global-batch-size 512
is "$rc $out" "2 megatron plan: NVIDIA A100-SXM4-40GB is a GPU, not a kind of node; use one of p4d.24xlarge, dgx-a100-40" \
    "a GPU instead of a kind of node, as nvidia-smi names it"

# Formats
plan "${small[@]}" --node p5 --json --top 3
is "$rc" 0 "--json"
like "$out" '"precision": "bf16", "fit": "fits"' "tells how a layout fits"
ok "is JSON with three layouts" test "$(sed '1,/"layouts"/d' <<<"$out" | grep -c '"micro_batch_size"')" = 3
like "$out" '"left_out": \[' "and tells what was left out"
! command -v python3 >/dev/null || { python3 -m json.tool <<<"$out" >/dev/null; ok "that a parser reads"; }
plan "${small[@]}" --node p5 --csv --top 5
is "$(wc -l <<<"$out")" 6 "--csv prints a header and a line per layout"
is "$(awk -F, '{ print NF }' <<<"$out" | sort -u | wc -l)" 1 "with equally many fields"
plan "${small[@]}" --node p5 --svg "$work/plan.svg" --top 4
is "$rc" 0 "--svg"
is "$(grep -c '<text x="10" y="[0-9]*">tp ' "$work/plan.svg")" 4 "draws a bar per layout"
like "$(tail -1 "$work/plan.svg")" '^</svg>$' "to its end"
plan "${small[@]}" --node p5 --layout tp=2,pp=2,micro=4,recompute=full
is "$rc" 0 "--layout"
like "$out" '^  1 +2 +2 +[0-9]+ +[0-9]+ +[0-9]+ +4  full' "fixes sizes"
unlike "$out" '^  1 +1 ' "all of them"
plan "${small[@]}" --node p5 --layout 'tp=2, pp=2' --top 1
like "$out" '^  1 +2 +2 ' "also with a space after a comma"
plan "${small[@]}" --node p5 --nodes 3 --gpus-per-node 4 --top 1 --global-batch-size 48
like "$out" 'on 3 p5.48xlarge nodes \(12 H100\)' "--gpus-per-node"
like "$out" '^sbatch --nodes=3 --ntasks-per-node=4 --gpus-per-node=4 ' "  and its sbatch line"
plan --megatron-model llama3-8b --node p5 --nodes 4 --global-batch-size 1024 --seq-length 131072 --top 1
like "$out" ' 12[0-9][0-9] \(1[0-9]+ - 1[0-9]+\) ' "long steps have no exponent"
plan "${small[@]}" --node p5 --price 10 --tokens 1B -- --swiglu --disable-bias-linear
is "$rc" 0 "options of megatron train after --"
like "$out" 'at \$10.00 per node' "--price"
like "$out" '^megatron train .*--swiglu --disable-bias-linear' "are part of the command"
plan --megatron-model llama3-8b --nodes 2048 --node p5 --global-batch-size 16384 --top 1
is "$rc" 0 "16,384 GPUs"
plan --megatron-model 1.7B --node p5 --precision fp16 --global-batch-size 64 --top 1
like "$out" '^megatron train .*--fp16' "--precision fp16"
while IFS='|' read -r args text; do
    # shellcheck disable=SC2086
    plan $args
    is "$rc $out" "2 megatron plan: $text" "plan ${args//$work\//}"
done <<END
--calibrate $work/c.json --tokens 1B|--calibrate measures this machine and plans nothing; drop --tokens
--calibrate $work/c.json -- --swiglu|--calibrate measures this machine and plans nothing; drop --swiglu
--node p5 --device cpu|--device is only used with --calibrate; drop it
END

# Memory
plan --megatron-model 145.6B --nodes 1 --node p4d --global-batch-size 64
is "$rc" 1 "a model that does not fit"
like "$out" 'no layout fits: the smallest needs [0-9.]+ GiB of the GPU.s 39.4 GiB; use more nodes' "how far it is from that"
plan --megatron-model 7.5B --nodes 1 --node p4d --global-batch-size 64 --layout tp=1,pp=1
is "$rc" 1 "a layout that does not fit"
like "$out" '; --layout tp=[0-9]+,pp=[0-9]+,.* fits$' "and one that does"

# Bad input: arguments | expected text | name
while IFS='|' read -r words expected name; do
    # shellcheck disable=SC2086
    plan $words
    is "$rc" 2 "$name is refused"
    like "$out" "$expected" "$name: why"
done <<'END'
--megatron-model 1.7B --global-batch-size 64|--node is required|no node kind
--megatron-model 1.7B --node p5|--global-batch-size is required|no batch
--megatron-model 1.7B --node p5.48xlrge --global-batch-size 64|unknown node kind p5.48xlrge; did you mean p5.48xlarge|a misspelt node kind
--megatron-model 1.7B --node h100 --global-batch-size 64|h100 is a GPU, not a kind of node; use one of dgx-h100, p5.48xlarge|a GPU instead of a node kind
--megatron-model 1.7B --node H100-mycluster --global-batch-size 64|unknown node kind H100-mycluster|a name of one's own that begins with a GPU's
--megatron-model 1.7B --node p5 --gpus-per-node 9 --global-batch-size 64|nodes of kind p5.48xlarge have 8 GPUs; use 1 to 8|more GPUs than a node has
--megatron-model 1.7Q --node p5 --global-batch-size 64|unknown model; did you mean 1.7B|a misspelt model
--megatron-model 1.7B --node p5 --global-batch-size 64 --layout tp=3|tp x pp x cp = 3 does not divide the 8 GPUs|tp 3 on 8 GPUs
--megatron-model 1.7B --node p5 --nodes 2 --global-batch-size 64 --layout tp=16|tp 16 on nodes of 8 GPUs|tp over two nodes
--megatron-model 1.7B --node p5 --nodes 5 --global-batch-size 64 --layout pp=5|does not divide the 24 layers|5 stages of 24 layers
--megatron-model 1.7B --node p5 --global-batch-size 64 --layout micro=7|no layout is possible|a micro-batch that does not divide
--megatron-model 1.7B --node p5 --global-batch-size 7 --layout tp=1,pp=1|dp 8 does not divide the global batch of 7|a batch that does not divide
--megatron-model 1.7B --node p5 --global-batch-size 64 --layout tq=2|unknown size "tq"; did you mean tp|an unknown size
--megatron-model 1.7B --node p5 --global-batch-size 64 --layout tp|must be a size and its value|a size without value
--megatron-model 1.7B --node p5 --global-batch-size 64 --layout tp=0|--layout: tp|a size of 0
--megatron-model 1.7B --node p5 --global-batch-size 64 --layout recompute=some|recompute=some is unknown; use none, selective or full|an unknown recomputation
--megatron-model 1.7B --node p5 --global-batch-size 64 --tokens 3X|--tokens.*write 300B|a number of tokens with an unknown suffix
--megatron-model 1.7B --node p5 --global-batch-size 64 --tokens 1,000|--tokens=1,000 is not a number; write 300B, 1.5T or 26M$|a number of tokens with a comma
--megatron-model 1.7B --node p5 --global-batch-size 64 --layout dp=8|dp follows from the number of GPUs|a data-parallel size
--megatron-model 1.7B --node p5 --global-batch-size 64 --json --csv|--json and --csv cannot be used together|two formats
--megatron-model 1.7B --node p5 --global-batch-size 64 -- --tensor-model-parallel-size 2|megatron plan chooses --tensor-model-parallel-size; to set it, use --layout tp=|a size among the options of train
--megatron-model 1.7B --node p5 --global-batch-size 64 -- --micro-batch-size=4|megatron plan chooses --micro-batch-size; to set it, use --layout micro=|a micro-batch among the options of train
--megatron-model 1.7B --node p5 --global-batch-size 64 --tokens -3B|--tokens=-3B must be above 0|a negative number of tokens
--megatron-model 1.7B --node p5 --global-batch-size 64 --price 0|--price=0 must be above 0|a price of 0
--megatron-model 1.7B --node p5 --global-batch-size 64 --price -3|--price=-3 must be above 0|a negative price
--megatron-model 1.7B --node p5 --global-batch-size 64 --save-bandwidth -1|--save-bandwidth=-1 must be above 0|a negative rate of saves
--megatron-model 39.1B --node p4d --nodes 64 --global-batch-size 1537|no layout is possible: .*sizes that do not divide the global batch .dp 512 does not divide the global batch of 1537|a batch that no layout divides
--megatron-model 1.7B --node p5 --global-batch-size 64 --restart-minutes -2|--restart-minutes=-2 must not be negative|a negative time to restart
--megatron-model 1.7B --node p5 --global-batch-size ten|--global-batch-size|a batch that is not a number
--node p5 --global-batch-size 8|--num-layers is required|no model
--node p5 --nodes 0|--nodes|no nodes
--node p5 --machines /nonexistent --global-batch-size 8|cannot read the machine files in /nonexistent|a missing directory of machine files
END

# Machine files: what is changed in a good one | expected text | name
machine() { sed "$1" "$MEGATRON_INST/share/megatron/machines/h100.json" >"$work/machines/h100.json"; }
mkdir "$work/machines"
plan --machines "$work/machines" --node list
is "$rc" 2 "a directory without machine files is refused"
like "$out" 'contains no machine files' "and named"
machine ''
try env MEGATRON_MACHINES="$work/machines" "$megatron" plan --node list
like "$out" '^p5.48xlarge ' "MEGATRON_MACHINES names the directory"
unlike "$out" '^p4d' "instead of the installed one"
while IFS='|' read -r change expected name; do
    machine "$change"
    plan --machines "$work/machines" --node list
    is "$rc" 2 "$name is refused"
    like "$out" "h100.json.*$expected" "$name: why"
done <<'END'
s/"memory_gb_per_s": 3350/"memory_gb_per_s": 3.35e12/|"memory_gb_per_s" must be a number from 0.1 to 1e\+06; check its unit|bytes instead of GB
s/"bf16_tflops": 989/"bf16_tflops": 9.89e14/|"bf16_tflops" must be a number|FLOP/s instead of TFLOP/s
s/"network_gb_per_s": 50/"network_gb_per_s": "400 Gb"/|"network_gb_per_s" must be a number|a text instead of a number
s/"nvlink_gb_per_s": 450,//|"nvlink_gb_per_s" is missing|a missing number
s/"gpus": 8/"gpus": 0/|"gpus" must be a whole number from 1|no GPUs
s/"gpus": 8/"gpuz": 8/|unknown member "gpuz"|an unknown member
2s/{/{"steps": {},/|"gpu": "steps": this must be a JSON list of measured steps, .*; correct the file; megatron-plan\(1\) describes it|steps that are not a list
2s/{/{"steps": [{"hidden": 1, "heads": "two"}],/|"gpu": "steps": step 1: "heads" must be a number|a step without sense
s/"nodes"/"notes"/|needs a list "nodes"|a file without nodes
s/^  \]/  }/|is not valid JSON|a file that is not JSON
END

# A wrong file does not keep the others from being used.
cp "$MEGATRON_INST/share/megatron/machines/a100.json" "$work/machines"
plan --machines "$work/machines" --node p4d --megatron-model 1.7B --global-batch-size 64
is "$rc" 0 "machines of other files are planned for"
is "$(grep -c 'warning: .*h100.json: .*is not valid JSON' <<<"$out")" 1 "  with a warning about the wrong file"
like "$out" '^1.7B on 1 p4d.24xlarge node \(8 A100-40\)' "  and one node is not several"
plan --machines "$work/machines" --node p5 --megatron-model 1.7B --global-batch-size 64
is "$rc" 2 "machines of the wrong file are unknown"
like "$out" 'unknown node kind p5' "  and named"
rm "$work/machines/a100.json"

# A measured machine is a machine file that plans.
mkdir "$work/measured"
plan --calibrate "$work/measured/here.json" --device cpu
is "$rc" 0 "--calibrate measures the CPU"
like "$out" 'products [0-9.e-]+ TFLOP/s, attention [0-9.e-]+ TFLOP/s, copies [0-9]+ GB/s' "and prints the rates"
plan "${small[@]}" --machines "$work/measured" --node calibrated --top 1
is "$rc" 0 "its file is read"
like "$out" 'on 1 calibrated node ' "and planned with"
try "$megatron" launch --nproc-per-node 2 -- "$megatron" plan --calibrate "$work/measured/based.json" --device cpu --node p5
is "$rc" 0 "--calibrate on the base of a known kind, with two ranks"
like "$out" '2 ranks on 1 node: links of a node [0-9.]+ GB/s' "measures collectives between ranks"
is "$(grep -c '"network_gb_per_s": 50' "$work/measured/based.json")" 1 "keeps what it cannot measure"
plan --calibrate /nonexistent/x.json --device cpu
is "$rc" 2 "a file that cannot be written"

# fp8 and names
plan "${small[@]}" --node p5 --precision fp8 --top 1
like "$out" '^megatron train .*--bf16 --fp8-format hybrid ' "--precision fp8 plans fp8"
plan "${small[@]}" --node p5 --precision all --csv --top 100000
is "$(cut -d, -f3 <<<"$out" | sort -u | paste -sd' ')" "bf16 fp8 precision" "--precision all ranks both"
plan "${small[@]}" --node p4d --precision fp8
is "$rc" 2 "on GPUs that have it"
plan "${small[@]}" --node p5x
like "$out" 'unknown node kind p5x; did you mean p5[ ,?]' "short names of nodes are suggested, too"

# The man page has the options that --help has.
page=$top/runtime/run/command/megatron-plan.1
is "$("$megatron" plan --help | grep -oE '^ +--[a-z-]+' | tr -d ' ' | sort | xargs)" \
    "$(sed -n 's/^\.It Fl -\([a-z-]*\).*/--\1/p' "$page" | sort | xargs)" "the man page is complete"
if command -v mandoc >/dev/null; then
    is "$(mandoc -T lint -W warning "$page" 2>&1)" "" "the man page is well formed"
else
    skip "the man page is well formed" "no mandoc"
fi
done_testing
