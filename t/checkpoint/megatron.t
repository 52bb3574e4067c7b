#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# megatron checkpoint import --format megatron: files as written by torch.save and Megatron-LM, in
# both formats and all orders of query, key and value, result in the original weights; hostile ones
# in an error.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/common.sh"
perl -MJSON::PP -MCompress::Zlib -e 1 2>/dev/null || skip_all "no perl with its modules"

check() { try "$megatron" checkpoint "$@"; }
make() { rm -rf from; "$top/t/checkpoint/make-megatron" "$hf" from "$@"; }

train 1 --save gpt --exit-interval 1
check export gpt gpt-hf
is "$rc" 0 "a GPT to exchange" || diag "$out"
check export gpt gpt-half --dtype fp16
check export gpt gpt-bf16 --dtype bf16
llama=(--swiglu --normalization RMSNorm --position-embedding-type rope --untie-embeddings-and-output-weights
    --disable-bias-linear --group-query-attention --num-query-groups 2)
train 1 --save llama --exit-interval 1 "${llama[@]}"
check export llama llama-hf
is "$rc" 0 "a Llama to exchange" || diag "$out"

# same_as FOLDER NAME [OPTION...]: an import from "from" and its export equal the earlier export.
same_as() {
    local folder=$1 name=$2
    shift 2
    rm -rf run back
    check import --format megatron "${path:-from}" run --vocab-size 300 "$@"
    is "$rc" 0 "$name: import" || diag "$out"
    check export run back "${dtype[@]}"
    ok "$name: the same weights" cmp "$folder/model.safetensors" back/model.safetensors
}
dtype=()
hf=gpt-hf
for version in none 0 1 2 3; do
    make form=stream version=$version
    same_as gpt-hf "stream, version $version"
    make form=zip version=$version tp=2
    same_as gpt-hf "zip, version $version, tp 2"
done
make version=0 tp=4 pp=2 form=stream
same_as gpt-hf "version 0, tp 4, pp 2"
make version=3 tp=2 pp=2 chunks=2 names=new zip64=1
same_as gpt-hf "version 3, tp 2, pp 2, 2 chunks, names of version 3, zip64"
make version=3 tp=2 names=core wrap=1
same_as gpt-hf "names of Megatron core"
make version=2 args=0
same_as gpt-hf "without arguments" --num-attention-heads 4
path=from/release/mp_rank_00/model_optim_rng.pt same_as gpt-hf "by the name of the file" --num-attention-heads 4
path=from/release same_as gpt-hf "by the name of the directory" --num-attention-heads 4
make dtype=half form=stream
dtype=(--dtype fp16)
same_as gpt-half "half"
make dtype=bfloat16
dtype=(--dtype bf16)
same_as gpt-bf16 "bfloat16"
dtype=()
hf=llama-hf
make version=3 tp=2 pp=2 names=new
same_as llama-hf "a Llama with groups of queries, tp 2, pp 2"
make version=3 names=core
same_as llama-hf "a Llama of Megatron core"
check inspect run
like "$out" '2 query groups, vocabulary 300' "it is the same model"
train 1 "${llama[@]}" --load run --finetune --exit-interval 1
is "$rc" 75 "training starts from it" || diag "$(tail -n 3 <<<"$out")"

# What the files do not contain, and what they should not.
hf=gpt-hf
refused() {
    local name=$1 text=$2
    shift 2
    rm -rf run
    check import --format megatron "${path:-from}" run "$@"
    [ "$rc" = 2 ] && [ ! -e run/iter_0000000 ]
    ok "$name is an error that leaves nothing"
    like "$out" "$text" "$name: names the problem"
}
make args=0
refused "a number of heads that nobody knows" '\(hidden size 32\); add --num-attention-heads N'
# Even if heads of 64 channels would fit: guessing 3 heads of a model with 6 would result in another
# model.
train 1 --save wide --exit-interval 1 --hidden-size 192 --num-attention-heads 6
check export wide wide-hf
hf=wide-hf make args=0
refused "a number of heads that could be guessed" '\(hidden size 192\); add --num-attention-heads N'
same_as wide-hf "with the number of heads" --num-attention-heads 6
make args=0
refused "too large a vocabulary" 'vocabulary has 384 entries, fewer than the 385 requested; correct --vocab-size' --num-attention-heads 4 --vocab-size 385
make
check import --format megatron from padded
like "$out" '4 attention heads, vocabulary 384' "without --vocab-size all rows count"
make evil=os.system
check import --format megatron from evil --vocab-size 300
is "$rc" 0 "a global in an unused part is not an error"
ok "and is not called" test ! -e pwned
make form=stream
pt=from/release/mp_rank_00/model_optim_rng.pt
perl -0777 -pi -e 's/torch\._utils\n_rebuild_tensor_v2\n/posix\nsystem\n/g' $pt
refused "a tensor that would be made by another global" 'created by posix.system, which is unknown; nothing is executed'
ok "which is not called" test ! -e pwned
make && printf X | dd of=$pt bs=1 seek=100000 conv=notrunc status=none
refused "a flipped byte of an archive" 'is damaged: wrong checksum'
make && truncate -s 100000 $pt
refused "a cut archive" 'not a complete zip archive'
make form=stream && truncate -s 100000 $pt
refused "a cut stream" 'storage [0-9]+ exceeds the file'
make tp=2 && rm -r from/release/mp_rank_01
refused "a missing rank" 'is [0-9]+ x [0-9]+, but [0-9]+ x [0-9]+ is expected'
make tp=2 pp=2 && rm -r from/release/mp_rank_01_000
refused "a missing rank of a grid" 'has 3 mp_rank directories'
make pp=2 && rm -r from/release/mp_rank_00_001
refused "a missing stage" 'it contains 2 of 4 layers'
while read -r say text; do
    make say=$say
    refused "$say" "$text" --vocab-size 300
done <<'ARGUMENTS'
qk_l2_norm:bool:1 it was trained with qk_l2_norm=True, which is not supported
no_rope_freq:list:1,1,0 it was trained with no_rope_freq, which is not supported
window_size:list:128,0 it was trained with window_size \(sliding-window attention\), which is not supported
softmax_type:str:learnable it was trained with softmax_type=learnable \(only vanilla is supported\)
position_embedding_type:str:yarn it was trained with position_embedding_type=yarn \(only learned_absolute, rope and none are
mtp_num_layers:int:1 it was trained with mtp_num_layers=1, which is not supported; use a checkpoint of a model without it
ARGUMENTS
for say in window_size:list:-1,0 softmax_type:str:vanilla no_rope_freq:none position_embedding_type:str:learned_absolute; do
    make say=$say
    same_as gpt-hf "$say"
done
make
refused "another number of heads" 'its arguments have 4 attention heads, not 8; drop --num-attention-heads' --num-attention-heads 8
# Position interpolation, there and back.
train 1 --save stretched --exit-interval 1 "${llama[@]}" --rotary-seq-len-interpolation-factor 2.5 --max-position-embeddings 64
check export stretched stretched-hf
for format in megatron torch_dist; do
    rm -rf exported run back
    check export stretched exported --format $format
    check import exported run --format $format
    is "$rc" 0 "position interpolation, $format: import" || diag "$out"
    check export run back
    ok "  and the same model" diff stretched-hf back
done
try "$megatron" evaluate --load run --mock-data --eval-iters 1 --device cpu --cpu-threads 1
like "$out" 'seq_length \.+ 32$' "evaluation uses the sequence length of the training, not all positions"
hf=llama-hf
make version=3 say=rotary_percent:real:0.4
refused "a pair that is cut in two" 'rotary_percent of 0.4, RoPE rotates 3 of the 8 channels of a head' --vocab-size 300
hf=gpt-hf
make say=apply_layernorm_1p:bool:1
rm -rf run back one
check import --format megatron from run --vocab-size 300
evaluate() { try "$megatron" evaluate --load "$1" --mock-data --eval-iters 1 --device cpu --cpu-threads 1; }
evaluate run
loss=$(grep -o 'lm loss.*' <<<"$out")
check export run back
evaluate back
is "$(grep -o 'lm loss.*' <<<"$out")" "$loss" "norm weights minus 1: Hugging Face's files have the whole weights"
ok "  which are others than the stored ones" test -n "$loss" -a -n "$(cmp gpt-hf/model.safetensors back/model.safetensors)"
check export --format megatron run one
rm -rf run
check import --format megatron one run --vocab-size 300
evaluate run
is "$(grep -o 'lm loss.*' <<<"$out")" "$loss" "and Megatron-LM's the argument apply_layernorm_1p"
make more=lm_head/dense.weight
refused "a BERT" 'unknown tensor lm_head/dense.weight; only GPT and Llama models can be imported' --vocab-size 300
make more=decoder.layers.0.self_attention.q_layernorm.weight names=core args=0 version=3
refused "norms of queries" 'unknown tensor decoder.layers.0.self_attention.q_layernorm.weight' --num-attention-heads 4
make more=decoder.layers.9.mlp.linear_fc2.weight names=core args=0 version=3
refused "a layer apart" 'unknown tensor decoder.layers.9.mlp.linear_fc2.weight' --num-attention-heads 4
make more=decoder.layers.0.mlp.linear_fc1._extra_state names=core version=3
same_as gpt-hf "a state of others"
make version=7
refused "another version" 'checkpoint_version is 7'
echo "hello" >$pt
refused "some other file" 'it was not written by torch.save'
(cd from && perl -MIO::Compress::Zip=zip -e 'zip ["release/mp_rank_00/model_optim_rng.pt"] => "outer.zip"' 2>/dev/null)
[ ! -e from/outer.zip ] || path=from/outer.zip refused "an archive around it" 'unpack'
rm -rf from && mkdir from
refused "an empty directory" 'from is not a Megatron-LM checkpoint'
path=nowhere refused "no directory" 'cannot open nowhere'
check export gpt x --format fairseq
like "$out" 'export does not support this format; use --format hf, megatron or torch_dist' "no export to fairseq"
check import gpt-hf x --vocab-size 5
like "$out" 'can only be used with --format megatron' "no hints for Hugging Face"
done_testing
