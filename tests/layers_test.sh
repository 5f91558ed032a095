#!/bin/sh
# layers_test -- a file includes only files of its own layer or of layers before it.
#
# Usage: layers_test.sh [ROOT] (default: the source tree, from Automake's srcdir).
root=${1:-${srcdir:-.}}
cd "$root" || exit 99

# Layers in order. Folders of one line do not include each other.
layers='
src/base
src/machine
src/mesh
kernels collectives
src/program
src/model
strategies
src/roofline
src/trace
src/train src/collbench src/kernbench src/plan
src'

list() {
    find src kernels collectives strategies -name '*.[ch]' 2>/dev/null | sort
}

# file:line:included, project includes only
includes() {
    list | while read -r file; do
        sed -n '/^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]/{
            s/^[^"<]*["<]\([^">]*\)[">].*/\1/
            =
            p
        }' "$file" | paste - - | while read -r line included; do
            echo "$file:$line:$included"
        done
    done
}

includes | awk -F: -v layers="$layers" '
    BEGIN {
        n = split(layers, line, "\n")
        for (i = 1; i <= n; i++) {
            m = split(line[i], folder, " ")
            for (j = 1; j <= m; j++)
                height[folder[j]] = i
        }
    }
    # The folder of the list that holds a path: src/program for src/program/ops/add.c.
    function folder_of(path) {
        while (sub(/\/[^\/]*$/, "", path))
            if (path in height)
                return path
        return ""
    }
    function violation(what) {
        printf "%s:%s: %s\n", $1, $2, what
        n_violations++
    }
    {
        n_includes++
        from = folder_of($1)
        to = folder_of($3)
        if (from == "kernels" && ($3 == "mpi.h" || $3 == "src/base/agree.h"))
            violation("kernels know no MPI")
        if (from == "kernels" && to == "src/mesh")
            violation("kernels know no mesh")
        if ($3 ~ /^\.\.?\//)
            violation("include by the path from the root, not " $3)
        if ($3 ~ /^(bench|tests)\//)
            violation(from " may not include " $3)
        if (to == "" || from == to)
            next
        if (height[to] >= height[from])
            violation(from " may not include " $3 ": only layers before it")
    }
    END {
        if (n_includes < 10)
            violation("found only " n_includes + 0 " includes: looked in the wrong place?")
        exit n_violations > 0
    }' && {
    echo "passed: every include is of its own layer or of one before it"
    exit 0
}
echo "failed: every include is of its own layer or of one before it"
exit 1
