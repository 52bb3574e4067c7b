#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The commands in cloud/eks/*.yaml are accepted: the launcher's options, those of training (planned for the GPUs of the
# manifest) and those of preprocessing.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron
[ -x "$megatron" ] || skip_all "no $megatron; build first"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for name in $(compgen -e | grep -E '^(SLURM|OMPI|PMI|PET_)|^(RANK|WORLD_SIZE|MASTER_|NNODES)'); do unset "$name"; done

# arguments FILE: one line with the words of each `args: [...]`.
arguments() { awk '/args: \[$/ { on = 1; next } on && /^ *\]/ { on = 0; print ""; next } on { gsub(/[",]/, " "); printf "%s ", $0 }' "$1"; }

for file in "$top"/cloud/eks/*.yaml; do
    name=$(basename "$file")
    while read -r -a words; do
        launch=() command=()
        for word in "${words[@]}"; do
            if [ ${#command[@]} -gt 0 ] || [ "$word" = megatron ]; then command+=("$word"); else launch+=("$word"); fi
        done
        if [ "${launch[0]}" = launch ]; then
            # There are no GPUs here.
            launch=("${launch[@]/#gpu/8}")
            try env JOB_COMPLETION_INDEX=1 NNODES=4 MASTER_ADDR=train-0.train MEGATRON_SECRET=0123456789abcdef \
                "$megatron" "${launch[@]:0:${#launch[@]}-1}" --dry-run
            is "$rc" 0 "$name: megatron ${launch[*]}" || diag "$out"
        fi
        if [ "${command[1]}" = train ]; then
            # Neither the data nor the tokenizer is here.
            given=("${command[@]}") command=()
            for ((i = 0; i < ${#given[@]}; i++)); do
                case ${given[i]} in --data-path | --vocab-file | --merge-file | --tokenizer-type) i=$((i + 1)) ;; *) command+=("${given[i]}") ;; esac
            done
            command+=(--mock-data)
            try "$megatron" "${command[@]:1}" --dry-run --world-size 32
        else
            try "$megatron" "${command[@]:1}"
            # The only error is that /fsx does not exist here.
            [[ $out == *" /fsx/"* ]] && rc=0
        fi
        is "$rc" 0 "$name: ${command[*]:0:2}" || diag "$(head -n 5 <<<"$out")"
    done < <(arguments "$file")
done
is "$(grep -L 'megatron:latest' "$top"/cloud/eks/*.yaml | xargs -n1 basename | xargs)" "fsx.yaml" "all use one image"
done_testing
