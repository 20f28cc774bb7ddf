"""Records some training steps of a PyTorch model as a trace that tiersim replays.

``Recorder`` is all that most programs need; the other modules are its parts: ``dispatch`` sees the
ops, ``storages`` follows the memory, ``modules`` says whom an op works for, ``cost`` counts FLOPs
and bytes, ``clock`` takes the time, ``statistics`` reads the optimizer, ``tables`` makes the trace
and ``write`` puts it on disk. Nothing here uses the network.
"""

from .recorder import Recorder

__all__ = ["Recorder"]
__version__ = "0.1.0"
