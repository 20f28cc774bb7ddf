"""Counts what a lackey trace or a file of oracleGeneral records holds, without tiersim: what
input/tests/import_accesses.rs compares imports with.

    python3 tests/count_accesses.py FILE...
"""

import collections
import gzip
import struct
import sys


def load(path):
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rb") as file:
        return file.read()


def lackey(text):
    kinds = collections.Counter()
    lines, pages, windows = set(), set(), [set()]
    for line in text.decode().splitlines():
        if line[:3].strip() not in ("L", "S", "M"):
            continue
        address, size = line[3:].split(",")
        first, last = int(address, 16), int(address, 16) + int(size) - 1
        if kinds.total() % 1000 == 0 and kinds.total():
            windows.append(set())
        kinds[line[1]] += 1
        lines.update(range(first // 64, last // 64 + 1))
        pages.update(range(first // 4096, last // 4096 + 1))
        windows[-1].update(range(first // 4096, last // 4096 + 1))
    print(f"  {dict(kinds)}, {len(lines)} lines of 64 B, {len(pages)} pages of 4 KiB")
    print(f"  {len(windows)} windows of 1000, {sum(map(len, windows))} uses of pages")


def records(data):
    rows = list(struct.iter_unpack("<IQIq", data))
    windows = [{row[1] for row in rows[at:at + 1000]} for at in range(0, len(rows), 1000)]
    sizes = {row[1]: row[2] for row in rows}
    print(f"  {len(rows)} requests of {len(sizes)} objects, {sum(sizes.values())} bytes, "
          f"{rows[-1][0] - rows[0][0]} s, {sum(map(len, windows))} uses in windows of 1000")


for argument in sys.argv[1:]:
    print(argument)
    content = load(argument)
    lackey(content) if content[:1] in b" =I" else records(content)
