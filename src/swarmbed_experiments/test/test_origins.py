"""Whose code is whose."""

import json

import numpy as np
import swarmbed_core.config
from swarmbed_experiments.runs.origins import is_library, is_our_name, is_ours, our_folders, plugin_names


def test_files_belong_to_us_to_libraries_or_to_somebody_else(tmp_path):
    assert is_ours(swarmbed_core.config.__file__)
    assert not is_library(swarmbed_core.config.__file__)
    elsewhere = "/opt/other/lib/python3.11/site-packages/numpy/core.py"
    for file in (json.__file__, np.__file__, "<frozen importlib._bootstrap>", elsewhere):
        assert is_library(file)
        assert not is_ours(file)
    theirs = str(tmp_path / "mine.py")
    assert not is_ours(theirs)
    assert not is_library(theirs)


def test_names_that_begin_like_ours_are_not_ours():
    assert is_our_name("swarmbed_core.config")
    assert not is_our_name("swarmbed_mine.config")
    assert "swarmbed_core" in our_folders()
    assert not plugin_names() & set(our_folders())
