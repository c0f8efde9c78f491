# SPDX-License-Identifier: Apache-2.0
# A plan of one rank is that rank's row of the plan of all; many ranks are summed up.
common=(--kernel generic --threads 1 --heads 2 --dim 16)
run plan "${common[@]}" --length 3000 --ring 40 --pattern causal --order zigzag
run plan "${common[@]}" --length 3000 --ring 40 --pattern causal --order zigzag --rank 17
run plan "${common[@]}" --length 3000 --ring 40 --pattern causal --order zigzag --rank 40
run plan "${common[@]}" --length 100 --ring 2 --rank 1 --json

# row RANK ARGS...: one rank's figures out of the plan of all ranks.
row() {
    quietly plan "${@:2}" --all
    awk -v rank="$1" '$1 == rank && NF == 11' ../out
}

for problem in '--length 5000 --ring 37 --pattern full' '--length 100K --ring 50 --pattern window:700,90 --order striped' \
    '--length 20K --ring 64 --pattern dilated:512/1,2048/4 --order zigzag' \
    '--length 20K --ring 33 --pattern blocks:64:random=2 --strategy broadcast' \
    '--length 9000 --kv-length 4000 --ring 35 --pattern documents:1000,3000 --strategy allgather --transport mpi' \
    '--length 12345 --ring 40 --pattern causal+window:300,0 --transport threads --order striped'; do
    read -ra options <<<"$problem"
    for rank in 0 11 32; do
        all=$(row "$rank" "${common[@]}" "${options[@]}")
        quietly plan "${common[@]}" "${options[@]}" --rank "$rank"
        one=$(tail -1 ../out)
        if [[ -n $all && $all == "$one" ]]; then
            printf 'rank %d of %s: the same\n' "$rank" "$problem"
        else
            printf 'rank %d of %s:\n%s\n%s\n' "$rank" "$problem" "$all" "$one"
        fi
    done
done

# Gradients.
run plan "${common[@]}" --length 3000 --pattern causal --backward
run plan "${common[@]}" --length 3000 --kv-length 70 --value-dim 24 --preset sparse90 --backward --json
over() { run plan "${common[@]}" --backward "$@" | sed -E 's/holds at most [0-9.]+ [KM]iB/holds at most N/' | awk 'NF == 11 && /^ / { print $1, $2, $3, $9 } NF != 11 || /^[^ ]/'; }
over --length 3000 --ring 3 --order zigzag --pattern causal
over --length 3000 --ring 3 --strategy broadcast --rank 1 --dtype float16
over --length 30000 --memory 16M | sed 's/ring of [0-9]*/ring of N/' | head -3
run plan "${common[@]}" --length 3000 --backward --ring 2 --rank 0 --json | sed -E 's/("(hops|[a-z_]*bytes[a-z_]*)": )[0-9]+/\1N/'
