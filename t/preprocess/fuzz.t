#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/../fuzz/short.sh"
fuzz_shortly fuzz-corpus "hostile lines, files and work files"
