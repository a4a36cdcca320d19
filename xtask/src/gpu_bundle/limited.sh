# Commands that run for a limited time, for scripts of the bundle to read: `. limited.sh`.
#
# What is still at work when its time is over is asked where it is on the GPU, and then ended together with all that it has started. So it is
# when the script itself is ended: else it would go on, and share the GPU with what comes next.

# The command that runs now, if there is one: it leads a group of processes if `setsid` is there.
limited_process=

# end_limited SIGNAL: sends a signal to the command that runs now, and to what it has started.
end_limited() {
  [[ -n $limited_process ]] || return 0
  kill "-$1" -- "-$limited_process" 2>/dev/null || kill "-$1" "$limited_process" 2>/dev/null
}

# end_all: ends it, and whatever else the script has started.
end_all() {
  end_limited KILL
  jobs -p | xargs -r kill -KILL 2>/dev/null
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
  if [[ -x $(type -P setsid) ]]; then
    setsid "$@" &
  else
    "$@" &
  fi
  limited_process=$!
  if is_at_work "$seconds"; then
    where_on_gpu "$limited_process" "$file"
    end_limited TERM
    is_at_work 30
    end_limited KILL
    wait "$limited_process" 2>/dev/null
    code=124
  else
    wait "$limited_process"
    code=$?
  fi
  limited_process=
  return "$code"
}

# where_on_gpu PROCESS FILE: writes how many threads of a process's kernel are in which function, most of them first, if CUDA's debugger is there and sees them.
where_on_gpu() {
  local process=$1 file=$2 debugger look
  debugger=$(PATH=$PATH:/usr/local/cuda/bin type -P cuda-gdb) || return 0
  look=("$debugger" -batch -p "$process" -ex "set pagination off")
  [[ ! -x $(type -P timeout) ]] || look=(timeout --kill-after=5 60 "${look[@]}")
  # Of threads side by side there is a line, with their number before the address of their instruction.
  "${look[@]}" -ex "info cuda threads" 2>/dev/null | awk '
    { for (field = 2; field <= NF; field++)
        if ($field ~ /^0x/ && $(field - 1) ~ /^[0-9]+$/) threads[$field] += $(field - 1) }
    END { for (at in threads) printf "printf \"@%%d \", %d\ninfo symbol %s\n", threads[at], at }' >"$file"
  if [[ -s $file ]]; then
    "${look[@]}" -x "$file" 2>/dev/null | awk '
      /^@/ { number = substr($1, 2); sub(/^@[0-9]+ /, ""); sub(/( \+ [0-9]+)? in section .*/, ""); threads[$0] += number }
      END { for (name in threads) print threads[name], name }' | sort -rn >"$file.sorted"
    mv "$file.sorted" "$file"
  fi
  [[ -s $file ]] || rm -f "$file"
}
