"""Several readers of one source."""

from swarmbed_core.feed import Feed


def test_each_reader_gets_everything_once():
    feed = Feed()
    assert not feed
    feed.put([0])
    one = feed.reader()
    assert feed
    feed.put([1, 2])
    other = feed.reader()
    feed.put(iter([3]))
    assert one.read() == [1, 2, 3]
    assert one.read() == []
    assert other.read() == [3]


def test_a_reader_that_is_closed_gets_nothing_more():
    feed = Feed()
    one, other = feed.reader(), feed.reader()
    feed.put([1])
    one.close()
    one.close()
    feed.put([2])
    assert one.read() == []
    assert other.read() == [1, 2]
    other.close()
    assert not feed
