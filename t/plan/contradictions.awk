# SPDX-License-Identifier: Apache-2.0
# Published rows that contradict their neighbours, so that no model can be near both: contradictions.csv, then the outputs of
# `megatron plan --rows` for measured.csv and memory.csv. Prints "KIND ROW" of every entry whose contradiction is not in the data.
#   rate     the GPUs of the row are busy for under 80 % of the time that those of its neighbour are
#   memory   the row needs more memory with a smaller micro-batch
#   links    tensor-parallel all-reduces of the row, whose time is that beyond the same model's with a pipeline instead, are
#            slower than 80 % of what the neighbour needs even if its products run at a V100's peak
#   weights  the row needs less additional memory than its additional weights and gradients (4 bytes a parameter) take
#   ran      the row did not fit, but a neighbour ran that is predicted to need at least 99 % of its memory
#   layers   the row did not fit, but has so few layers more than the neighbour that 18 bytes for each of their parameters, which
#            is the most that any optimizer keeps, and their activations fit besides what the neighbour needs
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
    predicted[key] = value("predicted_mem_gb")
    ranks[key] = value("tp") * value("pp")
    parameters[key] = value("params_b")
    layers[key] = value("layers")
    kept[key] = 2 * value("seq") * value("mbs") * value("hidden")
}
file == 2 && value("step_s") != "" && value("mbs") != "" {
    # Products of a layer and micro-batch on a stage, and how many of these follow each other in a step.
    work = (value("recompute") == "full" ? 8 : 6) * value("seq") * value("mbs") * value("layers") * value("hidden") * \
           (12 * value("hidden") + 2 * value("seq")) / ranks[key]
    follow = value("gbs") / value("dp") / value("mbs") + value("pp") - 1
    busy[key] = work * follow / value("step_s")
    ran[key] = 1
    step[key] = value("step_s")
    products[key] = work * follow / 125e12
    sent[key] = follow * value("layers") / value("pp") * (value("recompute") == "full" ? 6 : 4) * \
                2 * (value("tp") - 1) / value("tp") * value("seq") * value("mbs") * value("hidden") * 2
    instead[key] = value("model") "/1/" ranks[key] "/" value("dp") "/" value("mbs") "/" value("precision") "/" value("recompute")
}
file == 3 && value("mem_note") !~ /did not fit/ {
    memory[key] = value("mem_gb")
    micro[key] = value("mbs")
}
END {
    for (i = 1; i <= entries; i++) {
        a = row[i]
        b = neighbour[i]
        if (kind[i] == "rate")
            holds = busy[a] > 0 && busy[a] < 0.8 * busy[b]
        else if (kind[i] == "links")
            holds = step[a] > step[instead[a]] && step[instead[a]] > 0 && \
                    sent[a] / (step[a] - step[instead[a]]) < 0.8 * sent[b] / (step[b] - products[b])
        else if (kind[i] == "memory")
            holds = micro[a] < micro[b] && memory[a] > memory[b]
        else if (kind[i] == "weights")
            holds = memory[b] > 0 && memory[a] - memory[b] < 4 * parameters[a] * (1 / ranks[a] - 1 / ranks[b]) / 1.0737
        else if (kind[i] == "layers")
            holds = memory[b] > 0 && !(a in memory) && layers[a] > layers[b] && \
                    80 > memory[b] + (layers[a] - layers[b]) * kept[a] / 2 ^ 30 + \
                         18e9 * (parameters[a] - parameters[b]) / ranks[a] / 2 ^ 30
        else
            holds = ran[b] && predicted[b] >= 0.99 * predicted[a]
        if (!holds)
            print kind[i], a
    }
}
