#!/bin/sh
# step.sh -- a training step of ./train beside PyTorch's, on one core, f32 and bf16, in turns
# (bench/torch_step.py). Run it on a quiet machine, from the build folder.
#
# Environment: PYTHON (an interpreter with PyTorch, default /usr/bin/python3, then python3),
# STEP_DTYPES (default "f32 bf16"), STEP_FLAGS (more flags for torch_step.py).
here=$(dirname "$0")
# Libraries choose for this CPU by themselves.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE BLIS_ARCH_TYPE DNNL_MAX_CPU_ISA ONEDNN_MAX_CPU_ISA
status=0

for python in ${PYTHON:-/usr/bin/python3 python3}; do
    "$python" -c 'import torch' 2>/dev/null && break
    python=
done
if [ -z "$python" ]; then
    echo "skipped: no Python here has PyTorch (Debian: python3-torch); PYTHON names another"
    exit 0
fi
for dtype in ${STEP_DTYPES:-f32 bf16}; do
    # shellcheck disable=SC2086
    "$python" "$here/torch_step.py" --machine "$here/../tests/machine.json" --dtype "$dtype" \
        $STEP_FLAGS || status=1
done
exit $status
