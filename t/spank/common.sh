# SPDX-License-Identifier: Apache-2.0
# For tests of the plugin on a cluster.
. "$(dirname "${BASH_SOURCE[0]}")/../tap.sh"
[ -f "$MEGATRON_INST/lib/slurm/spank_megatron.so" ] ||
    skip_all "no plugin in $MEGATRON_INST: it was built without Slurm, or is not installed"

# fake_driver ROOT MINOR=PCI...: what NVIDIA's driver would say about these GPUs.
fake_driver() {
    local root=$1 pair gpu
    shift
    for pair in "$@"; do
        gpu=$root/proc/driver/nvidia/gpus/${pair#*=}
        mkdir -p "$gpu"
        printf 'Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-%08d-0000-0000-0000-000000000000\n%s\t %s\n%s\t %s\n' \
            "${pair%%=*}" "Bus Location: " "${pair#*=}" "Device Minor: " "${pair%%=*}" >"$gpu/information"
    done
}

# The driver of a p5, whose device files are in the reverse of the PCI order.
fake_p5() {
    fake_driver "$1" 7=0000:53:00.0 6=0000:64:00.0 5=0000:75:00.0 4=0000:86:00.0 \
        3=0000:97:00.0 2=0000:a8:00.0 1=0000:b9:00.0 0=0000:ca:00.0
}

# batch NAME < SCRIPT: write a script for sbatch into the user's home; prints its path.
batch() {
    local file=$MEGATRON_CLUSTER/home/$1
    cat >"$file"
    chmod 755 "$file"
    echo "$file"
}

# try_batch USER ARGUMENT...: sbatch, wait for the job, and have its output in $out ("in_cluster" for
# root, "as_user" for the user). $rc is sbatch's. (sbatch --wait would look only every few seconds.)
try_batch() {
    local who=$1 file=$MEGATRON_CLUSTER/home/out.$RANDOM job
    shift
    try "$who" sbatch -o "$file" "$@"
    job=$(sed -n 's/^Submitted batch job //p' <<<"$out")
    [ -z "$job" ] || wait_until 60 eval '[ -z "$(squeue -h -j '"$job"' -t PD,R)" ]'
    out+=$'\n'$(cat "$file" 2>/dev/null)
    rm -f "$file"
}

# The nodes are healthy: none drained, down or failing.
nodes_well() {
    wait_until 60 eval '[ "$(sinfo -h -o %T | sort -u)" = idle ]'
    is "$(sinfo -h -o '%T %E' -t drain,drng,down,fail)" "" "$1"
}

# other_release FILE: make the plugin in this file one for Slurm 99.05.1, as its number says.
other_release() {
    local address section
    address=$(readelf -W --dyn-syms "$1" | awk '$8 == "plugin_version" { print $2, $7 }')
    section=$(readelf -W -S "$1" | sed 's/^ *\[ */[/' | awk -v s="[${address#* }]" '$1 == s { print $4, $5 }')
    printf '\001\005\143\000' | dd of="$1" bs=1 conv=notrunc status=none seek=$((0x${address% *} - 0x${section% *} + 0x${section#* }))
}
