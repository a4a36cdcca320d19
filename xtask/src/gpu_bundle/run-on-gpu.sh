#!/usr/bin/env bash
# Runs everything in this bundle on a GPU and writes what it prints to a directory. Needs bash and
# the GPU's driver; no Rust, no CUDA toolkit, no network. Where compute-sanitizer is installed, it also runs a
# small suite under it.
#
#   bash run-on-gpu.sh [--quick]
#
#   OUT=DIRECTORY      where logs, JSON, CSV and plots go     [results, where you are]
#   DEVICE=cuda:N      which GPU, or cpu                      [cuda:0]
#   STEP_SECONDS=N     a step that takes longer has failed    [1800]; if cuda-gdb is installed, it says where it was on the GPU
#   SOAK_SECONDS=N     how long the soak may take             [600]
#   SOAK_PAIRS=N       pairs of malloc and free in all runs   [100000000000]
#   ONLY=WORDS         the groups to run, of: info tests examples stress hardened growth litmus exhaustion soak sanitizer replay
#                      bench report top python resources cpp; and long, which runs only if it is named
#   SCENARIOS=DIR      scenarios of memory resources          [those of `scatterheap resources`]
#
# The group `long` explores warps and makes up inputs for hours, on the CPU: `bash long/long-runs.sh` says which
# variables it takes, such as CORES and SECONDS_EACH. It may run beside other groups, in a run with another OUT.
#
# The group `python` needs Python 3.10 and, for most of it, PyTorch, CuPy and CUDA's libnvvm, nvJitLink and NVRTC. It brings
# Numba along, for CPython 3.12; `resources` needs g++ and CUDA's headers.
#
# The group `cpp` needs nvcc of CUDA 13 and g++; with CMake it builds the example a second time.
#
# Runs of the soak with the same OUT add up. The exit code is 1 if anything failed, or nothing ran.
set -uo pipefail

threads=1048576
heap=16GiB
# In MiB.
grown=102400
tries=100000000
soak_pairs=${SOAK_PAIRS:-100000000000}
soak_seconds=${SOAK_SECONDS:-600}
step_seconds=${STEP_SECONDS:-1800}
only=${ONLY:-}
all_groups="info tests examples stress hardened growth litmus exhaustion soak sanitizer replay bench report top python \
resources cpp long"
copies=()
quick=
for argument in "$@"; do
  case $argument in
    --quick)
      quick=yes
      threads=65536
      heap=1GiB
      grown=4096
      tries=1000000
      soak_pairs=${SOAK_PAIRS:-100000000}
      soak_seconds=${SOAK_SECONDS:-30}
      copies=(--copies 64)
      ;;
    *)
      echo "usage: [OUT=DIRECTORY] [DEVICE=cuda:N] bash run-on-gpu.sh [--quick]" >&2
      exit 2
      ;;
  esac
done
for number in "$soak_pairs" "$soak_seconds" "$step_seconds"; do
  if [[ ! $number =~ ^[1-9][0-9]*$ ]]; then
    echo "SOAK_PAIRS, SOAK_SECONDS and STEP_SECONDS are numbers from 1 on, not \`$number\`" >&2
    exit 2
  fi
done
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# The groups that it was packed for.
packed=$(<"$here/groups")
packed=${packed:-$all_groups}
for group in $only; do
  if [[ " $all_groups " != *" $group "* ]]; then
    echo "ONLY names \`$group\`: choose from $packed" >&2
    exit 2
  elif [[ " $packed " != *" $group "* ]]; then
    echo "ONLY names \`$group\`, but this bundle is for $packed: pack one that has it" >&2
    exit 2
  fi
done

. "$here/limited.sh" || exit 1
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
skipped=()

# wanted GROUP: whether a group is to run.
wanted() {
  [[ " $packed " == *" $1 "* && (-z $only || " $only " == *" $1 "*) ]]
}

# step NAME FILE COMMAND...: runs a command with its output in FILE, and its errors beside it, for the time of a step or STEP_LIMIT seconds.
step() {
  local name=$1 file=$out/$2 start=$SECONDS code
  shift 2
  printf '%-32s ' "$name"
  limited "$file.where" "${STEP_LIMIT:-$step_seconds}" "$@" >"$file" 2>"$file.errors"
  code=$?
  if [[ $code -eq 0 ]]; then
    passed=$((passed + 1))
    printf 'ok      %4d s\n' $((SECONDS - start))
  else
    failed+=("$name")
    if [[ $code -eq 124 ]]; then
      printf 'HUNG    %4d s  see %s\n' $((SECONDS - start)) "$file"
      if [[ -s $file.where ]]; then
        echo "    threads on the GPU, and the function that they are in:"
        head -n 20 "$file.where" | sed 's/^/    /'
      fi
    else
      printf 'FAILED  %4d s  code %d, see %s\n' $((SECONDS - start)) "$code" "$file"
    fi
    tail -n 20 "$file" "$file.errors" | sed 's/^/    /'
  fi
  [[ -s $file.errors ]] || rm -f "$file.errors"
}

# skip NAME REASON: says that a step did not run.
skip() {
  skipped+=("$1: $2")
  printf '%-32s skipped: %s\n' "$1" "$2"
}

# steps: how many steps there were, with those that did not run.
steps() {
  echo $((passed + ${#failed[@]} + ${#skipped[@]}))
}

# must_have_run NAME STEPS: what has a step for each program of the bundle has failed if there were no more steps.
must_have_run() {
  if (($(steps) == $2)); then
    failed+=("$1")
    printf '%-32s FAILED  this bundle has no programs for it: pack it again, and see what is left out\n' "$1"
  fi
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

if wanted info; then
  step info info.txt "$command" info
  step "info --json" info.json "$command" info --json
fi
if wanted tests; then
  before=$(steps)
  for test in "$here"/tests/*; do
    [[ -x $test ]] || continue
    name=$(basename "$test")
    # Of them host-conformance writes which case holds for which memory resource.
    SCATTERHEAP_MATRIX=$out/conformance.md step "test $name" "test-$name.txt" "$test" --show-output
  done
  must_have_run tests "$before"
fi
if [[ " $only " == *" long "* ]]; then
  # Not in the foreground: the script could not be ended before it.
  bash "$here/long/long-runs.sh" "$out/long" > >(tee "$out/long.txt") 2>&1 &
  if wait $!; then
    passed=$((passed + 1))
  else
    failed+=(long)
  fi
fi
if wanted examples; then
  before=$(steps)
  for example in "$here"/examples/*; do
    [[ -x $example ]] || continue
    name=$(basename "$example")
    arguments=(--device "$device")
    [[ $name != *mandelbrot ]] || arguments+=(--output "$out/mandelbrot.png")
    step "example $name" "example-$name.txt" "$example" "${arguments[@]}"
  done
  must_have_run examples "$before"
fi
if wanted stress; then
  both stress stress --threads "$threads" --heap "$heap"
fi
if wanted hardened; then
  both stress-hardened stress --threads "$threads" --heap "$heap" --harden red-zones,poison,zero,quarantine,tags
  # A million of each kind of misuse among ten million good calls.
  both misuse stress misuse --threads "$threads" --heap "$heap"
  both misuse-hardened stress misuse --threads "$threads" --heap "$heap" \
    --harden red-zones,poison,zero,quarantine,tags
  step "bench hardened" bench-hardened.txt "$command" bench uniform mixed churn --device "$device" \
    --allocator scatterheap --harden red-zones --harden poison --harden zero --harden quarantine \
    --harden tags --harden red-zones,poison,zero,quarantine,tags --output "$out/bench-hardened" \
    ${quick:+--quick}
fi
if wanted growth; then
  # From 64 MiB to as much as is said, in one kernel: exhaust fills it wholly. But not all memory: what the workloads note lies beside the heap.
  if [[ $device == cuda:* && -x $(type -P nvidia-smi) ]]; then
    free=$(nvidia-smi --id="${device#cuda:}" --query-gpu=memory.free --format=csv,noheader,nounits)
    if [[ $free =~ ^[0-9]+$ ]] && ((free / 4 * 3 < grown)); then
      grown=$((free / 4 * 3))
      echo "growth to $grown MiB, three quarters of what is free"
    fi
  fi
  both growth-live stress exhaust mixed --threads "$threads" --heap 64MiB --max-heap "${grown}MiB" --growth live
  both growth-between stress mixed --threads "$threads" --heap 64MiB --max-heap "$heap" --growth between-launches
fi
if wanted litmus; then
  # Each variant by itself: what one finds does not keep the others from running.
  for variant in slots store-buffering retirement runs resize warps warp-frees warp-mallocs; do
    step "litmus $variant" "litmus-$variant.json" \
      "$command" litmus "$variant" --tries "$tries" --device "$device" --json
  done
fi
if wanted exhaustion; then
  # 64 MiB has fewer slots than threads; 1 GiB has more.
  for bytes in 64MiB 1GiB; do
    step "exhaustion $bytes" "exhaustion-$bytes.json" \
      "$command" exhaustion --threads "$threads" --heap "$bytes" --device "$device" --json
  done
fi
if wanted soak; then
  # It ends by itself before its step's time is over.
  if ((soak_seconds + 120 > step_seconds)); then
    step_seconds=$((soak_seconds + 120))
  fi
  step soak soak.json "$command" soak --pairs "$soak_pairs" --seconds "$soak_seconds" \
    --record "$out/soak.jsonl" --device "$device" --json
fi
if wanted sanitizer; then
  if [[ ! -x $(type -P compute-sanitizer) ]]; then
    skip compute-sanitizer "it is not on the PATH"
  elif [[ $device == cpu* ]]; then
    skip compute-sanitizer "it is for GPUs"
  else
    small=(--threads 2048 --heap 16MiB --device "$device")
    for tool in memcheck racecheck initcheck synccheck; do
      check=(compute-sanitizer --tool "$tool" --error-exitcode 9)
      step "$tool stress" "$tool-stress.txt" "${check[@]}" "$command" stress "${small[@]}" \
        uniform mixed churn cross-warp divergent grow --rounds 2
      step "$tool exhaustion" "$tool-exhaustion.txt" "${check[@]}" "$command" exhaustion "${small[@]}" \
        --limit "$step_seconds"
      step "$tool litmus" "$tool-litmus.txt" "${check[@]}" "$command" litmus --tries 1 \
        --device "$device" --limit "$step_seconds"
    done
  fi
fi
if wanted replay; then
  for trace in "$here"/traces/*.sctrace; do
    name=replay-$(basename "$trace" .sctrace)
    both "$name" replay "$trace" --heap "$heap" ${copies[@]+"${copies[@]}"}
  done
fi
if wanted bench; then
  step bench bench.txt "$command" bench --device "$device" --output "$out/bench" ${quick:+--quick}
  if [[ -z $quick ]]; then
    before=$(steps)
    for benchmark in "$here"/benches/*; do
      [[ -x $benchmark ]] || continue
      name=$(basename "$benchmark")
      # Benchmarks write reports to where they run.
      step "benchmark $name" "benchmark-$name.txt" env --chdir="$out" "$benchmark" --bench
    done
    must_have_run benchmarks "$before"
  fi
fi
if wanted report; then
  # Pages with pictures: of a replay, of stress, and of the benchmark if it was run with this OUT.
  step "report of a replay" report-replay.txt "$command" replay "$here/traces/sqlite3.sctrace" --heap "$heap" \
    --device "$device" ${copies[@]+"${copies[@]}"} --report "$out/replay.html"
  step "report of stress" report-stress.txt "$command" stress --threads "$threads" --heap "$heap" --device "$device" \
    --moments 32 --report "$out/stress.html"
  if [[ -s $out/bench/latest.json ]]; then
    step "report of the benchmark" report-bench.txt "$command" report "$out/bench/latest.json" --output "$out/bench.html"
  fi
fi
if wanted top; then
  # What a heap costs that is watched: 14 runs of a second, by turns with and without. Then a run that is watched in fact.
  watched=(--milliseconds 1000)
  [[ -n $quick ]] && watched=(--milliseconds 200 --runs 3)
  step "cost of --live" top.txt "$command" live-cost --device "$device" --heap "$heap" --threads "$threads" \
    "${watched[@]}" --output "$out/top.csv"
  tail -n 7 "$out/top.txt"
  # Until it is seen at work, and then as JSON.
  export SCATTERHEAP_RUN_DIR=$out/top-readings
  "$command" stress churn --rounds 2000 --threads "$threads" --heap "$heap" --device "$device" --live >"$out/top-stress.txt" 2>&1 &
  run=$!
  STEP_LIMIT=60 step "top" top-once.txt bash -c '
    until "$0" top "$1" --once 2>/dev/null | tee "$2" | grep -q "^operations *[1-9]"; do sleep 0.1; done
    "$0" top "$1" --json >"${2%.txt}.json" && cat "$2"' "$command" "$run" "$out/top-seen.txt"
  if wait "$run"; then
    passed=$((passed + 1))
  else
    failed+=("stress --live")
    cat "$out/top-stress.txt"
  fi
  # It is empty: readings go with their heaps.
  step "no readings are left" top-left.txt rmdir "$SCATTERHEAP_RUN_DIR"
  unset SCATTERHEAP_RUN_DIR
fi
if wanted python; then
  # Not beside the results: with Numba it has thousands of files.
  scratch=$(mktemp -d) || exit 1
  trap 'rm -rf "$scratch"' EXIT
  python=$scratch/environment/bin/python
  # Where Numba finds CUDA's compiler, if it is not said.
  [[ -n ${CUDA_HOME:-} || ! -d /usr/local/cuda ]] || export CUDA_HOME=/usr/local/cuda
  if [[ ! -x $(type -P python3) ]]; then
    skip python "there is no python3"
  else
    step "python install" python-install.txt python3 "$here/python/fresh-environment.py" \
      "$here"/python/scatterheap-*.whl "$scratch/environment" "$here/python/numba-cp312.tar.xz"
  fi
fi
if wanted python && [[ -x $python ]]; then
  step "python tests" test-python.txt "$python" -m unittest discover --verbose --start-directory "$here/python/tests"
  for compiler in cc c++; do
    case $compiler in
      cc) program=interface.c ;;
      *) program=exceptions.cpp ;;
    esac
    if [[ -x $(type -P $compiler) ]]; then
      step "build C interface $program" "c-$program-build.txt" $compiler -Wall -I "$here/capi/include" \
        "$here/capi/programs/$program" -L "$here/capi" -lscatterheap -Wl,-rpath,"$here/capi" -o "$out/c-$program.run"
      step "C interface $program" "c-$program.txt" "$out/c-$program.run" "$device"
    else
      skip "C interface $program" "there is no $compiler"
    fi
  done
  examples=$here/python/examples
  step heap_map heap_map.txt "$python" "$examples/heap_map.py" "$out/heap-map.png"
  for needed in numba_neighbours:numba_cuda cupy_table:cupy; do
    name=${needed%:*}
    if [[ $device == cpu* ]]; then
      skip "$name" "it is for GPUs"
    elif ! "$python" -c "import ${needed#*:}" 2>/dev/null; then
      skip "$name" "${needed#*:} is not installed"
    else
      step "$name" "$name.txt" "$python" "$examples/$name.py"
    fi
  done
  example=$here/python/examples/train_transformer.py
  if [[ $device == cpu* ]]; then
    skip train_transformer "it is for GPUs"
  elif ! "$python" -c 'import torch' 2>/dev/null; then
    skip train_transformer "PyTorch is not installed"
  else
    step train_transformer train_transformer.txt "$python" "$example" ${quick:+--steps 20}
    step "record a training step" train_transformer-recording.json "$python" "$example" --steps 10 \
      --record "$out/training-recording.csv" --scenario "$out/transformer.csv"
  fi
fi
if wanted resources; then
  # First the scenarios, then the others' allocators by them, last ours, with all in one table. Six minutes at most.
  scenarios=${SCENARIOS:-$out/scenarios}
  case_seconds=0.25
  [[ -n $quick ]] && case_seconds=0.1
  others=()
  if [[ -z ${SCENARIOS:-} ]]; then
    step "write scenarios" scenarios.txt "$command" resources --write-scenarios "$scenarios" ${quick:+--quick}
  fi
  if [[ ! -s $scenarios/scenarios.csv ]]; then
    skip "compare resources" "there are no scenarios"
  elif [[ ! -x $(type -P python3) ]]; then
    skip "compare resources" "there is no python3"
  else
    kind=cuda
    [[ $device == cpu* ]] && kind=cpu
    STEP_LIMIT=210 step "compare resources" resources-peers.txt python3 "$here/comparison/compare.py" \
      --device $kind --scenarios "$scenarios" --output "$out/resources-peers.csv" --build "$out/peers-build" \
      --wheels "$here/comparison/wheels" --library "$here/capi" --header "$here/capi/include" \
      --seconds "$case_seconds" --limit 30 --total 170
    [[ -s $out/resources-peers.csv ]] && others=(--with "$out/resources-peers.csv")
  fi
  STEP_LIMIT=150 step resources resources.txt "$command" resources --device "$device" --output "$out/resources.csv" \
    --seconds "$case_seconds" ${others[@]+"${others[@]}"} ${quick:+--quick}
  tail -n 14 "$out/resources.txt"
fi

# cpp_ratios CSV: what each way to call from CUDA C++ takes at 2^20 threads, over our own kernels.
cpp_ratios() {
  awk -F, '
    $1 == "uniform" && $4 == 1048576 && ($5 == "alloc_us" || $5 == "free_us") {
      time[$3, $5, $2] = $6; sizes[$3] = 1; ways[$2] = 1
    }
    END {
      printf "%-18s %6s %10s %10s %8s %8s\n", "way", "bytes", "malloc us", "free us", "malloc x", "free x"
      for (way in ways) for (size in sizes)
        printf "%-18s %6d %10.1f %10.1f %8.2f %8.2f\n", way, size, time[size, "alloc_us", way], time[size, "free_us", way],
          time[size, "alloc_us", way] / time[size, "alloc_us", "scatterheap"],
          time[size, "free_us", way] / time[size, "free_us", "scatterheap"]
    }' "$1" | sort -k2,2n -k1,1
}

# cpp_tests: builds and runs programs in CUDA C++, and measures what a call across the link costs.
cpp_tests() {
  local cpp=$here/cuda-cpp build=$out/cuda-cpp number=${device#cuda:} capability registers way name other plugins=() names=scatterheap
  local package=$cpp/package ptx=$cpp/package/share/scatterheap/scatterheap-device.sm_80.ptx
  capability=$(nvidia-smi --id="$number" --query-gpu=compute_cap --format=csv,noheader | tr -d .)
  mkdir -p "$build"
  local compile=(nvcc -O3 -std=c++17 -arch="sm_$capability" -rdc=true -Xcompiler=-fPIC -I "$package/include")
  local glue=$package/share/scatterheap/scatterheap.cu
  local link=(-L "$package/lib" -lscatterheap -Xlinker "-rpath,$package/lib")
  # Programs say cuda:0.
  local run=(env "CUDA_VISIBLE_DEVICES=$number")
  for registers in 64 32; do
    step "cpp object, $registers registers" "cpp-object-$registers.txt" nvcc -arch="sm_$capability" \
      "-maxrregcount=$registers" -Xcompiler=-fPIC -dc "$ptx" -o "$build/device-$registers.o"
  done
  for way in linked inlined; do
    other=()
    [[ $way == linked ]] || other=(-DSCATTERHEAP_INLINE)
    for source in "$cpp/tests/kernels.cu" "$cpp/example/divisors.cu"; do
      name=$(basename "$source" .cu)-$way
      step "cpp build $name" "cpp-build-$name.txt" "${compile[@]}" ${other[@]+"${other[@]}"} "$source" "$glue" \
        "$build/device-64.o" "${link[@]}" -o "$build/$name"
      step "cpp $name" "cpp-$name.txt" "${run[@]}" "$build/$name"
    done
    if (($(nvidia-smi --list-gpus | wc -l) > 1)); then
      step "cpp kernels-$way on all GPUs" "cpp-kernels-$way-all.txt" "$build/kernels-$way"
    else
      skip "cpp kernels-$way on all GPUs" "there is one"
    fi
    name=drop-in-$way
    step "cpp build $name" "cpp-build-$name.txt" "${compile[@]}" ${other[@]+"${other[@]}"} -DWITH_SCATTERHEAP \
      "$cpp/example/drop-in.cu" "$glue" "$build/device-64.o" "${link[@]}" -o "$build/$name"
  done
  step "cpp build drop-in-cuda" cpp-build-drop-in-cuda.txt nvcc -O3 -std=c++17 -arch="sm_$capability" \
    "$cpp/example/drop-in.cu" -o "$build/drop-in-cuda"
  step "cpp drop-in-cuda" cpp-drop-in-cuda.txt "${run[@]}" "$build/drop-in-cuda"
  other=$(sed -n 's/.*: \([0-9.]*\) ms.*/\1/p' "$out/cpp-drop-in-cuda.txt")
  for way in linked inlined; do
    step "cpp drop-in-$way" "cpp-drop-in-$way.txt" "${run[@]}" "$build/drop-in-$way" 65536 "${other:-0}"
  done
  cat "$out"/cpp-drop-in-*.txt
  if [[ -x $(type -P cmake) ]]; then
    step "cpp configure by CMake" cpp-cmake-configure.txt cmake -S "$cpp/example" -B "$build/cmake" \
      "-DCMAKE_PREFIX_PATH=$package" "-DCMAKE_CUDA_ARCHITECTURES=$capability"
    step "cpp build by CMake" cpp-cmake-build.txt cmake --build "$build/cmake" --parallel 4
    step "cpp divisors by CMake" cpp-cmake-divisors.txt "${run[@]}" "$build/cmake/divisors"
  else
    skip "cpp by CMake" "there is no cmake"
  fi
  if [[ -x $(type -P compute-sanitizer) ]]; then
    # Looking for a symbol in each module is no error.
    sanitizer=(--report-api-errors no --error-exitcode 9)
    step "cpp memcheck" cpp-memcheck.txt "${run[@]}" compute-sanitizer "${sanitizer[@]}" "$build/divisors-linked" 10000
    step "cpp memcheck inlined" cpp-memcheck-inlined.txt "${run[@]}" compute-sanitizer "${sanitizer[@]}" \
      "$build/divisors-inlined" 10000
  fi

  # Under 64 registers as usual, and under 32 as our own kernels are.
  for name in linked inlined bound_linked bound_inlined linked_32 inlined_32; do
    registers=64
    other=()
    [[ $name != *_32 ]] || registers=32 other+=('-DREGISTERS="_32"')
    [[ $name != *inlined* ]] || other+=(-DSCATTERHEAP_INLINE)
    [[ $name != bound* ]] || other+=(-DBOUND)
    step "cpp build plug-in $name" "cpp-build-plug-in-$name.txt" "${compile[@]}" "-maxrregcount=$registers" \
      -I "$cpp/benches" ${other[@]+"${other[@]}"} -shared "$cpp/benches/linked.cu" "$glue" "$build/device-$registers.o" \
      "${link[@]}" -o "$build/lib$name.so"
    if [[ -s $build/lib$name.so ]]; then
      plugins+=(--peer "$build/lib$name.so")
      names+=,$name
    fi
  done
  step "cpp link cost" cpp-link-cost.txt "$command" bench uniform --size 16,256 --samples 101 --heap "$heap" \
    --device "$device" --allocator "$names" --output "$out/cpp-link-cost" "${plugins[@]}"
  if [[ -s $out/cpp-link-cost/latest.csv ]]; then
    cpp_ratios "$out/cpp-link-cost/latest.csv" | tee "$out/cpp-link-cost-ratios.txt"
  fi
}
if wanted cpp; then
  [[ -x $(type -P nvcc) ]] || PATH=$PATH:/usr/local/cuda/bin
  if [[ $device == cpu* ]]; then
    skip cpp "it is for GPUs"
  elif [[ ! -x $(type -P nvcc) || ! -x $(type -P g++) ]]; then
    skip cpp "there is no nvcc or no g++"
  else
    cpp_tests
  fi
fi

echo
grep -h '^skipped: ' "$out"/test-*.txt 2>/dev/null | sort -u
for what in ${skipped[@]+"${skipped[@]}"}; do
  echo "skipped: $what"
done
echo "$passed passed, ${#failed[@]} failed; results in $out"
for name in ${failed[@]+"${failed[@]}"}; do
  echo "failed: $name"
done
if ((passed + ${#failed[@]} == 0)); then
  echo "nothing ran: ONLY asks for \`$only\`; see above what was skipped, or name other groups"
  exit 1
fi
[[ ${#failed[@]} -eq 0 ]]
