"""Prints what a wheel requires, one requirement a line, with the local version of torch left out.

usage: requirements.py WHEEL
"""

import email
import re
import sys
import zipfile


def requirements(wheel):
    """Yields the wheel's requirements but for those of its extras."""
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(path))
    for line in metadata.get_all("Requires-Dist", []):
        if not re.search(r"\bextra\s*==", line):
            yield re.sub(r"^(torch\s*==\s*[\d.]+)\+cpu", r"\1", line)


if __name__ == "__main__":
    print(*requirements(sys.argv[1]), sep="\n")
