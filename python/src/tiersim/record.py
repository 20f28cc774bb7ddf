"""The recorder: steps of a PyTorch program as a trace. Needs torch (``pip install torch``).

``tiersim.record.Recorder`` is that of ``docs/howto/recording-a-model.md``.
"""

try:
    from tiersim_record import Recorder, apply
except ModuleNotFoundError as missing:
    if missing.name != "torch":
        raise
    raise ModuleNotFoundError(
        "tiersim.record records PyTorch programs and needs torch; pip install torch", name="torch"
    ) from None

__all__ = ["Recorder", "apply"]
