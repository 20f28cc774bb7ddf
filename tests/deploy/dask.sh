#!/bin/bash
# A sweep as tasks of Dask in several processes of this machine, whose merged files are compared with those
# of one process; then again from its journals, which finds nothing to do.
#
#     tests/deploy/dask.sh TIERSIM PYTHON [SCENARIO [OPTIONS OF tiersim sweep]]
#
# PYTHON has the package `distributed`; without it this says so and ends with 0.
set -eu
tiersim=$(realpath "$1")
python=$2
scenario=${3:-scenarios/gpt2-threshold-sweep.ron}
shift $(($# < 3 ? $# : 3))
if ! "$python" -c 'import distributed' 2>/dev/null; then
    echo "NOT TRIED: $python has no package distributed" >&2
    exit 0
fi
cd "$(dirname "$0")/../.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for try in first again; do
    begun=$(date +%s%N)
    "$python" deploy/dask.py "$scenario" --shards 5 --workers 3 --out "$dir/out" --tiersim "$tiersim" -- "$@" \
        >"$dir/table" 2>"$dir/said" || { cat "$dir/said" >&2; exit 1; }
    echo "$try: $((($(date +%s%N) - begun) / 1000000)) ms"
    cat "$dir/out"/*-of-5/points.journal | cksum >"$dir/sum-$try"
done
cmp "$dir/sum-first" "$dir/sum-again"
twice=$(cat "$dir/out"/*-of-5/points.journal | grep -o '"case":[0-9][0-9]*' | sort | uniq -d | wc -l)
[ "$twice" = 0 ] || { echo "$twice cases were simulated twice" >&2; exit 1; }
"$tiersim" sweep "$scenario" --quiet --out "$dir/whole" "$@"
diff -r "$dir/whole" "$dir/out/merged"
echo "the merged files are those of one process"
