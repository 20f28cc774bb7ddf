#!/bin/bash
# A sweep as a job array of a real Slurm on this machine, one of whose tasks is requeued on its way; its
# merged files are compared with those of one process.
#
#     tests/deploy/slurm.sh TIERSIM [SCENARIO [OPTIONS OF tiersim sweep]]
#
# Needs slurmctld, slurmd, the client's commands and munge (packages slurmctld, slurmd, slurm-client
# and munge), and root: munged and slurmd start here and are ended here. Without them it says so and
# ends with 0.
set -eu
tiersim=$(realpath "$1")
scenario=${2:-scenarios/gpt2-threshold-sweep.ron}
shift $(($# < 2 ? $# : 2))
for needed in slurmctld slurmd sbatch munged; do
    if ! PATH=$PATH:/usr/sbin command -v "$needed" >/dev/null; then
        echo "NOT TRIED: no $needed on this machine" >&2
        exit 0
    fi
done
PATH=$PATH:/usr/sbin
project=$(cd "$(dirname "$0")/../.." && pwd)
cd "$project"
dir=$(mktemp -d)
host=$(hostname -s)
export SLURM_CONF=$dir/slurm.conf
mkdir "$dir/state" "$dir/spool" "$dir/munge"
end() {
    for file in "$dir"/slurmctld.pid "$dir"/slurmd.pid "$dir"/munge/munged.pid; do
        [ ! -s "$file" ] || kill "$(cat "$file")" 2>/dev/null || true
    done
    sleep 1
    [ -n "${KEEP:-}" ] || rm -rf "$dir"
}
trap end EXIT
dd if=/dev/urandom of="$dir/munge/key" bs=1024 count=1 status=none
chmod 400 "$dir/munge/key"
chmod 755 "$dir" "$dir/munge"
munged --force --key-file="$dir/munge/key" --socket="$dir/munge/socket" --pid-file="$dir/munge/munged.pid" \
    --log-file="$dir/munge/log" --seed-file="$dir/munge/seed"
cat >"$SLURM_CONF" <<CONF
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_min_interval=100000,batch_sched_delay=0
MinJobAge=3600
ReturnToService=2
MpiDefault=none
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
CONF
slurmctld
slurmd -N "$host"
echo "$(sinfo --version): $(nproc) CPUs"

out=$dir/out
begun=$(date +%s)
TIERSIM=$tiersim SBATCH_OPTIONS="--chdir=$project --output=$dir/task-%a.log" \
    deploy/slurm/submit "$scenario" 5 "$out" "$@" >"$dir/jobs"
read -r array merge <"$dir/jobs"
# Task 2 is killed once something of it is finished, and put into the queue again.
journal=$out/2-of-5/points.journal
for _ in $(seq 600); do
    [ ! -e "$journal" ] || [ "$(wc -l <"$journal")" -lt 4 ] || break
    sleep 0.1
done
before=$(wc -l <"$journal")
if scontrol requeue "${array}_2" 2>/dev/null; then
    echo "task 2 was requeued with $before lines in its journal"
fi
state=
for _ in $(seq 1200); do
    state=$(scontrol show job "$merge" | grep -o 'JobState=[A-Z_]*')
    case $state in
    JobState=COMPLETED | JobState=FAILED | JobState=CANCELLED) break ;;
    esac
    sleep 0.5
done
echo "merge: $state after $(($(date +%s) - begun)) s"
if [ "$state" != JobState=COMPLETED ]; then
    tail -n 20 "$dir"/*.log "$out/merge.log" >&2 || true
    exit 1
fi
# No case twice, in whatever shard.
twice=$(cat "$out"/*-of-5/points.journal | grep -o '"case":[0-9][0-9]*' | sort | uniq -d | wc -l)
[ "$twice" = 0 ] || { echo "$twice cases were simulated twice" >&2; exit 1; }
"$tiersim" sweep "$scenario" --quiet --out "$dir/whole" "$@"
diff -r "$dir/whole" "$out/merged"
echo "the merged files are those of one process"
