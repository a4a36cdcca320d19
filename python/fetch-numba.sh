#!/usr/bin/env bash
# Downloads Numba with its CUDA target, for a machine without a network: bash python/fetch-numba.sh ARCHIVE.tar.xz
# The packages (80 MB; 44 MB in the archive) are for CPython 3.12 and CUDA 13 on Linux with x86-64; nothing is installed. The archive
# has what site-packages would have, without what only tests and CUDA 12 need.
set -euo pipefail

archive=${1:?usage: bash fetch-numba.sh ARCHIVE.tar.xz}
packages=(
  numba==0.68.1 numba-cuda==0.30.4 llvmlite==0.50.0
  cuda-bindings==13.5.0 cuda-core==1.2.2 cuda-pathfinder==1.9.0 packaging==26.3
)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
platforms=()
for version in 2_28 2_27 2_24; do
  platforms+=(--platform "manylinux_${version}_x86_64")
done
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 \
  "${platforms[@]}" --dest "$scratch/wheels" "${packages[@]}"
mkdir "$scratch/packages"
for wheel in "$scratch"/wheels/*.whl; do
  python3 -m zipfile --extract "$wheel" "$scratch/packages"
done
cd "$scratch/packages"
find . -type d \( -name tests -o -name cu12 \) -prune -exec rm -r {} +
find . -name '*.so' -exec strip --strip-unneeded {} +
mkdir -p "$(dirname "$archive")"
# Numba's LLVM is most of it: the filter for machine code saves a tenth.
tar --create --format=ustar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 . |
  xz --x86 --lzma2=preset=9,dict=128MiB --threads=1 >"$archive.partial"
mv "$archive.partial" "$archive"
