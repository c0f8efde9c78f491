# SPDX-License-Identifier: Apache-2.0
"""plan, show, info and preset: figures against a count by hand, text against the command's."""

import re
import subprocess
import sys
import xml.etree.ElementTree

import naive
import numpy as np
import pytest

import ringattn


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "ringattn", *arguments], capture_output=True, text=True, check=True
    ).stdout


def test_plan_of_sizes_and_of_arrays():
    by_size = ringattn.plan(length=7, kv_length=13, batch=2, heads=6, kv_heads=2, dim=17, value_dim=5, pattern="causal")
    q, k, v = naive.normal(2, 7, 6, 17), naive.normal(2, 13, 2, 17), naive.normal(2, 13, 2, 5)
    assert ringattn.plan(q, k, v, pattern="causal") == by_size
    pairs = 2 * 6 * int(naive.causal(7, 13).sum())
    assert by_size.pairs_visible == pairs and by_size.flops == 2 * pairs * (17 + 5)
    assert by_size.tiles > 0 and by_size.peak_bytes > 0 and by_size.pairs_worked >= pairs
    backward = ringattn.plan(q, k, v, pattern="causal", backward=True)
    assert backward.flops == 2 * pairs * (3 * 17 + 2 * 5)


def test_plan_with_arrays():
    mask = np.random.default_rng(0).random((9, 11)) < 0.5
    summary = ringattn.plan(length=9, kv_length=11, heads=3, dim=8, mask=mask)
    assert summary.pairs_visible == 3 * mask.sum() and summary.pattern == "mask"
    assert ringattn.plan(length=9, heads=3, dim=8, documents=[4, 5]).pairs_visible == 3 * (16 + 25)


def test_plan_prints_like_the_command():
    text = command("plan", "--length", "1000", "--heads", "4", "--dim", "64", "--pattern", "causal", "--backward")
    assert str(ringattn.plan(length=1000, heads=4, dim=64, pattern="causal", backward=True)) == text.strip()
    sparse = ("--length", "1024", "--heads", "1", "--dim", "64", "--pattern", "blocks:64:local=1", "--backward")
    assert str(ringattn.plan(length=1024, heads=1, dim=64, pattern=sparse[7], backward=True)) == command(
        "plan", *sparse
    ).strip()


@pytest.mark.parametrize("pattern, length, heads", [("causal+window:3,0", 12, 1), ("dilated:4/1,8/2", 16, 4)])
def test_show_is_the_picture_of_the_command(pattern, length, heads):
    import os

    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    text = subprocess.run(
        [sys.executable, "-m", "ringattn", "show", "--pattern", pattern, "--length", str(length), "--heads", str(heads)],
        capture_output=True,
        encoding="utf-8",
        check=True,
        env=environment,
    ).stdout
    assert str(ringattn.show(pattern, length, heads=heads)) == text.rstrip("\n")


def test_show_of_arrays_and_long_sequences():
    mask = np.random.default_rng(1).random((5, 9)) < 0.5
    picture = ringattn.show(length=5, kv_length=9, mask=mask)
    assert all((picture.counts(query=i) == mask[i]).all() for i in range(5))
    lines = str(ringattn.show("causal", 100000)).splitlines()
    assert len(lines) == 1 + 40 and all(len(line) == 80 for line in lines[1:])


def test_show_in_notebooks():
    picture = ringattn.show("dilated:4/1,8/2", 200, heads=2)
    root = xml.etree.ElementTree.fromstring(picture._repr_svg_())
    assert root.tag.endswith("svg") and root[0].text == "dilated:4/1,8/2, length 200"


def test_info():
    text = str(ringattn.info())
    for line in command("info").splitlines():
        if re.match("(ringattn|processor|instruction sets|kernels|threads|L1|L2|L3|memory|compiler|OpenMP) ", line):
            assert line in text


def test_preset():
    assert ringattn.preset("llama") == ("causal", None)
