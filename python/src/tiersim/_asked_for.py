"""What a policy is told from another by: a hash of its code and of what it holds.

Code is what is compiled: of the class and of those that it inherits from, with the globals that
their methods read. So it is there in notebooks too, and is what runs, whatever a file says by now.
What is held is what pickle would keep of it. Of what Python and installed packages bring, the name
counts. Invariant: no address, no order of a set and no text that is shortened gets into the hash;
what has no other form is left out, and a warning says so.
"""

from __future__ import annotations

import dis
import hashlib
import sys
import types
import warnings
from pathlib import Path
from typing import Any, Iterable, Iterator

from .errors import FingerprintWarning

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented))
#: What of a class is not what its author wrote.
_OF_CLASS = (types.MemberDescriptorType, types.GetSetDescriptorType)
_MISSING = object()


def hash_of(policy: Any, held: Any) -> str:
    """A hash of a policy's class and of what it holds."""
    hashing = _Hashing()
    digest = hashing.of([type(policy), held])
    if hashing.unknown:
        warnings.warn(
            f"the fingerprint knows nothing of {', '.join(sorted(hashing.unknown))} in "
            f"{type(policy).__name__}: results of different ones look alike by it; hold plain "
            "values, arrays and objects that can be pickled",
            FingerprintWarning,
            stacklevel=6,
        )
    return digest.hex()


class _Hashing:
    def __init__(self) -> None:
        self.known: dict[int, bytes] = {}
        #: What is looked into, outermost first: a circle is how far back it leads.
        self.inside: list[int] = []
        #: Values by whose address something is known.
        self.kept: list[Any] = []
        #: What has no form, by its type.
        self.unknown: set[str] = set()

    def of(self, value: Any) -> bytes:
        """The hash of a value."""
        if type(value) in _PLAIN:
            return _hash(type(value).__name__, [repr(value).encode()])
        at = id(value)
        if at in self.known:
            return self.known[at]
        if at in self.inside:
            return _hash("circle", [str(len(self.inside) - self.inside.index(at)).encode()])
        self.kept.append(value)
        self.inside.append(at)
        try:
            digest = _hash(*self._parts(value))
        except Exception as error:
            kind = type(value).__qualname__
            self.unknown.add(f"{kind} ({error})")
            digest = _hash("unknown", [kind.encode()])
        finally:
            self.inside.pop()
        self.known[at] = digest
        return digest

    def _all(self, values: Iterable[Any]) -> Iterator[bytes]:
        return map(self.of, values)

    def _parts(self, value: Any) -> tuple[str, Iterable[bytes]]:
        """What a value is, and the hashes of what it consists of."""
        kind = type(value)
        if kind in (list, tuple):
            return kind.__name__, self._all(value)
        if kind in (dict, types.MappingProxyType):
            return "dict", self._all([part for pair in value.items() for part in pair])
        if isinstance(value, (set, frozenset)):
            return "set", [self.of(kind.__name__), *sorted(self._all(value))]
        if isinstance(value, type):
            return self._class(value)
        if kind is types.FunctionType:
            return self._function(value)
        if kind is types.CodeType:
            return self._code(value)
        if kind is types.ModuleType:
            return "module", [self.of(value.__name__)]
        if kind in (staticmethod, classmethod):
            return kind.__name__, [self.of(value.__func__)]
        if kind is property:
            return "property", self._all([value.fget, value.fset, value.fdel])
        if isinstance(wrapped := getattr(value, "__wrapped__", None), types.FunctionType):
            return "wrapped", [self.of(kind.__qualname__), self.of(wrapped)]
        if _is_buffer(kind) and "O" not in (view := memoryview(value)).format:
            return "array", self._all([kind.__name__, view.format, view.shape, view.tobytes()])
        return self._kept_of(value)

    def _kept_of(self, value: Any) -> tuple[str, Iterable[bytes]]:
        """What pickle keeps of an object."""
        kept = value.__reduce_ex__(4)
        if isinstance(kept, str):
            return "global", self._all([getattr(value, "__module__", None), kept])
        make, arguments, state, *items = (*kept, None, None, None)[:5]
        if type(state) is dict and all(type(name) is str for name in state):
            state = sorted(state.items())
        inner = [None if some is None else list(some) for some in items]
        return "object", self._all([make, arguments, state, *inner])

    def _class(self, kind: type) -> tuple[str, Iterable[bytes]]:
        name = f"{kind.__module__}.{kind.__qualname__}"
        if _is_installed(kind.__module__):
            return "class", [self.of(name)]
        members = [
            (name, member)
            for name, member in sorted(vars(kind).items())
            if not isinstance(member, _OF_CLASS)
            and (not name.startswith("__") or isinstance(member, types.FunctionType))
            and name not in ("_abc_impl", "__annotate__", "__annotate_func__")
        ]
        return "class", self._all([kind.__qualname__, *kind.__mro__[1:], members])

    def _function(self, function: types.FunctionType) -> tuple[str, Iterable[bytes]]:
        if _is_installed(function.__module__):
            return "function", self._all([function.__module__, function.__qualname__])
        cells = [_contents(cell) for cell in function.__closure__ or ()]
        named = [(name, value) for name, value in _read(function) if value is not _MISSING]
        given = [function.__defaults__, function.__kwdefaults__]
        return "function", self._all([function.__code__, *given, cells, named])

    def _code(self, code: types.CodeType) -> tuple[str, Iterable[bytes]]:
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        runs = (code.co_flags, code.co_code, getattr(code, "co_exceptiontable", b""))
        return "code", self._all([counts, runs, code.co_consts, names])


def _hash(tag: str, parts: Iterable[bytes]) -> bytes:
    whole = hashlib.sha256(tag.encode())
    for part in parts:
        whole.update(len(part).to_bytes(8, "big") + part)
    return whole.digest()


def _is_buffer(kind: type) -> bool:
    # Not of a subclass, which may hold more than its bytes.
    named = (kind.__module__, kind.__qualname__)
    return named in [("numpy", "ndarray"), ("array", "array")] or kind in (bytearray, memoryview)


def _is_installed(module: str | None) -> bool:
    """Whether a module comes with Python or a package."""
    if module is None:
        return False
    root = module.partition(".")[0]
    if root in ("tiersim", *sys.builtin_module_names) or root in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is not None and not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # Nothing is in it yet.


def _read(function: types.FunctionType) -> list[tuple[str, Any]]:
    """The globals that a function reads, and what it reads of modules that are no package's."""
    found: dict[str, Any] = {}
    attributes: set[str] = set()
    for code in _codes(function.__code__):
        for step in dis.get_instructions(code):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                found[step.argval] = function.__globals__.get(step.argval, _MISSING)
            elif step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                attributes.add(step.argval)
    for name, value in list(found.items()):
        if isinstance(value, types.ModuleType) and not _is_installed(value.__name__):
            own = vars(value)
            found.update((f"{name}.{of}", own.get(of, _MISSING)) for of in attributes)
    return sorted(found.items(), key=lambda item: item[0])


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _codes(inner)
