#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A component of image.yaml, which starts scripts without arguments. Upload it to the bucket beside node.sh, and
# write the name of the bucket here.
set -eu
bucket=${BUCKET:-BUCKET}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
aws s3 cp --only-show-errors "s3://$bucket/node.sh" "$work/node.sh"
bash "$work/node.sh" --image
