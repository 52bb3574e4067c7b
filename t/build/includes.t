#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Includes point down only: a folder uses its own headers, by their names, and those of the layers below it, by their
# paths, in the order of runtime/Makefile.am, and only those that the other folder's Makefile.am lists as public_headers.
# The wings data/ and engine/ meet only in tokenizer/ and dataset/. No header includes itself through others.
# Calls point down, too: no library of a build uses a symbol of one above it, and in some folders no two files call each
# other.
. "$(dirname "$0")/../tap.sh"

# check TREE: print every include that points up, cannot be found or closes a cycle.
check() {
    (cd "$1" && perl - <<'PERL'
use strict;
use warnings;
use File::Find;

sub contents { open my $file, '<', $_[0] or die "$_[0]: $!"; local $/; return scalar <$file> }

# Layers from the bottom up.
my $makefile = contents('runtime/Makefile.am') =~ s/\\\n//gr;
my ($subdirs) = $makefile =~ /^SUBDIRS = (.*)/m or die "runtime/Makefile.am has no SUBDIRS";
my @layers = ('lib', 'container', 'spank', map { "runtime/$_" } grep { m{^[a-z]+/[a-z]+$} } split ' ', $subdirs);
my %level = map { $layers[$_] => $_ } 0 .. $#layers;
$level{runtime} = @layers; # main.c

sub layer_of {
    my ($folder) = $_[0] =~ m{^(runtime/[a-z]+/[a-z]+(?=/)|[a-z]+)};
    return $folder;
}

# A name is that of a header in the file's own folder, a path begins at the top or at runtime/.
sub found {
    my ($file, $name) = @_;
    my ($folder) = $file =~ m{(.*)/};
    return "$folder/$name" if $name !~ m{/} && -e "$folder/$name";
    return $name =~ m{/} ? (grep { -e } $name, "runtime/$name")[0] : undef;
}

# The headers that a folder offers to others.
my (%public, %used);
for my $layer (grep { -e "$_/Makefile.am" } @layers) {
    my ($headers) = contents("$layer/Makefile.am") =~ s/\\\n//gr =~ /^public_headers = (.*)/m;
    $public{"$layer/$_"} = $layer for split ' ', $headers // '';
}

my (@files, %uses);
find({ no_chdir => 1, wanted => sub { push @files, $_ if /\.(c|h|cpp|cu|cuh)$/ } }, qw(lib spank container runtime));
for my $file (sort @files) {
    my $own = layer_of($file);
    for my $name (contents($file) =~ /^#\s*include "([^"]+)"/mg) {
        next if $name eq 'config.h' || $name =~ /\.inc$/; # written by the build
        my $found = found($file, $name);
        if (!$found) {
            print "$file: $name is not found\n";
            next;
        }
        push @{ $uses{$file} }, $found;
        my $other = layer_of($found);
        my $down = $level{$other} <= $level{$own} && !($other eq 'spank' && $own ne 'spank') &&
            !($own =~ m{^runtime/engine/} && $other =~ m{^runtime/data/} && $other !~ m{/(tokenizer|dataset)$});
        print "$file includes $found, which is above it or in the other wing\n" if !$down;
        next if $other eq $own;
        print "$file includes $found, which is private to its folder\n" if $down && !$public{$found};
        $used{$found} = 1;
    }
}

print "$_ is public, but no other folder includes it\n" for grep { !$used{$_} && $_ !~ m{/base/} } sort keys %public;

my %state;
sub visit {
    my ($file, @way) = @_;
    return if ($state{$file} // '') eq 'done';
    if (($state{$file} // '') eq 'open') {
        print "a cycle: @way $file\n";
        return;
    }
    $state{$file} = 'open';
    visit($_, @way, $file) for @{ $uses{$file} // [] };
    $state{$file} = 'done';
}
visit($_) for sort keys %uses;
printf "%d files, %d includes\n", scalar @files, scalar map { @$_ } values %uses;
PERL
    )
}

found=$(check "$top")
like "$found" '^[0-9]{3,} files, [0-9]{4,} includes$' "the includes of all sources are read"
is "$(grep -v ' files, ' <<<"$found")" "" "every include points down to a public header, and none is in a cycle"

# check_calls BUILD: print every call that points up, and those that close a cycle between files.
check_calls() {
    perl - "$1" <<'PERL'
use strict;
use warnings;

my $build = shift;
# Tables of functions, as of tokenizers or blocks, lead from a file to others and back; here there are none.
my %acyclic = map { $_ => 1 } qw(container runtime/base/core runtime/data/jobs runtime/engine/comm runtime/engine/parallel
    runtime/engine/schedule runtime/run/checkpoint runtime/run/exchange runtime/run/generate runtime/run/plan);

sub contents { open my $file, '<', $_[0] or die "$_[0]: $!"; local $/; return scalar <$file> }
sub folder_of { return $_[0] =~ m{(.*)/} ? $1 : '' }

my ($subdirs) = contents('runtime/Makefile.am') =~ s/\\\n//gr =~ /^SUBDIRS = (.*)/m;
my @layers = grep { -e "$_/Makefile.am" } 'lib', 'container', map { "runtime/$_" } grep { m{^[a-z]+/[a-z]+$} } split ' ', $subdirs;
my %level = map { $layers[$_] => $_ } 0 .. $#layers;
my (%defined, %uses, %calls);
for my $layer (@layers) {
    my ($libraries) = contents("$layer/Makefile.am") =~ s/\\\n//gr =~ /^noinst_LIBRARIES = (.*)/m;
    for my $library (grep { -e } map { "$build/$layer/$_" } split ' ', $libraries // '') {
        for (`nm -A '$library'`) {
            my ($object, $kind, $symbol) = /:([^:]+\.o):\S*\s+(\w) (\S+)$/ or next;
            $kind eq 'U' ? push @{ $uses{"$layer/$object"} }, $symbol : ($defined{$symbol} = "$layer/$object") if $kind =~ /[UTDBRC]/;
        }
    }
}
for my $file (sort keys %uses) {
    for my $symbol (@{ $uses{$file} }) {
        my $other = $defined{$symbol} or next;
        print "$file uses $symbol of $other, which is above it\n" if $level{ folder_of($other) } > $level{ folder_of($file) };
        $calls{$file}{$other} = 1 if $other ne $file && folder_of($other) eq folder_of($file) && $acyclic{ folder_of($file) };
    }
}
my %state;
sub visit {
    my ($file, @way) = @_;
    return if ($state{$file} // '') eq 'done';
    return print "a cycle of calls: @way $file\n" if ($state{$file} // '') eq 'open';
    $state{$file} = 'open';
    visit($_, @way, $file) for sort keys %{ $calls{$file} // {} };
    $state{$file} = 'done';
}
visit($_) for sort keys %calls;
printf "%d objects\n", scalar keys %uses;
PERL
}

cd "$top" || exit 1
found=$(check_calls "$MEGATRON_BUILD")
like "$found" '^[0-9]{3,} objects$' "the calls of all libraries are read"
is "$(grep -v ' objects$' <<<"$found")" "" "every call points down, and none is in a cycle"

# What is forbidden is found.
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{lib,spank,container,runtime/base/core,runtime/data/corpus,runtime/engine/model}
echo 'SUBDIRS = base/core data/corpus engine/model .' >"$tree/runtime/Makefile.am"
echo 'public_headers = core.h' >"$tree/runtime/base/core/Makefile.am"
echo '#include "base/core/private.h"' >"$tree/runtime/engine/model/private.c"
touch "$tree/runtime/base/core/private.h"
echo 'public_headers = corpus.h unused.h' >"$tree/runtime/data/corpus/Makefile.am"
echo '#include "engine/model/model.h"' >"$tree/runtime/base/core/core.h"
echo '#include "base/core/core.h"' >"$tree/runtime/engine/model/model.h"
echo '#include "data/corpus/corpus.h"' >"$tree/runtime/engine/model/model.c"
touch "$tree/runtime/data/corpus/corpus.h"
echo '#include "spank/plugin.h"' >"$tree/runtime/base/core/a.c"
echo '#include "nothing.h"' >"$tree/lib/b.c"
touch "$tree/spank/plugin.h"
found=$(check "$tree")
like "$found" '^runtime/base/core/core\.h includes runtime/engine/model/model\.h, which is above it or in the other wing$' "an include of a higher layer is found"
like "$found" '^runtime/base/core/a\.c includes spank/plugin\.h, which is above it or in the other wing$' "an include of the plugin is found"
like "$found" '^runtime/engine/model/model\.c includes runtime/data/corpus/corpus\.h' "an include of the other wing is found"
like "$found" '^a cycle: .*runtime/base/core/core\.h runtime/engine/model/model\.h runtime/base/core/core\.h$' "a cycle is found"
like "$found" '^runtime/engine/model/private\.c includes runtime/base/core/private\.h, which is private to its folder$' "an include of a private header is found"
like "$found" '^runtime/data/corpus/unused\.h is public, but no other folder includes it$' "a public header that nobody includes is found"
like "$found" '^lib/b\.c: nothing\.h is not found$' "a header that does not exist is found"

mkdir -p "$tree/_build"/{lib,runtime/base/core}
echo 'noinst_LIBRARIES = libmegatron.a' >"$tree/lib/Makefile.am"
echo 'noinst_LIBRARIES = libcore.a' >>"$tree/runtime/base/core/Makefile.am"
(
    cd "$tree/_build" || exit
    echo 'void core_log(void); void low(void); void low(void) { core_log(); }' >low.c
    echo 'void core_log(void); void core_open(void); void core_log(void) { core_open(); }' >log.c
    echo 'void core_log(void); void core_open(void); void core_open(void) { core_log(); }' >open.c
    "${CC:-cc}" -c low.c log.c open.c && ar rc lib/libmegatron.a low.o && ar rc runtime/base/core/libcore.a log.o open.o
)
found=$(cd "$tree" && check_calls _build)
like "$found" '^lib/low\.o uses core_log of runtime/base/core/log\.o, which is above it$' "a call of a higher layer is found"
like "$found" '^a cycle of calls: runtime/base/core/log\.o runtime/base/core/open\.o runtime/base/core/log\.o$' "a cycle of calls is found"
done_testing
