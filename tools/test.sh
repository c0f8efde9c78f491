#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/test.sh [--slow] [--without STAGE] [STAGE...]: runs the stages (default: all but quick) and counts; the last line is "N passed, N failed".
# A stage that breaks is counted as failed, and the next one runs all the same.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
source tools/builds.sh
source tools/python.sh

passed=0 failed=0 skipped_labels=(-LE '^slow$') seconds_most=600
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# step NAME COMMAND...: one test; its output is shown only when it fails.
step() {
    local name=$1 started=$SECONDS result=passed
    shift
    "$@" >"$log" 2>&1 || result=FAILED
    if [[ $result == passed ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        cat "$log"
    fi
    printf '%-32s %s %6d s\n' "$name" "$result" $((SECONDS - started))
    [[ $result == passed ]]
}

# suite CONFIGURATION [CTEST OPTIONS]: build it and run its CTest tests, each counted as one.
suite() {
    local configuration=$1 total='' bad=''
    shift
    printf '\n== tests: %s\n' "$configuration"
    step "build" build "$configuration" -DRINGATTN_TESTS=ON || return
    # Tests start more threads than there are cores: those that wait should sleep, not spin. They wait for half of their
    # time, for messages and deadlines: twice as many at a time keep the cores busy.
    OMP_WAIT_POLICY=passive ctest --test-dir "$(folder_of "$configuration")" --output-on-failure --no-tests=error \
        --timeout "$seconds_most" -j "$((2 * $(nproc)))" "$@" 2>&1 | tee "$log"
    read -r bad total < <(sed -nE 's/.*tests passed, ([0-9]+) tests? failed out of ([0-9]+)$/\1 \2/p' "$log")
    if [[ -n $total ]]; then
        passed=$((passed + total - bad)) failed=$((failed + bad))
    else
        failed=$((failed + 1)) # ctest did not get as far as counting
    fi
}

stage_gcc() {
    suite gcc "${skipped_labels[@]}"
}

# A look while working: the parts of the library, every kernel, whole problems, the command. What takes long is left out.
looked_at='^(test_(kernel_.*|accuracy|bits|blocks|checked|checkpoint|curve|decode.*|empty|exact_sum|generator|gradients|half|init'
looked_at+='|lattice|link|memory|npy|null|oracle|overlap|pattern|plan|positions|refusals|reference_scores|ring|ring_plan'
looked_at+='|rows|safetensors|schedule|scored|scores|special|status|storage.*|tensor|tiles|toy_strategy|transport)'
looked_at+='|cli_(attend|check.*|generate|gradient|help|outputs|plan|ring|scores|show|stats|usage))$'

stage_quick() {
    suite gcc -R "$looked_at" "${skipped_labels[@]}"
}

# python_suite NAME PYTEST ARGUMENTS: the environment build/NAME and its tests, each counted as one.
python_suite() {
    local name=$1 summary='' good='' bad='' broken=''
    shift
    printf '\n== tests: %s\n' "$name"
    announce_environment "$name"
    step "install" "${name}_environment" || return
    [[ $name != python ]] || step "wheel" wheel || return
    OMP_WAIT_POLICY=passive timeout $((2 * seconds_most)) "build/$name/bin/python" -m pytest "$@" 2>&1 | tee "$log"
    summary=$(grep -E '^[^a-z]*[0-9]+ (passed|failed|skipped|error).* in [0-9.]+s' "$log" | tail -n 1)
    good=$(sed -nE 's/.*\b([0-9]+) passed.*/\1/p' <<<"$summary")
    bad=$(sed -nE 's/.*\b([0-9]+) failed.*/\1/p' <<<"$summary")
    broken=$(sed -nE 's/.*\b([0-9]+) errors?.*/\1/p' <<<"$summary")
    if [[ -n $good$bad$broken ]]; then
        passed=$((passed + ${good:-0})) failed=$((failed + ${bad:-0} + ${broken:-0}))
    else
        failed=$((failed + 1)) # pytest did not get as far as counting
    fi
}

# Tests of the optional parts have the names of what they need; all others need NumPy alone.
mapfile -t optional_tests < <(find tests/python -name 'test_*.py' | grep -E '/test_(torch|transformers|mpi|jax)_' | sort)

stage_python() {
    python_suite python tests/python "${optional_tests[@]/#/--ignore=}"
}

stage_torch() {
    python_suite torch "${optional_tests[@]}" tests/python/test_documentation.py
}

# What another compiler says nothing new about: pictures, pages, documents, benchmarks, which run what others test; and
# parts without arithmetic, which the address sanitizer's stage runs with the same compiler.
other_compiler='^(cli_bench_.*|cli_resident|cli_presets|cli_show.*|cli_manual|cli_long_.*|browser_.*|doc_.*|replay_.*'
other_compiler+='|test_(blocks|count|definition|groups|lattice|many_rows|marks|partition|pattern|plan|ring_budget|row_set|seers|sieve'
other_compiler+='|strategy|tiles|verify))$'

stage_clang() {
    suite clang "${skipped_labels[@]}" -E "$other_compiler"
}

# Tests of code that starts no threads and shares nothing, or of nothing that others do not test, too: the thread
# sanitizer has nothing to say of them.
one_thread='^(replay_.*|test_kernel_.*|cli_(advise|compare_files|manual|presets|report|show|usage|verify).*'
one_thread+='|test_(accuracy|blocks|checked|compare|count|curve'
one_thread+='|definition|findings|fit|generator|groups|half|harness|lattice|many_rows|marks|npy|partition|pattern|plan|refusals'
one_thread+='|results'
one_thread+='|exact_sum|gradient_work|reference_.*|ring_budget|ring_memory|ring_plan|row_set|rows|safetensors|schedule'
one_thread+='|score_gradients|scores|seers|sieve|special|status|storage_.*|strategy|tensor|tiles|verify)(_.*)?)$'

# Installing says nothing new about memory or threads, and a sanitized library needs a sanitized program around it.
# test_verify runs the kernels and the oracle of other tests many times: ten minutes. cli_verify runs its code. cli_manual
# compares texts; the build has made them with the sanitized command.
stage_sanitize() {
    [[ -n ${RINGATTN_SLOW:-} ]] || export RINGATTN_SANITIZED=1
    # Before LLVM 17 the interceptor of __tls_get_addr takes some blocks for what old C libraries had, and the search for
    # leaks then reads where nothing is, once in a few hundred runs.
    UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=allocator_may_return_null=1:intercept_tls_get_addr=0 \
        LSAN_OPTIONS=suppressions=$PWD/tools/leaks.txt:print_suppressions=0 suite address -LE '^(slow|install)$' -E '^(test_verify|cli_manual)$'
    # Archer tells the thread sanitizer how OpenMP synchronises; without it every barrier looks like a race.
    local llvm
    llvm=$(dirname "$(readlink -f "$(command -v clang)")")/..
    OMP_TOOL_LIBRARIES=$llvm/lib/libarcher.so \
        TSAN_OPTIONS=ignore_noninstrumented_modules=1:allocator_may_return_null=1 \
        suite thread -LE '^(slow|install)$' -E "$one_thread"
    unset RINGATTN_SANITIZED
}

# fuzzed TARGET: waits for one that runs in the background, and shows what it printed if it has failed.
fuzzed() {
    wait "$(<"build/fuzz/$1.pid")" && return
    cat "build/fuzz/$1.log"
    return 1
}

stage_fuzz() {
    printf '\n== fuzz\n'
    step "build" build fuzz -DRINGATTN_FUZZ=ON -DRINGATTN_TESTS=OFF -DRINGATTN_COMMAND=OFF || return
    # All at the same time: they share the cores, and none waits for another to end.
    local kept
    for kept in tests/fuzz/corpus/*; do
        tools/fuzz.sh "$(basename "$kept")" "${RINGATTN_FUZZ_SECONDS:-10}" >"build/fuzz/$(basename "$kept").log" 2>&1 &
        printf '%s\n' $! >"build/fuzz/$(basename "$kept").pid"
    done
    for kept in tests/fuzz/corpus/*; do
        step "fuzz $(basename "$kept")" fuzzed "$(basename "$kept")"
    done
}

stage_lint() {
    printf '\n== lint\n'
    [[ -n ${RINGATTN_SLOW:-} ]] || export RINGATTN_TIDY_NODES=40000
    for check in tools/lint/*.sh; do
        step "lint $(basename "$check" .sh)" "$check"
    done
}

all=(gcc clang python torch sanitize fuzz lint) stages=() left_out=()

check_stage() {
    declare -F "stage_$1" >/dev/null && return
    echo "test: no stage \"$1\": expected one of quick, ${all[*]}" >&2
    exit 2
}

while (($#)); do
    case $1 in
    --slow)
        export RINGATTN_SLOW=1
        skipped_labels=() seconds_most=3600
        ;;
    --without)
        check_stage "${2:-}"
        left_out+=("$2")
        shift
        ;;
    *)
        check_stage "$1"
        stages+=("$1")
        ;;
    esac
    shift
done
((${#stages[@]})) || stages=("${all[@]}")
for stage in "${stages[@]}"; do
    [[ " ${left_out[*]} " == *" $stage "* ]] || "stage_$stage"
done
printf '\n%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
