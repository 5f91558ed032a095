#!/bin/sh
# doc_test -- doc/plan.md says what ./plan says: every "$ plan ..." in it is run, and prints the lines
# that follow it there; every formula stands there as the program has it. The patches of
# doc/architecture.md apply.
# shellcheck source=tests/lib.sh
. "${srcdir:-.}/tests/lib.sh"
doc=$(cd "${srcdir:-.}" && pwd)/doc/plan.md
plan=$PWD/plan
folder=$PWD/$folder # examples run inside it
PURLIN_HARDWARE=$(dirname "$doc")/hardware
export PURLIN_HARDWARE

squeezed() {
    sed 's/[[:space:]]\{1,\}/ /g;s/^ //;s/ $//'
}

# The examples, a file each: the command, then the lines that it prints.
awk -v folder="$folder" '
    /^ *\$ plan / { file = sprintf("%s/%03d.example", folder, ++n); more = 0; inside = 1 }
    /^ *$/ || /^```/ { inside = 0 }
    inside {
        line = $0
        sub(/^ +/, "", line)
        joins = sub(/ *\\$/, "", line)
        printf "%s%s", line, joins ? " " : "\n" > file
    }' "$doc"

# run_example FILE: 0 when it prints, in order, what it should
run_example() {
    [ "$(wc -l <"$1")" -gt 1 ] || return 1 # a command without a number shows nothing
    set -- "$1" "$(head -1 "$1" | sed 's/^\$ plan //')"
    (cd "$folder" && eval '"$plan"' "$2" </dev/null 2>&1) >"$folder/said" || return 1 # quotes count
    squeezed <"$folder/said" >"$folder/said.squeezed"
    sed 1d "$1" | squeezed | grep -v '^\.\.\.$' |
        awk -v said="$folder/said.squeezed" '
            { found = 0
              while (!found && (getline line < said) > 0) found = line == $0
              if (!found) { print "not printed (or not in this order): " $0; bad = 1; exit } }
            END { exit bad }'
}

n=0
for file in "$folder"/*.example; do
    case $(head -1 "$file") in
    *" verify "* | *"--hw this"*) continue ;; # start jobs on this machine
    esac
    if ! run_example "$file"; then
        verdict "$(head -1 "$file")" 1
    fi
    n=$((n + 1))
done
[ "$n" -ge 70 ] && [ "$failed" -eq 0 ]
verdict "doc/plan.md: $n commands print what stands under them" $?

"$plan" formula >"$folder/formulas"
awk '
    / section +[0-9]+  / { name = $1; what = $0; sub(/.* section +[0-9]+  /, "", what) }
    /^ +in: / { sub(/^ +in: +/, ""); in_ = $0; next }
    /^ +out: / { sub(/^ +out: +/, "")
        printf "**%s**: %s.\n    %s\nfrom `%s` gives `%s`\n", name, what, text, in_, $0; next }
    /^ +/ { sub(/^ +/, ""); text = $0 }' "$folder/formulas" >"$folder/wanted"
grep -v -x -F -f "$doc" "$folder/wanted" >"$folder/missing"
[ "$(wc -l <"$folder/wanted")" -ge 150 ] && ! [ -s "$folder/missing" ]
verdict "doc/plan.md has every formula, what it takes and gives, as the program does" $?
cat "$folder/missing"
awk '/^\*\*[a-z_]+\*\*: / { name = $1; if (asks != "" && !has) print asks; asks = name; has = 0 }
    /^ +\$ plan formula / { if (index(asks, "**" $4 "**") == 1) has = 1 }
    END { if (!has) print asks }' "$doc" >"$folder/without"
! [ -s "$folder/without" ]
verdict "every formula there has a worked number" $?
cat "$folder/without"

awk -v folder="$folder" '
    /^```diff$/ { file = sprintf("%s/%d.patch", folder, ++n); next }
    /^```$/ { file = "" }
    file != "" { print > file }' "$(dirname "$doc")/architecture.md"
if command -v git >/dev/null 2>&1; then
    for patch in "$folder"/*.patch; do
        name=$(basename "$patch") # before what is judged: bash has the last status of a verdict's words
        run git -C "$(dirname "$doc")/.." apply --check "$patch"
        verdict "the patch $name of doc/architecture.md applies" $?
    done
else
    echo "skipped: the patches of doc/architecture.md apply: there is no git"
fi
exit $failed
