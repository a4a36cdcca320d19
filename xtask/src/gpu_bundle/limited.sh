# Commands that run for a limited time, for scripts of the bundle to read: `. limited.sh`.
#
# What is still at work when its time is over is asked where it is on the GPU, and then ended together with all that it has started. What a command leaves at
# work is ended too, and so is the command when the script itself is: else they would go on, and share the GPU with what comes next.
# A command runs in the background, so it ignores the keyboard's interrupt, which the script passes on as a KILL.

# The command that runs now, if there is one, and the group of processes that it leads, if `setsid` is there.
limited_process=
limited_group=

# end_limited SIGNAL: sends a signal to the command that runs now, and to what it has started.
end_limited() {
  if [[ -n $limited_group ]]; then
    kill "-$1" -- "-$limited_group" 2>/dev/null
  elif [[ -n $limited_process ]]; then
    kill "-$1" "$limited_process" 2>/dev/null
  fi
}

# end_all: ends it, and whatever else the script has started, which may tidy up first.
end_all() {
  local jobs
  end_limited KILL
  mapfile -t jobs < <(jobs -p)
  [[ ${#jobs[@]} -gt 0 ]] || return 0
  kill -TERM "${jobs[@]}" 2>/dev/null
  for _ in {1..50}; do
    kill -0 "${jobs[@]}" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -KILL "${jobs[@]}" 2>/dev/null
}

trap 'end_all; exit 129' HUP
trap 'end_all; exit 130' INT
trap 'end_all; exit 143' TERM

# is_at_work SECONDS: whether the command that runs now does so for as many seconds more.
is_at_work() {
  local end=$((SECONDS + $1))
  while kill -0 "$limited_process" 2>/dev/null; do
    ((SECONDS < end)) || return 0
    sleep 0.1
  done
  return 1
}

# limited FILE SECONDS COMMAND...: runs a command, and gives its exit code. If it takes longer, FILE says in which functions its threads are on the GPU, it is
# ended, kindly at first, and the code is 124.
limited() {
  local file=$1 seconds=$2 code
  shift 2
  rm -f "$file"
  if [[ -x $(type -P setsid) ]]; then
    setsid "$@" <&0 &
    limited_group=$!
  else
    "$@" <&0 &
  fi
  limited_process=$!
  if is_at_work "$seconds"; then
    where_on_gpu "$file"
    end_limited TERM
    is_at_work 30
    end_limited KILL
    wait "$limited_process" 2>/dev/null
    code=124
  else
    wait "$limited_process"
    code=$?
    limited_process=
    end_limited KILL
  fi
  limited_process=
  limited_group=
  return "$code"
}

# at_work: the processes of the command that runs now that have loaded the GPU's driver.
at_work() {
  local directory stat group
  for directory in /proc/[0-9]*; do
    { stat=$(<"$directory/stat"); } 2>/dev/null || continue
    # What comes behind the name, which may have blanks: state, parent, group.
    read -r _ _ group _ <<<"${stat##*) }"
    if [[ $group == "$limited_group" || ${directory#/proc/} == "$limited_process" ]]; then
      grep -q libcuda "$directory/maps" 2>/dev/null && echo "${directory#/proc/}"
    fi
  done
}

# where_on_gpu FILE: writes how many threads of the command that runs now are in which function on the GPU, most of them first, if CUDA's debugger is
# there and sees them.
where_on_gpu() {
  local file=$1 debugger process look
  debugger=$(PATH=$PATH:/usr/local/cuda/bin type -P cuda-gdb) || return 0
  for process in $(at_work); do
    look=("$debugger" -batch -p "$process" -ex "set pagination off")
    [[ ! -x $(type -P timeout) ]] || look=(timeout --kill-after=5 60 "${look[@]}")
    # Of threads side by side there is a line, with their number before the address of their instruction.
    "${look[@]}" -ex "info cuda threads" 2>/dev/null | awk '
      { for (field = 2; field <= NF; field++)
          if ($field ~ /^0x/ && $(field - 1) ~ /^[0-9]+$/) threads[$field] += $(field - 1) }
      END { for (at in threads) printf "printf \"@%%d \", %d\ninfo symbol %s\n", threads[at], at }' >"$file.asked"
    [[ ! -s $file.asked ]] || "${look[@]}" -x "$file.asked" 2>/dev/null
  done | awk '
    /^@/ { number = substr($1, 2); sub(/^@[0-9]+ /, ""); sub(/( \+ [0-9]+)? in section .*/, ""); threads[$0] += number }
    END { for (name in threads) print threads[name], name }' | sort -rn >"$file"
  rm -f "$file.asked"
  [[ -s $file ]] || rm -f "$file"
}
