# SPDX-License-Identifier: Apache-2.0
# Completion of ringattn for bash. The command itself says which verbs, options and values there are (ringattn help --words).

# Candidates for the word that is being typed, out of the words before it: $1 the command, $2 the word, $3 the one before.
_ringattn() {
    local command=$1 word=$2 before=$3 line option value help path=() candidates=()
    local verb=${COMP_WORDS[1]-} suite=${COMP_WORDS[2]-}
    compopt +o filenames 2>/dev/null
    COMPREPLY=()
    ((COMP_CWORD > 1)) && path=("$verb")
    [[ $verb == help && $COMP_CWORD -eq 2 ]] && path=()
    [[ $verb == bench && $suite != -* && $COMP_CWORD -gt 2 ]] && path+=("$suite")
    while IFS= read -r line; do
        option=${line%%$'\t'*} line=${line#*$'\t'}
        value=${line%%$'\t'*}
        candidates+=("$option")
        [[ $option == "$before" && -n $value ]] || continue
        # The word is the value of the option before it.
        case $value in
        FILE)
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            ;;
        -) ;;
        *) mapfile -t COMPREPLY < <(compgen -W "$value" -- "$word") ;;
        esac
        return
    done < <("$command" help --words "${path[@]}" 2>/dev/null)
    mapfile -t COMPREPLY < <(compgen -W "${candidates[*]}" -- "$word")
    # Operands of `report` and of `bench --compare` are files.
    if [[ ${#COMPREPLY[@]} -eq 0 && $word != -* && $COMP_CWORD -gt 1 ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}
complete -F _ringattn ringattn ringattn.openmpi ringattn.mpich
