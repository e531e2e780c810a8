#!/bin/bash
# Builds the image drover-example/busybox:local from the host's static busybox
# (Debian: apt-get install busybox-static). With it the container example needs no
# registry.
set -euo pipefail
busybox=$(command -v busybox) || { echo "no busybox in PATH; on Debian: apt-get install busybox-static" >&2; exit 1; }
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,tmp,etc,root,proc,sys,dev}
chmod 1777 "$root/tmp"
cp "$busybox" "$root/bin/busybox"
for applet in $("$busybox" --list); do
  [ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
done
printf 'root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/tmp:/bin/sh\n' > "$root/etc/passwd"
printf 'root:x:0:\nuser:x:1000:\n' > "$root/etc/group"
earlier=$(docker images -q drover-example/busybox:local)
tar -C "$root" -c . | docker import --change 'ENV PATH=/bin' --change 'CMD ["sh"]' - drover-example/busybox:local
if docker images -q --filter dangling=true | grep -q "^${earlier:-none}\$"; then docker rmi "$earlier" > /dev/null 2>&1 || true; fi # not if a container has it
