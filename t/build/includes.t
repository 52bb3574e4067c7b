#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Includes point down only: a folder uses its own headers and those of the layers below it, in the order of
# runtime/Makefile.am, and no header includes itself through others.
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
my @layers = ('lib', 'container', 'spank', map { "runtime/$_" } grep { /^[a-z]+$/ } split ' ', $subdirs);
my %level = map { $layers[$_] => $_ } 0 .. $#layers;
$level{runtime} = @layers; # main.c

sub layer_of {
    my ($folder) = $_[0] =~ m{^(runtime/[a-z]+(?=/)|[a-z]+)};
    return $folder;
}

# Where a file's includes are searched: its own folder, then those of its Makefile.am.
my %paths;
sub paths_of {
    my ($folder) = $_[0] =~ m{(.*)/};
    return @{ $paths{$folder} } if $paths{$folder};
    my $from = $folder;
    $from =~ s{/[^/]*$}{} until -e "$from/Makefile.am";
    my @found = contents("$from/Makefile.am") =~ /-I(\S+)/g;
    s/\$\(top_srcdir\)/./, s/\$\(srcdir\)/$from/, s{^\./}{} for @found;
    $paths{$folder} = [$folder, $from, @found];
    return @{ $paths{$folder} };
}

my (@files, %uses);
find({ no_chdir => 1, wanted => sub { push @files, $_ if /\.(c|h|cpp|cu|cuh)$/ } }, qw(lib spank container runtime));
for my $file (sort @files) {
    my $own = layer_of($file);
    for my $name (contents($file) =~ /^#\s*include "([^"]+)"/mg) {
        next if $name eq 'config.h' || $name =~ /\.inc$/; # written by the build
        my ($found) = grep { -e } map { "$_/$name" } paths_of($file);
        if (!$found) {
            print "$file: $name is not found\n";
            next;
        }
        1 while $found =~ s{[^/]+/\.\./}{};
        push @{ $uses{$file} }, $found;
        my $other = layer_of($found);
        my $down = $level{$other} <= $level{$own} && !($other eq 'spank' && $own ne 'spank');
        print "$file includes $found, which is above it\n" if !$down;
    }
}

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
is "$(grep -v ' files, ' <<<"$found")" "" "every include points down, and none is in a cycle"

# What is forbidden is found.
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{lib,spank,container,runtime/core,runtime/model}
echo 'SUBDIRS = core model .' >"$tree/runtime/Makefile.am"
for folder in lib spank container runtime/core runtime/model; do
    echo 'AM_CPPFLAGS = -I$(top_srcdir)/lib -I$(top_srcdir)/spank -I$(top_srcdir)/runtime/core -I$(top_srcdir)/runtime/model' >"$tree/$folder/Makefile.am"
done
echo '#include "model.h"' >"$tree/runtime/core/core.h"
echo '#include "core.h"' >"$tree/runtime/model/model.h"
echo '#include "plugin.h"' >"$tree/runtime/core/a.c"
echo '#include "nothing.h"' >"$tree/lib/b.c"
touch "$tree/spank/plugin.h"
found=$(check "$tree")
like "$found" '^runtime/core/core\.h includes runtime/model/model\.h, which is above it$' "an include of a higher layer is found"
like "$found" '^runtime/core/a\.c includes spank/plugin\.h, which is above it$' "an include of the plugin is found"
like "$found" '^a cycle: .*runtime/core/core\.h runtime/model/model\.h runtime/core/core\.h$' "a cycle is found"
like "$found" '^lib/b\.c: nothing\.h is not found$' "a header that does not exist is found"
done_testing
