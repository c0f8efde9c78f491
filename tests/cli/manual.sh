#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# manual.sh RINGATTN PAGES: man pages and completion offer what --help says, no more and no less; the examples of
# ringattn --help run.
set -euo pipefail

ringattn=$(realpath "$1") pages=$(realpath "$2")
completion=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../cli/completion")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "manual: $*" >&2
    exit 1
}

# same WHAT EXPECTED FOUND
same() {
    [[ $2 == "$3" ]] || fail "$1:"$'\n'"$(diff <(printf '%s\n' "$2") <(printf '%s\n' "$3"))"
}

# said VERB...: the options that --help names.
said() {
    "$ringattn" "$@" --help | sed -nE 's/^  (-[a-z], )?(--[a-z-]+).*/\2/p' | sort
}

# bash_offers WORD...: what bash completes the last word to.
bash_offers() {
    COMP_WORDS=(ringattn "$@") COMP_CWORD=$#
    _ringattn "$ringattn" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf '%s\n' "${COMPREPLY[@]}" | sort
}

# zsh_offers WORD...: what zsh would choose from for the last word.
zsh_offers() {
    zsh -f -c '
        _call_program() { shift; "$ringattn" "${@:2}"; }
        _describe() { print -rl -- "${candidates[@]%%:*}"; }
        compadd() { shift; print -rl -- "$@"; }
        _message() { }
        words=(ringattn "$@") CURRENT=$(($# + 1)) ringattn='"'$ringattn'"'
        functions[it]="$(<'"$completion/_ringattn"')"
        it' zsh "$@" | sort
}

# page_options: the options of a man page, out of its bold items.
page_options() {
    sed -nE '/^\.SH "RINGATTN /q; s/\\-/-/g; s/^(\\fB-[a-z]\\fR, )?\\fB(--[a-z-]+)\\fR.*/\2/p' "$1" | sort
}

# shellcheck source=/dev/null
source "$completion/ringattn.bash"
mapfile -t verbs < <("$ringattn" help --words | cut -f 1 | grep -vE '^(--.*|help)$')

echo "man pages"
same "pages" "$({
    echo ringattn.1
    printf 'ringattn-%s.1\n' "${verbs[@]}"
} | sort)" "$(find "$pages" -type f -printf '%f\n' | sort)"
for verb in "${verbs[@]}"; do
    grep -qE "^ +$verb " <("$ringattn" --help) || fail "--help does not name $verb"
    same "page of $verb" "$(said "$verb")" "$(page_options "$pages/ringattn-$verb.1")"
done
if command -v groff >/dev/null; then
    for page in "$pages"/*; do
        same "$page" "" "$(groff -man -Tascii -ww "$page" 2>&1 >/dev/null)"
    done
fi

echo "completion: bash"
same "verbs" "$(printf '%s\n' "${verbs[@]}" --help --version help | sort)" "$(bash_offers '')"
for verb in "${verbs[@]}"; do
    same "options of $verb" "$(said "$verb")" "$(bash_offers "$verb" --)"
done
same "options of a suite" "$(said bench kernel)" "$(bash_offers bench kernel --)"
same "values" $'contiguous\nstriped\nzigzag' "$(bash_offers attend --order '')"
touch here.npy
same "files" here.npy "$(bash_offers attend --query he)"
same "operands" here.npy "$(bash_offers report he)"

if command -v zsh >/dev/null; then
    echo "completion: zsh"
    same "verbs" "$(bash_offers '')" "$(zsh_offers '')"
    for verb in "${verbs[@]}"; do
        same "options of $verb" "$(bash_offers "$verb" --)" "$(zsh_offers "$verb" -- | grep '^--')"
    done
    same "values" $'contiguous\nstriped\nzigzag' "$(zsh_offers attend --order '')"
fi

echo "examples"
mapfile -t examples < <("$ringattn" --help | sed -n 's/^  ringattn //p')
((${#examples[@]} == 3)) || fail "--help has ${#examples[@]} examples"
for example in "${examples[@]}"; do
    read -ra words <<<"$example"
    "$ringattn" "${words[@]}" >out 2>&1 || fail "ringattn $example: $(cat out)"
done
