# SPDX-License-Identifier: Apache-2.0
"""Rows of bench/peers.py in the form of docs/results.schema.json, which `ringattn report` draws."""
import datetime
import importlib.metadata
import json
import os
import statistics
from pathlib import Path

import torch

import ringattn
from peers_cases import Case

# What contenders are called in rows.
METHODS = {"ringattn": "ringattn", "PyTorch": "PyTorch", "flex": "FlexAttention", "JAX": "JAX"}
PACKAGES = {"ringattn": "ringattn", "PyTorch": "torch", "flex": "torch", "JAX": "jax"}


def _pattern(case: Case) -> str:
    if case.sees == "window":
        return f"causal+window:{case.window - 1},0"
    if case.sees == "padded":
        return "causal+lengths:" + ",".join(str(length) for length in case.lengths())
    if case.sees == "packed":
        return "causal+documents:" + ",".join(str(length) for length in case.documents())
    return case.sees


def _seconds(values: list, least: bool) -> dict:
    """Of times in milliseconds. The least stands for the median where the machine is not quiet."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    if least:
        low = middle = high = min(values)
    low, middle, high = (1e-3 * x for x in (low, middle, high))
    return {"median": middle, "low": low, "high": high, "spread": (high - low) / middle, "samples": len(values), "quiet": 0}


def row(case: Case, name: str, values: list, least: bool, error: float, machine: dict) -> dict:
    """One contender's row of a problem."""
    info = ringattn.info()
    ours = name == "ringattn"
    return {
        "schema": 1,
        "suite": "peers",
        "case": case.name + ("" if case.dtype == "float32" else f", {case.dtype}"),
        "status": "ok",
        "time": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "method": METHODS[name],
        "problem": {
            "batch": case.batch, "q_len": case.rows, "kv_len": case.keys, "heads": case.heads,
            "kv_heads": case.kv_heads, "head_dim": case.dim, "value_dim": case.dim, "dtype": case.dtype,
            "pattern": _pattern(case),
        },
        "run": {
            "direction": "backward" if case.backward else "forward", "strategy": "local", "transport": "none",
            "order": "contiguous", "tile_order": "row", "ring_size": 1, "hops": 0,
            "kernel": info.kernel if ours else METHODS[name], "threads": torch.get_num_threads(),
        },
        "seconds": _seconds(values, least),
        "figures": {"error": error},
        "machine": machine,
        "version": importlib.metadata.version(PACKAGES[name]),
        "compiler": info.compiler,
    }


def machine(processor: str) -> dict:
    """The machine, as rows name it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"processor": processor, "cores": len(os.sched_getaffinity(0)), "memory_bytes": memory}


def add(path: str, rows: list) -> None:
    """Adds rows to a file, one a line."""
    with Path(path).open("a", encoding="utf-8") as file:
        for one in rows:
            file.write(json.dumps(one, separators=(",", ":")) + "\n")
