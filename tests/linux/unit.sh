#!/bin/bash
# Starts systemd as the first process of namespaces of its own, with the unit of incast-host and few others, and has it run a script.
#
# unit.sh UNIT INCAST_HOST FOLDER: the folder has `probe`, the script; what it prints goes to `said` there.
set -euo pipefail
unit=$1 program=$2 folder=$3

mount --make-rprivate /
mount -t tmpfs none /run
mount -t cgroup2 none /sys/fs/cgroup
mkdir -p /run/units /run/made /run/incast.conf /run/bin /sys/fs/cgroup/search
cp "$unit" /run/units/
for name in basic.target sysinit.target sockets.target timers.target paths.target slices.target shutdown.target \
  umount.target network.target final.target exit.target systemd-exit.service; do
  cp "/lib/systemd/system/$name" /run/units/
done
cat >/run/units/default.target <<END
[Unit]
Wants=probe.service
END
cat >/run/units/probe.service <<END
[Unit]
SuccessAction=exit
FailureAction=exit
[Service]
Type=oneshot
StandardOutput=file:$folder/said
StandardError=inherit
ExecStart=/bin/bash $folder/probe
END
echo "ARGUMENTS=dctcp --cgroup /sys/fs/cgroup/search" >/run/incast.conf/search.conf
cp "$program" /run/bin/incast-host
mkdir -p /etc/incast
mount --bind /run/units /lib/systemd/system
mount --bind /run/made /etc/systemd/system
mount --bind /run/incast.conf /etc/incast
mount --bind /run/bin /usr/local/bin
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --system --log-target=null --show-status=no --unit=default.target
