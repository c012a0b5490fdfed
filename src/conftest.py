"""What the tests of all packages share."""

import signal

from hypothesis import settings

# Property tests try the same examples in every run.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# A shell lets what it starts in the background ignore Ctrl-C, which some tests are about.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
