"""Counts what a Chakra execution trace holds, without tiersim and without a library of protobuf: what
input/tests/import_chakra.rs compares imports with, and input/tests/export_chakra.rs what is exported.

    python3 tests/count_chakra_trace.py FILE...
"""

import collections
import gzip
import io
import sys
import tarfile

NODE_TYPES = {1: "METADATA", 2: "MEM_LOAD", 3: "MEM_STORE", 4: "COMP", 5: "COMM_SEND", 6: "COMM_RECV", 7: "COMM_COLL",
              8: "STORAGE", 9: "BATCH", 10: "CHECKPOINT"}


def varint(data, at):
    """A number of seven bits a byte, and where it ends."""
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at


def fields(data):
    """Number, wire type and value of each field of a message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        else:
            size = {1: 8, 5: 4}[key & 7]
            value, at = data[at:at + size], at + size
        yield key >> 3, key & 7, value


def numbers(wire, value):
    """A repeated number, packed or not."""
    if wire == 0:
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = varint(value, at)
        found.append(number)
    return found


def messages(data):
    at = 0
    while at < len(data):
        length, at = varint(data, at)
        yield data[at:at + length]
        at += length


def content(path):
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if data[257:262] == b"ustar":
        archive = tarfile.open(fileobj=io.BytesIO(data))
        data = archive.extractfile(next(entry for entry in archive if entry.isfile())).read()
    return data


def count(path):
    types, attributes = collections.Counter(), collections.Counter()
    control = data_deps = micros = timed = kernels = kernel_micros = 0
    for index, message in enumerate(messages(content(path))):
        if index == 0:
            continue
        node_type, is_cpu = 0, None
        duration = 0
        for number, wire, value in fields(message):
            if number == 3:
                node_type = value
            elif number == 4:
                control += len(numbers(wire, value))
            elif number == 5:
                data_deps += len(numbers(wire, value))
            elif number == 7:
                duration += value
            elif number == 10:
                parts = {part: held for part, _, held in fields(value)}
                name = parts[1].decode()
                attributes[name] += 1
                if name == "is_cpu_op":
                    is_cpu = any(held for part, held in parts.items() if part > 2)
        types[NODE_TYPES.get(node_type, node_type)] += 1
        micros += duration
        timed += duration > 0
        if is_cpu is False:
            kernels, kernel_micros = kernels + 1, kernel_micros + duration
    print(f"{path}: {sum(types.values())} nodes, {control} control and {data_deps} data dependencies")
    print(f"  {dict(types)}; {micros} us on {timed} of them")
    print(f"  {kernels} not on the host, {kernel_micros} us")
    print(f"  attributes: {dict(sorted(attributes.items()))}")


if __name__ == "__main__":
    for path in sys.argv[1:]:
        count(path)
