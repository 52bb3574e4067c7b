#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What srun reports about an image before the job is queued: invalid files, two containers
# requested. Nothing is started, so Enroot is not needed.
. "$(dirname "$0")/../tap.sh"
cluster_up --nodes 1

say() { try as_user srun -n1 "$@"; }
say --megatron-image=/nowhere/image.sqsh true
like "$out" 'megatron: warning: the image /nowhere/image.sqsh does not exist on this host; the nodes must have it' "a file that is not there"
say --megatron-image=/etc/hostname true
like "$out" 'megatron: warning: on this host, .*/etc/hostname.*squashfs.*; the nodes will reject such a file' "a file that is not an image"
[ "$rc" -ne 0 ]
ok "which the node refuses" || diag "$out"
touch "$MEGATRON_CLUSTER/home/closed"
chmod 0 "$MEGATRON_CLUSTER/home/closed"
say --megatron-image="$MEGATRON_CLUSTER/home/closed" true
like "$out" 'megatron: warning: cannot read the image .*/closed on this host: Permission denied' "a file that may not be read"
say --megatron-image=/nowhere/image.sqsh --megatron-mounts=/nowhere/data:/data true
like "$out" 'megatron: warning: the mount source /nowhere/data does not exist on this host' "a mount that is not there"
say --megatron-image=/nowhere/image.sqsh --megatron-mounts=/tmp:/x,/usr:/x/. true
like "$out" 'the target /x is given twice' "one target in two spellings"

both='cannot be used together'
say --megatron-image=/nowhere/image.sqsh echo --container-image=other
unlike "$out" "$both" "a program's own --container-image is not an option of srun"
try as_user env PYXIS_CONTAINER_IMAGE=other srun -n1 --megatron-image=/nowhere/image.sqsh true
like "$out" "$both" "Pyxis asked by its variable"
try as_user env _SLURM_SPANK_OPTION_pyxis_container_image=other srun -n1 --megatron-image=/nowhere/image.sqsh true
like "$out" "$both" "Pyxis asked by the job that the step is in"
done_testing
