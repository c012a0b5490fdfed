"""What programs hand over becomes what files can hold, or is named; nothing they return is a traceback."""

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import json
import math
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from swarmbed_experiments.runs.plain import DEEPEST, column, plain

property_test = settings(deadline=None, max_examples=200, derandomize=True)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.builds(np.float32, st.floats(width=32))
    | st.builds(np.int16, st.integers(-(2**15), 2**15 - 1))
    | st.booleans().map(np.bool_)
    | st.decimals()
    | st.fractions()
    | st.datetimes()
    | st.binary(max_size=4)
    | st.complex_numbers()
    | st.builds(object)
)
VALUES = st.recursive(
    SCALARS | hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(max_dims=2, max_side=3)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3) | st.integers() | st.none(), inner, max_size=3)
        | st.tuples(inner, inner)
        | st.frozensets(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), max_size=4)
    ),
    max_leaves=12,
)
ROWS = st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), max_size=5)


@property_test
@given(VALUES)
def test_anything_becomes_json_that_reads_back_the_same(value):
    made, faults = plain(value)
    text = json.dumps(made, allow_nan=False)
    text.encode()
    assert json.loads(text) == made
    assert plain(made) == (made, [])
    assert all(isinstance(fault, str) for fault in faults)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@property_test
@given(JSON)
def test_what_json_can_hold_stays_as_it_is(value):
    made, faults = plain(value)
    assert json.dumps(made) == json.dumps(value)
    assert faults == []


@property_test
@given(ROWS)
def test_a_column_of_anything_can_be_written_to_parquet(rows):
    made = [{key: plain(value, finite=False)[0] for key, value in row.items()} for row in rows]
    for key in dict.fromkeys(key for row in made for key in row):
        values = column([row.get(key) for row in made])
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({key: values}), sink)
        assert pq.read_table(pa.BufferReader(sink.getvalue())).num_rows == len(made)


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Found:
    robots: int
    where: tuple


@pytest.mark.parametrize(
    ("value", "made"),
    [
        (np.float64(0.25), 0.25),
        (np.float32(0.5), 0.5),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.longdouble(0.5), 0.5),
        (np.array(3), 3),
        (np.arange(4).reshape(2, 2), [[0, 1], [2, 3]]),
        (np.array([1.0, np.nan]), [1.0, None]),
        (np.ma.masked_array([1, 2], [False, True]), [1, None]),
        (np.datetime64("2026-01-02"), "2026-01-02"),
        (np.str_("x"), "x"),
        (math.inf, None),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a", 1}), [1, "a", "b"]),
        ((1, (2,)), [1, [2]]),
        (range(3), [0, 1, 2]),
        (collections.deque([1, 2]), [1, 2]),
        ({"a": 1}.values(), [1]),
        (decimal.Decimal("0.5"), 0.5),
        (fractions.Fraction(1, 4), 0.25),
        (Colour.RED, "red"),
        (Found(2, (1, 2)), {"robots": 2, "where": [1, 2]}),
        (pathlib.PurePosixPath("a/b"), "a/b"),
        (dt.date(2026, 1, 2), "2026-01-02"),
        ("half \ud800", "half ?"),
        ({1: "a", None: 2, (1, 2): 3, Colour.RED: 4}, {"1": "a", "None": 2, "1,2": 3, "red": 4}),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
    ],
)
def test_what_things_become(value, made):
    assert plain(value) == (made, [])


def test_infinities_stay_in_a_time_series():
    assert plain({"a": [math.inf]}, finite=False) == ({"a": [math.inf]}, [])


class Awkward:
    """Raises whatever is asked."""

    def __getattr__(self, name):
        raise RuntimeError(name)


class Lies(list):
    def __iter__(self):
        raise GeneratorExit


class Mute(Exception):  # noqa: N818 - a user's
    def __str__(self):
        raise ValueError


class Sulks(dict):
    def items(self):
        raise Mute


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


def own():
    value = [1]
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "made", "fault"),
    [
        ({"a": object(), "b": 1}, {"a": None, "b": 1}, "a is of type object"),
        ({"a": {"b": [1, 2j]}}, {"a": {"b": [1, None]}}, "a.b[1] is of type complex"),
        ({"a": b"x"}, {"a": None}, "a is bytes"),
        ({"a": Awkward()}, {"a": None}, "a (Awkward) raises RuntimeError: "),
        ({"a": Lies([1])}, {"a": None}, "a (Lies) raises GeneratorExit"),
        ({"a": Sulks(b=1)}, {"a": None}, "a (Sulks) raises Mute: (its message cannot be shown: "),
        ({"a": (i for i in range(3))}, {"a": None}, "a is of type generator"),
        ({1: "x", "1": "y"}, {"1": "y"}, "1 occurs more than once"),
        ({"a": {object(): 1, "b": 2}}, {"a": {"b": 2}}, "a has a key of type object"),
        (own(), [1, None], "[1] contains itself"),
        (object(), None, "it is of type object"),
    ],
)
def test_what_cannot_be_written_is_named_and_nothing_else_is_lost(value, made, fault):
    found, faults = plain(value)
    assert found == made
    assert len(faults) == 1
    assert faults[0].startswith(fault)


def test_depth_and_the_list_of_faults_are_bounded():
    _, (fault,) = plain(nested(DEEPEST + 2))
    assert "nested too deeply" in fault
    assert plain(nested(DEEPEST - 1))[1] == []
    _, faults = plain([object()] * 1000)
    assert len(faults) == 6
    assert faults[-1] == "and 995 more"


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ([1, None, 2], [1, None, 2]),
        ([1, 0.5], [1.0, 0.5]),
        ([2**70, 1], [float(2**70), 1.0]),
        ([10**400], [json.dumps(10**400)]),
        ([1, "a"], ["1", '"a"']),
        ([True, 1], ["true", "1"]),
        (["a", None], ["a", None]),
        ([[1, 2], [0.5], None], [[1.0, 2.0], [0.5], None]),
        ([[1, "a"]], ['[1, "a"]']),
        ([{"a": math.nan}], ['{"a": null}']),
        ([None], [None]),
    ],
)
def test_a_column_has_one_type(values, written):
    assert column(values) == written
