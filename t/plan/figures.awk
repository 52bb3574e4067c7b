# SPDX-License-Identifier: Apache-2.0
# Figures of t/plan/rows against published runs. Input: its output. Prints one line:
#   rows N mean PERCENT over20 N worst PERCENT sweeps N within5 N missing N
# With -v explained=FILE the rows named in it (contradictions.csv) count in the mean only.
# A sweep is 3 or more rows of one source that differ in layout and micro-batch only.
BEGIN {
    FS = ","
    while (explained != "" && (getline line < explained) > 0) {
        split(line, words, ",")
        if (words[1] == "twice" || words[1] == "slow")
            known[words[2]] = 1
    }
}
NR == 1 {
    for (i = 1; i <= NF; i++)
        at[$i] = i
    next
}
function value(name) { return $at[name] }
function rate(    peak) {
    if (value("tflops_per_gpu") != "")
        return value("tflops_per_gpu")
    peak = value("gpu") ~ /^H100/ ? 989 : value("gpu") ~ /^A100/ ? 312 : 125
    return value("mfu") / 100 * peak
}
value("predicted_step_s") == "" { missing++; next }
{
    predicted = value("predicted_step_s")
    if (value("step_s") != "")
        measured = value("step_s")
    else
        measured = predicted * value("predicted_tflops_per_gpu") / rate()
    error = predicted / measured - 1
    error = error < 0 ? -error : error
    rows++
    sum += error
    name = value("model") "/" value("tp") "/" value("pp") "/" value("dp") "/" value("mbs") "/" value("precision") "/" \
           value("recompute")
    if (!(name in known)) {
        over += error > 0.2
        worst = error > worst ? error : worst
    }
    key = value("source") "," value("gpu") "," value("gpus") "," value("layers") "," value("hidden") "," \
          value("heads") "," value("seq") "," value("gbs") "," value("precision")
    count[key]++
    if (!(key in best) || measured < best[key])
        best[key] = measured
    if (!(key in first) || predicted < first[key]) {
        first[key] = predicted
        chosen[key] = measured
    }
}
END {
    for (key in count)
        if (count[key] >= 3) {
            sweeps++
            within += chosen[key] <= 1.05 * best[key]
        }
    printf "rows %d mean %.2f over20 %d worst %.1f sweeps %d within5 %d missing %d\n", rows,
           100 * sum / rows, over, 100 * worst, sweeps, within, missing
}
