#!/bin/sh
# kernels.sh FOLDER -- ./kernbench with all its kernels beside the libraries that are installed here:
# table and roofline plot in FOLDER (kernels.txt, kernels.svg).
#
# Run it on a quiet machine, from the build folder. Environment: KERNEL_SECONDS (a point, default
# 0.5), KERNEL_FLAGS (more flags for ./kernbench), KERNEL_CHECK=0 (do not verify results first).
folder=${1:?usage: kernels.sh FOLDER}
# Libraries choose for this CPU by themselves.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE BLIS_ARCH_TYPE DNNL_MAX_CPU_ISA ONEDNN_MAX_CPU_ISA
table=$folder/kernels.txt
vs=openblas

for library in onednn blis; do
    ./kernbench --kernel matmul_nn --shape 8,8,8 --seconds 0.001 --vs "$library" >/dev/null 2>&1 &&
        vs=$vs,$library
done
# shellcheck disable=SC2086
if [ "${KERNEL_CHECK:-1}" != 0 ]; then
    ./kernbench --vs "$vs" --check --seconds 0.001 $KERNEL_FLAGS >/dev/null </dev/null || exit 1
fi
flags="--vs $vs --seconds ${KERNEL_SECONDS:-0.5}"
# shellcheck disable=SC2086
{
    echo "\$ ./kernbench $flags${KERNEL_FLAGS:+ $KERNEL_FLAGS} --plot kernels.svg"
    ./kernbench $flags $KERNEL_FLAGS --plot "$folder/kernels.svg" </dev/null
    echo $? >"$table.status"
} >"$table"
status=$(cat "$table.status")
rm -f "$table.status"
sed -n '/^Geometric means/,$p' "$table"
exit "$status"
