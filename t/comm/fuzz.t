#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/../fuzz/short.sh"
fuzz_shortly fuzz-wire "hostile peers"
