#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# megatron report: logs of Megatron-LM and of this program, restarts, several runs, damaged input, size.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron
[ -x "$megatron" ] || skip_all "no $megatron; build first"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
unset SLURM_JOB_ID

# arguments [HIDDEN_SIZE]: the table at the start of a log.
arguments() {
    printf '%s arguments %s\n' ------------------------ ------------------------
    printf '  hidden_size %s %s\n  seq_length %s 2048\n  log_interval %s 1\n' .................... "${1:-64}" ........... ......
    printf '%s end of arguments %s\n' -------------------- ---------------------
}
# steps FROM TO TOTAL [SECONDS]: log lines of Megatron-LM, a second each; with SECONDS, with times from there on.
steps() {
    awk -v from="$1" -v to="$2" -v total="$3" -v clock="${4:-}" 'BEGIN {
        for (i = from; i <= to; i++) {
            if (clock != "") printf " [2025-05-27 %02d:%02d:%02d]", (clock + i - from) / 3600, (clock + i - from) / 60 % 60, (clock + i - from) % 60
            printf " iteration %8d/%8d | consumed samples: %12d | elapsed time per iteration (ms): %.1f | throughput per GPU (TFLOP/s/GPU): %.1f |", i, total, 8 * i, 1000 + i % 7, 400
            printf " learning rate: %.6E | global batch size:     8 | lm loss: %.6E | loss scale: 1.0 | grad norm: %.3f |", 3e-4, 2 + 8 / i, 1 + i % 3
            printf " number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        }
    }'
}
report() { try "$megatron" report "$@"; }
# tile FILE NAME: the value on the page.
tile() { sed -n "s,.*<dt>$2</dt><dd>\([^<]*\)<.*,\1,p" "$1" | head -n 1; }

# --- A run of Megatron-LM with a restart
mkdir run
{
    arguments
    steps 1 30 50 3600
    echo "  successfully saved checkpoint from iteration      20 to /ck [ t 1/1, p 1/1 ]"
    echo " validation loss at iteration 20 | lm loss value: 2.450000E+00 | lm loss PPL: 1.158835E+01 | "
    echo "srun: error: n<3>: task 12: Exited with exit code 1"
    arguments
    echo "  successfully loaded checkpoint from /ck [ t 1/1, p 1/1 ] at iteration 20"
    steps 21 50 50 3700
} >run/slurm-1.out
report run -o run.html
is "$rc:$out" 0: "a run with a restart"
is "$(tile run.html loss) $(tile run.html 'validation loss') $(tile run.html 'lost steps') $(tile run.html starts)" "2.16 2.45 10 2" "its figures"
is "$(tile run.html 'tokens/s')" "16.32k" "tokens per second"
like "$(cat run.html)" '<p>finished: step 50 of 50</p>' "its state"
like "$(cat run.html)" '"look":"lost"' "lost steps are in the charts"
like "$(cat run.html)" 'n&#60;3&#62;: task 12' "names are escaped"
for part in training 'lost steps' down; do like "$(cat run.html)" "</i>$part <b>" "time: $part"; done
unlike "$(cat run.html)" '(src|href|url)[=(]' "nothing is loaded"
like "$(cat run.html)" "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-[A-Za-z0-9+/]{43}='" "nor may be"
hash=$(openssl dgst -sha256 -binary "$top/runtime/run/report/page.js" 2>/dev/null | openssl base64 2>/dev/null)
if [ -n "$hash" ]; then
    is "$(grep -o "script-src '[^']*'" run.html)" "script-src 'sha256-$hash'" "no script but page.js may run (PAGE_SCRIPT_HASH in page_parts.h)"
else
    skip "no script but page.js may run" "no openssl"
fi
cp run.html first.html
report run -o run.html
ok "equal input gives equal bytes" cmp run.html first.html
report run -o -
is "$(cksum <<<"$out")" "$(cksum <first.html)" "-o - writes to standard output"
unlike "$(cat run.html)" '<dt>MFU' "MFU is not guessed"
report run --peak-tflops 800 -o run.html
is "$(tile run.html MFU)" "50 %" "MFU of a given peak"
head -n 20 run/slurm-1.out >going.log
report going.log -o going.html
like "$(cat going.html)" 'running, or stopped without a message: step 15 of 50' "a run that goes on"

# --- Several runs
steps 1 20 20 >other.log
report run other.log --name 'a & b' --name '<other>' -o two.html
is "$rc" 0 "two runs"
like "$(cat two.html)" '<title>a &#38; b, &#60;other&#62; - megatron report</title>' "  with their names"
like "$(cat two.html)" '"run":1,"look":"raw"' "  in the same charts"
cp other.log third.log
report other.log third.log --separate -o two.html
is "$(grep -c '<h2 data-run=' two.html)" 2 "--separate: two files are two runs"
report other.log going.log -o one.html
is "$(grep -c '<h2 data-run=' one.html)" 1 "  and otherwise one"

# --- Damaged and foreign input: one line each, and the rest still works
mkdir two cut newer empty partly
{ arguments 64; steps 1 5 10; } >two/a.log
{ arguments 128; steps 1 5 10; } >two/b.log
steps 1 5 10 | head -c -100 >cut/a.log
printf '%s\n' '{"record":"start","version":7}' '{"iteration":1,"lm_loss":3,"milliseconds":5}' >newer/metrics.jsonl
cp other.log partly/a.log
ln -s /nonexistent partly/b.log
head -c 5000 /dev/urandom >partly/c.log
: >partly/d.log
n=0
while IFS='|' read -r input code text; do
    n=$((n + 1))
    # shellcheck disable=SC2086
    report $input -o bad$n.html
    is "$rc $(wc -l <<<"$out")" "$code 1" "report $input: code $code and one line" || diag "$out"
    like "$out" "$text" "  which is clear"
    [ "$code" != 0 ] || like "$(cat bad$n.html)" '<figure class="chart" id="loss">' "  and a report"
done <<'EOT'
two|0|^megatron: warning: two contains 2 runs, which differ in --hidden-size; all are shown; name the files
cut|0|^megatron: warning: cut/a.log: 1 line is truncated; what is complete in it is used$
newer|0|^megatron: warning: newer/metrics.jsonl: 1 record is of version 7, which this program does not read; use a newer megatron$
run empty|0|^megatron: warning: empty contains no log \(\*.log, \*.out, \*.err\) and no metrics file \(\*.jsonl\); name a directory or files of a training run$
run missing|0|^megatron: warning: cannot read missing: No such file or directory; check the path$
empty|2|^megatron report: empty contains no log
missing|2|^megatron report: cannot read missing: No such file or directory; check the path$
partly/d.log|2|^megatron report: these files contain no steps of a training run; name logs or metrics of megatron train or Megatron-LM$
EOT
report partly -o partly.html
is "$rc" 0 "noise, a broken link and an empty file"
report run
is "$rc $out" "2 megatron report: no output file; name the file to write with -o FILE" "without -o"
report -o x.html
is "$rc $out" "2 megatron report: nothing to report on; name the directory of a run, or its logs and metrics files" "without a run"
report run -o missing/x.html
is "$rc $out" "2 megatron report: cannot write missing/x.html: No such file or directory; check the path" "a file that cannot be written"
mkdir same && cp other.log same/a.log && ln -s a.log same/b.log && cp other.log same.log
for output in same/a.log same/b.log; do
    report same -o "$output"
    is "$rc $out" "2 megatron report: same/a.log would be replaced by the report; choose another output file" \
        "a report is not written over its input ($output)"
done
ok "  which is unchanged" cmp same/a.log same.log
gzip same.log
report same.log.gz -o x.html
is "$rc $out" "2 megatron report: same.log.gz is compressed and is not read; decompress it first" "a compressed log"
report same/a.log same.log.gz -o x.html
is "$rc $out" "0 megatron: warning: same.log.gz is compressed and is not read; decompress it first" "  beside another"
report run --peak-tflops 0 -o x.html
is "$rc" 2 "a peak of zero"

# Megatron-DeepSpeed prints seconds.
sed -n 's/(ms): \([0-9.]*\)/(s): 12\1/p' other.log >deepspeed.log
report deepspeed.log -o deepspeed.html
like "$(tile deepspeed.html 'median step')" '^12[0-9.]+k? s$' "long steps are in seconds"

# --- Records of other commands
mkdir records
cp other.log records/a.log
cat >records/b.jsonl <<'EOT'
{"record":"ranks","version":1,"iteration":10,"hosts":["n<1>","n<1>","n2","n2"],"ms":[10,11,12,13]}
{"record":"power","version":1,"iteration":1,"watts":[600,650,690],"mhz":[1600,1700,1980]}
{"record":"power","version":1,"iteration":2,"watts":[601,651,691],"mhz":[1600,1700,1980]}
{"record":"placement","version":1,"host":"n2","tasks":[{"task":0,"gpus":[{"index":5,"pci":"0000:53:00.0"}],"nics":["rdmap79s0"],"cpus":"0-11","numa":[0]}]}
{"record":"placement","version":1,"host":"n3","tasks":[{"task":9,"rank":9,"gpus":[],"nics":[],"cpus":"0-1"}]}
{"record":"placement","version":1,"host":"n4","tasks":[{"task":9,"rank":9,"gpus":[],"nics":[],"cpus":"2-3"}]}
{"record":"preflight","version":1,"host":"n2","check":"ECC","verdict":"fail","value":"3","expected":"0","advice":"replace <it>"}
{"record":"preflight","version":1,"host":"n1","check":"ECC","verdict":"ok"}
{"record":"plan","version":1,"layout":"tp 8","step_s":1.0}
EOT
report records -o records.html
is "$rc:$out" 0: "records"
while read -r pattern; do like "$(cat records.html)" "$pattern" "  $pattern"; done <<'EOT'
<b title="n&#60;1&#62;">n&#60;1&#62;</b>
<i class="h9" title="rank 3: 13 ms"></i>
<figure class="chart" id="power">
<figure class="chart" id="clock">
task <b>0</b> GPU 5<br><small>CPUs 0-11<br>rdmap79s0
1 of 2 checks passed
replace &#60;it&#62;
<h3>Plan and measurement</h3>
<b>n4</b><div class="task">rank <b>9</b><br><small>CPUs 2-3
EOT
unlike "$(cat records.html)" '<b>n3</b>' "a rank is where it started last"
unlike "$(cat run.html)" 'Preflight|Placement|Plan against|class="heat"|id="power"' "no section without records"

# --- Numbers that no run has: the page is written, small, and its script ends
script=$top/runtime/run/report/page.js
for lines in '{"iteration":18014398509481984,"lm_loss":5,"time":1e9}' \
    '{"iteration":9e18,"lm_loss":5}' '{"iteration":9000000000000000000,"lm_loss":1e300}' \
    '{"iteration":1,"lm_loss":1e38,"time":-1e300}\n{"iteration":18014398509481984,"lm_loss":-1e38,"time":1e300}' \
    ' iteration 1/ 9 | elapsed time per iteration (ms): 1e36 | lm loss: 1e-40 |\n iteration 2/ 9 | elapsed time per iteration (ms): 1e36 | lm loss: inf |'; do
    printf "$lines\n" >numbers.log
    TRY_LIMIT=60 report numbers.log -o numbers.html
    ok "$rc: $lines" test "$rc" -lt 3
    [ "$rc" != 0 ] || ok "  a page of $(stat -c %s numbers.html) bytes" test "$(stat -c %s numbers.html)" -lt 100000
done
if node=$(command -v node); then
    out=$(timeout 60 "$node" -e "$(sed -n '/function ticks(/,/^    }/p' "$script")
        console.log([[0, 10, 2], [2 ** 54, 2 ** 54 + 4, 1], [0, 1e300, 1], [NaN, NaN, NaN]].map(t => ticks(...t).length).join(' '))")
    is "$out" "6 5 20 0" "the script counts ticks, too"
fi

# --- Size: a long run of many ranks is thinned out
mkdir long
steps 1 20000 20000 >long/train.log
awk 'BEGIN {
    printf "{\"record\":\"ranks\",\"version\":1,\"iteration\":9,\"hosts\":["
    for (i = 0; i < 1024; i++) printf "%s\"node-%04d.cluster.example\"", i ? "," : "", i / 8
    printf "],\"ms\":["
    for (i = 0; i < 1024; i++) printf "%s%d.25", i ? "," : "", 1000 + i % 37
    print "]}"
}' >long/ranks.jsonl
report long -o long.html
[ "$(stat -c %s long.html)" -lt 700000 ]
ok "20,000 steps of 1,024 ranks: $(stat -c %s long.html) bytes"
is "$(grep -o 'title="rank [0-9]*: 10[0-9]* ms' long.html | wc -l)" 1024 "  with every rank"
like "$(cat long.html)" 'step 20000 of 20000' "  and every step"

# --- What train and supervise write themselves
mkdir own
small=(--device cpu --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16
    --mock-data --tokenizer-type GPT2BPETokenizer --micro-batch-size 1 --global-batch-size 1 --lr 1e-3 --log-interval 1
    --train-iters 6 --save "own/check points" --save-interval 2 --eval-iters 1 --eval-interval 3 --log-throughput)
"$megatron" supervise --report own/report.html -- "$megatron" train "${small[@]}" --metrics-file own/metrics.jsonl \
    >own/train.log 2>&1
is "$?" 0 "supervise --report" || diag "$(tail -n 5 own/train.log)"
page=$(cat own/report.html)
like "$page" '<p>finished: step 6 of 6</p>' "  writes a report"
like "$page" "<pre>.*train .* --save &#39;own/check points&#39; " "  with the command line"
like "$page" '<td>megatron [0-9.]+; built with:' "  with the version"
is "$(tile own/report.html starts) $(tile own/report.html 'lost steps')" "1 0" "  in which the log and the metrics are one start"
like "$page" '</i>saving <b>' "  with the time of saves"
report own/metrics.jsonl -o metrics.html
is "$rc:$out" 0: "the metrics alone"
done_testing
