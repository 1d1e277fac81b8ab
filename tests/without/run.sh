#!/usr/bin/env bash
# Takes each rule out of the product, one patch at a time, and shows which tests then fail. A patch that
# no test notices, or that does not build, is a failure of this script.
#
#   tests/without/run.sh              all patches (each is a build: about an hour on two cores)
#   tests/without/run.sh R3 R4-reset  those whose name begins so
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/without CARGO_TERM_COLOR=never CARGO_INCREMENTAL=0
# A tenth of the usual: what a rule's absence breaks shows early.
export PALISADE_SEEDS=${PALISADE_SEEDS:-100}
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

# The files as they are, not as they were committed.
fresh() {
    rm -rf "$copy/palisade"
    mkdir "$copy/palisade"
    git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$copy/palisade"
}

# The arguments for cargo of a line "Caught by: --test NAME FILTER...".
arguments() {
    local words
    read -ra words < <(sed -n 's/^Caught by: //p' "$1")
    case ${words[0]} in
        --lib) echo "${words[0]} -- ${words[*]:1}" ;;
        *) echo "${words[*]:0:2} -- ${words[*]:2}" ;;
    esac
}

wanted() {
    [ $# -eq 1 ] && return 0
    local name=$1 prefix
    shift
    for prefix; do
        case $name in "$prefix"*) return 0 ;; esac
    done
    return 1
}

caught=0 missed=0
for patch in tests/without/*.patch; do
    name=$(basename "$patch" .patch)
    wanted "$name" "$@" || continue
    fresh
    patch -s -p1 --no-backup-if-mismatch -d "$copy/palisade" <"$patch"
    # shellcheck disable=SC2046
    (cd "$copy/palisade" && cargo test --locked $(arguments "$root/$patch")) >"$copy/log" 2>&1 || true
    if grep -q '^test result: FAILED' "$copy/log"; then
        caught=$((caught + 1))
        failed=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$copy/log" | sort | head -n 3 | paste -sd ' ')
        echo "$name: caught by $(grep -c '\.\.\. FAILED$' "$copy/log"): $failed"
    else
        missed=$((missed + 1))
        echo "$name: NOT CAUGHT"
        tail -n 15 "$copy/log"
    fi
done
echo "$caught caught, $missed not caught"
[ "$missed" = 0 ]
