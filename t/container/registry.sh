# SPDX-License-Identifier: Apache-2.0
# A registry with test images, and an Enroot to import them. The real Enroot is used if there is one (tap.sh sets
# MEGATRON_TEST_ENROOT to its directory; Debian's docker-registry, umoci and skopeo then serve the images on
# 127.0.0.1), otherwise the stand-in in this directory.
#
#   registry_up          Start a registry with three images: small:1 (busybox, /etc/rc, an environment), bare:1 (one
#                        static program, no shell) and multi:1 (a manifest list: bare for x86_64, small for aarch64;
#                        $multi_digest is its digest). Sets $registry (the prefix of image names), $enroot_path (a
#                        PATH that contains Enroot) and $image_arguments (arguments for plugstack.conf). All files
#                        are in $registry_dir, which is removed when the test exits. Skips the test if user
#                        namespaces are not available.
#   registry_down        Stop the registry; registry_again starts it again.
#   registry_lock        Require authentication: only user ada can pull images.
#   ordinary COMMAND...  Run a command as an ordinary user with that Enroot. The user's home is $home, temporary
#                        files are in $registry_dir/tmp, images in $cache.
#   image_cluster_up OPTION...   Start a cluster (cluster_up) that uses the registry. From then on $home is the home
#                        of the cluster's user.
#   job COMMAND...       Run a command on the cluster as that user, like `try`.
#   job_process COMMAND...   The same without setting $out and $rc, for example for the background.
#   imports              Print the number of imports that $out reports.

# If a test fails: print the full output of the last command, and the errors of the cluster's
# daemons.
on_failure() {
    diag "the last command exited with ${rc-?} and printed:"
    diag "${out-}"
    [ -z "${MEGATRON_CLUSTER-}" ] || diag "$(tail -n 200 "$MEGATRON_CLUSTER"/log/* | grep -E '^==>|error' | grep -v 'state' | tail -n 30)"
}

make_roots() {
    mkdir -p "$1"/small/1/{bin,etc,usr/src,root,tmp,proc,sys,dev,run,var} "$1"/bare/1/{bin,tmp,proc,sys,dev,etc}
    cp "$(command -v busybox)" "$1/small/1/bin/busybox"
    for name in sh cat env id ls pwd echo sleep hostname kill true; do ln -sf busybox "$1/small/1/bin/$name"; done
    echo 'GREETING=from the image' >"$1/small/1/etc/environment"
    printf 'cd "/usr/src" && unset OLDPWD || exit 1\nexec "$@"\n' >"$1/small/1/etc/rc"
    cp "$(command -v busybox)" "$1/bare/1/bin/pwd"
    mkdir "$1/multi"
    cp -a "$1/small/1" "$1/multi/1-aarch64"
    cp -a "$1/bare/1" "$1/multi/1-x86_64"
}

# A manifest list with small as the arm64 image and bare for amd64, as in registries.
push_list() {
    local name size digest items=()
    for name in small:arm64 bare:amd64; do
        umoci config --image "$1/${name%:*}.oci:1" --architecture "${name#*:}" &&
            skopeo copy --quiet --format v2s2 --dest-tls-verify=false "oci:$1/${name%:*}.oci:1" "docker://127.0.0.1:$registry_port/multi:${name#*:}" &&
            skopeo inspect --raw --tls-verify=false "docker://127.0.0.1:$registry_port/multi:${name#*:}" >"$1/manifest" || return 1
        digest=$(sha256sum <"$1/manifest") size=$(stat -c %s "$1/manifest")
        items+=("{\"mediaType\":\"application/vnd.docker.distribution.manifest.v2+json\",\"size\":$size,\"digest\":\"sha256:${digest%% *}\",\"platform\":{\"os\":\"linux\",\"architecture\":\"${name#*:}\"}}")
    done
    local type=application/vnd.docker.distribution.manifest.list.v2+json
    printf '{"schemaVersion":2,"mediaType":"%s","manifests":[%s,%s]}' "$type" "${items[@]}" >"$1/manifest"
    curl -sf -X PUT -H "Content-Type: $type" --data-binary "@$1/manifest" "http://127.0.0.1:$registry_port/v2/multi/manifests/1" || return 1
    digest=$(sha256sum <"$1/manifest")
    multi_digest=sha256:${digest%% *}
} >>"$1/push.log" 2>&1

push_images() {
    local name
    for name in small bare; do
        umoci init --layout "$1/$name.oci" && umoci new --image "$1/$name.oci:1" &&
            umoci unpack --rootless --image "$1/$name.oci:1" "$1/$name.bundle" &&
            cp -a "$1/registry/$name/1/." "$1/$name.bundle/rootfs/" &&
            umoci repack --image "$1/$name.oci:1" "$1/$name.bundle" &&
            umoci config --image "$1/$name.oci:1" --config.workingdir "$([ $name = small ] && echo /usr/src || echo /)" --config.env 'GREETING=from the image' &&
            skopeo copy --quiet --format v2s2 --dest-tls-verify=false "oci:$1/$name.oci:1" "docker://127.0.0.1:$registry_port/$name:1" || return 1
    done >"$1/push.log" 2>&1
}

registry_again() {
    if [ -z "${MEGATRON_TEST_ENROOT-}" ]; then
        mv "$registry_dir/registry.away" "$registry_dir/registry"
        return
    fi
    docker-registry serve "$registry_dir/registry.yml" >"$registry_dir/registry.log" 2>&1 &
    registry_pid=$!
    until (exec 3<>/dev/tcp/127.0.0.1/"$registry_port") 2>/dev/null; do sleep 0.05; done
}

registry_down() {
    if [ -z "${MEGATRON_TEST_ENROOT-}" ]; then
        mv "$registry_dir/registry" "$registry_dir/registry.away"
    else
        kill "$registry_pid" && wait "$registry_pid" 2>/dev/null
    fi
}

# From now on the registry requires user ada, password secret.
registry_lock() {
    registry_down
    if [ -z "${MEGATRON_TEST_ENROOT-}" ]; then
        touch "$registry_dir/registry.away/locked"
    else
        python3 -W ignore -c 'import crypt; print("ada:" + crypt.crypt("secret", crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16)).replace("$2b$", "$2y$"))' >"$registry_dir/htpasswd"
        printf 'auth:\n  htpasswd: {realm: test, path: %s/htpasswd}\n' "$registry_dir" >>"$registry_dir/registry.yml"
    fi
    registry_again
}

registry_up() {
    unshare --user --map-current-user true 2>/dev/null || skip_all "no user namespaces here"
    registry_dir=$(mktemp -d)
    home=$registry_dir/home
    cache=$home/.cache/megatron/images
    trap registry_end EXIT
    start_registry "$registry_dir" || { cat "$registry_dir/push.log"; exit 1; }
}

start_registry() {
    make_roots "$1/registry"
    mkdir -p "$1/home" "$1/bin"
    mkdir -m 1777 "$1/tmp"
    TRY_LIMIT=300
    chmod 755 "$1"
    user=()
    [ "$(id -u)" != 0 ] || { user=(setpriv --reuid=65534 --regid=65534 --clear-groups); chown 65534:65534 "$1/home"; }
    "${user[@]}" test -x "$top" || skip_all "an ordinary user cannot enter $top; run t/suite, which lets tests enter it"
    if [ -z "${MEGATRON_TEST_ENROOT-}" ]; then
        cp t/container/enroot "$1/bin/enroot"
        registry=docker://here#
        multi_digest=sha256:$(printf '%064d' 8)
        enroot_path=$1/bin
        # The stand-in does not mount anything.
        image_arguments="enroot_path=$enroot_path:/usr/sbin:/usr/bin:/sbin:/bin image_fuse=none image_min_free=100k"
        return
    fi
    local program
    for program in docker-registry umoci skopeo; do
        command -v $program >/dev/null || { echo "$program is needed beside the real Enroot; install it" >"$1/push.log"; return 1; }
    done
    registry_port=$((20000 + RANDOM % 10000))
    registry=docker://127.0.0.1:$registry_port#
    # Imports take longer if a test requests that, like the stand-in's.
    cp -s "$MEGATRON_TEST_ENROOT"/enroot* "$1/bin/"
    rm "$1/bin/enroot-mksquashovlfs"
    printf '#!/bin/sh\nsleep "${ENROOT_STANDIN_DELAY:-0}"\nexec "%s/enroot-mksquashovlfs" "$@"\n' "$MEGATRON_TEST_ENROOT" >"$1/bin/enroot-mksquashovlfs"
    chmod 755 "$1/bin/enroot-mksquashovlfs"
    enroot_path=$1/bin
    image_arguments="enroot_path=$enroot_path:/usr/sbin:/usr/bin:/sbin:/bin image_min_free=100k"
    printf 'version: 0.1\nstorage:\n  filesystem: {rootdirectory: %s/store}\nhttp: {addr: 127.0.0.1:%s}\n' "$1" "$registry_port" >"$1/registry.yml"
    registry_again
    push_images "$1" && push_list "$1"
}

registry_end() {
    [ -z "${registry_pid-}" ] || kill "$registry_pid" 2>/dev/null
    cut -d' ' -f2 /proc/mounts | grep "^$registry_dir/" | xargs -r umount
    chmod -R u+rwx "$registry_dir"
    rm -rf "$registry_dir"
}

image_cluster_up() {
    cluster_up --cpus 4 "$@"
    trap 'cluster_down; registry_end' EXIT
    chown "$(as_user id -u)" "$home"
}

# The delay is that of the stand-in's imports.
job_process() {
    timeout -k 5 "$((TRY_LIMIT * patience))" "$top/tools/cluster" run --user env HOME="$home" ENROOT_ALLOW_HTTP=yes \
        ENROOT_STANDIN_REGISTRY="$registry_dir/registry" ENROOT_STANDIN_DELAY="${delay:-0}" "$@"
}

job() {
    out=$(job_process "$@" 2>&1 </dev/null)
    rc=$?
    forget_waiting
}

imports() { grep -c 'megatron: n[0-9]: importing docker[^ ]*$' <<<"$out"; }

# traces NODE PID: can a process of the user of the jobs attach to that process of the node, as a debugger does? 2: not
# even to its own.
traces() {
    tools/cluster node "$1" setpriv --reuid="$(as_user id -u)" --regid="$(as_user id -g)" --clear-groups perl -e '
        my %trace = (x86_64 => 101, aarch64 => 117, ppc64le => 26);
        sub attach { return syscall($trace{$ARGV[0]}, 16, $_[0] + 0, 0, 0) != -1 }
        my $own = fork() // exit 2;
        if (!$own) { sleep 600; exit }
        my $can = attach($own);
        kill 9, $own;
        exit($can ? !attach($ARGV[1]) : 2);' "$(uname -m)" "$2"
}
ordinary() {
    "${user[@]}" env -i HOME="$home" TMPDIR="$registry_dir/tmp" PATH="$enroot_path:/usr/sbin:/usr/bin:/sbin:/bin" XDG_RUNTIME_DIR=/run/user/of-another-host ENROOT_ALLOW_HTTP=yes \
        ENROOT_STANDIN_REGISTRY="$registry_dir/registry" "$@"
}
