# SPDX-License-Identifier: Apache-2.0
"""Starts the processes of a ring for tests, and collects what each of them returned or raised.

Functions get the ring of their process; the processes find each other through files.
"""
import multiprocessing
import os
import pickle
import time
from pathlib import Path

DEADLINE = 120.0  # for all processes together: a ring that hangs is a failed test, not a stopped one


def share_by_files(folder, rank, ranks):
    """What _connect.py wants: objects of all ranks, by files."""
    calls = iter(range(1 << 30))

    def share(mine):
        call = next(calls)
        part = Path(folder, f"{call}.{rank}.part")
        part.write_bytes(pickle.dumps(mine))
        part.rename(part.with_suffix(""))
        paths = [Path(folder, f"{call}.{other}") for other in range(ranks)]
        while not all(path.exists() for path in paths):
            time.sleep(0.001)
        return [pickle.loads(path.read_bytes()) for path in paths]

    return share


def _work(function, folder, rank, ranks, arguments, results):
    from ringattn._links import SocketLink
    from ringattn._ring import Ring

    try:
        with Ring(SocketLink(rank, ranks, share_by_files(folder, rank, ranks), 60.0)) as ring:
            outcome = function(ring, *arguments)
    except BaseException as problem:
        outcome = problem
    results.put((rank, outcome))


def run_ring(function, ranks, folder, *arguments, silent=()):
    """The outcome of function(ring, *arguments) in each of `ranks` processes; None of those in `silent`."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [
        context.Process(target=_work, args=(function, str(folder), rank, ranks, arguments, results), daemon=True)
        for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    end = time.monotonic() + DEADLINE
    outcomes = [None] * ranks
    try:
        for _ in range(ranks - len(silent)):
            rank, outcome = results.get(timeout=max(0.1, end - time.monotonic()))
            outcomes[rank] = outcome
    finally:
        for process in processes:
            process.kill()
            process.join()
    return outcomes
