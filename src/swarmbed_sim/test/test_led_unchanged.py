"""Worlds without led bodies compute what they did before there were any, bit for bit.

The hashes were made at commit c741a82, before led bodies, on a machine whose arithmetic has this fingerprint:
the last bit of a sine or of a product of matrices, and MuJoCo's results, differ between processors, C libraries
and versions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FINGERPRINT = "8f695261922658c1"
BEFORE = {
    "planar crowd": ["8bfa3e1f60737474", 5],
    "planar crowd, one step a tick": ["10508354c35f41e9", 5],
    "planar": ["440897c871752d92", 4],
    "mujoco": ["9683a6787b9d9b0b", 4],
}
"""For each world its hash, and how often what the hash is about happens there: contacts, carrying."""


def test_worlds_without_led_bodies_compute_what_they_did():
    script = Path(__file__).with_name("unchanged_worlds.py")
    # Else OpenBLAS takes kernels for the processor that it finds, which differ in the last bit.
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1", "OPENBLAS_CORETYPE": "Haswell"}
    done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    fingerprint = found.pop("fingerprint")
    if fingerprint != FINGERPRINT:
        pytest.skip(f"the hashes are of other arithmetic: this machine's fingerprint is {fingerprint}")
    assert found == BEFORE
