# SPDX-License-Identifier: Apache-2.0
"""Threads, forks, Ctrl-C, progress, memory over many calls."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import naive
import numpy as np
import pytest

import ringattn

Q, K, V = (naive.normal(1, 40, 4, 16, seed=seed) for seed in range(3))
EXPECTED = ringattn.attention(Q, K, V, pattern="causal")


def test_threads_call_at_the_same_time():
    wrong = []

    def work(number):
        q = Q * (1 + number % 3)
        mine = ringattn.reference(q, K, V, pattern="causal")
        for _ in range(200):
            if np.abs(ringattn.attention(q, K, V, pattern="causal", threads=1) - mine).max() > 2e-6:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_other_threads_run_meanwhile():
    """Python code runs while the library computes: the interpreter's lock is released."""
    q = naive.normal(1, 3000, 8, 64)
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = counted[0]
    ringattn.attention(q, q, q, threads=1)
    after = counted[0]
    stop.set()
    thread.join()
    assert after > before


def _in_child(queue):
    queue.put((ringattn.attention(Q, K, V, pattern="causal") == EXPECTED).all())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children(method):
    ringattn.attention(Q, K, V, threads=2)
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=120)
    child.join(60)
    assert child.exitcode == 0


def _refused_in_child(queue):
    try:
        ringattn.attention(Q, K, V, threads=2)
        queue.put(None)
    except ringattn.Error as error:
        queue.put(error)


def test_more_threads_are_refused_after_a_fork_and_the_error_comes_home():
    ringattn.attention(Q, K, V, threads=2)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_refused_in_child, args=(queue,))
    child.start()
    assert isinstance(queue.get(timeout=120), ringattn.UnsupportedError)
    child.join(60)


LONG = """
import numpy as np, ringattn, sys
q = np.ones((1, 60000, 8, 64), np.float32)
print("running", flush=True)
try:
    ringattn.attention(q, q, q, threads=1)
    print("finished")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_stops_a_run():
    child = subprocess.Popen([sys.executable, "-c", LONG], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "running\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60)[0] == "interrupted\n"


def test_progress():
    seen = []
    out = ringattn.attention(Q, K, V, pattern="causal", progress=lambda done, total: seen.append((done, total)))
    assert (out == EXPECTED).all()
    assert seen and seen[-1][0] == seen[-1][1] == 4 * 40 * 41 / 2
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_progress_stops_a_run():
    with pytest.raises(ringattn.CancelledError):
        ringattn.attention(Q, K, V, progress=lambda done, total: True)
    with pytest.raises(ZeroDivisionError):
        ringattn.attention(Q, K, V, progress=lambda done, total: 1 / 0)
    out, lse = ringattn.attention(Q, K, V, return_lse=True)
    with pytest.raises(ringattn.CancelledError):
        ringattn.attention_backward(out, Q, K, V, out, lse, progress=lambda done, total: True)
    assert (ringattn.attention(Q, K, V, pattern="causal") == EXPECTED).all()


def test_progress_as_a_bar(capsys):
    pytest.importorskip("tqdm")
    assert (ringattn.attention(Q, K, V, pattern="causal", progress=True) == EXPECTED).all()
    assert "100%" in capsys.readouterr().err


def _resident():
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def _many(calls):
    mask = np.random.default_rng(0).random((40, 40)) < 0.5
    memory = memoryview(K)
    for number in range(calls):
        ringattn.attention(Q, K, V, threads=1)
        if number % 4 == 0:
            ringattn.attention(Q, memory, V, mask=mask, return_lse=True, threads=1)
        if number % 4 == 1:
            ringattn.attention(Q[:, : 1 + number % 40], K, V, threads=1, pattern="causal")
        if number % 4 == 2:
            with pytest.raises(ringattn.ArgumentError):
                ringattn.attention(Q, K, V, pattern="caused")
        if number % 4 == 3:
            out, lse = ringattn.attention(Q, K, V, return_lse=True, threads=1)
            ringattn.attention_backward(out, Q, K, V, out, lse, threads=1)


def test_no_leak_over_ten_thousand_calls():
    _many(1000)
    gc.collect()
    objects, before = len(gc.get_objects()), _resident()
    _many(10000)
    gc.collect()
    assert len(gc.get_objects()) < objects + 200
    assert _resident() < before + (4 << 20)


def test_arrays_are_released():
    import weakref

    q = Q.copy()
    mask = np.ones((40, 40), bool)
    kept = [weakref.ref(q), weakref.ref(mask), weakref.ref(ringattn.attention(q, K, V, mask=mask))]
    ringattn.attention(q, K, V)
    del q, mask
    gc.collect()
    assert all(reference() is None for reference in kept)
