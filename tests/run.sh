#!/usr/bin/env bash
# run.sh [PART...]: installs what is missing, builds, and passes every test, real mounts included.
#
#   dev     warnings as errors, every test                                   (GCC)
#   asan    every test under the address, leak and undefined behaviour sanitizers (GCC)
#   tsan    the tests of what runs in threads, mounts among them, under the thread sanitizer (GCC)
#   fuzz    every fuzz target over its corpus, with libFuzzer and sanitizers   (clang)
#
# Without a PART all of them, which is what .ci/run does. Goes on to the next part when one fails. Up to three tests
# that fail beside others are run again by themselves, and told of also when they pass then. At the end come the last
# lines of each failed test's output, their names, and the sum as 'N passed, N failed'. Needs no terminal and no input.
set -euo pipefail
cd "$(dirname "$0")/.."

parts=("$@")
((${#parts[@]})) || parts=(dev asan tsan fuzz)
for part in "${parts[@]}"; do
  [[ $part =~ ^(dev|asan|tsan|fuzz)$ ]] || { sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
done

examples/install_deps.sh test
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi
[[ -e /dev/fuse ]] || echo "run.sh: there is no /dev/fuse here, so the tests that mount will fail"

passed=0 failed=0 second=0
failures=$(mktemp)  # what is told of each failure, for the end
trap 'rm -f "$failures"' EXIT

fail() {  # PRESET WHAT [LOG]: counts and tells of a failure that no test has a name for
  failed=$((failed + 1))
  { echo "--- failed: $1 $2"; [[ -z ${3-} ]] || tail -n 60 "$3"; } >>"$failures"
}

# A test that waited in vain because the machine was busy passes by itself; what a sanitizer found does not count as that.
try_again() {  # PRESET COUNT LOG: runs the COUNT tests that failed once more, one by one
  if grep -aqE 'Sanitizer: |runtime error: ' "$3" || (($2 > 3)); then return; fi
  ctest --preset "$1" --rerun-failed --quiet || return 0
  failed=$((failed - $2))
  passed=$((passed + $2))
  second=$((second + $2))
  echo "passed by themselves: $2"
}

run_tests() {  # PRESET CTEST_OPTION...: quiet but for the sum; what failed is told at the end
  local preset=$1 log summary count junit=$PWD/build/$1/junit.xml
  shift
  log=$(mktemp)
  rm -f "$junit"
  ctest --preset "$preset" --parallel "$(nproc)" --no-tests=error --quiet --output-log "$log" --output-junit "$junit" \
    --test-output-size-failed 10000000 "$@" || true
  # ctest's own sum: "98% tests passed, 2 tests failed out of 100"
  summary=$(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests? failed out of ([0-9]+)$/\1 \2/p' "$log")
  if [[ -n $summary ]]; then
    count=${summary% *}
    failed=$((failed + count))
    passed=$((passed + ${summary#* } - count))
    echo "$((${summary#* } - count)) passed, $count failed"
    if ((count)); then
      tests/failed_tests.py "$log" "$junit" 40 | sed "s/^--- failed: /&$preset /" >>"$failures" ||
        tail -n 40 "$log" >>"$failures"
      try_again "$preset" "$count" "$log"
    fi
  else
    fail "$preset" "ctest ran no tests" "$log"
  fi
  rm -f "$log"
}

run_part() {  # PRESET "BUILD_TARGET..." CTEST_OPTION...
  local preset=$1 log targets started=$SECONDS
  read -ra targets <<<"$2"
  shift 2
  echo "=== $preset"
  log=$(mktemp)
  if cmake --preset "$preset" >"$log" 2>&1 && cmake --build --preset "$preset" --target "${targets[@]}" >>"$log" 2>&1; then
    echo "built in $((SECONDS - started)) s"
    run_tests "$preset" "$@"
  else
    echo "does not build"
    fail "$preset" "does not build" "$log"
  fi
  rm -f "$log"
  echo "=== $preset took $((SECONDS - started)) s"
}

# What runs in threads. In format/ only these do; building the rest for the thread sanitizer would be time lost.
threaded='image_encoder|pack_lock|pack_pipeline|packer|packer_continue|verifier|worker_threads'
threaded_targets="pcrfs make_photos tests/cache/all tests/fs/all tests/mount/all"
for name in ${threaded//|/ }; do threaded_targets+=" format_${name}_test"; done

for part in "${parts[@]}"; do
  case $part in
    dev) run_part dev all ;;
    asan) run_part asan-ubsan all ;;
    tsan) run_part tsan "$threaded_targets" --tests-regex "^((cache|fs|mount)/|viewers|format/($threaded)_test)" ;;
    fuzz) run_part fuzz tests/fuzz/all --label-regex fuzz-replay ;;
  esac
done

# The outputs first and the names last: a record that keeps only the end of this still names every failure.
if ((failed + second)); then
  echo "=== what failed"
  cat "$failures"
  echo "=== names of what failed"
  grep -a '^--- failed: ' "$failures" | sed 's/^--- failed: //'
fi
((second == 0)) || echo "$second of them passed at the second try, by themselves: mend them"
echo "$passed passed, $failed failed"
((failed == 0))
