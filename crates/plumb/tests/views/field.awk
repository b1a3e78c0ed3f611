# SPDX-License-Identifier: Apache-2.0 OR MIT
# A field of a line of babeltrace2's text, and the line's time in ns.
function field(name,    s) {
    s = $0
    if (!match(s, "[ {]" name " = ")) return ""
    s = substr(s, RSTART + RLENGTH)
    sub(/[, ].*/, "", s)
    return s
}
{ now = substr($1, 2) + 0 }
