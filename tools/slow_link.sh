#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# slow_link.sh [RANKS [LENGTH]]: how long ranks wait for each other when a hop takes as long as the compute beside it.
#
# Run by hand, as root, with Open MPI and iproute2 (ip, tc). Two network namespaces are joined by a pair of virtual
# interfaces; half of the RANKS (2 or more, even; default 2) run in each. A first run, over the bare link, gives the
# compute time of a step and the bytes of a hop; from these follows the rate at which a token bucket then lets each
# direction through, so that a hop lasts RINGATTN_SLOW_LOAD (default 1) times a step. The second run is the result:
# waiting as a share of the run, which should be at most 15%. A transfer overlaps with the compute only because a rank
# calls MPI between key blocks, some thousand times a second.
#
# The command tells Open MPI to send large messages as a stream (OMPI_MCA_btl_tcp_flags=1), without which the two
# directions take turns; other settings can be tried out through the same variables.
#
# Where namespaces or token buckets are not permitted, it says so and exits with 0. Nothing outside of the two
# namespaces is talked to, and everything is removed at the end. RINGATTN names the command (default build/ringattn).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ranks=${1:-2}
length=${2:-8192}
load=${RINGATTN_SLOW_LOAD:-1}
ringattn=$(realpath "${RINGATTN:-build/ringattn}")
goal=15
link=(ra$$a ra$$b) # the namespaces, and the interface in each
address=(10.213.77.1 10.213.77.2)
network=10.213.77.0/24
work=

leave() {
    printf 'slow_link: not here: %s\n' "$1"
    exit 0
}

fail() {
    printf 'slow_link: %s\n' "$1" >&2
    exit 1
}

clean() {
    local name
    for name in "${link[@]}"; do
        ip netns delete "$name" 2>/dev/null || true # its interfaces go with it
    done
    if [[ -n $work ]]; then rm -rf "$work"; fi
}

check() {
    [[ $ranks =~ ^[0-9]+$ && $ranks -ge 2 && $((ranks % 2)) -eq 0 ]] ||
        fail "RANKS $ranks: expected an even number from 2 on"
    [[ $length =~ ^[0-9]+$ && $length -ge $((64 * ranks)) ]] || fail "LENGTH $length: expected at least $((64 * ranks))"
    [[ -x $ringattn ]] || fail "$ringattn: not built: ./dev build"
    if ! command -v ip >/dev/null || ! command -v tc >/dev/null; then leave 'needs iproute2 (ip and tc)'; fi
    command -v mpirun.openmpi >/dev/null || leave 'needs Open MPI (mpirun.openmpi)'
    "$ringattn" info | grep -q 'Open MPI' || leave "$ringattn is not built for Open MPI"
    ((EUID == 0)) || leave 'needs root, to make network namespaces'
}

join_namespaces() {
    local i
    for i in 0 1; do
        ip netns add "${link[i]}" 2>"$work/why" || leave "network namespaces are not permitted: $(<"$work/why")"
    done
    ip -n "${link[0]}" link add "${link[0]}" type veth peer name "${link[1]}" netns "${link[1]}" 2>"$work/why" ||
        leave "virtual interfaces are not permitted: $(<"$work/why")"
    for i in 0 1; do
        ip -n "${link[i]}" address add "${address[i]}/24" dev "${link[i]}"
        ip -n "${link[i]}" link set lo up
        ip -n "${link[i]}" link set "${link[i]}" up
    done
}

# What mpirun starts instead of ssh: the daemon of the other namespace. Its host name is its own, because two daemons of
# one name would be taken for one machine.
write_agent() {
    cat >"$work/agent" <<AGENT
#!/bin/sh
[ "\$1" = ${address[1]} ] || { echo "slow_link: unknown host \$1" >&2; exit 1; }
shift
exec ip netns exec ${link[1]} unshare --uts sh -c "hostname ${link[1]}; \$*"
AGENT
    chmod +x "$work/agent"
}

# run STATS: the ranks, half of them in each namespace.
run() {
    local each=$((ranks / 2))
    # shellcheck disable=SC2016 # for the inner shell to expand
    ip netns exec "${link[0]}" unshare --uts sh -c 'hostname "$0"; exec "$@"' "${link[0]}" \
        timeout 600 mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none \
        --host "${address[0]}:$each,${address[1]}:$each" -n "$ranks" \
        --mca plm rsh --mca plm_rsh_agent "$work/agent" --mca plm_rsh_no_tree_spawn 1 \
        --mca oob_tcp_if_include "$network" --mca btl tcp,self --mca btl_tcp_if_include "$network" --mca pml ob1 \
        "$ringattn" attend --query "$work/q.npy" --key "$work/k.npy" --value "$work/v.npy" --output "$work/o.npy" \
        --transport mpi --threads 1 --stats "$1" </dev/null
}

limit() {
    local i
    for i in 0 1; do
        ip netns exec "${link[i]}" tc qdisc replace dev "${link[i]}" root tbf rate "$1bit" burst 256kb latency 500ms \
            2>"$work/why" || leave "a rate limit (tbf) is not permitted: $(<"$work/why")"
    done
}

# of STATS FIELD: the largest of all ranks; what comes before them is about the run as a whole.
of() {
    sed '1,/"ranks":/d' "$1" | grep -oE "\"$2\": [0-9.e+-]+" | awk '$2 > most { most = $2 } END { printf "%.9g", most }'
}

check
work=$(mktemp -d)
trap clean EXIT
trap 'exit 130' INT TERM
join_namespaces
limit 10000000000 # shows at once whether it is permitted
write_agent
for tensor in q k v; do
    "$ringattn" generate --shape "1,$length,8,64" --seed 1 --output "$work/$tensor.npy"
done

printf 'slow_link: %d ranks, length %d, full, float32, 8 heads, head dim 64; bare link\n' "$ranks" "$length"
run "$work/bare.json"
compute=$(of "$work/bare.json" compute)
bytes=$(of "$work/bare.json" bytes_received)
hops=$(of "$work/bare.json" hops)
rate=$(awk -v c="$compute" -v b="$bytes" -v h="$hops" -v r="$ranks" -v l="$load" \
    'BEGIN { printf "%.0f", 8 * 1514 / 1448 * (b / h) / (l * c / r) }') # 66 bytes of headers in a frame
printf 'compute %.3f s, waiting %.3f s; %d hops of %d bytes\n' "$compute" "$(of "$work/bare.json" wait)" "$hops" \
    $((bytes / hops))

limit "$rate"
printf 'limited to %.1f Mbit/s: a hop lasts %s x a step\n' "$(awk -v r="$rate" 'BEGIN { print r / 1e6 }')" "$load"
run "$work/slow.json"
awk -v wait="$(of "$work/slow.json" wait)" -v compute="$(of "$work/slow.json" compute)" \
    -v total="$(of "$work/slow.json" total)" -v goal=$goal 'BEGIN {
    share = 100 * wait / total
    printf "compute %.3f s, waiting %.3f s, run %.3f s: %.1f%% waiting, goal %d%%: %s\n", compute, wait, total, share,
        goal, share <= goal ? "met" : "missed"
}'
