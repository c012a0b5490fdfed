"""Output that is closed, full, gone or ASCII changes nothing of what a command does."""

import errno
import io
import os
import sys

import pytest
from rich.table import Table
from swarmbed_experiments.streams import Console, Sink, guard


@pytest.fixture
def pipe():
    """Return the ends of a pipe, which are closed in the end."""
    ends = list(os.pipe())
    yield ends
    for end in ends:
        if end is not None:
            os.close(end)


def test_what_can_be_written_is(pipe):
    text = io.TextIOWrapper(io.BufferedWriter(Sink(pipe[1])), encoding="utf-8")
    text.write("hällo\n")
    text.flush()
    assert os.read(pipe[0], 100) == "hällo\n".encode()
    assert not text.isatty()
    assert text.fileno() == pipe[1]


def test_a_reader_that_has_gone_is_remembered_and_what_follows_dropped(pipe):
    sink = Sink(pipe[1])
    os.close(pipe[0])
    pipe[0] = None
    assert sink.write(b"abc") == 3
    assert sink.error.errno == errno.EPIPE
    assert sink.write(b"de") == 2


def test_a_full_disk_is_remembered():
    descriptor = os.open("/dev/full", os.O_WRONLY)
    try:
        sink = Sink(descriptor)
        assert sink.write(b"abc") == 3
    finally:
        os.close(descriptor)
    assert sink.error.errno == errno.ENOSPC


def test_a_reader_that_is_slow_is_waited_for(pipe, monkeypatch):
    os.set_blocking(pipe[1], False)
    sink = Sink(pipe[1])
    full = b"x" * 2**20
    waited = []

    def drain(_readable, writable, _odd):
        waited.append(writable)
        os.read(pipe[0], 2**20)

    monkeypatch.setattr("swarmbed_experiments.streams.select.select", drain)
    while not waited:
        sink.write(full)
    assert waited[0] == [pipe[1]]
    assert sink.error is None


def test_the_streams_of_a_test_stay(capsys):
    before = sys.stdout
    assert guard() is None
    assert sys.stdout is before
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("text", ["[red]x[/wrong]", "[/]", ":smile: 1.5", "[link=x]"])
def test_texts_are_no_markup(text, capsys):
    table = Table("a", title=text)
    table.add_row(text)
    console = Console()
    console.print(table)
    console.print(text)
    assert capsys.readouterr().out.count(text) >= 2
