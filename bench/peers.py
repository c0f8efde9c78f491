# SPDX-License-Identifier: Apache-2.0
"""ringattn beside PyTorch and JAX on this machine: one process, interleaved calls, medians, and the error of each.

    build/torch/bin/python bench/peers.py [--rounds N] [--least | --cpu-time] [--only TEXT] [--without flex,JAX]
        [--output FILE]

A row is a problem of peers_cases.py. Times are those of one call, forward, or forward and backward for training. The
error is the largest difference from float64 over rows that are recomputed, relative to the largest element. After the
rows comes the ring of peers_ring.py, over two processes.
"""
import argparse
import datetime
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

import ringattn
import peers_rows
from peers_cases import CASES, Case
from peers_contenders import CONTENDERS


# What --only takes for the problems of peers_ring.py.
RING = "ring of two processes"
# Seconds between contenders, and of calls that are not timed.
PAUSE, WARM = 0.1, 0.02


def reference(case: Case, q, k, v):
    """Some rows of the output in float64, and their indices."""
    rows = torch.linspace(0, case.rows - 1, min(case.rows, 16)).long()
    group = case.heads // case.kv_heads
    k, v = (x.double().repeat_interleave(group, 1) for x in (k, v))
    scores = q[:, :, rows].double() @ k.transpose(2, 3) / case.dim**0.5
    seen = case.mask()
    if seen is not None:
        seen = seen[:, :, rows]
    elif case.sees == "causal":
        seen = torch.arange(case.keys) <= rows[:, None] + case.keys - case.rows
    if seen is not None:
        scores = scores.masked_fill(~seen, float("-inf"))
    return rows, scores.softmax(-1) @ v


def error(found, expected) -> float:
    found, expected = found.double(), expected.double()
    return ((found - expected).abs().max() / expected.abs().max()).item()


def errors(case: Case, tensors, results: dict) -> dict:
    """The error of each contender: of the output by float64, of gradients by the most exact one of PyTorch."""
    rows, expected = reference(case, *tensors[:3])
    found = {name: error(result[0][:, :, rows], expected) for name, result in results.items()}
    if case.backward:
        exact = CONTENDERS["PyTorch"](case, [x.float() for x in tensors])()[1:]
        for name, result in results.items():
            found[name] = max(found[name], *(error(a, b) for a, b in zip(result[1:], exact)))
    return found


def calls_of(run) -> int:
    """As many calls as take about two milliseconds."""
    started = time.perf_counter()
    run()
    return max(1, int(0.002 / (time.perf_counter() - started)))


def warm_up(run) -> None:
    """Calls for WARM seconds, at least one: short ones take several times as long after a pause."""
    started = time.perf_counter()
    run()
    while time.perf_counter() - started < WARM:
        run()


def measure(runs: dict, rounds: int, clock=time.perf_counter) -> dict:
    """Times of a call of each, in milliseconds. Contenders take turns, in an order drawn for each round.

    Threads of some contenders go on spinning after their call. So there is a pause, and calls that are not timed, before
    those that are.
    """
    counts = {name: calls_of(run) for name, run in runs.items()}
    times = {name: [] for name in runs}
    draw = random.Random(1)
    for _ in range(rounds):
        for name in draw.sample(list(runs), len(runs)):
            time.sleep(PAUSE)
            warm_up(runs[name])
            started = clock()
            for _ in range(counts[name]):
                runs[name]()
            times[name].append((clock() - started) / counts[name] * 1e3)
    return times


def contenders(case: Case, tensors, names):
    """The calls of those that can do the problem, and the first line of why others cannot."""
    runs, refused = {}, {}
    for name in names:
        try:
            run = CONTENDERS[name](case, tensors)
            run()
            runs[name] = run
        except Exception as problem:  # what a peer cannot do is printed and not measured
            refused[name] = f"{type(problem).__name__}: {problem}".splitlines()[0]
    return runs, refused


def cell(name: str, times: dict, found: dict) -> str:
    if name not in times:
        return "-"
    ratio = "" if name == "ringattn" else f" ({times[name] / times['ringattn']:.2f} x)"
    return f"{times[name]:.3f}{ratio}, {found[name]:.0e}"


def processor() -> str:
    """The name of the processor."""
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown processor")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--least", action="store_true", help="least times in place of medians, for a loaded machine")
    parser.add_argument("--cpu-time", action="store_true",
                        help="least CPU times of one thread: other work on the machine hardly changes them")
    parser.add_argument("--only", default="", help=f"problems whose name or dtype has this text, or the {RING}")
    parser.add_argument("--without", default="", help="contenders to leave out: PyTorch, flex, JAX")
    parser.add_argument("--output", default="", help="adds rows to FILE, which ringattn report draws")
    options = parser.parse_args()
    torch.set_num_threads(1 if options.cpu_time else len(os.sched_getaffinity(0)))
    left_out = {name.lower() for name in options.without.split(",")}
    names = [name for name in CONTENDERS if name.lower() not in left_out]
    least = options.least or options.cpu_time
    machine = peers_rows.machine(processor())
    load = os.getloadavg()[0]
    kind = "least CPU time" if options.cpu_time else "least" if options.least else "median"
    clock = time.process_time if options.cpu_time else time.perf_counter
    print(f"{kind} of {options.rounds} in ms; {processor()}, {torch.get_num_threads()} threads, load {load:.1f} before; "
          f"PyTorch {torch.__version__}; ringattn {ringattn.__version__}; {datetime.date.today()}\n")
    print("| problem | dtype | " + " | ".join(names) + " |\n|---|---|" + "---|" * len(names), flush=True)
    notes = {}
    for case in CASES:
        if options.only not in f"{case.name} {case.dtype}":
            continue
        tensors = case.tensors()
        runs, refused = contenders(case, tensors, names)
        notes.update({f"{name} on {case.name}, {case.dtype}": text for name, text in refused.items()})
        if "ringattn" not in runs:
            break
        found = errors(case, tensors, {name: run() for name, run in runs.items()})
        samples = measure(runs, options.rounds, clock)
        times = {name: (min if least else statistics.median)(values) for name, values in samples.items()}
        if options.output:
            peers_rows.add(options.output, [peers_rows.row(case, name, values, least, found[name], machine)
                                            for name, values in samples.items()])
        print(f"| {case.name} | {case.dtype} | " + " | ".join(cell(name, times, found) for name in names) + " |",
              flush=True)
    for where, text in notes.items():
        print(f"\n- {where}: {text}")
    if options.only not in RING:
        return 0
    print(f"\n{RING.capitalize()}:", flush=True)
    return subprocess.call([sys.executable, Path(__file__).with_name("peers_ring.py"), "--rounds", str(options.rounds)])


if __name__ == "__main__":
    sys.exit(main())
