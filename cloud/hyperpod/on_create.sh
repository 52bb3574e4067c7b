#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Lifecycle script of a SageMaker HyperPod cluster with Slurm, to be called at the end of AWS's own on_create.sh (before
# its `exit`), which sets up Slurm: it runs as root on every node, in any order. Upload it with node.sh and the release tarball
# to the cluster's LifeCycleConfig/SourceS3Uri.
#
# Slurm is configless here (slurmd --conf-server): the nodes get plugstack.conf from the controller, but no file
# that it includes. So the plugin's line is in plugstack.conf itself. It says `optional`: nodes join in any order,
# and slurmd does not start where a `required` plugin is missing.
set -eu
here=$(dirname "$(readlink -f "$0")")
log=${MEGATRON_LOG:-/var/log/provision/megatron.log}
mkdir -p "$(dirname "$log")"
tarball=$(find "$here" -maxdepth 1 -name 'megatron-*.tar.xz' | sort | tail -n 1)
[ -n "$tarball" ] || { echo "on_create.sh: no megatron-*.tar.xz in $here; upload the tarball next to this script" >&2; exit 1; }

# AWS's scripts start Slurm in the background.
for ((i = 0; i < ${MEGATRON_WAIT:-300}; i++)); do
    [ ! -x "${MEGATRON_SLURM:-/opt/slurm}/sbin/slurmd" ] || break
    sleep 1
done
bash "$here/node.sh" "$tarball" "$@" 2>&1 | tee -a "$log"
exit "${PIPESTATUS[0]}"
