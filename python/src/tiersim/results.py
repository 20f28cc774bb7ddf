"""What the verbs answer: figures as dicts and data frames, charts and pages that notebooks show.

Numbers are those of the files that the command writes, read and not worked out again. Files lie in
a folder that goes with the answer, or stay in the one that ``out`` named.
"""

from __future__ import annotations

import csv
import html
import io
import json
import math
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, Mapping

from . import _child
from .errors import Error

if TYPE_CHECKING:
    import pandas
    import polars

Dict = dict[str, Any]

#: Rows that a notebook shows of a table.
_MOST_ROWS = 60
#: Columns of texts, whatever these look like.
_TEXTS = {
    *("label", "case", "policy", "details", "outcome", "oom_reason", "bound_by", "settled"),
    *("sight", "statistics", "hardware", "workload", "op_time"),
    *("energy_confidence", "cost_confidence"),
    *("path", "now", "least", "why_not"),
    *("name", "kind", "dtype", "module", "phase", "mode"),
}


class Chart:
    """A chart as SVG, which a notebook shows."""

    def __init__(self, name: str, svg: str) -> None:
        self.name, self.svg = name, svg

    def save(self, path: str | Path) -> None:
        """Writes the SVG to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_html_(self) -> str:
        # A declaration before <svg> is for files.
        return self.svg[self.svg.index("<svg") :]

    def __repr__(self) -> str:
        return f"Chart({self.name!r})"


class Page:
    """A page that opens offline; a notebook shows it in a frame."""

    def __init__(self, html: str, height: int = 800) -> None:
        #: The whole page.
        self.html = html
        #: Height of the frame in pixels.
        self.height = height

    def save(self, path: str | Path) -> None:
        """Writes the page to a file."""
        Path(path).write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" width="100%" height="{self.height}" '
            'sandbox="allow-scripts" style="border: 1px solid #ccc"></iframe>'
        )

    def __repr__(self) -> str:
        return f"Page({len(self.html)} characters)"


class Table:
    """Rows of figures, as dicts or as a data frame."""

    def __init__(self, rows: list[Dict]) -> None:
        self.rows = rows

    def to_dicts(self) -> list[Dict]:
        """The rows, one dict each."""
        return self.rows

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas data frame; pandas must be installed."""
        import pandas

        return pandas.DataFrame(self.rows)

    def to_polars(self) -> polars.DataFrame:
        """The rows as a polars data frame; polars must be installed."""
        import polars

        return polars.DataFrame(self.rows, infer_schema_length=None, strict=False)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Dict]:
        return iter(self.rows)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} rows)"

    def _repr_html_(self) -> str:
        return _table(self.rows)


class CsvTable(Table):
    """Rows of a CSV file. Data frames read numbers in the file's own text, so they have its every
    digit. Columns of texts are texts, without the apostrophe that the file has for spreadsheets
    before what looks like a formula."""

    def __init__(self, text: str, texts: Mapping[str, list[Any]] | None = None) -> None:
        #: The file's text.
        self.csv = text
        rows = list(csv.DictReader(io.StringIO(text)))
        super().__init__([_typed(row) for row in rows])
        # Where it is known what was meant, it need not be read.
        for name, values in (texts or {}).items():
            for row, value in zip(self.rows, values):
                row[name] = value
        self._texts = [name for name in self.rows[0] if _is_text(name, texts)] if rows else []

    def to_pandas(self) -> pandas.DataFrame:
        """The table as a pandas data frame; pandas must be installed."""
        import pandas

        typed = dict.fromkeys(self._texts, str)
        # No text means that there is none.
        how: Dict = {"dtype": typed, "keep_default_na": False, "na_values": [""]}
        frame = pandas.read_csv(io.StringIO(self.csv), **how)
        for name in self._texts:
            frame[name] = [row[name] for row in self.rows]
        # Older versions read numbers quicker than exactly.
        for name in map(str, frame.select_dtypes("float")):
            exact = [math.nan if row[name] is None else row[name] for row in self.rows]
            frame[name] = exact
        return frame

    def to_polars(self) -> polars.DataFrame:
        """The table as a polars data frame; polars must be installed."""
        import polars

        typed = dict.fromkeys(self._texts, polars.String)
        how: Dict = {"infer_schema_length": None, "schema_overrides": typed}
        frame = polars.read_csv(io.BytesIO(self.csv.encode()), **how)
        return frame.with_columns(
            polars.Series(name, [row[name] for row in self.rows], dtype=polars.String)
            for name in self._texts
        )


class Answer:
    """What a verb answered.

    ``summary`` is the command's own JSON (for a run ``docs/reference/summary.md``), ``warnings``
    what the lint says, ``failed`` what was expected and does not hold, ``folder`` where the files
    are, ``charts`` the charts by their names.
    """

    def __init__(self, said: _child.Said, folder: Folder) -> None:
        self.summary: Dict = said.json()
        self.warnings: list[Dict] = said.warnings
        self.failed: list[str] = said.failed
        self._folder = folder
        self.folder: Path = folder.path
        names = sorted(path.stem for path in self.folder.glob("*.svg"))
        self.charts: dict[str, Chart] = {
            name: Chart(name, self._file(f"{name}.svg")) for name in names
        }

    #: Names of the chart that stands for all, the first that there is.
    _MAIN: tuple[str, ...] = ()
    #: The file of the table.
    _CSV = ""

    @property
    def chart(self) -> Chart:
        """The chart that says most."""
        for name in (*self._MAIN, *self.charts):
            if name in self.charts:
                return self.charts[name]
        raise LookupError("the command wrote no chart")

    @property
    def table(self) -> CsvTable:
        """The figures, a row each."""
        return CsvTable(self._file(self._CSV))

    def to_dicts(self) -> list[Dict]:
        """The figures, a dict each; what is not there is ``None``."""
        return self.table.to_dicts()

    def to_pandas(self) -> pandas.DataFrame:
        """The figures as a pandas data frame; pandas must be installed."""
        return self.table.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """The figures as a polars data frame; polars must be installed."""
        return self.table.to_polars()

    def _file(self, name: str) -> str:
        # As it is: a CSV ends its lines as it likes.
        return (self.folder / name).read_bytes().decode()

    def _repr_html_(self) -> str:
        return self._said() + self.chart._repr_html_()

    def _said(self) -> str:
        lines = [f"does not hold: {line}" for line in self.failed]
        lines += [f"warning: {told['message']}" for told in self.warnings]
        return "".join(f"<p>{html.escape(line)}</p>" for line in lines)


class Folder:
    """Where a command writes its files: a chosen folder, or one that goes with the answer."""

    def __init__(self, out: str | Path | None) -> None:
        if out is None:
            self.path = Path(tempfile.mkdtemp(prefix="tiersim-"))
            weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        else:
            self.path = Path(out)


class Result(Answer):
    """The results of a run or a sweep: one per case, by position or by label.

    ``result["LRU 75 %"]["step_ms"]["mean"]`` is in milliseconds; every key has its unit in its name
    (``_ms``, ``_bytes``, ``_j``, ``_usd``) and is described in ``docs/reference/summary.md``.
    """

    _MAIN = ("latency-vs-memory", "latency-by-panel", "tpot-vs-memory")
    _CSV = "results.csv"

    @property
    def table(self) -> CsvTable:
        """The figures, a row each; labels as in ``result["LRU 75 %"]``."""
        texts = {"label": [case["label"] for case in self]}
        for axis in dict.fromkeys(axis for case in self for axis in case.get("params") or {}):
            values = [(case.get("params") or {}).get(axis) for case in self]
            if any(isinstance(value, str) for value in values):
                texts[f"param.{axis}"] = values
        return CsvTable(self._file(self._CSV), texts)

    @property
    def results(self) -> list[Dict]:
        """One per case, in the scenario's order; of a sweep one per point and case."""
        results: list[Dict] = self.summary["results"]
        return results

    @property
    def verdict(self) -> list[str]:
        """The sentences above the command's own table."""
        return [f"{said['word']}: {said['text']}" for said in self.summary.get("verdict", [])]

    @property
    def fingerprint(self) -> str:
        """Equal for two results if and only if they ask for the same thing; with policies in Python
        as far as ``docs/howto/python.md`` says."""
        return str(self.summary["fingerprint"])

    @property
    def timeline(self) -> Dict:
        """Every op and copy of one step, in the form that Perfetto opens; times in microseconds. A
        sweep has none."""
        timeline: Dict = json.loads(self._file("timeline.json"))
        return timeline

    def report(self, *, height: int = 800) -> Page:
        """Everything on one page, as ``tiersim report`` makes it; ``height`` of its frame in
        pixels."""
        return _report([self.folder], False, height)

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Dict]:
        return iter(self.results)

    def __getitem__(self, key: int | str) -> Dict:
        if isinstance(key, int):
            return self.results[key]
        for case in self.results:
            if case["label"] == key:
                return case
        raise KeyError(f"{key!r}; there are {', '.join(repr(one['label']) for one in self)}")

    def _figures(self) -> list[Dict]:
        def of(case: Dict, key: str, inner: str) -> Any:
            return (case.get(key) or {}).get(inner)

        return [
            {
                "case": case["label"],
                "mean step, ms": of(case, "step_ms", "mean"),
                of(case, "throughput", "unit") or "tokens/s": of(case, "throughput", "value"),
                "slowdown": case.get("slowdown"),
                "peak HBM, GiB": _gib(of(case, "peak_bytes", "hbm")),
                "out of memory": "yes" if case["oom"] else "",
            }
            for case in self
        ]

    def __repr__(self) -> str:
        # The machine of the best case, and that there are others.
        ranked = sorted(self, key=lambda case: case.get("rank") or math.inf)
        machines = dict.fromkeys(case.get("hardware", self.summary["hardware"]) for case in ranked)
        where = next(iter(machines), self.summary["hardware"])
        if len(machines) > 1:
            where = f"{len(machines)} machines, the best {where}"
        lines = [f"{self.summary['scenario']} on {where}: {len(self)} results"]
        lines += self.verdict
        return "\n".join(lines + [f"does not hold: {line}" for line in self.failed])

    def _repr_html_(self) -> str:
        verdict = "".join(f"<p>{html.escape(line)}</p>" for line in self.verdict)
        return verdict + self._said() + _table(self._figures()) + self.chart._repr_html_()


class Solved(Answer):
    """The answer to an inverse question; ``answer`` is ``None`` if and only if nothing meets the
    conditions."""

    _MAIN = ("solve",)
    _CSV = "solve.csv"

    @property
    def answer(self) -> Any:
        """What was found, as ``docs/howto/solve.md`` describes it: of one path a dict whose
        ``value`` is in the unit of ``summary["unit"]``; with ``fit`` the first of ``changes`` that
        is enough, or the ``case`` that fits as it is."""
        if "changes" not in self.summary:
            return self.summary.get("answer")
        if self.summary["fits_now"] is not None:
            return {"case": self.summary["fits_now"]}
        enough = (change for change in self.summary["changes"] if change["least"] is not None)
        return next(enough, None)

    @property
    def value(self) -> Any:
        """The value of the one path that was asked for, in the unit of ``summary["unit"]``; with
        ``fit`` the text to write at the ``path`` of the answer."""
        answer = self.answer or {}
        return answer.get("least" if "changes" in self.summary else "value")

    def __repr__(self) -> str:
        if "changes" in self.summary:
            return f"{self.summary['scenario']}: {self._least()}"
        if "path" in self.summary:
            return f"{self.summary['path']} = {self.value} {self.summary['unit']}"
        return f"{self.summary['scenario']}: {json.dumps(self.answer)}"


    def _least(self) -> str:
        answer = self.answer
        if answer is None:
            return "no change that was tried is enough"
        if "path" not in answer:
            return f"fits as it is ({answer['case']})"
        return f"fits with {answer['path']} = {answer['least']} in the place of {answer['now']}"


class Explained(Answer):
    """Where the time of a step goes and what would change it; ``docs/howto/explain.md``."""

    _MAIN = ("elasticities", "switches", "split-by-phase")

    @property
    def table(self) -> CsvTable:
        """The critical path; with ``switches=True`` what every switch saves and costs."""
        name = next(path.name for path in sorted(self.folder.glob("*.csv")))
        return CsvTable(self._file(name))

    def __repr__(self) -> str:
        case, step = self.summary["case"], self.summary.get("step_ms")
        return f"{self.summary['scenario']}, {case}: {step} ms a step"


class Comparison(Table):
    """Every figure of two results, case by case.

    Rows have ``case``, ``figure`` (its path in ``summary.json``), the ``first`` and the ``second``
    value, and of two numbers one of these, as the page of ``report`` has them: ``points``, the
    second less the first in points of per cent, of figures that are in per cent or shares (a
    ``hit_ratio`` of 0.85 after 0.8 is 5 points more); ``ratio``, the second over the first, of all
    others. A figure below 0 has no ratio, for -3 over -2 does not say which way it goes, and none
    has a ratio to 0.
    """

    def __init__(self, first: Result, second: Result) -> None:
        self.first, self.second = first, second
        rows: list[Dict] = []
        labels = dict.fromkeys(case["label"] for result in (first, second) for case in result)
        for label in labels:
            one, other = (_leaves_of(result, label) for result in (first, second))
            for figure in dict.fromkeys([*one, *other]):
                a, b = one.get(figure), other.get(figure)
                values = {"first": a, "second": b}
                change = {"ratio": _ratio(figure, a, b), "points": _points(figure, a, b)}
                rows.append({"case": label, "figure": figure, **values, **change})
        super().__init__(rows)

    @property
    def differences(self) -> Table:
        """The rows in which the two differ."""
        return Table([row for row in self.rows if row["first"] != row["second"]])

    def report(self, *, height: int = 800) -> Page:
        """Both on one page with every difference, as ``tiersim report --compare`` makes it."""
        return _report([self.first.folder, self.second.folder], True, height)

    def to_polars(self) -> polars.DataFrame:
        """The rows as a polars data frame, texts as texts; polars must be installed."""
        import polars

        texts = [
            {**row, "first": _text(row["first"]), "second": _text(row["second"])}
            for row in self.rows
        ]
        return polars.DataFrame(texts, infer_schema_length=None)


class Memory(Table):
    """What a job needs by formula, in bytes; rows are its parts. ``docs/howto/memory.md``."""

    def __init__(self, said: _child.Said) -> None:
        self.summary: Dict = said.json()
        self.failed: list[str] = said.failed
        super().__init__(self.summary.get("parts", []))

    @property
    def options(self) -> list[Dict]:
        """With ``fit=...`` the settings that fit, the quickest first: bytes by place and seconds
        per step; else none."""
        options: list[Dict] = self.summary.get("fit", {}).get("options", [])
        return options

    @property
    def gpu_bytes(self) -> int:
        """Bytes of each GPU."""
        return int(self.summary["gpu_bytes"])

    @property
    def cpu_bytes_per_node(self) -> int:
        """Bytes of host memory of each node."""
        return int(self.summary["cpu_bytes_per_node"])

    @property
    def nvme_bytes_per_node(self) -> int:
        """Bytes on drives of each node."""
        return int(self.summary["nvme_bytes_per_node"])

    def __repr__(self) -> str:
        return f"{self.summary['about']}: {self.gpu_bytes} bytes per GPU"


class Machine:
    """A machine in full: tiers, links, routes, and each number with its source. Capacities are
    bytes, rates bytes per second, set-ups picoseconds."""

    def __init__(self, said: _child.Said, svg: str) -> None:
        self.summary: Dict = said.json()
        self.chart = Chart("machine", svg)

    @property
    def name(self) -> str:
        """As scenarios name it."""
        return str(self.summary["name"])

    @property
    def numbers(self) -> Table:
        """Every number with its source."""
        return Table(self.summary["numbers"])

    def _repr_html_(self) -> str:
        return self.chart._repr_html_()

    def __repr__(self) -> str:
        return f"{self.name}: {self.summary['about']}"


class Trace:
    """A trace of memory accesses: what was recorded, and its tables.

    ``objects`` has ``bytes`` and what they are of, ``ops`` has ``duration_ns``, ``flops`` and
    ``bytes``, ``uses`` says which op reads and writes which object; ``docs/reference/traces.md``.
    """

    def __init__(self, path: str, info: Dict, folder: Folder) -> None:
        #: What ``trace=`` of :func:`tiersim.run` takes.
        self.path = path
        #: The header and sums over steps, phases, kinds and modules.
        self.info = info
        self._folder = folder

    @property
    def objects(self) -> CsvTable:
        """What takes memory, in bytes."""
        return self._table("objects")

    @property
    def ops(self) -> CsvTable:
        """What runs, in order."""
        return self._table("ops")

    @property
    def uses(self) -> CsvTable:
        """Which op touches which object, and how."""
        return self._table("uses")

    def _table(self, name: str) -> CsvTable:
        return CsvTable((self._folder.path / f"{name}.csv").read_bytes().decode())

    def __repr__(self) -> str:
        return f"Trace({self.path!r})"


def _report(folders: list[Path], compare: bool, height: int) -> Page:
    with tempfile.TemporaryDirectory(prefix="tiersim-") as out:
        options = ["--compare"] if compare else []
        _child.run(["report", *map(str, folders), *options, "--out", out, "--quiet"])
        return Page((Path(out) / "report.html").read_text(encoding="utf-8"), height)


def _leaves_of(result: Result, label: str) -> Dict:
    try:
        return dict(_leaves(result[label]))
    except KeyError:
        return {}


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Values that hold no others, each with its path."""
    if isinstance(value, (Mapping, list)):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, inner in items:
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# What shares are called, in any place of a path: SHARES of reports/src/report/compared.rs.
_SHARES = {
    "gap_to_bound", "hit_ratio", "kv_hit_ratio", "busy_fraction", "drift", "unpaid",
    "half_width_share", "external_mean", "external_highest", "external_end", "internal_mean",
    "internal_highest", "internal_end", "total_mean", "total_highest", "total_end",
    "compacted_from", "chance",
}


def _point(figure: str) -> float | None:
    """What a point of per cent is in a figure, if it is a share or in per cent."""
    if not _SHARES.isdisjoint(figure.split(".")):
        return 0.01
    return 1.0 if figure.endswith("_percent") else None


def _points(figure: str, first: Any, second: Any) -> float | None:
    """By how many points the second is more, where points say it."""
    point = _point(figure)
    if point is None or not (_number(first) and _number(second)):
        return None
    return (second - first) / point


def _ratio(figure: str, first: Any, second: Any) -> float | None:
    """The second over the first, where that says it: neither is below 0, nor the first 0."""
    if _point(figure) is not None or not (_number(first) and _number(second)):
        return None
    return second / first if first > 0 and second >= 0 else None


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _gib(count: int | None) -> float | None:
    return None if count is None else count / 2**30


def _typed(row: dict[str, str]) -> Dict:
    """Cells as what they look like: nothing, a truth, a whole number, a number, a text; those of
    columns of texts as these."""
    return {key: _said(cell) if key in _TEXTS else _cell(cell) for key, cell in row.items()}


def _is_text(name: str, more: Mapping[str, Any] | None) -> bool:
    return name in _TEXTS or name in (more or {})


def _said(cell: str) -> str | None:
    led = cell[:1] == "'" and cell[1:2] in ("=", "+", "-", "@", "\t", "\r")
    return cell[led:] or None


def _cell(cell: str) -> Any:
    if cell == "":
        return None
    if cell in ("true", "false"):
        return cell == "true"
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            pass
    return cell


def _table(rows: list[Dict]) -> str:
    if not rows:
        return "<p>no rows</p>"
    columns = list(dict.fromkeys(key for row in rows for key in row))
    head = "".join(f"<th>{html.escape(str(column))}</th>" for column in columns)
    lines = (
        "<tr>" + "".join(f"<td>{_shown(row.get(column))}</td>" for column in columns) + "</tr>"
        for row in rows[:_MOST_ROWS]
    )
    more = f"<p>{len(rows) - _MOST_ROWS} rows more</p>" if len(rows) > _MOST_ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>{more}"


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return html.escape(f"{value:,.6g}" if isinstance(value, float) else str(value))
