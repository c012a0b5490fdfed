"""Messages of the handshake in the packets of a radio."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_behaviours.handshake import BROADCAST, PIECE, Kind, Message, channel_of
from swarmbed_behaviours.letters import Letterbox, packed, unpacked

numbers = st.integers(0, 2**32 - 1)
finite = st.floats(-1e6, 1e6)


@st.composite
def messages(draw):
    sender, to = draw(numbers), draw(st.none() | numbers)
    private = to is not None and draw(st.booleans())
    places = draw(st.none() | st.lists(st.tuples(finite, finite), min_size=1, max_size=PIECE))
    return Message(
        draw(st.sampled_from(Kind)),
        channel_of(sender, to) if private else BROADCAST,
        sender,
        -1 if to is None else to,
        draw(st.booleans()),
        draw(finite),
        draw(st.integers(0, 2**16 - 1)),
        draw(st.booleans()),
        None if places is None else np.array(places),
        draw(st.none() | st.tuples(finite, finite, finite, finite)),
    )


def told(message):
    plain = [value for name, value in vars(message).items() if name != "places"]
    return plain, None if message.places is None else message.places.tolist()


@st.composite
def torn(draw):
    """Draw the beginning of a message."""
    raw = packed(draw(messages()))
    return raw[: draw(st.integers(0, len(raw)))]


@settings(deadline=None, max_examples=200, derandomize=True)
@given(st.lists(messages(), max_size=4))
def test_messages_come_back_as_they_were_sent(sent):
    got = unpacked(b"".join(map(packed, sent)))
    assert list(map(told, got)) == list(map(told, sent))


@settings(deadline=None, max_examples=300, derandomize=True)
@given(st.binary(max_size=200) | torn())
def test_noise_is_ignored(raw):
    for message in unpacked(raw):
        assert math.isfinite(message.talk)
        assert message.places is None or (len(message.places) <= PIECE and np.isfinite(message.places).all())
        assert message.moves is None or all(map(math.isfinite, message.moves))


def test_what_does_not_fit_comes_first_the_next_time():
    """A robot that repeats three pieces, END and WAIT gets all of them across in a few ticks."""
    route = np.zeros((PIECE, 2))
    all_of_them = [Message(Kind.PIECE, (2, 3), 2, 1, number=k, places=route) for k in range(3)]
    all_of_them += [Message(Kind.END, (2, 3), 2, 1, number=3)]
    all_of_them += [Message(Kind.WAIT, BROADCAST, 2, 1, moves=(0.0, 0.0, 0.0, 0.0))]
    box, came = Letterbox(1024), set()
    for _ in range(4):
        packet = box.packet(all_of_them)
        assert len(packet) <= 1024
        came |= {(message.kind, message.number) for message in unpacked(packet)}
    assert came == {(message.kind, message.number) for message in all_of_them}
