#!/usr/bin/env python3
"""Runs scenarios with other allocators, each built against the libraries that are here, and writes rows of CSV.

    compare.py --scenarios DIRECTORY --output rows.csv [--wheels DIRECTORY] [--library DIRECTORY]

Rows are `scenario,resource,threads,metric,value`, as `scatterheap resources` writes them, and are written as each case
ends. A case runs in a process of its own. What cannot be built, fails or hangs is named with the reason, and the others
go on; the exit code is then 1. Needs g++ with C++20, and for GPUs the
headers of CUDA; for `torch` PyTorch in this Python; for `rmm_pool` and `rmm_arena` the wheels of librmm and
rapids-logger, unpacked or not (benches/resources/fetch-rmm.sh), or both installed.
"""

import argparse
import concurrent.futures
import csv
import dataclasses
import glob
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
HEADER = ["scenario", "resource", "threads", "metric", "value"]
# Cases in a row that hang before a peer is given up, and seconds that a killed process may take to end, and a compiler.
MOST_HANGS = 2
ENDING = 5
BUILDING = 150
PEERS = {
    "cuda": ["torch", "cuda_malloc", "driver_async", "rmm_pool", "rmm_arena", "scatterheap_c"],
    "cpu": ["scatterheap_c", "system_malloc"],
}

# What PyTorch says about itself: in a process of its own, as its libraries would stay in this one.
ASK_TORCH = """
import json, torch
maps = open("/proc/self/maps").read().split()
print(json.dumps({
    "version": torch.__version__,
    "includes": [torch.__path__[0] + "/include"],
    "library": torch.__path__[0] + "/lib",
    "abi": int(torch._C._GLIBCXX_USE_CXX11_ABI),
    "cudart": [path for path in maps if "/libcudart.so" in path][:1],
}))
"""


class Missing(Exception):
    """What a peer needs is not here; the text says what."""


class Hung(Missing):
    """A case did not end."""


@dataclasses.dataclass
class Flags:
    """What the compiler is told for a peer."""

    includes: list = dataclasses.field(default_factory=list)
    defines: list = dataclasses.field(default_factory=list)
    libraries: list = dataclasses.field(default_factory=list)

    def compile(self):
        return [*self.defines, *(word for path in self.includes for word in ("-isystem", str(path)))]

    def link(self):
        paths = sorted({str(pathlib.Path(library).parent) for library in self.libraries})
        return [*map(str, self.libraries), *(f"-Wl,-rpath,{path}" for path in paths)]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", type=pathlib.Path, required=True, help="directory with scenarios.csv")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="where rows are written")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("peers-build"), help="for programs [%(default)s]")
    parser.add_argument("--wheels", type=pathlib.Path, help="directory with the wheels of RMM")
    parser.add_argument("--library", type=pathlib.Path, help="directory with libscatterheap.so")
    parser.add_argument("--header", type=pathlib.Path, default=HERE / "../../capi/include", help="of scatterheap.h")
    parser.add_argument("--device", choices=PEERS, default="cuda", help="[%(default)s]")
    parser.add_argument("--peers", help="some of them, with commas between")
    parser.add_argument("--only", help="some scenarios, with commas between")
    parser.add_argument("--threads", default="1,16", help="[%(default)s]")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a case before, while and after it is timed [%(default)s]")
    parser.add_argument("--limit", type=float, default=60, help="seconds after which a case has failed [%(default)s]")
    parser.add_argument("--total", type=float, default=float("inf"), help="seconds after which no case is begun [no limit]")
    options = parser.parse_args()
    options.peers = options.peers.split(",") if options.peers else PEERS[options.device]
    unknown = set(options.peers) - {peer for peers in PEERS.values() for peer in peers}
    if unknown:
        parser.error(f"no such peers: {', '.join(sorted(unknown))}; there are {PEERS}")
    try:
        options.threads = [int(number) for number in options.threads.split(",")]
    except ValueError:
        parser.error(f"--threads is {options.threads}, but should be numbers with commas between, such as 1,16")
    return options


def scenarios(options):
    """The names of the scenarios that are to run."""
    file = options.scenarios / "scenarios.csv"
    try:
        with open(file, newline="", encoding="utf-8") as lines:
            names = [row["scenario"] for row in csv.DictReader(lines)]
    except (OSError, KeyError) as error:
        sys.exit(f"{file} cannot be read ({error!r}): let `scatterheap resources --write-scenarios` write it")
    if options.only:
        wanted = options.only.split(",")
        if set(wanted) - set(names):
            sys.exit(f"{file} has the scenarios {', '.join(names)}, but {options.only} was asked for")
        names = wanted
    return names


class Places:
    """Finds what peers need, each thing once."""

    def __init__(self, options):
        self.options = options
        self._torch = None
        self._rmm = None

    def torch(self):
        """What PyTorch says about itself."""
        if self._torch is None:
            if importlib.util.find_spec("torch") is None:
                raise Missing(f"PyTorch is not installed for {sys.executable}")
            code, output, errors = output_of([sys.executable, "-c", ASK_TORCH], self.options.limit)
            if code != 0:
                raise Missing(f"PyTorch does not start: {last_line(errors)}")
            self._torch = json.loads(output.strip().splitlines()[-1])
        return self._torch

    def cuda(self):
        """The headers of CUDA and its runtime: PyTorch's if it is there, so that there is one runtime in a process."""
        try:
            cudart = self.torch()["cudart"]
        except Missing:
            cudart = []
        homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
        packages = [pathlib.Path(entry) for entry in sys.path if entry]
        homes += [str(home) for entry in packages for home in sorted(entry.glob("nvidia/cu*"))]
        homes += [str(home) for entry in packages for home in sorted(entry.glob("nvidia/cuda_runtime"))]
        includes = [pathlib.Path(home, "include") for home in homes if home]
        includes = [path for path in includes if (path / "cuda_runtime_api.h").is_file()]
        if not includes:
            raise Missing(f"no cuda_runtime_api.h in the include directories of {', '.join(filter(None, homes))}")
        for home in filter(None, homes):
            for place in ("lib64", "lib", "targets/x86_64-linux/lib"):
                cudart += sorted(glob.glob(f"{home}/{place}/libcudart.so*"))
        if not cudart:
            raise Missing("no libcudart.so in PyTorch or CUDA's directories")
        return Flags(includes=includes[:1], libraries=cudart[:1])

    def rmm(self):
        """The directory with `librmm` and `rapids_logger`."""
        if self._rmm is None:
            self._rmm = self._find_rmm()
        return self._rmm

    def _find_rmm(self):
        wheels = self.options.wheels
        candidates = [wheels] if wheels else []
        packed = sorted(wheels.glob("*.whl")) if wheels else []
        if packed:
            unpacked = self.options.build / "rmm"
            for wheel in packed:
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(unpacked)
            candidates.insert(0, unpacked)
        candidates += [pathlib.Path(entry) for entry in sys.path if entry]
        for candidate in candidates:
            if (candidate / "librmm/include/rmm").is_dir() and (candidate / "rapids_logger").is_dir():
                return candidate.resolve()
        raise Missing("the wheels of librmm and rapids-logger are neither in --wheels nor installed")

    def flags(self, peer):
        """What the compiler is told for a peer."""
        flags = Flags(defines=["-DWITHOUT_CUDA"]) if self.options.device == "cpu" else self.cuda()
        if peer == "torch":
            torch = self.torch()
            flags.includes = torch["includes"] + flags.includes
            flags.defines.append(f"-D_GLIBCXX_USE_CXX11_ABI={torch['abi']}")
            flags.libraries += [f"{torch['library']}/{name}" for name in ("libc10_cuda.so", "libc10.so")]
        elif peer.startswith("rmm"):
            root = self.rmm()
            flags.includes = [root / "librmm/include", root / "librmm/include/rapids", root / "rapids_logger/include", *flags.includes]
            flags.libraries += [root / "librmm/lib64/librmm.so", root / "rapids_logger/lib64/librapids_logger.so"]
        elif peer == "scatterheap_c":
            library = self.options.library
            if library is None or not (library / "libscatterheap.so").is_file():
                raise Missing(f"no libscatterheap.so in --library {library}")
            flags.includes.append(self.options.header)
            flags.libraries.append(library.resolve() / "libscatterheap.so")
        for library in flags.libraries:
            if not pathlib.Path(library).is_file():
                raise Missing(f"there is no {library}")
        return flags


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def build(peer, flags, options):
    """Builds the program of a peer."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if not compiler:
        raise Missing("there is no g++")
    program = options.build.resolve() / peer
    # The program's symbols are exported, so that libraries call its counting functions.
    command = [compiler, "-std=c++20", "-O2", "-rdynamic", "-pthread", *flags.compile()]
    command += [str(HERE / "peers" / f"{peer}.cpp"), str(HERE / "counters.cpp"), "-o", str(program)]
    command += ["-Wl,--no-as-needed", *flags.link(), "-ldl"]
    code, _, said = output_of(command, BUILDING)
    if code != 0:
        log = program.with_suffix(".log")
        log.write_text(" ".join(command) + "\n" + said, encoding="utf-8")
        errors = [line for line in said.splitlines() if "error" in line or "undefined" in line]
        raise Missing(f"it does not build: {(errors or [last_line(said)])[0]} (see {log})")
    print(f"{peer}: built", flush=True)
    return program


def build_all(options):
    """The program of each peer, or why there is none. All are built at once: headers of RMM and PyTorch take a while."""
    places, pending = Places(options), {}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for peer in options.peers:
            try:
                pending[peer] = pool.submit(build, peer, places.flags(peer), options)
            except Missing as reason:
                pending[peer] = reason
    built = {}
    for peer, work in pending.items():
        if isinstance(work, Missing):
            built[peer] = work
        else:
            built[peer] = work.exception() or work.result()
    return built


def output_of(command, limit):
    """Exit code, output and errors of a command that may take so many seconds. One that cannot even be killed, as it is in
    the driver, is left behind."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as process:
        try:
            output, errors = process.communicate(timeout=limit)
            return process.returncode, output, errors
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        try:
            process.communicate(timeout=ENDING)
        except subprocess.TimeoutExpired:
            process.stdout.close()
            process.stderr.close()
            process.returncode = -9  # So that leaving the block does not wait for it.
        raise Hung(f"it took longer than {limit:g} s")


def run(program, scenario, threads, options):
    """The rows of one case."""
    command = [str(program), str(options.scenarios), scenario, str(threads), str(options.seconds)]
    code, output, errors = output_of(command, options.limit)
    if code != 0:
        raise Missing(f"it failed ({code}): {last_line(errors)}")
    rows = [line.split(",") for line in output.splitlines()]
    rows = [row for row in rows if len(row) == len(HEADER) and row[0] == scenario]
    if not rows:
        raise Missing("it printed no rows")
    return rows


def run_peer(peer, program, cases, end, write, options):
    """Runs the cases of a peer; the number of those without rows."""
    failures = hangs = 0
    for index, (scenario, threads) in enumerate(cases):
        left = len(cases) - index
        if hangs == MOST_HANGS:
            print(f"{peer}: {left} cases left out: {hangs} in a row hung", flush=True)
            return failures + left
        if time.monotonic() > end:
            print(f"{peer}: {left} cases left out: {options.total:g} s are over", flush=True)
            return failures + left
        case = f"{peer}, {scenario}, {threads} threads"
        try:
            rows = run(program, scenario, threads, options)
        except Missing as reason:
            print(f"{case}: {reason}", flush=True)
            failures += 1
            hangs = hangs + 1 if isinstance(reason, Hung) else 0
            continue
        hangs = 0
        write(rows)
        print(f"{case}: " + ", ".join(f"{row[3]} {row[4]}" for row in rows), flush=True)
    return failures


def main():
    options = arguments()
    end = time.monotonic() + options.total
    cases = [(scenario, threads) for scenario in scenarios(options) for threads in options.threads]
    options.build.mkdir(parents=True, exist_ok=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    failures = 0
    with open(options.output, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")

        def write(rows):
            writer.writerows(rows)
            file.flush()

        write([HEADER])
        for peer, program in build_all(options).items():
            if isinstance(program, BaseException):
                print(f"{peer}: left out: {program}", flush=True)
                failures += 1
            else:
                failures += run_peer(peer, program, cases, end, write, options)
    print(f"rows are in {options.output}; {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
