#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# megatron topo: the table, the JSON, the picture, the file, and the errors.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron
[ -x "$megatron" ] || skip_all "no $megatron; build first"
nodes=$top/t/topologies
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
p5=$nodes/p5.48xlarge.xml
try "$megatron" topo --topology "$p5"
case $out in *libhwloc* | *"without hwloc"*) skip_all "$out" ;; esac

is "$rc" 0 "a table"
like "$out" '^p5.48xlarge.xml: 96 cores, 192 CPUs, 2 NUMA nodes, 8 GPUs, 32 compute NICs$' "with the node above"
like "$out" '^ +7  7 0000:ca:00.0  rdmap198s0,rdmap199s0,rdmap200s0,rdmap201s0 +1 +84-95,180-191$' "and a row per task"
is "$(wc -l <<<"$out")" 11 "and nothing else"

try "$megatron" topo --topology "$p5" --tasks 1 --gpus 0 --cpus 0-11,96-107 --json
is "$out" '[
  {"task":0,"gpus":[{"index":0,"pci":"0000:53:00.0"}],"nics":["rdmap79s0","rdmap80s0","rdmap81s0","rdmap82s0"],"cpus":"0-11,96-107","numa":[0]}
]' "JSON"
try "$megatron" topo --topology "$nodes/cpu-only.xml" --tasks 2 --nics none --json
is "$out" '[
  {"task":0,"gpus":[],"nics":[],"cpus":"0-15,32-47","numa":[0]},
  {"task":1,"gpus":[],"nics":[],"cpus":"16-31,48-63","numa":[1]}
]' "JSON of a node without GPUs"
sed 's/<object type="OSDev".*//' "$p5" >"$scratch/nameless.xml"
try "$megatron" topo --topology "$scratch/nameless.xml" --gpus 7 --json
like "$out" '"nics":\["0000:c6:00.0","0000:c7:00.0","0000:c8:00.0","0000:c9:00.0"\]' "NICs without a name"

# XML that hwloc itself does not write is read too, by libxml2.
if [ -e "$(find /usr/lib* -name hwloc_xml_libxml.so -print -quit 2>/dev/null)" ]; then
    sed 's/<topology/<!-- edited by hand -->\n&/; s/<object type="Package"/<object\n  type="Package"/' "$p5" >"$scratch/edited.xml"
    is "$("$megatron" topo --topology "$scratch/edited.xml" --json 2>&1)" "$("$megatron" topo --topology "$p5" --json)" \
        "XML that was edited by hand"
else
    skip "XML that was edited by hand" "hwloc has no libxml2 plugin here"
fi

# Every node: the saved file gives the same placement as the XML.
[ -d "${MEGATRON_TEST_TOPOLOGIES:-}" ] || skip "exports of real nodes" "MEGATRON_TEST_TOPOLOGIES is not set"
for file in "$nodes"/*.xml "${MEGATRON_TEST_TOPOLOGIES:-/nonexistent}"/*.xml; do
    [ -f "$file" ] || continue
    xml=$("$megatron" topo --topology "$file" --json --save "$scratch/saved" 2>&1)
    is "$("$megatron" topo --topology "$scratch/saved" --json 2>&1)" "$xml" "$(basename "$file") saved and read"
done

try "$megatron" topo --topology "$p5" --svg -
is "$rc $(head -c 4 <<<"$out") $(tail -n 1 <<<"$out")" "0 <svg </svg>" "a picture"
is "$(grep -c '<title>GPU' <<<"$out") $(grep -c '<title>rdmap' <<<"$out") $(grep -c '<title>CPU' <<<"$out")" "8 32 192" \
    "of all GPUs, NICs and CPUs"
sed 's/name="rdmap79s0"/name="a\&amp;\&lt;b\&gt;\&quot;\\"/' "$p5" >"$scratch/hostile.xml"
try "$megatron" topo --topology "$scratch/hostile.xml" --svg -
like "$out" '<title>a&amp;&lt;b&gt;"' "names are quoted in the picture"
try "$megatron" topo --topology "$scratch/hostile.xml" --gpus 0 --json
like "$out" '"nics":\["a&<b>\\"\\\\",' "and in JSON"
try "$megatron" topo --topology "$p5" --svg "$scratch/p5.svg" --json
like "$(head -n 1 <<<"$out")$(tail -n 1 "$scratch/p5.svg")" '^\[</svg>$' "a picture in a file, JSON on the output"

try "$megatron" topo
is "$rc" 0 "this machine"

# Errors: one line, what to do, exit status 2 (or $code, if a file cannot be used).
refused() {
    local name=$1 wanted=$2
    shift 2
    try "$megatron" topo "$@"
    is "$rc $(wc -l <<<"$out")" "${code:-2} 1" "$name: one line and the exit status"
    like "$out" "^megatron topo: .*$wanted" "$name: names the problem"
}
refused "no such file" "cannot open /nonexistent: No such file" --topology /nonexistent
refused "a folder" "is not a regular file" --topology /
echo "<topology><broken" >"$scratch/broken.xml"
refused "a broken file" "broken.xml is not an hwloc XML file" --topology "$scratch/broken.xml"
: >"$scratch/empty.xml"
refused "an empty file" "empty.xml is not an hwloc XML file" --topology "$scratch/empty.xml"
refused "GPUs that are not there" "there is no GPU 6-8; the node has 8" --topology "$p5" --gpus 0,6-8
refused "CPUs that are not a list" "--cpus=1-x is not a list" --topology "$p5" --cpus 1-x
refused "CPUs that are not there" "--cpus=500: the node has none of these CPUs; use some of 0-191" --topology "$p5" --cpus 500
refused "an unknown policy" "use auto, none, gpu" --topology "$p5" --bind sockets
refused "an unknown option" "did you mean --topology" --topolgy "$p5"
refused "a word too many" "--topology" "$p5"
refused "no task" "out of range" --topology "$p5" --tasks 0
chmod 755 "$scratch" && : >"$scratch/libhwloc.so.15"
out=$(LD_LIBRARY_PATH=$scratch "$megatron" topo --topology "$p5" 2>&1)
like "$out" "^megatron topo: cannot load libhwloc.so.15: .*; install libhwloc15 on the compute nodes$" "hwloc is missing"
"$megatron" topo --topology "$p5" --save "$scratch/p5" >"$scratch/table"
LD_LIBRARY_PATH=$scratch "$megatron" topo --topology "$scratch/p5" --json >/dev/null
ok "a saved file needs no hwloc"

# The picture in the README is what the program draws.
"$megatron" topo --topology "$p5" --tasks 8 --svg "$scratch/p5.svg" >/dev/null
ok "doc/p5.48xlarge.svg is current" cmp "$top/doc/p5.48xlarge.svg" "$scratch/p5.svg" ||
    diag "update it: megatron topo --topology t/topologies/p5.48xlarge.xml --tasks 8 --svg doc/p5.48xlarge.svg"

# The man page has the options that --help has.
page=$top/runtime/run/command/megatron-topo.1
is "$("$megatron" topo --help | grep -oE '^ +--[a-z-]+' | tr -d ' ' | grep -v -e --help | sort | xargs)" \
    "$(sed -n 's/^\.It Fl -\([a-z-]*\).*/--\1/p' "$page" | sort | xargs)" "the man page is complete"
# What was done for a GPU that is far from the tasks.
while IFS='|' read -r options expected; do
    # shellcheck disable=SC2086
    try "$megatron" topo --topology "$nodes/dgx.xml" --gpus 0 $options
    like "$out" "^megatron: warning: $expected$" "topo --gpus 0 $options" || diag "$out"
done <<'EOT'
--tasks 4|4 tasks share 1 GPU; request a GPU for each \(sbatch --gpus-per-task=1\) if that is not intended
--tasks 16|8 of 16 tasks are not on their GPU's NUMA node: too few CPUs were allocated there, so they run on the nearest ones; use sbatch --gres-flags=enforce-binding, or request more CPUs
--tasks 2 --cpus 0-7|2 of 2 tasks are not on their GPU's NUMA node: .*
--tasks 8 --bind core|7 of 8 tasks use a GPU of another NUMA node: there is none near their cores; request CPUs near the GPUs \(sbatch --gres-flags=enforce-binding\)
--tasks 128|128 tasks share 64 cores, each with its own hardware thread; for a core each, use fewer tasks or request more CPUs \(Slurm: sbatch --cpus-per-task\)
--tasks 3 --cpus 0|3 tasks share 1 hardware thread of 1 core; use fewer tasks, or request more CPUs \(Slurm: sbatch --cpus-per-task\)
EOT
# A NUMA node without CPUs: the second one of the DGX, which has two GPUs, without its cores.
awk '/type="Group"/ && ++groups == 2 { inside = 1 }
    !inside { gsub(/cpuset="0xffffffff,0x00000000,0xffffffff"/, "cpuset=\"0xffff00ff,0x00000000,0xffff00ff\"")
              gsub(/cpuset="0xffffffff,0xffffffff,0xffffffff,0xffffffff"/, "cpuset=\"0xffffffff,0xffff00ff,0xffffffff,0xffff00ff\"") }
    inside && /type="Core"/ { core = 1 }
    inside && !core { gsub(/cpuset="[^"]*"/, "cpuset=\"0x0\""); print }
    !inside { print }
    core && /^        <\/object>/ { core = 0 }
    inside && /^      <\/object>/ { inside = 0 }' "$nodes/dgx.xml" >"$scratch/no-cpus.xml"
try "$megatron" topo --topology "$scratch/no-cpus.xml"
like "$out" '^no-cpus.xml: 56 cores, 112 CPUs, 8 NUMA nodes, 8 GPUs' "a NUMA node without CPUs"
like "$out" 'warning: 2 of 8 tasks run on the nearest CPUs: the NUMA node of their GPU has none; this needs no action unless lstopo shows CPUs there$' "  is reported"

if command -v mandoc >/dev/null; then
    is "$(mandoc -T lint -W warning "$page")" "" "and clean"
else
    skip "the man page is well formed" "no mandoc"
fi
done_testing
