# SPDX-License-Identifier: Apache-2.0
# A disk that fills up while the work goes on: exit 1, the previous output stays, nothing else is left. A checkpoint that
# cannot be saved does not end the run. On a small disk of our own, in memory.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $binary
mkdir disk
small=(unshare --map-root-user --mount)
"${small[@]}" mount -t tmpfs -o size=1m none disk 2>/dev/null || skip 'this user may not mount a disk'
made=(--query gen:1 --key gen:2 --value gen:3 --shape "1,3000,2,16" --threads 1)

# on_disk ARGS...: what is in the folder `disk` afterwards, too.
on_disk() {
    printf '$ ringattn %s\n' "$*"
    # shellcheck disable=SC2016 # for the shell inside
    "${small[@]}" bash -c '
        mount -t tmpfs -o size=1m none disk
        printf previous >disk/o.npy
        head -c 900000 /dev/zero >disk/filler
        "$@" 2>&1
        echo "exit $?"
        cat disk/o.npy
        echo
        ls disk' bash "$binary" "$@" | sed -E '/^ringattn [a-z]+: +[0-9]+%, /d' | uniq
}
on_disk attend "${made[@]}" --output disk/o.npy
on_disk attend "${made[@]}" --output disk/o.npy --ring 3
on_disk attend "${made[@]}" --output disk/o.npy --ring 3 --transport threads
on_disk attend "${made[@]}" --output o.npy --ring 3 --checkpoint disk/state --checkpoint-every 0

# A run that was asked to stop and cannot be saved: that is an error, and the checkpoint of before is still there.
long=(--query gen:1 --key gen:2 --value gen:3 --shape "1,40000,2,64" --threads 1 --ring 4)
# shellcheck disable=SC2016 # for the shell inside
"${small[@]}" bash -c '
    mount -t tmpfs -o size=8m none disk
    "$@" 2>/dev/null &
    while [[ ! -e disk/state ]] && kill -0 $!; do sleep 0.01; done
    kill -9 $!
    wait $!
    rm -f disk/state.new disk/state.rows
    sum=$(sha256sum disk/state)
    head -c 8000000 /dev/zero >disk/filler 2>/dev/null
    "$@" 2>../err &
    while ! grep -qs "not saved" ../err && kill -0 $!; do sleep 0.01; done
    kill -TERM $!
    wait $!
    echo "exit $?"
    grep -v -e % -e "a second signal ends it" ../err | uniq
    [[ $(sha256sum disk/state) == "$sum" ]] || echo "state: changed"
    ls disk' bash "$binary" attend "${long[@]}" --output o.npy --checkpoint disk/state --checkpoint-every 0 2>/dev/null
ls
