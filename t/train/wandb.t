#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The offline files for Weights & Biases, read again without its client: blocks, checksums, records.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron
[ -x "$megatron" ] || megatron=$MEGATRON_INST/bin/megatron
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
cat >read.pl <<'PERL'
use strict;
use Compress::Raw::Zlib;
local $/;
my $d = <STDIN>;
die "no header\n" unless substr($d, 0, 7, '') eq ":W&B\xE1\xBE\0";
my ($at, $record) = (7, '');
sub varint { my ($s, $v, $n) = (shift, 0, 0); while (1) { my $b = ord substr($$s, 0, 1, ''); $v |= ($b & 127) << $n; $n += 7; return $v if $b < 128 } }
sub fields {
    my $s = shift; my @f;
    while (length $s) {
        my $k = varint(\$s);
        my $v = ($k & 7) == 0 ? varint(\$s) : ($k & 7) == 2 ? substr($s, 0, varint(\$s), '') : die "wire type\n";
        push @f, [$k >> 3, $v];
    }
    return @f;
}
while (length $d) {
    my $room = 32768 - $at % 32768;
    if ($room < 7) { die "padding\n" unless substr($d, 0, $room, '') =~ /^\0*$/; $at += $room; next }
    my ($sum, $size, $kind) = unpack('VvC', substr($d, 0, 7, ''));
    my $part = substr($d, 0, $size, '');
    die "checksum\n" if crc32($part, crc32(chr $kind)) != $sum;
    die "across a block\n" if $size > $room - 7;
    $at += 7 + $size;
    $record .= $part;
    next unless $kind == 1 || $kind == 4;
    my ($number, $content) = fields($record);
    $record = '';
    my @f = fields($content->[1]);
    if ($content->[0] == 17) {
        my %run = map { @$_ } @f;
        print "run $run{3} $run{8} ", $run{2} // '-', "\n";
    } elsif ($content->[0] == 2) {
        my %items = map { my %i = map { @$_ } fields($_->[1]); ($i{2}, $i{16}) } grep { $_->[0] == 1 } @f;
        my ($step) = map { (fields($_->[1]))[0][1] } grep { $_->[0] == 2 } @f;
        print "step $step $items{_step}: ", join(' ', map { "$_=$items{$_}" } grep { !/^_|time|throughput/ } sort keys %items), "\n";
    } elsif ($content->[0] == 18) { print "exit\n" }
}
PERL
train=("$megatron" train --num-layers 1 --hidden-size 8 --num-attention-heads 2 --seq-length 8 --micro-batch-size 1 --lr 1e-3
    --vocab-size 16 --make-vocab-size-divisible-by 8 --mock-data --device cpu --cpu-threads 1 --log-interval 1)
try "${train[@]}" --train-iters 3 --eval-iters 1 --eval-interval 2 --wandb-project gpt --wandb-exp-name "a b" --wandb-entity team \
    --wandb-save-dir "$scratch/out"
is "$rc" 0 "a run for Weights & Biases" || diag "$out"
run=$(echo out/wandb/offline-run-*)
like "$out" "note: Weights & Biases: .wandb sync $scratch/$run. uploads this run" "the command that uploads it is printed"
ok "the directory is one that the client finds" test -d "$run/files"
lines=$(perl read.pl <"$run"/run-*.wandb 2>&1)
is "$(head -n 1 <<<"$lines")" "run gpt a b team" "the names of the run"
is "$(grep -c '^step ' <<<"$lines")" 3 "a record for each step" || diag "$lines"
loss=$(sed -n 's/.*iteration *2\/.*lm loss: \([0-9.E+-]*\).*/\1/p' <<<"$out")
got=$(sed -n 's/^step 2 2: .* lm loss=\([0-9.e-]*\) .*/\1/p' <<<"$lines")
is "$(printf %.6E "$got")" "$loss" "the loss of the log line"
like "$lines" '^step 2 .*lm loss validation=' "with the validation loss"
is "$(tail -n 1 <<<"$lines")" exit "and the end of the run"
try "${train[@]}" --train-iters 400 --eval-iters 0 --wandb-project gpt --wandb-exp-name long --save "$scratch/save"
is "$(perl read.pl < <(cat save/wandb/offline-run-*/run-*.wandb) 2>&1 | grep -c '^step ')" 400 "records cross blocks of 32 KiB; by default below --save"
done_testing
