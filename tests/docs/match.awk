# match.awk EXPECTED PRINTED: whether the lines are the same, where a line `...` of EXPECTED stands for any lines.
FILENAME == ARGV[1] { expected[++wanted] = $0; next }
{ printed[++lines] = $0 }
END {
    i = j = 1
    while (j <= lines) {
        if (i <= wanted && expected[i] == "...") {
            any = i++
            from = j
        } else if (i <= wanted && expected[i] == printed[j]) {
            i++
            j++
        } else if (any) {
            i = any + 1
            j = ++from
        } else
            exit 1
    }
    while (i <= wanted && expected[i] == "...")
        i++
    exit i <= wanted
}
