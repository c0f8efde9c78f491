# SPDX-License-Identifier: Apache-2.0
# Runs that are killed, stopped, damaged and continued: the same bits in the end, or a message and nothing overwritten.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $binary
made=(--query gen:1 --key gen:2 --value gen:3 --shape "1,3000,2,16" --threads 1)
saved=(--checkpoint state --checkpoint-every 0)

# killed PATTERN OPTIONS...: killed twenty times and more at any moment, then left to end.
killed() {
    local kills=0 pattern=$1
    shift
    quietly attend "${made[@]}" --pattern "$pattern" "$@" --output whole.npy --lse whole_lse.npy
    while ((kills < 22)); do
        "$binary" attend "${made[@]}" --pattern "$pattern" "$@" "${saved[@]}" --output o.npy --lse l.npy 2>/dev/null &
        sleep "0.0$((RANDOM % 9))$((RANDOM % 10))"
        kill -9 $! 2>/dev/null && kills=$((kills + 1))
        wait $! 2>/dev/null
        # One that came to its end is done again from the start.
        rm -f o.npy l.npy
    done
    quietly attend "${made[@]}" --pattern "$pattern" "$@" "${saved[@]}" --output o.npy --lse l.npy
    cmp o.npy whole.npy && cmp l.npy whole_lse.npy && printf 'killed: %s %s: the same\n' "$pattern" "$*"
    rm -f ./*.partial
    ls
}
{
    killed causal --ring 7 --order zigzag
    killed blocks:64:density=0.3 --ring 5 --strategy broadcast
    killed dilated:100/1,500/3 --ring 6
} 2>/dev/null

# Stopped by a signal: saved, and nothing else is left; then another run, which is refused.
long=(--query gen:1 --key gen:2 --value gen:3 --shape "1,40000,2,16" --threads 1 --ring 4)
"$binary" attend "${long[@]}" --output o.npy --checkpoint state --checkpoint-every 1000 2>../err &
sleep 0.5
kill -TERM $! # a shell's background jobs do not hear INT
wait $!
printf 'exit %d\n' $?
sed -E '/^ringattn [a-z]+: +[0-9]+%, /d; /a second signal ends it at once$/d' ../err # the latter where it takes long
ls -I state.rows # of ranks that were finished: there are some where processors are fast
run attend "${long[@]}" --output o.npy --checkpoint state --pattern causal
run attend "${long[@]}" --output o.npy --checkpoint state --output-dtype float16
run attend --query gen:9 "${long[@]:2}" --output o.npy --checkpoint state
cp state kept
printf 'x' | dd of=state bs=1 seek=3000 conv=notrunc status=none
run attend "${long[@]}" --output o.npy --checkpoint state | sed 's/checksum is .*/checksum is .../'
head -c 1000 kept >state
run attend "${long[@]}" --output o.npy --checkpoint state | sed 's/part of .* left/part of .../'
cp kept state
ls -I state.rows
rm -f state* kept

# Stopped when a rank was finished; then its rows are damaged, cut and lost.
"$binary" attend "${long[@]}" --output o.npy --checkpoint state --checkpoint-every 1000 2>/dev/null &
for ((i = 0; i < 12000; i++)); do # all 10,000 rows of the first rank, however slow that is
    if (($(stat -c %s state.rows 2>/dev/null || echo 0) >= 10000 * 2 * 16 * 4)); then break; fi
    sleep 0.01
done
sleep 0.2
kill -TERM $!
wait $!
cp state.rows kept
printf 'x' | dd of=state.rows bs=1 seek=3000 conv=notrunc status=none
run attend "${long[@]}" --output o.npy --checkpoint state
truncate -s 3000 state.rows
run attend "${long[@]}" --output o.npy --checkpoint state
rm state.rows
run attend "${long[@]}" --output o.npy --checkpoint state | sed 's/that .* ranks/that N ranks/'
cp kept state.rows
ls
rm -f state* kept

# Inputs in files that have changed meanwhile.
tensors 1,3000,2,16 1,3000,2,16 1,3000,2,16
"$binary" attend "${qkv[@]}" --threads 1 --ring 3 --output o.npy "${saved[@]}" 2>/dev/null &
for ((i = 0; i < 200; i++)); do
    if [[ -e state ]]; then break; fi
    sleep 0.01
done
kill -9 $!
wait $! 2>/dev/null
[[ -e state ]] || echo 'nothing was saved'
touch -d '2001-02-03 04:05:06 UTC' k.npy
run attend "${qkv[@]}" --threads 1 --ring 3 --output o.npy "${saved[@]}" 2>&1 |
    sed -E 's/modified [0-9.]+/modified .../g; s/sample [0-9a-f]+/sample .../g'
rm -f state*

run attend "${made[@]}" --output o.npy --checkpoint-every 5
run attend "${made[@]}" --output o.npy --checkpoint state --checkpoint-every -1
run attend "${made[@]}" --output o.npy --checkpoint o.npy
run attend "${made[@]}" --output state.rows --checkpoint state
run attend "${made[@]}" --output o.npy --lse state.1 --checkpoint state
run attend "${made[@]}" --output o.npy --ring 2 --transport threads --checkpoint state
run attend "${made[@]}" --output o.npy --checkpoint nowhere/state --checkpoint-every 0
# It cannot be written, or its rows cannot: the old output stays.
printf old >o.npy
for taken in state.new state.rows; do
    mkdir $taken
    run attend "${made[@]}" --ring 2 --output o.npy "${saved[@]}"
    cat o.npy
    echo
    rmdir $taken
    rm -f state*
done
run attend "${made[@]}" --output o.npy --checkpoint state
ls
