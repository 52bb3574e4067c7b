#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The time model of `megatron plan`: how near it is to published training runs. t/plan/rows adds its predictions to a CSV file
# of runs; what it does with bad rows.
. "$(dirname "$0")/../tap.sh"
here=$top/t/plan
predict=$MEGATRON_BUILD/t/plan/rows
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -x "$predict" ] || make -s -C "$MEGATRON_BUILD/t" plan/rows >"$work/make.log" 2>&1
[ -x "$predict" ] || skip_all "plan/rows cannot be built: $(tail -1 "$work/make.log")"

# The figures may only get better: a change of the model or of a machine file that worsens one fails here.
"$predict" "$here/measured.csv" >"$work/rows.csv" 2>"$work/log"
is "$?" 0 "published runs are predicted"
is "$(cat "$work/log")" "" "without a warning"
is "$(cut -d, -f1-25 "$work/rows.csv" | cmp - "$here/measured.csv" && echo same)" same "their own columns are unchanged"
read -r _ rows _ mean _ over _ worst _ sweeps _ within _ missing \
    < <(awk -v explained="$here/contradictions.csv" -f "$here/figures.awk" "$work/rows.csv")
diag "rows $rows, mean error $mean %, over 20 %: $over, worst $worst %; sweeps $sweeps, within 5 %: $within"
is "$rows $missing" "236 0" "all of them"
ok "mean error of the step time: at most 3.75 %" awk "BEGIN { exit !($mean <= 3.75) }"
ok "but for five rows, one of which contradicts another, no error is over 20 %" test "$over" -eq 0
is "$sweeps $within" "10 10" "layouts chosen within 5 % of the best measured one in all sweeps"

# Small models on one node, where the host cannot launch kernels as fast as GPUs run them: every eighth row.
"$predict" "$here/measured-single-node.csv" >"$work/single.csv" 2>"$work/log"
is "$?" 0 "runs on one node are predicted"
read -r _ rows _ mean _ over _ worst _ sweeps _ within _ \
    < <(awk -f "$here/figures.awk" "$work/single.csv")
diag "one node: rows $rows, mean error $mean %, over 20 %: $over, worst $worst %; sweeps $sweeps, within 5 %: $within"
is "$rows" 120 "all of them"
ok "mean error on one node: at most 3.95 %" awk "BEGIN { exit !($mean <= 3.95) }"
ok "worst error on one node: at most 15 %" awk "BEGIN { exit !($worst <= 15) }"
ok "layouts chosen within 5 % of the best on one node: 11 of 12 sweeps" test "$sweeps" -eq 12 -a "$within" -ge 11

# What speaks against the rows of other sweeps there: they are sums of the time of one layer, which was measured once for every
# hidden size, tp and micro-batch, and some of those times are odd. Rows of tp 4 that differ in the number of layers or in the
# hidden size:
is "$(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    { key = $at["gpus"] "/" $at["mbs"]; size = $at["hidden"]; layers = $at["layers"]; step[key, size, layers] = $at["step_s"] }
    last[key, size] { each = (step[key, size, layers] - step[key, size, last[key, size]]) / (layers - last[key, size])
        if (first[key, size] && (each / first[key, size] - 1) ^ 2 > 0.001 ^ 2) print "not a sum:", $0
        sums += first[key, size] > 0
        if (!first[key, size]) first[key, size] = each }
    { last[key, size] = layers }
    size == 2048 && (key, 1024, layers) in step {
        wider++
        if (step[key, size, layers] >= step[key, 1024, layers]) print "not faster:", $0 }
    END { print sums, wider }' "$here/contradictions-single-node.csv")" "6 6" \
    "on one node every layer adds the same time within 0.1 %, and one of twice the width takes less"

# The predictions do not follow them.
"$predict" "$here/contradictions-single-node.csv" 2>"$work/log" >"$work/pairs.csv"
is "$? $(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    { step[$at["gpus"] "/" $at["mbs"] "/" $at["layers"], $at["hidden"]] = $at["predicted_step_s"]; wide[$at["gpus"] "/" $at["mbs"] "/" $at["layers"]] }
    END { for (key in wide) if ((key, 1024) in step && (key, 2048) in step) longer += step[key, 2048] > step[key, 1024]; print longer + 0 }' \
    "$work/pairs.csv")" "0 6" "  and is predicted to take longer"

# Memory of Megatron-LM, Megatron-DeepSpeed and NeMo; rows with "did not fit" must be over the GPU's memory.
"$predict" "$here/memory.csv" >"$work/memory.csv" 2>"$work/log"
is "$?" 0 "published memory is predicted"
read -r near far small \
    < <(awk -F, -v explained="$here/contradictions.csv" '
        BEGIN { while ((getline line < explained) > 0) { split(line, words, ","); known[words[2]] = words[1] } }
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $1 ~ /torchtitan/ { next }
        { kind = known[$at["model"] "/" $at["tp"] "/" $at["pp"] "/" $at["dp"] "/" $at["mbs"] "/" $at["precision"] "/" $at["recompute"]] }
        kind == "memory" || kind == "weights" || kind == "layers" { next }
        { e = $at["predicted_mem_gb"] / $at["mem_gb"] - 1; e = e < 0 ? -e : e }
        $at["mem_note"] ~ /did not fit/ { small += $at["predicted_mem_gb"] <= 80; next }
        { e <= 0.08 ? near++ : far++ }
        END { print near + 0, far + 0, small + 0 }' "$work/memory.csv")
diag "memory within 8 %: $near, not: $far; runs that did not fit but would by the formulas: $small"
is "$near $far" "51 0" "memory within 8 % but for two rows that contradict others"
is "$small" 0 "no run that did not fit is said to, but for one that its neighbour contradicts"
is "$(awk -f "$here/contradictions.awk" "$here/contradictions.csv" "$work/rows.csv" "$work/memory.csv")" "" \
    "what is said of every row that is excepted is in the data"

# Bad input
head=source,gpu,gpus,layers,hidden,heads,vocab,seq,tp,gbs,precision
try_row() { printf '%s\n%s\n' "$head" "$1" >"$work/one.csv"; try "$predict" "$work/one.csv"; }
while IFS='|' read -r row expected name; do
    try_row "$row"
    is "$rc" 0 "$name: the other rows are still predicted"
    like "$out" "$expected" "$name: why"
    like "$out" ',,,$' "$name: empty columns"
done <<'END'
x,Z80,8,24,2048,16,50304,2048,1,64,bf16|line 2: no machine file has a GPU called "Z80"|an unknown GPU
x,H100,8,24,2048,16,50304,2048,3,64,bf16|line 2: tp \* pp \* cp = 3 does not divide 8 GPUs|an impossible layout
x,H100,8,24,2048,16,50304,2048,1,4,bf16|the global batch of 4 is smaller than the data-parallel size 8|a small batch
x,H100,8,24,2048,16,50304,2048,1,64,int8|precision "int8" is not|an unknown precision
x,A100-80,8,24,2048,16,50304,2048,1,64,fp8|A100-80 has no rate for fp8|a precision that the GPU lacks
x,H100,8,24,,16,50304,2048,1,64,bf16|line 2: hidden|a missing size
x,H100,8,24,-1,16,50304,2048,1,64,bf16|line 2: hidden|a negative size
END
try_row x,H100,8,24,2048,16,50304,2048,1,64,bf16
like "$out" '^x,H100,.*,bf16,[0-9.]+,[0-9.]+,[0-9.]+$' "a row without micro-batch is predicted"
printf '%s,mbs\n%s\n' "$head" x,H100,8,24,2048,16,50304,2048,1,64,bf16,16 >"$work/one.csv"
try "$predict" "$work/one.csv"
like "$out" 'a micro-batch of 16 is more than the 8 samples of a data-parallel rank' "a micro-batch that is too large"
printf '%s\n%s\n' "$head" x,H100,8,24 >"$work/one.csv"
try "$predict" "$work/one.csv"
like "$out" 'line 2: hidden is missing' "a row that ends early"
like "$out" '^x,H100,8,24,,,,,,,,,,$' "  has empty fields up to the new columns"
try_row x,H100,8,24,2048,16,50304,2048,1,64,bf16,more
like "$out" 'line 2: 12 fields, but the first line has 11 columns; put fields that contain "," in double quotes' "a row that is too long"
try_row '"x,H100,8,24,2048,16,50304,2048,1,64,bf16'
like "$out" 'line 2: a quoted field is not closed' "an open quote"
like "$out" '^"x,H100,8,24,2048,16,50304,2048,1,64,bf16",,,,,,,,,,,,,$' "  is closed before the empty fields"
try_row 'x,"H100,8,24,2048,16,50304,2048,1,64,bf16'
like "$out" '^x,"H100,8,24,2048,16,50304,2048,1,64,bf16",,,,,,,,,,,,$' "  also in a later field"

# What spreadsheets and other programs make of the same row
row=x,H100,8,24,2048,16,50304,2048,1,64,bf16
predicted() { "$predict" - 2>&1 | tail -1 | sed 's/.*bf16"*[,;]//I'; }
expected=$(printf '%s\n%s\n' "$head" "$row" | predicted)
like "$expected" '^[0-9.]+,[0-9.]+,[0-9.]+$' "standard input is read"
is "$(printf '%s\r\n%s\r\n' "$head" "$row" | predicted)" "$expected" "lines may end with CR LF"
is "$(printf '\xef\xbb\xbf%s\n%s' "$head" "$row" | predicted)" "$expected" "a byte order mark is skipped"
is "$(printf '"%s"\n"Smith, J.",%s"\n' "${head//,/\",\"}" "${row#x,}" | sed '2s/,bf16/,"bf16/' | predicted)" "$expected" \
    "fields may be quoted and contain commas"
is "$(printf '%s\n%s\n' "${head//,/, }" "${row//,/, }" | predicted)" "$expected" "spaces around fields are skipped"
is "$(printf '%s\n%s\n' "$head" "$row" | tr ',' ';' | predicted)" "${expected//,/;}" "semicolons may separate fields"
is "$(printf '%s\n%s\n' "${head^^}" "${row/H100/NVIDIA H100 80GB HBM3}" | sed s/bf16/BF16/ | predicted)" "$expected" \
    "names may be in capitals, and those of GPUs as nvidia-smi has them"
is "$(printf '%s\n%s\n' "$head" "${row/,64,/,64.0,}" | predicted)" "$expected" "whole numbers may have a decimal point"
is "$(printf '%s\n%s\n' "$head" "${row/,64,/,0000000000000000000000000000000064,}" | predicted)" "$expected" "numbers may have many digits"
try_row "${row/,64,/,64000000000000000000000000000000000000,}"
like "$out" 'line 2: gbs=64000000000000000000000000000000000000 ' "  and one that is too large is named in full"
more=$(printf ',note%s' {1..200})
is "$(printf '%s\n%s\n' "$head$more" "$row${more//[!,]/}" | "$predict" - 2>&1 | tail -1 | grep -o '[^,]*,[^,]*,[^,]*$')" \
    "$expected" "a file may have hundreds of columns"

# Memory in the name of a GPU chooses the machine: what differs is the bandwidth of its memory.
memory_of() { printf '%s\n%s\n' "$head" "${row/H100/$1}" | predicted; }
is "$(memory_of NVIDIA\ A100-SXM4-40GB)" "$(memory_of A100-40)" "an A100 of 40 GB by nvidia-smi's name"
is "$(memory_of A100-PCIE-40GB)" "$(memory_of A100-40)" "  without the maker's name"
is "$(memory_of NVIDIA\ A100-SXM4-80GB)" "$(memory_of A100-80)" "an A100 of 80 GB"
is "$(memory_of NVIDIA\ A100\ 80GB\ PCIe)" "$(memory_of A100-80)" "  with the memory in the middle"
ok "  is another machine" test "$(memory_of A100-40)" != "$(memory_of A100-80)"
is "$(memory_of NVIDIA\ B300\ 288GB)" "$(memory_of B300)" "a B300, of whose memory CUDA reports 7 % less"
is "$(memory_of Tesla\ V100-SXM2-32GB)" "$(memory_of V100-32)" "a V100 of 32 GB"
try_row "${row/H100/Tesla V100-SXM2-16GB}"
like "$out" 'line 2: no machine file has a GPU V100 with 16 GB; correct the row, or name the kind of node in a column "node"' \
    "one of 16 GB is not taken for it"

printf 'gpu,gpus\n' >"$work/one.csv"
try "$predict" "$work/one.csv"
is "$rc" 2 "a file without the columns is refused"
like "$out" 'the first line has no column "layers"' "and the missing column is named"
: >"$work/empty.csv"
try "$predict" "$work/empty.csv"
is "$rc" 2 "an empty file is refused"
like "$out" 'empty.csv: the first line is empty; it must name the columns' "  and why"
try "$predict" "$work/none.csv"
is "$rc" 2 "a missing file is refused"
done_testing
