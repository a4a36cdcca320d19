#!/usr/bin/env bash
# Explores warps (shuttle) and makes up inputs (libFuzzer) for a long time, on all cores and without a GPU. Needs bash, and
# libstdc++ for the fuzzers.
#
#   bash long-runs.sh DIRECTORY
#
# The directory gets shuttle.csv and fuzz.csv, a line for each scenario and target; inputs and logs of what failed; and
# the corpora. Variables:
#
#   CORES=N           processes at once                                            [all cores]
#   SECONDS_EACH=N    seconds for the warps, and for each target                   [1800]
#   SECONDS_ALL=N     seconds for all                                              [7 times as many, and a minute]
#   SCHEDULES=N       schedules of warps, all scenarios together                   [10000000]
#   INPUTS=N          inputs of each target                                        [10000000]
#   PATIENCE=N        seconds of one scenario in one process after which it hangs  [120]
#   PARTS=WORDS       of: shuttle operations threads trace snapshot sizes tables   [all]
#
# Runs with the same directory and commit add up: the second goes on where the first was. Schedules have other seeds in
# each run. The exit code is 1 if anything failed.
set -uo pipefail

all_parts="shuttle operations threads trace snapshot sizes tables"
cores=${CORES:-$(nproc)}
seconds_each=${SECONDS_EACH:-1800}
seconds_all=${SECONDS_ALL:-$((seconds_each * 7 + 60))}
schedules=${SCHEDULES:-10000000}
inputs=${INPUTS:-10000000}
parts=${PARTS:-$all_parts}
patience=${PATIENCE:-120}
# Schedules that one process explores before they are counted: a minute or less.
slice=5000
# 1 if no scenario was explored to its end.
unexplored=0
# As `cargo xtask fuzz` has them: bytes of an input, seconds after which it hangs, and MiB of memory.
fuzzer_options=(-max_len=4096 -timeout=60 -rss_limit_mb=2048 -print_final_stats=1 -reload=0)

for number in "$cores" "$seconds_each" "$seconds_all" "$schedules" "$inputs" "$patience"; do
  if [[ ! $number =~ ^[1-9][0-9]{0,9}$ ]]; then
    echo "CORES, SECONDS_EACH, SECONDS_ALL, SCHEDULES, INPUTS and PATIENCE are numbers from 1 to 9999999999, not \`$number\`" >&2
    exit 2
  fi
done
for part in $parts; do
  if [[ " $all_parts " != *" $part "* ]]; then
    echo "PARTS names \`$part\`: choose from $all_parts" >&2
    exit 2
  fi
done
if [[ $# -ne 1 ]]; then
  echo "usage: [CORES=N] [SECONDS_EACH=N] [PARTS=WORDS] bash long-runs.sh DIRECTORY" >&2
  exit 2
fi

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
commit=$(sed -n 's/^commit //p' "$here/../MANIFEST")
# These do not tell sources apart, but programs do.
if [[ $commit == unknown || $commit == *-dirty ]]; then
  commit+=-$(cat "$here/warps" "$here"/fuzz/* | cksum | cut -d ' ' -f 1)
fi
mkdir -p "$1/$commit" || exit 1
top=$(cd "$1" && pwd)
out=$top/$commit
deadline=$((SECONDS + seconds_all))
# Nothing here uses a GPU, and what does may run beside it.
export CUDA_VISIBLE_DEVICES=
renice -n 10 $$ >/dev/null 2>&1

# time_left: seconds until a part must end that begins now.
time_left() {
  local left=$((deadline - SECONDS))
  echo $((left < seconds_each ? left : seconds_each))
}

# Each process in a group of its own, with what it starts.
set -m
stop_all() {
  local process
  for process in $(jobs -pr); do
    kill -TERM -- "-$process" 2>/dev/null
  done
}
trap 'stop_all; report; exit 130' INT TERM

# wait_below NUMBER: waits until fewer processes than that run; calls `progress` every half a minute.
wait_below() {
  while (($(jobs -pr | wc -l) >= $1)); do
    sleep 0.2
    if ((SECONDS >= shown + 30)); then
      shown=$SECONDS
      progress
    fi
  done
}

# sum COLUMN FILE...: the sum of a column of tables without heads.
sum() {
  local column=$1
  shift
  cat /dev/null "$@" 2>/dev/null | awk -F, -v column="$column" '{ sum += $column } END { printf "%.0f\n", sum }'
}

# keep_failures LOG: keeps a log that was cut off if a scenario had failed by then, and says which. libtest goes on after one
# that failed, and lists them at the end only.
keep_failures() {
  local failed=${1%.log}.failed
  grep -qE '^(test [^ ]+ \.\.\. FAILED|FAILED|repeat it with: .*)$' "$1" 2>/dev/null || return
  mv "$1" "$failed" || return
  # The scenario that it was at has not failed.
  printf '\ncut off\n' >>"$failed"
  grep -h '^repeat it with' "$failed" || echo "shuttle: failed: $(scenarios_failed "$failed" | xargs), see $failed"
}

# explore SCHEDULES SEED: explores one slice. What it printed is kept if it failed.
explore() {
  local log=$out/shuttle/$2.log explored=$out/shuttle/$2.csv failed=$out/shuttle/$2.failed limit=$((end - SECONDS)) begin code
  begin=$(date +%s)
  # Five scenarios' patience is many times what a slice takes. And 0 would be no limit.
  ((limit <= 5 * patience)) || limit=$((5 * patience))
  ((limit >= 1)) || limit=1
  SCATTERHEAP_SEED=$2 SCATTERHEAP_SCHEDULES=$1 SCATTERHEAP_EXPLORED=$explored \
    timeout --foreground "$limit" "$here/warps" --nocapture --test-threads=1 >"$log" 2>&1
  code=$?
  if ((code == 124)); then
    keep_failures "$log" && return
    # The time was over. The scenarios that it was through with by then count, and that which it was at may hang.
    [[ ! -s $explored ]] || begin=$(stat -c %Y "$explored")
    if (($(date +%s) - begin >= patience)); then
      mv "$log" "$failed"
      echo "shuttle: seed $2 has hung in $(scenarios_failed "$failed") for $(($(date +%s) - begin)) s, see $failed"
      return
    fi
  elif ((code != 0)); then
    mv "$log" "$failed"
    grep -h '^repeat it with' "$failed" || echo "shuttle: seed $2 ended with code $code"
    return
  fi
  rm -f "$log"
}

run_shuttle() {
  local shown=$SECONDS begin=$SECONDS number=0 before left each first end
  end=$((SECONDS + $(time_left)))
  mkdir -p "$out/shuttle"
  progress() {
    echo "shuttle: $(sum 4 "$out"/shuttle/*.csv) of $schedules schedules, $((end - SECONDS)) s left at most"
  }
  before=$(sum 4 "$out"/shuttle/*.csv)
  left=$((schedules - before))
  # Seeds from multiples of 2^32 on, more than any slice takes; of no other run within six days. All are below 2^63, the
  # largest number here.
  first=$(($(date +%s) % 524288 * 4096))
  while ((left > 0 && SECONDS < end)); do
    # The last ones are small enough for all cores.
    each=$((left / cores < slice ? left / cores + 1 : slice))
    explore "$each" $(((first + number) % 2147483648 << 32)) &
    left=$((left - each)) number=$((number + 1))
    wait_below "$cores"
  done
  wait_below 1
  if ((number > 0 && $(sum 4 "$out"/shuttle/*.csv) == before)); then
    unexplored=1
    echo "shuttle: FAILED, no scenario ended in $((SECONDS - begin)) s: give them more by SECONDS_EACH, or see what hangs"
  fi
}

# fuzz TARGET NUMBER: one process with a corpus of its own.
fuzz() {
  local directory=$out/fuzz/$1 log=$out/fuzz/$1/$run-$2.log
  mkdir -p "$directory/found-$2" "$directory/failures"
  # It ends by itself before it is killed.
  timeout --foreground --signal=KILL $((fuzz_seconds + 70)) "$here/fuzz/$1" -runs=$runs_each \
    -max_total_time="$fuzz_seconds" "${fuzzer_options[@]}" -artifact_prefix="$directory/failures/" \
    "$directory/found-$2" "$here/corpus/$1" >/dev/null 2>"$log" ||
    echo "$1: a process ended with code $?, see ${log%.log}.failed"
}

# executed LOG...: inputs that fuzzers ran, as they said last.
executed() {
  local log
  for log in "$@"; do
    [[ -s $log ]] && tail -n 40 "$log" | tr '#:\t' '   ' | awk '
      /^stat  number_of_executed_units/ { runs = $3 }
      /^ [0-9]+ / { if ($1 > runs) runs = $1 }
      END { printf "%d\n", runs }'
  done | sum 1 /dev/stdin
}

# run_fuzzers TARGET: all cores on one target.
run_fuzzers() {
  local target=$1 directory=$out/fuzz/$1 begin=$SECONDS shown=$SECONDS before run runs_each fuzz_seconds number
  fuzz_seconds=$(time_left)
  run=$(date +%s)-$$
  mkdir -p "$directory"
  before=$(sum 1 "$directory"/*.inputs)
  runs_each=$(((inputs - before + cores - 1) / cores))
  ((runs_each > 0)) || return
  progress() {
    echo "$target: $((before + $(executed "$directory/$run"-*.log))) of $inputs inputs," \
      "$((begin + fuzz_seconds - SECONDS)) s left at most"
  }
  for ((number = 0; number < cores; number++)); do
    fuzz "$target" "$number" &
  done
  wait_below 1
  count_inputs "$target" $((SECONDS - begin))
}

# count_inputs TARGET SECONDS: writes down what a run did. Logs are kept of processes that failed.
count_inputs() {
  local directory=$out/fuzz/$1 log
  echo "$(executed "$directory/$run"-*.log),$2" >"$directory/$run.inputs"
  for log in "$directory/$run"-*.log; do
    if grep -q '^Done ' "$log"; then
      rm -f "$log"
    else
      mv "$log" "${log%.log}.failed"
      tail -n 5 "${log%.log}.failed" | sed "s/^/    $1: /"
    fi
  done
}

# scenarios_failed LOG: the scenarios that failed, each once: as they say themselves, as libtest says, or the one that it was
# at when it was ended. libtest writes `FAILED` after what the scenario printed, and not beside its name.
scenarios_failed() {
  awk '
    function fail(name) {
      sub(/.*::/, "", name)
      if (name != "" && !(name in failed)) print name
      failed[name] = 1
    }
    $1 == "test" && $3 == "..." { begun = $2 }
    /^repeat it with: / { fail($NF) }
    $0 == "FAILED" || /^test [^ ]+ \.\.\. FAILED$/ { fail(begun); begun = "" }
    /^test result: / || $0 == "cut off" { listed = 0; begun = "" }
    listed && /^    [A-Za-z0-9_:]+$/ { fail($1) }
    $0 == "failures:" { listed = 1 }
    END { fail(begun) }' "$1"
}

# report: the tables of what was done so far, of all runs with this directory and commit.
report() {
  local target log
  if [[ -d $out/shuttle ]]; then
    # Those of slices that were interrupted. Others have none left.
    for log in "$out"/shuttle/*.log; do
      keep_failures "$log"
    done
    echo scenario,schedules,failures,seconds,commit >"$top/shuttle.csv"
    {
      cat /dev/null "$out"/shuttle/*.csv 2>/dev/null
      for log in "$out"/shuttle/*.failed; do
        [[ -s $log ]] && scenarios_failed "$log" | sed 's/$/,,,0,0,1/'
      done
    } | awk -F, -v commit="$commit" '
      { schedules[$1] += $4; seconds[$1] += $5; failures[$1] += $6 }
      END { for (name in schedules) printf "%s,%d,%d,%.0f,%s\n", name, schedules[name], failures[name], seconds[name], commit }' |
      sort >>"$top/shuttle.csv"
  fi
  if [[ -d $out/fuzz ]]; then
    echo target,inputs,seconds,crashes,commit >"$top/fuzz.csv"
    for directory in "$out"/fuzz/*/; do
      target=$(basename "$directory")
      echo "$target,$(sum 1 "$directory"/*.inputs),$(sum 2 "$directory"/*.inputs),$(crashes "$target"),$commit"
    done >>"$top/fuzz.csv"
  fi
  for table in shuttle fuzz; do
    [[ -s $top/$table.csv ]] && column -s, -t <"$top/$table.csv" 2>/dev/null && echo
  done
}

# crashes TARGET: inputs that made it fail, and processes that failed without one.
crashes() {
  local directory=$out/fuzz/$1 inputs processes
  inputs=$(find "$directory/failures" -type f ! -name 'slow-unit-*' | wc -l)
  processes=$(find "$directory" -maxdepth 1 -name '*.failed' | wc -l)
  echo $((inputs > processes ? inputs : processes))
}

for part in $parts; do
  [[ $part == shuttle ]] && continue
  if ! said=$(timeout 60 "$here/fuzz/$part" -help=1 2>&1); then
    echo "$part does not start: ${said##*$'\n'}; PARTS=shuttle leaves the fuzzers out" >&2
    exit 2
  fi
done
echo "long runs of $commit: $parts; $cores processes, $seconds_each s each, $seconds_all s in all"
for part in $parts; do
  if (($(time_left) <= 0)); then
    echo "$part: left out, as $seconds_all s are over"
    continue
  fi
  start=$SECONDS
  if [[ $part == shuttle ]]; then
    run_shuttle
    echo "shuttle: $(sum 4 "$out"/shuttle/*.csv) of $schedules schedules; this run took $((SECONDS - start)) s"
  else
    run_fuzzers "$part"
    echo "$part: $(sum 1 "$out/fuzz/$part"/*.inputs) of $inputs inputs; this run took $((SECONDS - start)) s"
  fi
done
echo
report
failed=$(($(find "$out" -name '*.failed' | wc -l) + unexplored))
echo "$failed failures; tables in $top"
[[ $failed -eq 0 ]]
