# SPDX-License-Identifier: Apache-2.0
# Published rows that the model does not meet: contradictions.csv, then the outputs of t/plan/rows for measured.csv
# and memory.csv. Prints "KIND ROW" of every entry whose reason is not in the data.
#
# These are proofs: whatever is within 20 % of both step times, or 8 % of both figures of memory, breaks the rule.
#   twice    one micro-batch takes no longer than two of half the size
#   memory   a larger micro-batch needs as much more memory as the additional inputs of layers that are kept (16 bits)
#   weights  more weights per rank need at least 4 bytes each, for themselves and their gradients, on the first stage
#   layers   additional layers need at most 18 bytes per parameter, the most that any optimizer keeps, and their inputs: the
#            row, which did not fit in 79.1 GiB, must fit
# This is not a proof, but what speaks against the row:
#   slow     a row with a smaller tp and no smaller micro-batch keeps GPUs at least as busy as the neighbour: it has larger
#            products and fewer ranks per collective. Whatever is within 20 % of the row is then too slow for the neighbour.
BEGIN { FS = "," }
FNR == 1 {
    file++
    delete at
    for (i = 1; i <= NF; i++)
        at[$i] = i
    next
}
function value(name) { return $at[name] }
file == 1 {
    kind[++entries] = $1
    row[entries] = $2
    neighbour[entries] = $3
    next
}
{
    key = value("model") "/" value("tp") "/" value("pp") "/" value("dp") "/" value("mbs") "/" value("precision") "/" \
          value("recompute")
    tp[key] = value("tp")
    ranks[key] = value("tp") * value("pp")
    parameters[key] = value("params_b")
    layers[key] = value("layers")
    micro[key] = value("mbs")
    layout[key] = value("model") "/" value("tp") "/" value("pp") "/" value("dp") "/" value("gbs")
    # The input of a layer. Of the first stage's layers, as many micro-batches as stages are kept at once.
    kept[key] = 2 * value("seq") * value("mbs") * value("hidden") / 2 ^ 30
    stage[key] = 12 * value("layers") / value("pp") * value("hidden") ^ 2 + value("vocab") * value("hidden")
}
file == 2 && value("step_s") != "" && value("mbs") != "" {
    # Products of a stage for a micro-batch, and how many of these follow each other in a step.
    work = value("seq") * value("mbs") * value("layers") * value("hidden") * \
           (12 * value("hidden") + 2 * value("seq")) / ranks[key]
    follow = value("gbs") / value("dp") / value("mbs") + value("pp") - 1
    busy[key] = work * follow / value("step_s")
    step[key] = value("step_s")
}
file == 3 && value("mem_note") !~ /did not fit/ { memory[key] = value("mem_gb") }
END {
    for (i = 1; i <= entries; i++) {
        a = row[i]
        b = neighbour[i]
        holds = 0
        if (kind[i] == "twice")
            holds = layout[a] == layout[b] && micro[a] == 2 * micro[b] && 0.8 * step[a] > 1.2 * step[b]
        else if (kind[i] == "slow")
            holds = busy[a] > 0 && tp[a] < tp[b] && micro[a] >= micro[b] && busy[a] < 0.8 * busy[b]
        else if (kind[i] == "memory")
            holds = layout[a] == layout[b] && 0.92 * memory[a] + layers[a] * (kept[b] - kept[a]) > 1.08 * memory[b]
        else if (kind[i] == "weights")
            holds = micro[a] == micro[b] && memory[b] > 0 && \
                    1.08 * memory[a] - 0.92 * memory[b] < 4 * stage[a] * (1 / tp[a] - 1 / tp[b]) / 2 ^ 30
        else if (kind[i] == "layers")
            holds = memory[b] > 0 && !(a in memory) && layers[a] > layers[b] && ranks[a] == ranks[b] && \
                    79.1 > 1.08 * memory[b] + (layers[a] - layers[b]) * kept[a] + \
                           18e9 * (parameters[a] - parameters[b]) / ranks[a] / 2 ^ 30
        if (!holds)
            print kind[i], a
    }
}
