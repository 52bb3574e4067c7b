# SPDX-License-Identifier: Apache-2.0
# Faults to inject into `megatron preflight`, for t/preflight and t/campaign/preflight. Source it after tap.sh.
#
# make_faults DIR compiles the stand-ins. A node script DIR/node runs megatron preflight with the faults that
# its arguments assign to nodes: FAULT=NODE..., then --, then the arguments.

make_faults() {
    local dir=$1 node nic
    cc -shared -fPIC -O1 -o "$dir/libnvidia-ml.so.1" "$top/t/preflight/fake_nvml.c" || return 1
    cc -shared -fPIC -O1 -fno-builtin -o "$dir/wrong_result.so" "$top/t/preflight/wrong_result.c" -ldl || return 1
    for node in all missing; do
        for nic in mlx5_0 mlx5_1; do
            [ $node$nic != missingmlx5_1 ] || continue
            mkdir -p "$dir/$node/sys/class/infiniband/$nic/ports/1"
            echo "4: ACTIVE" >"$dir/$node/sys/class/infiniband/$nic/ports/1/state"
        done
        mkdir -p "$dir/$node/dev"
        echo "6,1,1,-;boot" >"$dir/$node/dev/kmsg"
    done
    # The limits of the machine that runs the test must not count as faults.
    mkdir -p "$dir/limits"
    echo '{"nodes":[{"name":"cpu","preflight":{"locked_gib":0,"disk_mb_per_s":0,"disk_gib":0}}]}' >"$dir/limits/cpu.json"
    cat >"$dir/node" <<EOT
#!/bin/bash
dir=$dir megatron=$MEGATRON_INST/bin/megatron
host=\$(uname -n)
root=\$dir/all slow= dies= stops=
EOT
    cat >>"$dir/node" <<'EOT'
while [ "$1" != -- ]; do
    if [ "${1#*=}" = "$host" ]; then
        case ${1%%=*} in
        slow) slow=yes ;;
        dies) dies=yes ;;
        stops) stops=yes ;;
        wrong) export LD_PRELOAD=$dir/wrong_result.so ;;
        nic) root=$dir/missing ;;
        driver) export FAKE_DRIVER=550.54.14 ;;
        hot) export FAKE_SLOW=0x40 ;;
        ecc) export FAKE_ECC=3 ;;
        link) export FAKE_LINK_DOWN=2 ;;
        narrow) export FAKE_WIDTH=8 ;;
        esac
    fi
    [ "$1" != nvml ] || export LD_LIBRARY_PATH=$dir
    shift
done
shift
"$megatron" preflight --device cpu --history none --sysroot "$root" --machines "$dir/limits" "$@" &
pid=$!
# Half of the time it does not run, as with a CPU limit of 50 %.
while [ -n "$slow" ] && kill -0 $pid; do
    kill -STOP $pid; sleep 0.04; kill -CONT $pid; sleep 0.04
done 2>/dev/null
[ -z "$dies" ] || { sleep 0.7; kill -KILL $pid; exit; }
[ -z "$stops" ] || { sleep 0.7; kill -STOP $pid; sleep 30; kill -KILL $pid; exit; }
wait $pid
EOT
    chmod 755 "$dir" "$dir/node"
}

# verdicts JSON: "HOST CHECK" of each failed check, sorted, on one line.
verdicts() {
    grep '^{"verdict"' <<<"$1" | sed 's/},{/}\n{/g' | grep '"verdict":"fail","value"' |
        sed 's/.*"host":"\([^"]*\)","check":"\([^"]*\)".*/\1 \2/' | sort | paste -sd,
}

# failed_nodes JSON: the nodes with a failed check.
failed_nodes() { verdicts "$1" | tr , '\n' | cut -d' ' -f1 | sort -u | paste -sd' '; }

# warnings JSON: the same for warnings, but for those of waiting for a core: what else runs on this machine decides them.
warnings() {
    grep '^{"verdict"' <<<"$1" | sed 's/},{/}\n{/g' | grep '"verdict":"warn","value"' | grep -v '"check":"waiting"' |
        sed 's/.*"host":"\([^"]*\)","check":"\([^"]*\)".*/\1 \2/' | sort | paste -sd,
}

# netns_usable: can packets be dropped in network namespaces here?
netns_usable() {
    command -v ip >/dev/null && command -v iptables >/dev/null || return 1
    ip netns add megatron-try || return 1
    ip netns exec megatron-try iptables -A INPUT -m statistic --mode random --probability 0.1 -j DROP
    local rc=$?
    ip netns del megatron-try
    return $rc
} >/dev/null 2>&1

# netns_up PREFIX N: N network namespaces PREFIX1.. on one bridge, with the addresses 10.213.0.1..
netns_up() {
    local prefix=$1 i
    ip link add "$prefix"br type bridge && ip link set "$prefix"br up || return 1
    for ((i = 1; i <= $2; i++)); do
        ip netns add "$prefix$i" &&
            ip link add "$prefix"v$i type veth peer name eth0 netns "$prefix$i" &&
            ip link set "$prefix"v$i master "$prefix"br up &&
            ip -n "$prefix$i" addr add 10.213.0.$i/24 dev eth0 &&
            ip -n "$prefix$i" link set eth0 up && ip -n "$prefix$i" link set lo up || return 1
    done
}

netns_down() {
    local prefix=$1 i
    for ((i = 1; i <= $2; i++)); do ip netns del "$prefix$i"; done
    ip link del "$prefix"br
} 2>/dev/null

# netns_preflight PREFIX N ARG...: one rank in each namespace, called l1..lN. Prints rank 0's output.
netns_preflight() {
    local prefix=$1 count=$2 i pids=()
    shift 2
    for ((i = count; i >= 1; i--)); do
        env RANK=$((i - 1)) WORLD_SIZE=$count LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 GROUP_RANK=$((i - 1)) \
            GROUP_WORLD_SIZE=$count MASTER_ADDR=10.213.0.1 MASTER_PORT=21999 MEGATRON_SECRET=$$ \
            ip netns exec "$prefix$i" unshare --uts bash -c 'hostname l$1; shift; exec "$@"' - $i \
            "$MEGATRON_INST/bin/megatron" preflight --device cpu --history none --json "$@" &
        pids+=($!)
    done
    wait "${pids[@]}"
}
