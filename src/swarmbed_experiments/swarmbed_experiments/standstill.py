"""Watch whether the machine itself stands still: `python -m swarmbed_experiments.standstill`, until SIGINT.

A virtual machine is held up by its host, a laptop by its power saving: then nobody keeps a time, whatever a
benchmark says of the program under test. This process does nothing, at the highest priority that it can have,
and tells how often it was not woken for long all the same.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time

NAP = 0.002
"""Seconds between two looks at the clock."""
LONG = 0.008
"""Seconds from which the time between two looks counts."""
PRIORITY = 50


def watch() -> dict[str, float]:
    """Return how often and for how many seconds the machine stood still until somebody ended this."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    times, seconds, longest = 0, 0.0, 0.0
    with contextlib.suppress(KeyboardInterrupt):
        # Whoever started this may have told it not to heed it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("watching", flush=True)  # noqa: T201 - for whoever waits for it
        before = time.monotonic()
        while True:
            time.sleep(NAP)
            now = time.monotonic()
            if now - before > LONG:
                times, seconds, longest = times + 1, seconds + now - before - NAP, max(longest, now - before)
            before = now
    return {"times": times, "seconds": seconds, "longest": longest}


if __name__ == "__main__":
    print(json.dumps(watch()))  # noqa: T201 - what it is for
