"""Records steps of a PyTorch model as a trace that tiersim replays, and tries placements in it.

``Recorder`` is all that most programs need; the other modules are its parts: ``dispatch`` sees the
ops, ``storages`` follows the memory, ``modules`` says whom an op works for, ``cost`` counts FLOPs
and bytes, ``clock`` takes the time, ``statistics`` reads the optimizer, ``tables`` makes the trace
and ``write`` puts it on disk. ``script`` records a program that was not changed for it. The way
back is ``apply``: modules of a model lie where hints say. Nothing here uses the network.
"""

from .apply import apply
from .recorder import Recorder

__all__ = ["Recorder", "apply"]
__version__ = "0.1.0"
