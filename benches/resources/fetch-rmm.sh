#!/usr/bin/env bash
# Downloads RMM's library for the comparison of resources: bash benches/resources/fetch-rmm.sh DIRECTORY
# The wheels (6 MB) are for Linux on x86-64 and CUDA 13; nothing is installed.
set -euo pipefail

directory=${1:?usage: bash fetch-rmm.sh DIRECTORY}
mkdir -p "$directory"
platforms=()
for version in 2_28 2_27 2_24; do
  platforms+=(--platform "manylinux_${version}_x86_64")
done
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 \
  "${platforms[@]}" --dest "$directory" librmm-cu13==26.10.0 rapids-logger==0.3.0
ls "$directory"
