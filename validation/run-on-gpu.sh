#!/usr/bin/env bash
# Everything that one computer can say about tiersim's predictions, in one call and one folder.
#
# Needs a tiersim binary and the folders scenarios/, hardware-specs/ and traces/ of a checkout; for
# --machine cuda an NVIDIA driver, and nothing else. It checks that the machine may be believed
# (conform), measures it (calibrate), compares predicted with measured times (validate), and spends
# what is left of the budget on random plans (soak). A step that fails is recorded and the next one
# runs. No setting of the GPU is changed: clocks are as they were found.
#
# Exit: 0 every step passed, 1 one did not, 2 bad arguments or the machine is not there.
set -euo pipefail

usage() {
    cat <<'USAGE'
usage: run-on-gpu.sh [--machine cuda|host] [--device N] [--tiersim BINARY] [--project DIR]
                     [--out DIR] [--scratch DIR] [--budget SECONDS] [--soak SECONDS]
                     [--worlds N] [--scenarios GLOB] [--spec FILE] [--commit NAME] [--quick]
                     [--skip STEP]...

--machine    what to measure [default: cuda]
--device     which GPU, as nvidia-smi counts them without CUDA_VISIBLE_DEVICES [default: 0]
--tiersim    the binary [default: target/release/tiersim of the project, else the one on PATH]
--project    folder with scenarios/, hardware-specs/ and traces/ [default: the one of this script]
--out        folder to write to, which must be new [default: out/validation-DATE-DEVICE]
--scratch    folder for files that stand for NVMe; on a drive, not in memory [default: OUT/scratch]
--budget     seconds for everything [default: 600]
--soak       seconds for the soak at most [default: what is left]
--worlds     random worlds of the conformance check [default: 120]
--scenarios  patterns of which ones, below scenarios/validation [default: host-*.ron for host, the others for cuda]
--spec       a spec that an earlier run measured on this very machine: nothing is calibrated
--commit     what to put down as the commit [default: what git says of the project]
--quick      calibrates with fewer sizes and compares one run of each case: a try
--skip       conform, calibrate, validate, sanitizer or soak; may be given several times
USAGE
}

refuse() {
    printf 'error: %s\n' "$1" >&2
    exit 2
}

machine=cuda tiersim='' project='' out='' scratch='' budget=600 soak='' worlds=120
scenarios='' commit='' quick=no skipped=' ' index='' earlier=''
while [ $# -gt 0 ]; do
    case $1 in
        --quick) quick=yes ;;
        -h | --help) usage; exit 0 ;;
        --machine | --device | --tiersim | --project | --out | --scratch | --budget | --soak | --worlds | \
            --scenarios | --spec | --commit | --skip)
            [ $# -ge 2 ] || refuse "$1 needs a value; see --help"
            case $1 in
                --machine) machine=$2 ;;
                --device) index=$2 ;;
                --tiersim) tiersim=$2 ;;
                --project) project=$2 ;;
                --out) out=$2 ;;
                --scratch) scratch=$2 ;;
                --budget) budget=$2 ;;
                --soak) soak=$2 ;;
                --worlds) worlds=$2 ;;
                --scenarios) scenarios=$2 ;;
                --spec) earlier=$2 ;;
                --commit) commit=$2 ;;
                --skip) skipped+="$2 " ;;
            esac
            shift
            ;;
        *) refuse "unknown argument $1; see --help" ;;
    esac
    shift
done

case $machine in cuda | host) ;; *) refuse "--machine $machine: use cuda or host" ;; esac
for number in "$budget" "$worlds" "${soak:-1}"; do
    [[ $number =~ ^[1-9][0-9]{0,5}$ ]] || refuse "$number: give a whole number above 0"
done
choice=()
if [ -n "$index" ]; then
    [[ $index =~ ^[0-9]{1,3}$ ]] || refuse "--device $index: give a whole number, 0 for the first"
    [ "$machine" = cuda ] || refuse "--device $index: only with --machine cuda"
    choice=(--device "$index")
fi
[ -z "$earlier" ] || [ -f "$earlier" ] || refuse "--spec $earlier: no such file"
# CUDA counts the fastest device first, unless told to count as nvidia-smi does.
export CUDA_DEVICE_ORDER=PCI_BUS_ID
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
project=$(cd "${project:-$here}" && pwd) || refuse "--project: no such folder"
for folder in scenarios/validation hardware-specs traces; do
    [ -d "$project/$folder" ] || refuse "$project has no $folder; give the checkout as --project"
done
if [ -z "$tiersim" ]; then
    tiersim=$project/target/release/tiersim
    [ -x "$tiersim" ] || tiersim=$(command -v tiersim || true)
fi
[ -n "$tiersim" ] && [ -x "$tiersim" ] || refuse "no binary; build one, or give it as --tiersim"
tiersim=$(cd "$(dirname "$tiersim")" && pwd)/$(basename "$tiersim")
[ -n "$scenarios" ] || { [ "$machine" = host ] && scenarios='host-*.ron' || scenarios='[!h]*.ron'; }

# Finishing up takes a moment too.
SECONDS=0
finish=$((budget - 5))
left() { printf '%s' $((finish - SECONDS > 0 ? finish - SECONDS : 0)); }
skips() { [[ $skipped == *" $1 "* ]]; }
slug() { tr '[:upper:]' '[:lower:]' | tr -cs 'a-z0-9' '-' | sed 's/^-*//; s/-*$//' | cut -c1-60; }
smi() {
    if ! command -v nvidia-smi >/dev/null; then
        echo 'there is no nvidia-smi here'
        return 1
    fi
    timeout 20 nvidia-smi -i "${index:-0}" "$@" 2>&1
}

date=$(date -u +%Y-%m-%d)
device=host
if [ "$machine" = cuda ]; then
    device=cuda
    if named=$(smi --query-gpu=name --format=csv,noheader); then
        device=$(head -n 1 <<<"$named" | slug)
    fi
fi
out=${out:-out/validation-$date-$device}
[ ! -e "$out" ] || refuse "$out is there already; give another --out"
mkdir -p "$out/log" || refuse "$out: cannot be made"
out=$(cd "$out" && pwd)
own_scratch=${scratch:+no}
scratch=${scratch:-$out/scratch}
mkdir -p "$scratch" || refuse "$scratch: cannot be made"
stage=$out/project
# shellcheck disable=SC2329 # called by the trap
cleanup() {
    rm -rf "$stage"
    if [ -z "$own_scratch" ]; then rm -rf "$scratch"; fi
}
trap cleanup EXIT

# --- what runs where ---------------------------------------------------------------------------

version=$("$tiersim" --version) || refuse "$tiersim does not run"
# A copy of a checkout may know another commit than the one that was built.
if [ -z "$commit" ]; then
    commit=$(git -C "$project" rev-parse HEAD 2>/dev/null || echo 'not known: no git checkout')
    if [ -n "$(git -C "$project" status --porcelain 2>/dev/null | head -n 1)" ]; then
        commit="$commit, with changes"
    fi
fi
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)
cores=$(nproc 2>/dev/null || echo '?')
memory=$(sed -n 's/^MemTotal: *//p' /proc/meminfo 2>/dev/null)
kernel=$(uname -srm)
gpu='' driver=''
if [ "$machine" = cuda ]; then
    gpu=$(smi --query-gpu=name --format=csv,noheader | head -n 1) || gpu=''
    driver=$(smi --query-gpu=driver_version --format=csv,noheader | head -n 1) || driver=''
fi
clocks_now() {
    smi --query-gpu=clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,temperature.gpu,power.draw \
        --format=csv | head -n 2
}
environment() {
    printf 'date          %s\nmachine       %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$machine"
    printf 'tiersim       %s\ncommit        %s\n' "$version" "$commit"
    printf 'processor     %s, %s cores\n' "${cpu:-not known}" "$cores"
    printf 'memory        %s\nkernel        %s\n' "${memory:-not known}" "$kernel"
    printf 'locked memory %s KiB allowed\n' "$(ulimit -l)"
    printf 'scratch       %s\n' "$(df -T "$scratch" 2>/dev/null | awk 'NR == 2 { print $2, "on", $1 }')"
    if [ "$machine" = cuda ]; then
        printf 'device        %s\ndriver        %s\n' "${gpu:-not known}" "${driver:-not known}"
        printf '\nclocks as found\n%s\n' "$(clocks_now || true)"
    fi
}
environment >"$out/environment.txt"
if [ "$machine" = cuda ]; then
    # What tells one board from another is nobody's business.
    { smi -q || true; } | grep -viE 'uuid|serial|board id|pdi|process id' >"$out/nvidia-smi.txt" || true
fi

# --- steps -------------------------------------------------------------------------------------

failed=0
steps=$out/steps.txt
: >"$steps"
note() {
    printf '%-10s %-24s %5s s\n' "$1" "$2" "$3" | tee -a "$steps"
    case $2 in passed | skipped*) ;; *) failed=1 ;; esac
}

# step NAME LIMIT COMMAND...: runs it within its limit and what is left; gives its exit code.
step() {
    local name=$1 limit=$2 start=$SECONDS code=0 said
    shift 2
    [ "$limit" -le "$(left)" ] || limit=$(left)
    if [ "$limit" -lt 1 ]; then
        note "$name" 'FAILED: no time left' 0
        return 124
    fi
    timeout --kill-after=3 "$limit" "$@" >"$out/log/$name.txt" 2>&1 || code=$?
    case $code in
        0) said=passed ;;
        124 | 137) said="FAILED: over $limit s" ;;
        *) said="FAILED: exit $code" ;;
    esac
    note "$name" "$said" $((SECONDS - start))
    [ "$code" -eq 0 ] || tail -n 5 "$out/log/$name.txt" | sed 's/^/    /'
    return "$code"
}
share() { printf '%s' $((budget * $1 / 100 + 1)); }

printf '%s on %s, %s s at most, into %s\n\n' "$version" "$device" "$budget" "$out"

# First, because nothing else means anything without it, and because it says whether the machine is
# there at all, in tiersim's own words.
there=0
if skips conform; then
    note conform skipped 0
    timeout "$(left)" "$tiersim" conform --machine "$machine" "${choice[@]}" --worlds 12 \
        --scratch "$scratch" \
        >"$out/log/conform.txt" 2>&1 || there=$?
else
    step conform "$(share 20)" "$tiersim" conform --machine "$machine" "${choice[@]}" --worlds "$worlds" \
        --scratch "$scratch" --out "$out/conform" || there=$?
fi
if [ "$there" -eq 2 ]; then
    cat "$out/log/conform.txt" >&2
    printf 'nothing was measured; see %s\n' "$out/environment.txt" >&2
    exit 2
fi

# A copy of the project, so that the measured spec can be named in it and the checkout stays as it is.
mkdir -p "$stage"
cp -R "$project/scenarios" "$project/hardware-specs" "$project/traces" "$stage/"
spec=() spec_from=''
# use_spec FILE: the scenarios are predicted with it, and with the runtime beside it if there is one.
use_spec() {
    local name own scenario runtime
    runtime=$(dirname "$1")/runtime.ron
    name=$(basename "$1")
    mkdir -p "$stage/hardware-specs/measured"
    cp "$1" "$stage/hardware-specs/measured/"
    spec=(--set "hardware=\"hardware-specs/measured/$name\"")
    [ ! -f "$runtime" ] || spec+=(--set "runtime=$(cat "$runtime")")
    # How long ops are to last is given, not predicted: it stays that of the scenario's own device,
    # so that plans are the same on every machine, whatever precisions were measured on it.
    for scenario in "$stage"/scenarios/validation/*.ron; do
        own=$(sed -n 's/^ *hardware: *"\([^"]*\)".*/\1/p' "$scenario" | head -n 1)
        sed -i "s/roofline(precision: \"\([a-z0-9]*\)\")/roofline(precision: \"\1\", device: \"$own\")/" \
            "$scenario"
    done
}
if [ -n "$earlier" ]; then
    mkdir -p "$out/calibration"
    cp "$earlier" "$out/calibration/"
    if [ -f "$(dirname "$earlier")/runtime.ron" ]; then
        cp "$(dirname "$earlier")/runtime.ron" "$out/calibration/"
    fi
    use_spec "$earlier"
    spec_from='a spec that an earlier run measured on this machine'
    note calibrate 'skipped: given' 0
elif skips calibrate; then note calibrate skipped 0; else
    name=$date-$device
    args=(calibrate --machine "$machine" "${choice[@]}" --name "$name" --scratch "$scratch"
        --out "$out/calibration")
    [ "$quick" = no ] || args+=(--quick)
    # It takes 90 to 140 s on a GPU, and what it does not finish is lost.
    limit=$(share 30)
    [ "$limit" -ge 160 ] || limit=160
    if step calibrate "$limit" "$tiersim" "${args[@]}" && [ -f "$out/calibration/$name.ron" ]; then
        use_spec "$out/calibration/$name.ron"
        spec_from='the spec that calibrate measured in this run'
    fi
fi

# Where nvidia-smi is missing, calibration has asked the driver itself.
asked() { sed -n "s/^    \"$1\": \"\(.*\)\",\{0,1\}\$/\1/p" "$out/calibration/calibration.json" 2>/dev/null | head -n 1; }
gpu=${gpu:-$(asked name || true)} driver=${driver:-$(asked driver || true)}

runs=3
[ "$quick" = no ] || runs=1
compare() {
    local name=$1 limit=$2
    shift 2
    # The log says which case ran until when, should the time not suffice.
    step "$name" "$limit" env -C "$stage" "$tiersim" validate "$@" --machine "$machine" "${choice[@]}" \
        --messages json \
        --repeat-runs "$runs" "${spec[@]}" --scratch "$scratch" --out "$out/$name"
}
if skips validate; then note validate skipped 0; else
    found=()
    read -ra patterns <<<"$scenarios"
    for pattern in "${patterns[@]}"; do
        # shellcheck disable=SC2206 # a pattern is what was asked for
        found+=("$stage"/scenarios/validation/$pattern)
        [ -e "${found[-1]}" ] || refuse "--scenarios $pattern: there is none below scenarios/validation"
    done
    # A slow drive takes its time: what waits for one comes last. Of all policies some do.
    quick_ones=() slow_ones=()
    for scenario in "${found[@]}"; do
        case $scenario in *nvme* | *zoo*) slow_ones+=("$scenario") ;; *) quick_ones+=("$scenario") ;; esac
    done
    found=("${quick_ones[@]}" "${slow_ones[@]}")
    code=0
    limit=$(share 50)
    # Nobody else wants what is left.
    if skips sanitizer && skips soak; then limit=$(left); fi
    compare validate "$limit" "${found[@]}" || code=$?
    # 1 is a verdict: all were compared, and some do not agree.
    if [ "$code" -gt 1 ] && [ ${#found[@]} -gt 1 ]; then
        # One that this machine has no room or no time for must not hide the others.
        for scenario in "${found[@]}"; do
            [ ! -f "$out/validate/$(basename "$scenario" .ron)/validation.json" ] || continue
            compare "validate-$(basename "$scenario" .ron)" "$(share 10)" "$scenario" || true
        done
    fi
fi

if [ "$machine" != cuda ] || skips sanitizer; then note sanitizer skipped 0
elif ! command -v compute-sanitizer >/dev/null; then note sanitizer 'skipped: not on PATH' 0
else
    step sanitizer "$(share 15)" compute-sanitizer --error-exitcode 9 "$tiersim" conform \
        --machine cuda "${choice[@]}" --worlds 3 --scratch "$scratch" || true
fi

# The bodies run once more before the soak; five seconds are for them.
time=$(($(left) - 10))
[ -z "$soak" ] || [ "$time" -le "$soak" ] || time=$soak
if skips soak; then note soak skipped 0
elif [ "$time" -lt 1 ]; then note soak 'FAILED: no time left' 0
else
    # Other worlds than those of the check above.
    step soak "$(left)" "$tiersim" conform --machine "$machine" "${choice[@]}" --worlds 12 --seed 1000000 \
        --for "$time" --scratch "$scratch" --out "$out/soak" || true
fi

# --- what came of it ---------------------------------------------------------------------------

if [ "$machine" = cuda ]; then
    printf '\nclocks at the end\n%s\n' "$(clocks_now || true)" >>"$out/environment.txt"
fi
# The lines about all cases together, as validate prints them at its end; none of a comparison that
# did not come to its end.
errors() {
    [ -f "$out/$(basename "$1" .txt)/validation.json" ] || return 0
    awk '/^all [0-9]+ cases that fit$/ { text = ""; on = 1; next } /^written to/ { on = 0 }
         on && /error of|spread/ { sub(/^ +/, ""); text = text $0 "\n" } END { printf "%s", text }' "$1"
}
# shellcheck disable=SC2016 # backticks are Markdown
readme() {
    printf '# %s, %s\n\n' "$date" "${gpu:-$device}"
    printf 'Written by `validation/run-on-gpu.sh`; every figure is from this run.\n\n'
    printf '| | |\n|---|---|\n| tiersim | %s |\n| commit | %s |\n' "$version" "$commit"
    if [ "$machine" = cuda ]; then printf '| device | %s |\n| driver | %s |\n' "$gpu" "$driver"; fi
    printf '| processor | %s, %s cores |\n' "${cpu:-not known}" "$cores"
    printf '| memory | %s |\n| kernel | %s |\n' "${memory:-not known}" "$kernel"
    if [ ${#spec[@]} -gt 0 ]; then
        printf '| predicted by | %s; lengths of ops by the scenarios |\n' "$spec_from"
    else
        printf '| predicted by | the specs that the scenarios name; nothing was calibrated |\n'
    fi
    printf '\n## Steps\n\n```text\n%s\n```\n' "$(cat "$steps")"
    for log in "$out"/log/validate*.txt; do
        [ -s "$log" ] && [ -n "$(errors "$log")" ] || continue
        printf '\n## How far predicted times were off: %s\n\n' "$(basename "$log" .txt)"
        printf '```text\n%s\n```\n' "$(errors "$log")"
    done
    printf '\nAn error is (predicted - measured) / measured, measured being the median of %s runs;\n' "$runs"
    printf 'p95 is not exceeded by 95 %% of them. See docs/explanation/accuracy.md.\n'
}
readme >"$out/README.md"
# What is kept names files by where they are in the folder, wherever that was.
here=$(printf '%s' "$out" | sed 's/[][\\.*^$|]/\\&/g')
sed -i "s|$here/||g; s|$here|.|g" "$out"/log/*.txt
printf '\n'
for log in "$out"/log/validate*.txt; do
    [ ! -s "$log" ] || errors "$log"
done
printf '\n%s steps: %s\n' "$(wc -l <"$steps")" "$([ "$failed" -eq 0 ] && echo 'none failed' || echo 'NOT all passed')"
printf 'everything is in %s; to keep it, commit it as validation/results/%s-%s\n' "$out" "$date" "$device"
exit "$failed"
