# SPDX-License-Identifier: Apache-2.0
# An input that shrinks while it is read, and a limit on the size of files: a message, and the previous output stays.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
tensors 20000,2,64 20000,2,64 20000,2,64
cp k.npy whole.npy
echo previous | tee o.npy >l.npy

# shrink FILE OPTION...: while its rows are wanted again and again.
shrink() {
    local i
    "$binary" attend "${qkv[@]}" --output o.npy --lse l.npy --kernel generic --threads 1 "${@:2}" 2>../err &
    for ((i = 0; i < 1000; i++)); do
        if [[ -e o.npy.partial ]]; then break; fi
        sleep 0.01
    done
    sleep 0.2
    truncate -s 1000000 "$1"
    wait $!
    printf '%s: exit %d\n' "$*" $?
    sed -E '/^ringattn [a-z]+: +[0-9]+%, /d; s/ends at byte [0-9]+/ends at byte N/' ../err
    cat o.npy l.npy
    ls
    cp whole.npy "$1"
}
shrink k.npy --ring 8
shrink v.npy --memory 12MiB

for path in --ring\ 4 --threads\ 1; do
    (
        ulimit -f 2000 # KiB
        # shellcheck disable=SC2086 # an option and its value
        run attend "${qkv[@]}" --output o.npy --lse l.npy --pattern window:10,0 $path
    )
    cat o.npy l.npy
    ls
done
