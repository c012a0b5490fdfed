"""Makes the ROS 2 wheels fit for building on this machine.

Their CMake export files name the include directories of the Python they were built with, in
`/opt/python`. Put in those of the Python that runs this script.

Usage: python _mend_wheels.py PREFIX
"""

from __future__ import annotations

import re
import sys
import sysconfig
from pathlib import Path

import numpy as np

FOREIGN_NUMPY = re.compile(r"/opt/python/[^\";]*/numpy/(?:_core|core)/include")
FOREIGN_PYTHON = re.compile(r"/opt/python/[^\";]*/include/python3\.\d+")


def mend(prefix: Path) -> int:
    """Mend every export file below `prefix`; return how many were changed."""
    changed = 0
    for path in sorted(prefix.glob("share/*/cmake/*.cmake")):
        text = path.read_text(encoding="utf-8")
        mended = FOREIGN_NUMPY.sub(np.get_include(), text)
        mended = FOREIGN_PYTHON.sub(sysconfig.get_path("include"), mended)
        if "/opt/python/" in mended:
            message = (
                f"{path} still names the build machine's Python; the wheels have changed: mend() must too"
            )
            raise SystemExit(message)
        if mended != text:
            # A new file, not the old one rewritten: that one is a hard link into the installer's cache.
            fresh = path.with_suffix(".mended")
            fresh.write_text(mended, encoding="utf-8")
            fresh.replace(path)
            changed += 1
    return changed


if __name__ == "__main__":
    sys.stdout.write(f"mended {mend(Path(sys.argv[1]))} CMake files\n")
