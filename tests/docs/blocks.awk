# Takes a document apart: NNN.command and NNN.expected for each command of its ```console blocks, and program.c, its
# first ```c block. A block that shows a prompt and is of another kind is an error: its commands would not be run.
function fail(text)
{
    printf "%s:%d: %s\n", FILENAME, FNR, text > "/dev/stderr"
    failed = 1
    exit 1
}
/^ *```/ && !kind {
    match($0, /^ */)
    indent = RLENGTH
    kind = substr($0, indent + 4)
    if (!kind)
        kind = "plain"
    next
}
/^ *```$/ {
    if (kind == "c")
        programs++
    kind = ""
    next
}
{ line = substr($0, indent + 1) }
kind == "c" && !programs { print line > (folder "/program.c") }
kind && kind != "console" && line ~ /^\$ / { fail("a prompt in a block that is not ```console") }
kind != "console" { next }
continued {
    printf "\n%s", line > command
    continued = line ~ /\\$/
    next
}
line ~ /^\$ / {
    name = sprintf("%s/%03d", folder, ++count)
    command = name ".command"
    expected = name ".expected"
    printf "%s", substr(line, 3) > command
    printf "" > expected
    continued = line ~ /\\$/
    next
}
!count { fail("output without a command") }
{ print line > expected }
END {
    if (!failed && !count)
        fail("no commands")
}
