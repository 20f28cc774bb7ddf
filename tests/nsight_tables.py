"""Writes the tables that Nsight Systems would have exported for what a trace of the PyTorch profiler
shows: the same kernels, copies, fills, calls, waits, ranges and memory, as rows of SQLite. Statements
behind the two files are run at the end, to make something else of them.

    python3 tests/nsight_tables.py TRACE.json[.gz] EXPORT.sqlite [STATEMENT...]

What input/tests/import_nsight.rs compares the two readers by. tests/data/fuzz/nsight/seed~export.sqlite
is that of tests/data/fuzz/profiler/seed~trace.json, with STATEMENTs `PRAGMA page_size=1024` and `VACUUM`.
"""

import decimal
import gzip
import json
import os
import re
import sqlite3
import sys

# As ENUM_CUDA_MEM_KIND and CUpti_ActivityMemcpyKind number them.
MEMORY = ["Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"]
COPIES = ["Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"]
# CUpti_ActivitySynchronizationType.
WAITS = {"Event Sync": 1, "Stream Wait Event": 2, "Stream Sync": 3, "Context Sync": 4}
PROCESS = 0x0100_0000_2A00_0000

ACTIVITY = "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER, \
streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER"
TABLES = {
    "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
    "CUPTI_ACTIVITY_KIND_KERNEL": ACTIVITY + ", demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL",
    "CUPTI_ACTIVITY_KIND_MEMCPY": ACTIVITY
    + ", bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMSET": ACTIVITY + ", value INTEGER, bytes INTEGER NOT NULL, memKind INTEGER",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER, "
    "globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": ACTIVITY.replace("deviceId INTEGER NOT NULL", "deviceId INTEGER")
    + ", syncType INTEGER NOT NULL, eventId INTEGER",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": "deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
    "correlationId INTEGER, globalPid INTEGER, eventId INTEGER",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": "start INTEGER NOT NULL, globalPid INTEGER, deviceId INTEGER, "
    "contextId INTEGER, address INTEGER, bytes INTEGER, memKind INTEGER, memoryOperationType INTEGER, "
    "correlationId INTEGER",
    "NVTX_EVENTS": "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, "
    "text TEXT, globalTid INTEGER, textId INTEGER",
    "TARGET_INFO_GPU": "id INTEGER NOT NULL, name TEXT, totalMemory INTEGER",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER",
}


class Export:
    def __init__(self, path):
        if os.path.exists(path):
            os.remove(path)
        self.database = sqlite3.connect(path)
        self.made, self.strings = set(), {}

    def row(self, table, **values):
        """Tables are made when they get their first row."""
        if table not in self.made:
            self.made.add(table)
            self.database.execute(f"CREATE TABLE {table} ({TABLES[table]})")
        columns, marks = ", ".join(f'"{name}"' for name in values), ", ".join("?" * len(values))
        self.database.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", list(values.values()))

    def string(self, text):
        if text not in self.strings:
            self.strings[text] = len(self.strings) + 1
            self.row("StringIds", id=self.strings[text], value=text)
        return self.strings[text]


def text(event):
    """A range as PyTorch's emit_nvtx spells it."""
    args = event.get("args", {})
    said = event["name"]
    if event["cat"] == "cpu_op":
        said += f", seq = {args['Sequence number']}" if "Sequence number" in args else ", op_id = 1"
        said += f", sizes = {args['Input Dims']}" if "Input Dims" in args else ""
    return said


def write(events, document, export):
    threads = {}
    thread = lambda event: PROCESS | threads.setdefault((event["pid"], event["tid"]), len(threads) + 1)
    base = min(event["ts"] for event in events if "cat" in event)
    ns = lambda time: int(round((time - base) * 1000))
    recorded = {}
    for event in events:
        kind, args, name = event.get("cat"), event.get("args", {}), event.get("name", "")
        if name == "[memory]":
            export.row("CUDA_GPU_MEMORY_USAGE_EVENTS", start=ns(event["ts"]), globalPid=PROCESS,
                       deviceId=args["Device Id"], address=args["Addr"], bytes=abs(args["Bytes"]),
                       memKind=2 if args["Device Type"] else 0, memoryOperationType=int(args["Bytes"] < 0))
        if event.get("ph") != "X":
            continue
        start = ns(event["ts"])
        times = {"start": start, "end": start + int(round(event.get("dur", 0) * 1000))}
        if kind in ("kernel", "gpu_memcpy", "gpu_memset", "cuda_sync"):
            times |= {"deviceId": args.get("device"), "contextId": args.get("context"), "streamId":
                      args.get("stream"), "correlationId": args.get("correlation"), "globalPid": PROCESS}
        if kind == "kernel":
            short = re.split(r"[<(]", name.removeprefix("void "))[0] or name
            export.row("CUPTI_ACTIVITY_KIND_KERNEL", **times, demangledName=export.string(name),
                       shortName=export.string(short))
        elif kind == "gpu_memcpy":
            way, source, target = re.match(r"Memcpy (\w+) \(([\w ]+) -> ([\w ]+)\)", name).groups()
            export.row("CUPTI_ACTIVITY_KIND_MEMCPY", **times, bytes=args["bytes"],
                       copyKind=COPIES.index(way), srcKind=MEMORY.index(source), dstKind=MEMORY.index(target))
        elif kind == "gpu_memset":
            where = re.match(r"Memset \(([\w ]+)\)", name).group(1)
            export.row("CUPTI_ACTIVITY_KIND_MEMSET", **times, value=0, bytes=args.get("bytes", 0),
                       memKind=MEMORY.index(where))
        elif kind in ("cuda_runtime", "cuda_driver"):
            export.row("CUPTI_ACTIVITY_KIND_RUNTIME", **times, globalTid=thread(event),
                       correlationId=args.get("correlation"), nameId=export.string(name), returnValue=0)
        elif kind == "cuda_sync":
            # An event is known by the call that recorded it, so each gets a number of its own here.
            record = args.get("wait_on_cuda_event_record_corr_id")
            if record is not None and record not in recorded:
                recorded[record] = len(recorded) + 1
                of = args.get("wait_on_stream", args.get("stream"))
                export.row("CUPTI_ACTIVITY_KIND_CUDA_EVENT", streamId=of, correlationId=record,
                           globalPid=PROCESS, eventId=recorded[record])
            export.row("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", **times,
                       syncType=WAITS[args.get("cuda_sync_kind", name)], eventId=recorded.get(record))
        elif kind in ("cpu_op", "user_annotation"):
            said = text(event)
            # Registered texts are numbers, others stand in the row.
            where = {"textId": export.string(said)} if kind == "cpu_op" else {"text": said}
            export.row("NVTX_EVENTS", **times, eventType=59, globalTid=thread(event), **where)
    for device in document.get("deviceProperties", []):
        export.row("TARGET_INFO_GPU", id=device["id"], name=device["name"],
                   totalMemory=device.get("totalGlobalMem", 0))
    epoch = document.get("baseTimeNanoseconds", 0) + int(base * 1000)
    export.row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=epoch)


def main(source, target, *statements):
    opened = gzip.open if source.endswith(".gz") else open
    with opened(source) as file:
        document = json.load(file, parse_float=decimal.Decimal)
    export = Export(target)
    write(document["traceEvents"], document, export)
    export.database.commit()
    export.database.isolation_level = None
    for statement in statements:
        export.database.execute(statement)
    export.database.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
