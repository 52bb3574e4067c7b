#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# cloud/node.sh, the script that installs megatron on cloud nodes, against a stand-in for /opt/slurm whose
# configuration is that of a private cluster. The source tarball is a stand-in, too: it installs this build.
. "$(dirname "$0")/../spank/common.sh"
cluster_up --nodes 1 --plugin no
work=$MEGATRON_CLUSTER/tmp/cloud
slurm=$work/slurm conf=$MEGATRON_CLUSTER/etc/plugstack.conf
mkdir -p "$work" "$slurm/bin" "$slurm/sbin" "$work/source"
for program in srun scontrol sinfo slurmd; do
    ln -s "$(PATH=$PATH:/usr/sbin command -v $program)" "$slurm/$([ $program = slurmd ] && echo sbin || echo bin)/$program"
done
ln -s "$MEGATRON_CLUSTER/etc" "$slurm/etc"
cat >"$work/source/configure" <<EOT
#!/bin/sh
[ ! -e "$work/broken" ] || { echo "configure: error: no compiler" >&2; exit 1; }
for word; do case \$word in --prefix=*) prefix=\${word#*=} ;; --with-slurm=$slurm) slurm=yes ;; esac; done
printf 'all:\ninstall:\n\tmkdir -p %s\n\tcp -a $MEGATRON_INST/. %s/\n' "\$prefix" "\$prefix" >Makefile
[ "\$slurm" = yes ]
EOT
chmod +x "$work/source/configure"
tar -cJf "$work/megatron.tar.xz" -C "$work" source

# node NAME [WORD...]: run the script on node NAME, whose own files are in $work/NAME.
node() {
    local name=$1
    shift
    try in_cluster env MEGATRON_SLURM="$slurm" MEGATRON_ROOT="$work/$name" MEGATRON_PACKAGES=no bash "$top/cloud/node.sh" "${@:-$work/megatron.tar.xz}"
}
for name in HeadNode ComputeFleet LoginNode Elsewhere; do
    mkdir -p "$work/$name/etc/parallelcluster"
    echo "cfn_node_type=$name" >"$work/$name/etc/parallelcluster/cfnconfig"
done
lines() { grep -c spank_megatron "$conf"; }

node HeadNode
is "$rc" 0 "ParallelCluster: the head node" || diag "$out"
is "$(grep -v '^#' "$conf")" "optional $slurm/megatron/lib/slurm/spank_megatron.so" "plugstack.conf loads the plugin"
try as_user srun -n1 --megatron-show true
like "$out" "task 0" "a job uses it" || diag "$out"
is "$(find "$slurm/etc" "$slurm/megatron" -name '*.new.*')" "" "no temporary file is left"
node HeadNode
is "$rc $(lines)" "0 1" "a second run changes nothing" || diag "$out"
like "$out" "is up to date" "and builds nothing"
sed -i 's/^optional/required/' "$conf"
node HeadNode
is "$rc $(lines) $(grep -c "already loads the plugin, with .required': Slurm fails every job on a node without it" <<<"$out")" "0 1 1" \
    "an administrator's \`required' is left, with a warning" || diag "$out"
sed -i 's/^required/optional/' "$conf"

state() { (cd "$slurm" && find -L . -type f -path './megatron/*' -printf '%P %s %T@\n'; cat "$conf") | sort | sha256sum; }
before=$(state)
for i in {1..64}; do
    mkdir -p "$work/c$i/etc" && cp -r "$work/ComputeFleet/etc/parallelcluster" "$work/c$i/etc/"
    in_cluster env MEGATRON_SLURM="$slurm" MEGATRON_ROOT="$work/c$i" MEGATRON_PACKAGES=no bash "$top/cloud/node.sh" "$work/megatron.tar.xz" >"$work/c$i.log" 2>&1 &
    pids[i]=$!
done
failed=
for i in {1..64}; do wait "${pids[i]}" || failed+=" $i"; done
is "$failed" "" "64 compute nodes boot at once"
is "$(state)" "$before" "and write nothing that is shared"
ok "each has Enroot's hook and configuration" test -x "$work/c7/etc/enroot/hooks.d/97-megatron-efa.sh" -a -f "$work/c7/etc/enroot/enroot.conf.d/megatron.conf"
node LoginNode
is "$rc" 0 "a login node" || diag "$out"

# A node that does not build gets the packages of the build's libraries, and only those that it lacks.
packages=$slurm/megatron/share/megatron/packages
if command -v dpkg-query apt-get >/dev/null; then
    mkdir "$work/fake"
    cat >"$work/fake/dpkg-query" <<EOT
#!/bin/sh
for word; do grep -xF -e "\$word" "$work/installed"; done | sed 's/^/installed /'
EOT
    cat >"$work/fake/apt-get" <<EOT
#!/bin/sh
echo "\$*" >>"$work/apt"
[ ! -e "$work/offline" ]
EOT
    chmod +x "$work/fake/"*
    boots() { # NAME: the packages that the node asks for
        : >"$work/apt"
        try in_cluster env PATH="$work/fake:$PATH" MEGATRON_SLURM="$slurm" MEGATRON_ROOT="$work/$1" bash "$top/cloud/node.sh" "$work/megatron.tar.xz"
        asked=$(sed -n 's/.* install //p' "$work/apt")
    }
    ok "the head node records the packages of the libraries" grep -qxE 'libc6' "$packages"
    grep -vxE 'libc6|squashfs-tools' "$packages" >"$work/installed"
    boots ComputeFleet
    is "$rc $asked" "0 libc6 squashfs-tools" "a compute node installs those that it lacks" || diag "$out"
    boots LoginNode
    is "$rc $asked" "0 libc6 squashfs-tools" "so does a login node" || diag "$out"
    touch "$work/offline"
    boots ComputeFleet
    is "$rc" 0 "one that cannot joins the cluster nevertheless"
    like "$out" "cannot install libc6 squashfs-tools, which megatron needs" "and says so"
    cp "$packages" "$work/installed"
    boots ComputeFleet
    is "$rc $(cat "$work/apt")" "0 " "a node made from an AMI that contains them asks for nothing" || diag "$out"
    rm -f "$work/offline"
else
    skip "packages of nodes that do not build" "this system does not use dpkg"
fi

# Trouble: one line, and jobs run on.
node Elsewhere
is "$rc" 1 "an unknown kind of node is refused"
like "$out" "neither ParallelCluster nor HyperPod" "with a reason"
node HeadNode "$work/nothing.tar.xz"
is "$rc" 1 "a missing tarball is refused"
like "$out" "cannot get $work/nothing.tar.xz" "by name"
touch "$work/broken"
echo "# changed" >>"$work/source/configure"
tar -cJf "$work/other.tar.xz" -C "$work" source
node HeadNode "$work/other.tar.xz"
is "$rc" 1 "a failed build is an error"
like "$out" "the build of $work/other.tar.xz failed" "by name"
is "$(state)" "$before" "that leaves the installed version"
rm "$work/broken"

# A plugin for another release of Slurm: never in plugstack.conf.
: >"$conf"
in_cluster scontrol reconfigure
cp -a "$MEGATRON_INST" "$work/inst"
other_release "$work/inst/lib/slurm/spank_megatron.so"
sed -i "s|$MEGATRON_INST/\.|$work/inst/.|" "$work/source/configure"
tar -cJf "$work/wrong.tar.xz" -C "$work" source
node HeadNode "$work/wrong.tar.xz"
is "$rc" 1 "a plugin for another Slurm is refused" || diag "$out"
like "$out" "Slurm does not accept the plugin; plugstack.conf is unchanged: .*[Ii]ncompatible" "with Slurm's reason"
is "$(lines)" 0 "it is not in plugstack.conf"
try as_user srun -n1 true
is "$rc" 0 "jobs run on" || diag "$out"
rm -rf "$slurm/megatron"
echo "required /usr/local/lib/slurm/spank_megatron.so" >"$conf"
node HeadNode
is "$rc" 1 "a second copy of the plugin is refused"
like "$out" "already loads another copy of the plugin, /usr/local/lib/slurm/spank_megatron.so" "by name"
: >"$conf"

if ! command -v python3 >/dev/null; then
    skip "HyperPod" "no python3, which its nodes have and node.sh reads its configuration with"
    done_testing
fi
# HyperPod: every node builds; the controller adds the line.
for name in controller worker; do
    mkdir -p "$work/$name/opt/ml/config"
    echo '{"controller_group": "head"}' >"$work/$name/opt/ml/config/provisioning_parameters.json"
done
address=$(hostname -I 2>/dev/null | cut -d' ' -f1)
config='{"InstanceGroups": [{"Name": "gpu", "Instances": [{"CustomerIpAddress": "192.0.2.9"}]}, {"Name": "head", "Instances": [{"CustomerIpAddress": "%s"}]}]}'
# shellcheck disable=SC2059
printf "$config" 192.0.2.7 >"$work/worker/opt/ml/config/resource_config.json"
# shellcheck disable=SC2059
printf "$config" "$address" >"$work/controller/opt/ml/config/resource_config.json"
# The lifecycle script as AWS's on_create.sh runs it, in the folder of the bucket; Slurm may not be there yet.
lifecycle=$work/lifecycle
mkdir "$lifecycle"
cp "$top/cloud/node.sh" "$lifecycle/"
cp "$top/cloud/hyperpod/on_create.sh" "$lifecycle/megatron.sh"
on_create() { # NODE [SLURM]
    try in_cluster env MEGATRON_SLURM="${2:-$slurm}" MEGATRON_ROOT="$work/$1" MEGATRON_PACKAGES=no MEGATRON_WAIT=1 MEGATRON_LOG="$work/$1.log" \
        bash "$lifecycle/megatron.sh"
}
on_create worker
is "$rc" 1 "HyperPod: a lifecycle folder without the tarball is refused"
like "$out" "no megatron-\*.tar.xz in $lifecycle" "with what is missing"
cp "$work/megatron.tar.xz" "$lifecycle/megatron-0.1.0.tar.xz"
on_create worker "$work/nowhere"
is "$rc $(grep -c "no Slurm in $work/nowhere" "$work/worker.log")" "1 1" "so is a node whose Slurm does not come" || diag "$out"
on_create worker
is "$rc $(lines)" "0 0" "a worker installs the plugin and adds no line" || diag "$out"
like "$(cat "$work/worker.log")" "this is a worker node" "the log is kept"
if [ -n "$address" ]; then
    on_create controller
    is "$rc $(cat "$conf")" "0 optional $slurm/megatron/lib/slurm/spank_megatron.so" "the controller adds the line, with optional" || diag "$out"
    on_create controller
    is "$rc $(lines)" "0 1" "once" || diag "$out"
    # A worker that is not ready: the plugin's file is missing there. Jobs run, without it.
    mv "$slurm/megatron" "$slurm/away"
    try as_user srun -n1 true
    is "$rc" 0 "a node without the plugin runs jobs" || diag "$out"
    mv "$slurm/away" "$slurm/megatron"
else
    skip "the controller adds the line, with optional" "this machine has no address"
fi
rm "$work/worker/opt/ml/config/provisioning_parameters.json"
on_create worker
is "$rc" 1 "a node that is half configured is refused"
like "$out" "cannot read .*provisioning_parameters.json" "with the file that is missing" || diag "$out"
done_testing
