#!/usr/bin/env bash
# Whether the tests notice when a line is wrong: `cargo mutants` over the parts that everything else rests on, each
# with the tests that are about it, so that one mutant takes seconds. For a person at a desk, not for CI.
#
#   cargo install cargo-mutants --locked
#   tests/mutants.sh                      all parts, one after the other: some hours on two cores
#   tests/mutants.sh service audit        these
#   tests/mutants.sh bound --shard 0/8    the first eighth; what begins with - goes to `cargo mutants`
#
# Works on a copy of the tree. What it finds is in target/mutants/PART/mutants.out: missed.txt lists the survivors.
# .cargo/mutants.toml says how it runs, and which survivors stay and why.
set -euo pipefail
cd "$(dirname "$0")/.."

# By part: its files, the package whose tests are asked, which of its test programs, and which tests of those.
part() {
    filter=()
    optimised=0
    case "$1" in
    service) files=(models/src/service.rs) package=tiersim-models tests=(--lib) filter=(service) ;;
    ledger) files=(policies/src/ledger.rs) package=tiersim-tests tests=(--test=plans) filter=("${plans[@]}" arenas::) optimised=1 ;;
    planner) files=(policies/src/planner.rs) package=tiersim-tests tests=(--test=plans) filter=("${plans[@]}" arenas:: "${quick[@]}") ;;
    moves) files=(policies/src/planner/moves.rs) package=tiersim-tests tests=(--test=plans) filter=("${plans[@]}" "${quick[@]}") ;;
    bound) files=(policies/src/bound.rs 'policies/src/bound/*.rs') package=tiersim-tests tests=(--test=plans) filter=(-- bounds::) optimised=1 ;;
    audit) files=(sim/src/audit.rs 'sim/src/audit/*.rs') package=tiersim-sim tests=(--lib) filter=(audit) ;;
    fair_share) files=(sim/src/fair_share.rs) package=tiersim-sim tests=(--test=suite) filter=(fair_share::) ;;
    *) echo "$1: no such part; there are: ${all[*]}" >&2; exit 2 ;;
    esac
}
all=(service fair_share audit bound ledger moves planner)
# Every kind of edge left out in turn, demand paging by hand, replays left out.
plans=(-- hazards:: demand:: steady::)
# Without those that take minutes where nothing is optimised; what survives is tried on them by hand.
quick=(--skip a_thousand_hours --skip all_that_measured_steps_move --skip extended_runs)

parts=()
while [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; do
    part "$1"
    parts+=("$1")
    shift
done
[ ${#parts[@]} -gt 0 ] || parts=("${all[@]}")

export CARGO_PROFILE_DEV_DEBUG=0
survived=0
for name in "${parts[@]}"; do
    part "$name"
    # Building takes most of the time, so what is built once and run once is optimised only where its tests would
    # take minutes otherwise.
    export CARGO_PROFILE_DEV_OPT_LEVEL=$optimised
    mkdir -p "target/mutants/$name"
    chosen=()
    for file in "${files[@]}"; do chosen+=(--file "$file"); done
    # Without this, all test programs of the package would be built for each mutant.
    for test in "${tests[@]}"; do chosen+=("--cargo-arg=$test"); done
    # A tree whose own tests fail kills every mutant. Asked here: what cargo-mutants runs first are the tests of the
    # package that it changes, whatever --test-package says.
    cargo test --quiet --package "$package" "${tests[@]}" "${filter[@]}" >/dev/null
    # 2 is that some survived, 3 that some took too long: the rest is still worth knowing.
    cargo mutants --workspace "${chosen[@]}" --test-package "$package" --output "target/mutants/$name" \
        --baseline=skip --timeout 120 --build-timeout 900 "$@" \
        -- "${filter[@]}" || { code=$?; [ $code -le 3 ] && [ $code -ge 2 ] || exit $code; survived=1; }
done
exit $survived
