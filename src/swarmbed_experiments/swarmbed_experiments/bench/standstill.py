"""Detect stalls of the whole machine: `python -m swarmbed_experiments.bench.standstill`, until SIGINT.

A host can pause its virtual machine, and power saving can stall a laptop. Benchmarks are meaningless then.
This process sleeps at the highest priority it can get, and reports how often it was woken too late all the
same.
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
"""Seconds between two looks from which a stall is counted."""
PRIORITY = 50


def watch() -> dict[str, float]:
    """Count stalls until SIGINT. Return their number, total duration and longest duration, in seconds."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    times, seconds, longest = 0, 0.0, 0.0
    with contextlib.suppress(KeyboardInterrupt):
        # The parent may have set SIGINT to be ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("watching", flush=True)  # noqa: T201 - the parent waits for this line
        before = time.monotonic()
        while True:
            time.sleep(NAP)
            now = time.monotonic()
            if now - before > LONG:
                times, seconds, longest = times + 1, seconds + now - before - NAP, max(longest, now - before)
            before = now
    return {"times": times, "seconds": seconds, "longest": longest}


if __name__ == "__main__":
    print(json.dumps(watch()))  # noqa: T201 - the result
