# SPDX-License-Identifier: Apache-2.0
# Small training runs for tests of checkpoints. Sourced after tap.sh.
[ -f "$MEGATRON_BUILD/runtime/engine/comm/comm_tcp.so" ] || skip_all "built without OpenSSL"
export MEGATRON_LIBRARY_DIR=$MEGATRON_BUILD/runtime/engine/comm
megatron=$MEGATRON_BUILD/runtime/megatron
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

model=(--num-layers 4 --hidden-size 32 --num-attention-heads 4)
common=(--seq-length 32 --micro-batch-size 2 --global-batch-size 16 --lr 1e-3 --lr-decay-style cosine
    --lr-warmup-iters 2 --vocab-size 300 --make-vocab-size-divisible-by 16 --mock-data --log-interval 1
    --eval-iters 1 --eval-interval 3 --device cpu --cpu-threads 1 --distributed-timeout-minutes 1)
t=--tensor-model-parallel-size p=--pipeline-model-parallel-size c=--context-parallel-size

# train RANKS OPTION...: the output is in $out, the exit status in $rc. TRAIN_LIMIT: seconds (120).
train() {
    local ranks=$1 run=()
    shift
    [ "$ranks" = 1 ] || run=("${launch[@]}" "$ranks" --)
    out=$(timeout "${TRAIN_LIMIT:-120}" "${run[@]}" "$megatron" train "${model[@]}" "${common[@]}" --train-iters 8 "$@" 2>&1)
    rc=$?
}

# same A B NAME: two checkpoints have identical files.
same() {
    diff -r "$1" "$2" >/dev/null
    ok "$3" || { diag "$(diff -rq "$1" "$2")"; diag "$(tail -n 5 <<<"$out")"; }
}

# closed PART ERRNO: build closed.so, which when preloaded fails to open files whose path contains
# PART.
closed() {
    "${CC:-cc}" -shared -fPIC "-DPART=\"$1\"" "-DNUMBER=$2" -o closed.so -xc - -ldl <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
typedef int opening(const char *path, int flags, ...);
#define REPLACE(name)                                                   \
    int name(const char *path, int flags, ...)                          \
    {                                                                   \
        opening *real = (opening *)dlsym(RTLD_NEXT, #name);             \
                                                                        \
        errno = NUMBER;                                                 \
        return strstr(path, PART) ? -1 : real(path, flags, 0666);       \
    }
REPLACE(open)
REPLACE(open64)
END
}
