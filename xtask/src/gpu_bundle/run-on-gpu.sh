#!/usr/bin/env bash
# Runs everything in this bundle on a GPU and writes what it prints to a directory. Needs bash and
# the GPU's driver; no Rust, no CUDA toolkit, no network.
#
#   bash run-on-gpu.sh [--quick]
#
#   OUT=DIRECTORY      where logs, JSON, CSV and plots go     [results, where you are]
#   DEVICE=cuda:N      which GPU, or cpu                      [cuda:0]
#
# The exit code is 1 if anything failed.
set -uo pipefail

threads=1048576
heap=16GiB
copies=()
quick=
for argument in "$@"; do
  case $argument in
    --quick)
      quick=yes
      threads=65536
      heap=1GiB
      copies=(--copies 64)
      ;;
    *)
      echo "usage: [OUT=DIRECTORY] [DEVICE=cuda:N] bash run-on-gpu.sh [--quick]" >&2
      exit 2
      ;;
  esac
done

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
device=${DEVICE:-cuda:0}
command=$here/bin/scatterheap
mkdir -p "${OUT:-results}" || exit 1
out=$(cd "${OUT:-results}" && pwd)

# Test programs look for the command and for files here instead of in the sources.
export CARGO_MANIFEST_DIR=$here
export CARGO_BIN_EXE_scatterheap=$command
export NO_COLOR=1

passed=0
failed=()

# step NAME FILE COMMAND...: runs a command with its output in FILE, and its errors beside it.
step() {
  local name=$1 file=$out/$2 start=$SECONDS
  shift 2
  printf '%-32s ' "$name"
  if "$@" >"$file" 2>"$file.errors"; then
    passed=$((passed + 1))
    printf 'ok      %4d s\n' $((SECONDS - start))
  else
    failed+=("$name")
    printf 'FAILED  %4d s  see %s\n' $((SECONDS - start)) "$file"
    tail -n 20 "$file" "$file.errors" | sed 's/^/    /'
  fi
  [[ -s $file.errors ]] || rm -f "$file.errors"
}

# both NAME COMMAND...: once as text and once as JSON.
both() {
  local name=$1
  shift
  step "$name" "$name.txt" "$command" "$@" --device "$device"
  step "$name --json" "$name.json" "$command" "$@" --device "$device" --json
}

cp "$here/MANIFEST" "$out/MANIFEST"
grep '^commit' "$here/MANIFEST"
if [[ -x $(type -P nvidia-smi) ]]; then
  figures=index,name,driver_version,memory.total,clocks.sm,clocks.max.sm,clocks.mem
  nvidia-smi --query-gpu="$figures" --format=csv | tee "$out/devices.csv"
else
  echo "no nvidia-smi: the driver is not installed, or not on the PATH"
fi
echo

step info info.txt "$command" info
step "info --json" info.json "$command" info --json
for test in "$here"/tests/*; do
  [[ -x $test ]] || continue
  name=$(basename "$test")
  step "test $name" "test-$name.txt" "$test" --show-output
done
both stress stress --threads "$threads" --heap "$heap"
for trace in "$here"/traces/*.sctrace; do
  name=replay-$(basename "$trace" .sctrace)
  both "$name" replay "$trace" --heap "$heap" ${copies[@]+"${copies[@]}"}
done
step bench bench.txt "$command" bench --device "$device" --output "$out/bench" ${quick:+--quick}
if [[ -z $quick ]]; then
  for benchmark in "$here"/benches/*; do
    [[ -x $benchmark ]] || continue
    name=$(basename "$benchmark")
    # Benchmarks write reports to where they run.
    step "benchmark $name" "benchmark-$name.txt" env --chdir="$out" "$benchmark" --bench
  done
fi

echo
grep -h '^skipped: ' "$out"/test-*.txt 2>/dev/null | sort -u
echo "$passed passed, ${#failed[@]} failed; results in $out"
for name in ${failed[@]+"${failed[@]}"}; do
  echo "failed: $name"
done
[[ ${#failed[@]} -eq 0 ]]
