#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The report in a real browser: no error in the console, and the script draws the charts.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron
[ -x "$megatron" ] || skip_all "no $megatron; build first"
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
    skip_all "no chromium; install it to test the report in a browser"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
mkdir run
awk 'BEGIN { for (i = 1; i <= 300; i++) {
    if (i == 200 && !back++) i = 150
    printf " [2025-05-27 01:%02d:%02d] iteration %8d/%8d | consumed samples: %12d | elapsed time per iteration (ms): %.1f |", i / 60, i % 60, i, 300, 8 * i, 1000 + i % 7
    printf " learning rate: %.6E | global batch size:     8 | lm loss: %.6E | loss scale: 1.0 | grad norm: %.3f |\n", 3e-4, 2 + 8 / i, 1 + i % 3
} }' >run/a.log
"$megatron" report run -o run.html || exit 1

# open FILE OPTION...: what the page looks like after its script has run, and the browser's messages.
open() {
    local file=$1
    shift
    timeout -k 5 300 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$scratch/profile" \
        --enable-logging=stderr --v=0 "$@" "file://$scratch/$file" 2>messages
}
page=$(open run.html --dump-dom)
[ -n "$page" ] || skip_all "$browser does not run here: $(tail -n 1 messages)"
console=$(grep CONSOLE messages)
is "$console" "" "no message in the console"
like "$page" '<div class="controls">' "the script ran: it shows the buttons"
is "$(grep -o 'aria-pressed="[a-z]*">log</button>' <<<"$page" | wc -l)" "$(grep -c '<figure class="chart"' run.html)" "  and adds one to each chart"
# The curve of 299 losses that count goes from the left edge to the right and down, in order.
ok "and draws the curve of the loss" awk -v d="$(grep -o '<path class="raw c0" d="[^"]*"' <<<"$page" | head -n 1)" 'BEGIN {
    gsub(/[^0-9. ]+/, " ", d); n = split(d, v, " "); first = 3  # after the 0 of the class
    if (v[1] != 0) first = 1; else first = 2
    if ((n - first + 1) / 2 < 290 || v[first] != 76 || v[n - 1] != 706 || v[first + 1] >= v[n]) exit 1
    for (i = first + 2; i < n; i += 2) if (v[i] <= v[i - 2]) exit 1 }'
is "$(grep -o '<path class="lost c0" d="M[^"]*"' <<<"$page" | wc -l)" "$(grep -o '"look":"lost"' run.html | wc -l)" "and the lost steps of each chart"
# A page whose script was changed does not run it.
sed "s/^'use strict';/'use strict'; /" run.html >changed.html
page=$(open changed.html --dump-dom)
like "$(grep CONSOLE messages)" 'Content Security Policy' "a changed script is refused"
like "$page" '<div class="controls" hidden' "  and the page is readable without it"
for size in 1400,2000 390,2000; do
    open run.html --window-size=$size --screenshot="$scratch/$size.png" >/dev/null
    [ -s "$size.png" ]
    ok "a picture of $size"
done
done_testing
