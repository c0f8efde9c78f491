#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/mutate.sh [NUMBER...]: whether the tests would notice mistakes. By hand; some minutes.
#
# tools/mutants.txt lists mistakes, each with the test that must notice it. They are all built into one copy of the sources,
# in build/mutate, and switched on one at a time: the program takes mistake N when RA_MUTANT=N is in its environment. First
# the named tests must pass with none switched on; then each mistake's test must fail. Prints which were not noticed, and
# the score. With numbers: only those. A place that is not found in the sources, or not only once, is an error.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

list=tools/mutants.txt work=build/mutate
tree=$work/tree new=$work/new
seconds_most=120 # for a test, which may hang with a mistake in it
files=() kinds=() originals=() mistakes=() tests=()

fail() {
    echo "mutate: $*" >&2
    exit 1
}

# ---- The list ----------------------------------------------------------------------------------------------------------

# "FILE: TEST", then "expression" or "statement" with what is there, and "instead" with the mistake.
read_list() {
    local line number=0 last=-1
    while IFS= read -r line; do
        number=$((number + 1))
        case $line in
        '' | '#'*) ;;
        'expression '* | 'statement '*)
            kinds[last]=${line%% *} originals[last]=${line#* }
            ;;
        instead*)
            mistakes[last]=${line#instead}
            mistakes[last]=${mistakes[last]# }
            ;;
        *': '*)
            last=$((last + 1))
            files[last]=${line%%: *} tests[last]=${line#*: }
            ;;
        *) fail "$list:$number: is no line of a mistake: $line" ;;
        esac
    done <$list
    for ((number = 0; number <= last; number++)); do
        [[ -n ${originals[number]:-} && -v mistakes[number] ]] || fail "$list: mistake $((number + 1)) is incomplete"
    done
}

# ---- The copy of the sources -------------------------------------------------------------------------------------------

copy_sources() {
    local file
    rm -rf "$new"
    git ls-files --cached --others --exclude-standard | while IFS= read -r file; do
        if [[ -e $file ]]; then printf '%s\0' "$file"; fi
    done | xargs -0 cp --parents --target-directory "$(mkdir -p "$new" && echo "$new")"
}

# What is new in `new` goes to the tree that is built: files that are the same keep their time, and are not built again.
update_tree() {
    local file
    (cd "$new" && find . -type f) | while IFS= read -r file; do
        if ! cmp -s "$new/$file" "$tree/$file"; then
            mkdir -p "$(dirname "$tree/$file")"
            cp "$new/$file" "$tree/$file"
        fi
    done
    rm -rf "$new"
}

write_header() {
    cat >"$work/ra_mutant.h" <<'HEADER'
/* Whether a mistake is switched on. Without headers of the system: a file may want to define something before those. */
#ifndef RA_MUTANT_H
#define RA_MUTANT_H
extern char *getenv(const char *name);
extern int atoi(const char *text);
static inline int ra_mutant(int number)
{
    static int on = -1;
    if (on < 0) {
        const char *text = getenv("RA_MUTANT");
        on = text ? atoi(text) : 0;
    }
    return on == number;
}
#endif
HEADER
}

# mutate INDEX: the place in the copy becomes a choice between what was there and the mistake.
mutate() {
    local file=$new/${files[$1]} number=$(($1 + 1)) original=${originals[$1]} mistake=${mistakes[$1]} text rest choice
    [[ -e $file ]] || fail "mistake $number: there is no ${files[$1]}"
    text=$(<"$file")
    rest=${text#*"$original"}
    [[ $rest != "$text" ]] || fail "mistake $number: ${files[$1]} has no longer: $original"
    [[ $rest != *"$original"* ]] || fail "mistake $number: ${files[$1]} has more than once: $original"
    if [[ ${kinds[$1]} == expression ]]; then
        choice="(ra_mutant($number) ? ($mistake) : ($original))"
    else
        choice="if (ra_mutant($number)) { $mistake } else { $original }"
    fi
    [[ $text == '#include "ra_mutant.h"'* ]] || text=$'#include "ra_mutant.h"\n#line 1\n'"$text"
    printf '%s\n' "${text/"$original"/"$choice"}" >"$file"
}

build_tree() {
    local include
    include=$(realpath "$work")
    cmake -S "$tree" -B "$work/build" -G Ninja --log-level=WARNING -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_C_FLAGS="-w -I$include" -DRINGATTN_TESTS=ON >/dev/null
    cmake --build "$work/build" >"$work/build.log" 2>&1 || {
        grep -m 5 -A 3 'error' "$work/build.log" >&2
        fail "the copy does not build: $work/build.log"
    }
}

# ---- Running -----------------------------------------------------------------------------------------------------------

# run_tests REGEX: whether they pass.
run_tests() {
    OMP_WAIT_POLICY=passive ctest --test-dir "$work/build" -R "^($1)\$" --no-tests=error --timeout "$seconds_most" \
        --stop-on-failure -j "$(nproc)" >"$work/test.log" 2>&1
}

check_healthy() {
    local all='' i
    for i in "$@"; do
        all+=${all:+|}${tests[i]}
        [[ $(ctest --test-dir "$work/build" -N -R "^(${tests[i]})\$") == *'Test '*'#'* ]] ||
            fail "mistake $((i + 1)): there is no test ${tests[i]}"
    done
    run_tests "$all" || {
        cat "$work/test.log" >&2
        fail "a test fails with no mistake switched on"
    }
}

read_list
chosen=()
if (($#)); then
    for number; do chosen+=($((number - 1))); done
else
    chosen=("${!files[@]}")
fi
copy_sources
write_header
for i in "${!files[@]}"; do mutate "$i"; done
update_tree
build_tree
check_healthy "${chosen[@]}"
noticed=0 missed=()
for i in "${chosen[@]}"; do
    verdict=noticed
    if RA_MUTANT=$((i + 1)) run_tests "${tests[i]}"; then
        verdict='NOT NOTICED'
        missed+=("$i")
    else
        noticed=$((noticed + 1))
    fi
    printf '%3d %-11s %s: %s\n' $((i + 1)) "$verdict" "${files[i]}" "${tests[i]}"
done
echo
for i in "${missed[@]}"; do
    printf 'not noticed by %s: %s: "%s" instead of "%s"\n' "${tests[i]}" "${files[i]}" "${mistakes[i]}" "${originals[i]}"
done
printf '%d of %d mistakes noticed: %d%%\n' "$noticed" "${#chosen[@]}" $((100 * noticed / ${#chosen[@]}))
((100 * noticed >= 95 * ${#chosen[@]}))
