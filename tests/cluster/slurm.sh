#!/usr/bin/env bash
# A Slurm of one machine for tests: its daemons, with all state in a folder of their own. Needs root.
#
#     slurm.sh start FOLDER    start munged, slurmctld and slurmd; then: export SLURM_CONF=FOLDER/slurm.conf
#     slurm.sh controller FOLDER    start slurmctld again
#     slurm.sh stop FOLDER     end them
set -euo pipefail

folder=$(mkdir -p "$2" && realpath "$2")
export SLURM_CONF=$folder/slurm.conf

configure() {
  mkdir -p "$folder"/{state,spool,munge}
  # Everyone may look up to the folder of the socket; munged insists on that its own are not writable by others.
  chmod 755 "$folder" "$folder/munge"
  head -c 1024 /dev/urandom >"$folder/munge.key"
  chmod 600 "$folder/munge.key"
  local host
  host=$(hostname -s)
  # No control groups, which containers do not let us change; no accounting, which needs a database.
  cat >"$SLURM_CONF" <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CryptoType=crypto/munge
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=100000,batch_sched_delay=0
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
MailProg=/bin/true
ReturnToService=2
SlurmctldPort=16817
SlurmdPort=16818
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldTimeout=10
SlurmdTimeout=30
KillWait=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=test Nodes=$host Default=YES MaxTime=INFINITE State=UP
END
}

await() { # what, command...
  local what=$1
  shift
  for _ in $(seq 100); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.1
  done
  echo "$what does not come up; see $folder/*.log" >&2
  exit 1
}

stop() {
  local name
  for name in slurmd slurmctld munged; do
    if [ -s "$folder/$name.pid" ]; then
      kill "$(cat "$folder/$name.pid")" 2>/dev/null || true
    fi
  done
}

case $1 in
start)
  configure
  # --force: as root, and below folders that others may write to.
  munged --force --key-file="$folder/munge.key" --socket="$folder/munge/socket" --pid-file="$folder/munged.pid" \
    --log-file="$folder/munged.log" --seed-file="$folder/munge.seed"
  slurmctld -c
  await slurmctld scontrol ping
  slurmd
  await slurmd sh -c 'sinfo --noheader --format=%T | grep -q idle'
  ;;
controller)
  slurmctld
  ;;
stop)
  stop
  ;;
*)
  echo "slurm.sh: $1: expected start, controller or stop" >&2
  exit 2
  ;;
esac
