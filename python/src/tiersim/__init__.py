"""tiersim: what a step costs when memory has tiers.

>>> import tiersim
>>> result = tiersim.run("gpt2-lru-budgets", set={"seed": 7})
>>> result.to_pandas()[["label", "step_ms_mean", "slowdown"]]

In a notebook ``result`` shows its verdict, its table and its chart, and ``result.report()`` the
whole page for a design review. :func:`scenarios` and :func:`hardware` list what ships;
:mod:`tiersim.ron` builds scenarios from Python objects; :mod:`tiersim.record` records PyTorch
programs and needs torch.
"""

from . import ron
from .errors import (
    Diagnostic,
    Error,
    ExpectationError,
    ExpectationWarning,
    Fault,
    FingerprintWarning,
    PolicyError,
)
from .plan import Plan
from .policy import HBM, Policy, Setting, Step
from .results import (
    Answer,
    Chart,
    Comparison,
    CsvTable,
    Explained,
    Machine,
    Memory,
    Page,
    Result,
    Solved,
    Table,
    Trace,
)
from .ron import Scenario
from .verbs import (
    compare,
    explain,
    hardware,
    load_trace,
    memory,
    run,
    scenario,
    scenarios,
    solve,
    sweep,
)

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Chart",
    "Comparison",
    "CsvTable",
    "Diagnostic",
    "Error",
    "ExpectationError",
    "ExpectationWarning",
    "Explained",
    "Fault",
    "FingerprintWarning",
    "Machine",
    "Memory",
    "HBM",
    "Page",
    "Plan",
    "Policy",
    "PolicyError",
    "Result",
    "Scenario",
    "Setting",
    "Solved",
    "Step",
    "Table",
    "Trace",
    "compare",
    "explain",
    "hardware",
    "load_trace",
    "memory",
    "ron",
    "run",
    "scenario",
    "scenarios",
    "solve",
    "sweep",
]
