#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Which device `megatron train` uses, and the errors if driver, library or GPU is missing.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron
module=$MEGATRON_BUILD/runtime/engine/device/cuda
[ ! -e /dev/nvidiactl ] || skip_all "this machine has a GPU"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
small=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --micro-batch-size 2 --lr 1e-3
    --train-iters 1 --vocab-size 100 --mock-data --eval-iters 0 --cpu-threads 1)
train() { try "$@" env MEGATRON_LIBRARY_DIR="$module" "$megatron" train "${small[@]}" "${options[@]}"; }

# machine CLASS|none DRIVER|none: a command prefix that makes programs see one NVIDIA GPU or none
# among the PCI devices, and a kernel with or without its driver.
cat >"$scratch/machine" <<'EOT'
#!/bin/bash
set -e
mount -t tmpfs none /sys/bus/pci/devices
cd /sys/bus/pci/devices
mkdir 0000:00:1f.0
echo 0x8086 >0000:00:1f.0/vendor
echo 0x030000 >0000:00:1f.0/class
[ "$1" = none ] || { mkdir 0000:01:00.0 && echo 0x10de >0000:01:00.0/vendor && echo "$1" >0000:01:00.0/class; }
cd - >/dev/null
mount -t tmpfs none /proc/driver
[ "$2" = none ] || { mkdir /proc/driver/nvidia && echo "$2" >/proc/driver/nvidia/version; }
shift 2
exec "$@"
EOT
chmod +x "$scratch/machine"
machine=(unshare -m --propagation private "$scratch/machine")

if "${machine[@]}" none none true 2>/dev/null; then
    options=()
    train "${machine[@]}" none none
    is "$rc" 0 "without a GPU CPUs compute"
    like "$out" '^ > this node has no NVIDIA GPU: computing on the CPU' "  and it is reported"
    like "$out" '^device cpu ' "  by the device, too"
    options=(--device cpu --save "$scratch/saved")
    train "${machine[@]}" 0x030200 none
    is "$rc" 0 "CPUs that are asked for compute"
    unlike "$out" 'no NVIDIA GPU' "  without further output"
    # GPUs that Slurm allocated and the driver does not show
    for command in "train ${small[*]}" "train ${small[*]} --bf16" "comm-test --max-bytes 8" "generate --load $scratch/saved --prompt 1" \
        "evaluate --load $scratch/saved --mock-data"; do
        # shellcheck disable=SC2086
        try "${machine[@]}" none none env SLURM_GPUS_ON_NODE=2 MEGATRON_LIBRARY_DIR="$module" "$megatron" $command
        is "$rc" 1 "${command%% *} fails without the GPUs of its job"
        like "$out" "$(uname -n).*SLURM_GPUS_ON_NODE.*--device cpu" "  and names the node and how to use CPUs"
    done
    try "${machine[@]}" none none env SLURM_GPUS_ON_NODE=2 MEGATRON_LIBRARY_DIR="$module" \
        "$megatron" launch --nproc-per-node 4 --max-restarts 0 -- "$megatron" train "${small[@]}"
    is "$(grep -c SLURM_GPUS_ON_NODE <<<"$out")" 1 "  once per node" || diag "$out"
    try "${machine[@]}" none none env SLURM_GPUS_ON_NODE=2 MEGATRON_LIBRARY_DIR="$module" "$megatron" preflight --history none
    is "$rc" 3 "so does preflight"
    like "$out" "^fail  $(uname -n)  gpus: 0 .*: 2" "  which counts them"
    try "${machine[@]}" none none env SLURM_GPUS_ON_NODE=2 MEGATRON_LIBRARY_DIR="$module" "$megatron" preflight --history none --device cpu --all
    like "$rc $out" "^ok  +$(uname -n)  gpus: 0 .*: 0" "  unless it tests CPUs"
    options=(--device cpu)
    train "${machine[@]}" none none env SLURM_GPUS_ON_NODE=2
    is "$rc" 0 "CPUs that are asked for compute there, too"
    options=(--bf16)
    train "${machine[@]}" none none
    is "$rc $out" "1 megatron train: this node has no NVIDIA GPU, and the CPU backend supports fp32 only; request a node with GPUs or drop --bf16" \
        "a type that takes GPUs"
    options=()
    # An audio controller, which GPUs include, is not a GPU.
    train "${machine[@]}" 0x040300 none
    like "$out" '^device cpu ' "another NVIDIA device is not a GPU"
    for class in 0x030200 0x030000; do
        train "${machine[@]}" $class none
        is "$rc" 1 "CPUs do not take the place of a GPU ($class) whose driver is not loaded"
        like "$out" '; .*compute on the CPUs with --device cpu$' "  but may be asked for"
    done
    try "${machine[@]}" 0x030200 none env MEGATRON_LIBRARY_DIR="$module" "$megatron" comm-test --max-bytes 8
    is "$rc" 1 "nor in comm-test"
    like "$out" '; .*compute on the CPUs with --device cpu$' "  likewise"
    if [ -f "$module/device_cuda.so" ]; then
        train "${machine[@]}" 0x030200 none
        like "$out" 'train: no NVIDIA driver is loaded on this node; load it' "the driver is missing"
        train "${machine[@]}" 0x030200 580.1
        like "$out" 'the NVIDIA driver is loaded on this node, but its library libcuda.so.1 is not found' "its library is missing"
    else
        skip "a missing driver" "built without CUDA"
    fi
else
    skip "nodes with and without GPUs" "no mount namespaces here"
fi

options=(--device cuda)
if [ -f "$module/device_cuda.so" ]; then
    make -s -C "$MEGATRON_BUILD/t" unit/runtime/engine/device/cuda/fake_cuda.so >/dev/null
    mkdir "$scratch/driver"
    ln -s "$MEGATRON_BUILD/t/unit/runtime/engine/device/cuda/fake_cuda.so" "$scratch/driver/libcuda.so.1"
    driver=(env LD_LIBRARY_PATH="$scratch/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
    train "${driver[@]}"
    is "$rc $out" "1 megatron train: no GPU can be used on this node: no CUDA-capable device is detected; run nvidia-smi here, and request GPUs (srun --gpus); or compute on the CPUs with --device cpu" \
        "the GPU is missing"
    train "${driver[@]}" FAKE_DRIVER=12020
    like "$out" '^megatron train: the NVIDIA driver of this node supports CUDA 12\.2, this program needs [0-9.]+; ask the administrator to update the driver, or leave the node out \(srun --exclude\); or compute on the CPUs with --device cpu$' \
        "the driver is too old"
    train "${driver[@]}" FAKE_INIT=802
    like "$out" 'no GPU can be used on this node: system not yet initialized' "the driver's own message"
    # A GPU that the program was not built for, one whose memory runs out, and unhealthy ones.
    if make -s -C "$MEGATRON_BUILD/t" unit/runtime/engine/device/cuda/fake_gpu.so unit/runtime/engine/device/cuda/fake_nvml.so >/dev/null; then
        mkdir "$scratch/health"
        ln -s "$MEGATRON_BUILD/t/unit/runtime/engine/device/cuda/fake_nvml.so" "$scratch/health/libnvidia-ml.so.1"
        gpu=(env LD_PRELOAD="$MEGATRON_BUILD/t/unit/runtime/engine/device/cuda/fake_gpu.so" MEGATRON_CACHE_DIR="$scratch/cache"
            LD_LIBRARY_PATH="$scratch/health${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
        for code in 209 98; do
            train "${gpu[@]}" FAKE_CODE=$code FAKE_CAPABILITY=123
            is "$rc $(wc -l <<<"$out")" "1 1" "no code for the GPU (status $code): one line"
            like "$out" '^megatron train: GPU 0 \(Fake GPU\) has compute capability 12\.3, and this program was built for the architectures ([0-9a ]+); configure it with NVCC_ARCHITECTURES="\1 123" and build it again; or compute on the CPUs with --device cpu$' \
                "  with its purpose"
        done
        train "${gpu[@]}" FAKE_CODE=209 FAKE_CAPABILITY=75
        like "$out" "GPU 0 .Fake GPU. has compute capability 7\\.5, and this program's kernels need 8\\.0 .V100 is not supported, A100 is.; ask for another GPU; or compute on the CPUs" \
            "a GPU that it cannot be built for"
        train "${gpu[@]}" FAKE_CODE=999
        like "$out" "GPU 0 \\(Fake GPU\\) cannot load this program's kernels: unknown error" "another reason with its own message"
        train "${gpu[@]}" FAKE_MOST=1
        like "$out" '^megatron train: GPU 0 \(Fake GPU\) has 0\.03 of its 80\.00 GiB left, and 0\.03 GiB are needed; nvidia-smi shows .*' \
            "a GPU whose memory is in use"
        options=(--device cuda --hidden-size 512 --vocab-size 32000 --seq-length 1024 --bf16)
        for arena in 33:weights:0.04 60:gradients:0.09 100:activations:0.2; do
            IFS=: read -r most what size <<<"$arena"
            train "${gpu[@]}" FAKE_MOST="$most"
            out=$(grep "^megatron train" <<<"$out")
            is "$rc $(wc -l <<<"$out")" "1 1" "no room for the $what: one line"
            like "$out" "^megatron train: $what: GPU 0 .Fake GPU. has 0\\.03 of its 80\\.00 GiB left, and $size[0-9]* GiB are needed; .*; use a smaller --micro-batch-size, --recompute-granularity full, or more model parallelism" \
                "  which says how to do with less"
        done
        options=(--device cuda --num-layers 96 --hidden-size 12288 --num-attention-heads 96)
        train "${gpu[@]}"
        out=$(grep "^megatron train" <<<"$out")
        like "$out" '^megatron train: this rank needs [0-9]{4}\.[0-9]+ GiB \(weights .*\), but only 79\.00 GiB are available; use a smaller --micro-batch-size, --recompute-granularity full, or more model parallelism' \
            "a model that is too large"
        options+=(--recompute-granularity full --micro-batch-size 1)
        train "${gpu[@]}"
        out=$(grep "^megatron train" <<<"$out")
        like "$out" 'GiB are available; use more model parallelism \(--tensor-model-parallel-size, --pipeline-model-parallel-size\)$' \
            "  the only remedy"
        options+=(--recompute-method block --recompute-num-layers 4)
        train "${gpu[@]}"
        like "$(grep "^megatron train" <<<"$out")" 'GiB are available; use --recompute-method uniform, or more model parallelism' \
            "  or that only some layers are made again of"
        # health NAME LINE|'' VARIABLE...: the line is the only warning before the run continues, until it runs out of memory.
        health() {
            local name=$1 line=$2
            shift 2
            train "${gpu[@]}" "$@"
            is "$(grep -F 'megatron: warning:' <<<"$out")" "${line:+megatron: warning: node $(uname -n), rank 0, Fake GPU: $line}" "$name"
            like "$out" '^megatron train: this rank needs ' "  which training does not end at"
        }
        health "a GPU in good health" ""
        health "one that is hot" "its clocks are lowered because it is hot (software limit); check the cooling" FAKE_REASONS=32
        try "${gpu[@]}" FAKE_REASONS=32 env MEGATRON_LIBRARY_DIR="$module" "$megatron" comm-test --device cuda
        like "$out" '^megatron: warning: node [^ ]*, rank 0, Fake GPU: its clocks are lowered because it is hot' "  which comm-test reports, too"
        health "memory that the driver itself may have taken" "" FAKE_USED=2
        health "memory that others hold" "3.0 of its 80.0 GiB are in use by other processes; check nvidia-smi" FAKE_USED=3
        rm "$scratch/health/libnvidia-ml.so.1"
        echo no library >"$scratch/health/libnvidia-ml.so.1"
        health "no source of health information" \
            "its health is not checked: $scratch/health/libnvidia-ml.so.1: file too short; install the driver package with this library, or make it available in the container (NVIDIA_DRIVER_CAPABILITIES=compute,utility)"
        options=(--device cuda)
    else
        skip "a GPU without code, and one without memory" "t/unit/runtime/engine/device/cuda/fake_gpu.so cannot be built here"
    fi
    # A library that exists, but is invalid.
    mkdir "$scratch/libraries"
    echo no library >"$scratch/libraries/libcudnn.so.9"
    train env LD_LIBRARY_PATH="$scratch/libraries"
    is "$rc $(wc -l <<<"$out")" "1 1" "a library that cannot be opened is reported in one line"
    like "$out" 'training on GPUs: cannot open .*libcudnn\.so\.9.*; or compute on the CPUs with --device cpu$' "  which names it"
    ln -sf "$MEGATRON_BUILD/t/unit/runtime/engine/device/cuda/fake_cuda.so" "$scratch/libraries/libcudnn.so.9"
    train env LD_LIBRARY_PATH="$scratch/libraries"
    like "$out" 'libcudnn\.so\.9.*; that library is not of the version that this program was built with: reinstall megatron, or build it on this system; or compute on the CPUs with --device cpu$' \
        "one of another version"
else
    skip "faults of the driver and its libraries" "built without CUDA"
fi
# A module whose library is gone.
mkdir "$scratch/module"
if ${CC:-cc} -shared -o "$scratch/module/libmissing.so" -xc /dev/null 2>/dev/null &&
    ${CC:-cc} -shared -Wl,--no-as-needed -o "$scratch/module/device_cuda.so" -xc /dev/null -L"$scratch/module" -lmissing; then
    rm "$scratch/module/libmissing.so"
    module=$scratch/module
    train
    is "$rc $(wc -l <<<"$out")" "1 1" "a missing library is reported in one line"
    like "$out" ': libmissing\.so: cannot open .*; install that library, or name its directory in LD_LIBRARY_PATH; or compute on the CPUs with --device cpu$' \
        "  which names it"
else
    skip "a library that is missing" "no compiler"
fi
# Without a module, even if one is installed.
module=/nonexistent
# shellcheck disable=SC2016
installed=$(make -s -C "$MEGATRON_BUILD/runtime" --eval 'where:; @echo $(pkglibdir)' where)
hide=()
# shellcheck disable=SC2016
[ ! -e "$installed/device_cuda.so" ] ||
    hide=(unshare -m --propagation private sh -c 'mount -t tmpfs none "$0" && exec "$@"' "$installed")
if [ ${#hide[@]} = 0 ] || "${hide[@]}" true 2>/dev/null; then
    train "${hide[@]}"
    is "$rc" 1 "a build without CUDA"
    like "$out" 'training on GPUs needs device_cuda.so, which is not installed here .*; or compute on the CPUs with --device cpu$' \
        "  says so"
else
    skip "a build without CUDA" "no mount namespaces here"
fi
done_testing
