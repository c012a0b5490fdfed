from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_behaviours.talk import OLD, SIZE, Item, Message, State, Status, decode, encode
from swarmbed_core.spec import RobotSpec

place = st.floats(-150.0, 150.0)
items = st.builds(
    Item,
    st.integers(0, 254),
    st.sampled_from(list(Status)),
    st.floats(0.0, 60.0),
    place,
    place,
    st.booleans(),
)
messages = st.builds(
    Message,
    state=st.sampled_from(list(State)),
    anchored=st.booleans(),
    counter=st.integers(0, 255),
    x=place,
    y=place,
    vx=st.floats(-2.5, 2.5),
    vy=st.floats(-2.5, 2.5),
    aim_x=st.floats(-10.0, 10.0),
    aim_y=st.floats(-10.0, 10.0),
    claim=st.none() | st.integers(0, 254),
    cost=st.floats(0.0, 25.0),
    item=st.none() | items,
)


@settings(deadline=None)
@given(messages)
def test_what_is_told_is_understood(message):
    heard = decode(encode(message))
    assert heard is not None
    assert (heard.state, heard.anchored, heard.counter) == (message.state, message.anchored, message.counter)
    assert heard.claim == message.claim
    for name, step in (("x", 0.005), ("y", 0.005), ("vx", 0.02), ("vy", 0.02), ("cost", 0.1)):
        assert abs(getattr(heard, name) - getattr(message, name)) <= 0.51 * step, name
    reach = math.hypot(message.aim_x, message.aim_y)
    off = math.hypot(heard.aim_x - message.aim_x, heard.aim_y - message.aim_y)
    assert off <= 0.06 + 0.013 * reach
    assert (heard.item is None) == (message.item is None)
    if message.item is not None:
        assert (heard.item.id, heard.item.status) == (message.item.id, message.item.status)
        assert heard.item.own == message.item.own
        older = heard.item.age - message.item.age
        assert 0.0 <= older <= 0.5 or heard.item.age == OLD
        assert math.hypot(heard.item.x - message.item.x, heard.item.y - message.item.y) < 0.005


def test_it_fits_the_radio():
    ble = next(radio for radio in RobotSpec.load("dots").radios if radio.name == "ble")
    assert len(encode(Message(State.IDLE, False, 0, 0.0, 0.0))) == SIZE <= ble.payload_bytes


@settings(deadline=None)
@given(messages, st.integers(0, 8 * SIZE - 1))
def test_a_flipped_bit_is_seen(message, bit):
    data = bytearray(encode(message))
    data[bit // 8] ^= 1 << (bit % 8)
    assert decode(bytes(data)) is None


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_strange_bytes_never_raise(data):
    heard = decode(data)
    assert heard is None or len(data) == SIZE


@pytest.mark.parametrize("data", [b"", b"\0" * SIZE, b"\xff" * SIZE, b"hello"])
def test_no_message(data):
    assert decode(data) is None


def test_another_version_and_another_length_are_refused():
    data = encode(Message(State.SEARCH, False, 1, 1.0, 2.0))
    assert decode(data + b"\0") is None
    assert decode(data[:-1]) is None
    assert decode(bytes((data[0] + 1,)) + data[1:]) is None


def test_numbers_out_of_range_are_cut():
    message = Message(State.CARRY, True, 300, 1e9, -1e9, 50.0, -50.0, claim=7, cost=1e6)
    heard = decode(encode(message))
    assert heard.counter == 300 % 256
    assert heard.x == pytest.approx(163.8, abs=0.1)
    assert heard.y == pytest.approx(-163.8, abs=0.1)
    assert (heard.vx, heard.vy) == pytest.approx((2.54, -2.54))
    assert heard.cost == pytest.approx(25.5)


def test_ids_without_a_code_are_left_out():
    message = Message(State.SEARCH, False, 0, 0.0, 0.0, claim=255, item=Item(1000, Status.FREE, 0, 0, 0))
    heard = decode(encode(message))
    assert heard.claim is None
    assert heard.item is None
    assert decode(encode(replace(message, claim=-3))).claim is None


def test_an_unknown_state_is_refused():
    class Later:
        def __int__(self):
            return 60

    data = encode(Message(Later(), False, 0, 0.0, 0.0))
    assert decode(data) is None


def test_what_is_told_on_and_on_does_not_get_younger():
    age = 0.0
    for _ in range(200):
        message = Message(State.SEARCH, False, 0, 0.0, 0.0, item=Item(3, Status.FREE, age, 0.0, 0.0))
        told = decode(encode(message)).item.age
        assert told >= min(age, OLD)
        age = told + 0.2
    assert told == OLD
