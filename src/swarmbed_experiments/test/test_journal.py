"""The journal: whole parts are read back, wherever it was cut off."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.runs.journal import Journal, parts_of

PARTS = [({"a": np.arange(k), "b": np.full((k, 2), 0.5, np.float32)}, {"rows": [k]}) for k in (1, 5, 3)]


def write(file):
    """Write a journal; return its bytes, and where its parts end."""
    journal = Journal(file, {"seed": 7})
    ends = [file.stat().st_size]
    for arrays, texts in PARTS:
        journal.add(arrays, texts)
        ends.append(file.stat().st_size)
    journal.close(remove=False)
    return file.read_bytes(), ends


def test_what_was_written_is_read(tmp_path):
    write(tmp_path / "j")
    (_, about), *parts = parts_of(tmp_path / "j")
    assert about == {"seed": 7}
    for (arrays, texts), (there, said) in zip(PARTS, parts, strict=True):
        assert said == texts
        assert all(
            (there[name] == array).all() and there[name].dtype == array.dtype
            for name, array in arrays.items()
        )


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    file = tmp_path_factory.mktemp("journal") / "j"
    return file, *write(file)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(data=st.data())
def test_wherever_it_is_cut_off_the_parts_before_are_there(written, data):
    file, whole, ends = written
    cut = data.draw(st.integers(0, len(whole)))
    junk = data.draw(st.sampled_from([b"", b"?" * 100, whole[:5]]))
    file.write_bytes(whole[:cut] + junk)
    assert len(list(parts_of(file))) == sum(end <= cut for end in ends)


def test_a_damaged_part_ends_it(written):
    file, whole, ends = written
    file.write_bytes(whole[: ends[1] + 40] + b"?" + whole[ends[1] + 41 :])
    assert len(list(parts_of(file))) == 2


def test_it_is_deleted_when_it_is_of_no_more_use(tmp_path):
    Journal(tmp_path / "j", {}).close(remove=True)
    assert not (tmp_path / "j").exists()
    with pytest.raises(RunError, match="cannot be read"):
        list(parts_of(tmp_path / "j"))
    with pytest.raises(RunError, match="cannot be written"):
        Journal(tmp_path / "no" / "j", {})
