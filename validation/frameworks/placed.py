#!/usr/bin/env python3
"""Times of training in PyTorch with modules where hints say, on the machine it runs on; README.md says which.

Records one plain step with `tiersim_record`, so that tiersim can be asked beforehand, then trains with
`tiersim_record.apply`. Writes OUT_DIR/runs.csv, OUT_DIR/runs.json, the recorded traces and the hints.
"""
from book import ARGS, BOOK, DEV, ROOT, TINY, machine, profiled, repeat, run, sync
import json, os, sys, warnings

# Has products give the same sum each time, for the case that compares losses.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
sys.path[:0] = [os.path.join(ROOT, *part) for part in (("python", "src"), ("record", "examples"))]

import torch
import torch.nn.functional as F
import gpt2
from tiersim_record import Recorder, apply

# Name: layers, width and heads of a GPT-2, type of all numbers, sequences and their tokens.
MODELS = {
    "medium fp32": (gpt2.SIZES["medium"], torch.float32, 4, 1024),
    "xl bf16": (gpt2.SIZES["xl"], torch.bfloat16, 4, 1024),
}
# As many layers and ops, and next to nothing in them: what these take is the thread's.
THREADS = {name: ((shape[0], 64, 1), dtype, 1, 16) for name, (shape, dtype, _, _) in MODELS.items()}
if TINY:
    gpt2.VOCABULARY = 128
    MODELS = {name: ((4, 32, 2), dtype, 2, 16) for name, (_, dtype, _, _) in MODELS.items()}
    THREADS = {name: ((4, 16, 1), dtype, 1, 4) for name, (_, dtype, _, _) in MODELS.items()}
STATE = ["weight", "gradient", "optimizer"]

def placements(layers):
    """Name, hints and what follows them; the most wanted first."""
    blocks = {f"h.{i}": "CPU" for i in range(layers)}
    return [
        ("all blocks", blocks, STATE),
        ("half of the blocks", dict(list(blocks.items())[: layers // 2]), STATE),
        ("all moments", {"h": "CPU", "wte": "CPU", "wpe": "CPU", "ln_f": "CPU"}, ["optimizer"]),
        ("every fourth block", dict(list(blocks.items())[::4]), STATE),
        ("all MLPs", {f"{name}.mlp": "CPU" for name in blocks}, STATE),
        ("what half of the blocks keep", dict(list(blocks.items())[: layers // 2]), ["activation"]),
    ]

def write_hints(name, layers):
    """As a scenario reads them."""
    folder = os.path.join(ARGS.out, "hints", name.replace(" ", "-"))
    os.makedirs(folder, exist_ok=True)
    for what, hints, _ in placements(layers):
        with open(os.path.join(folder, what.lower().replace(" ", "-") + ".json"), "w") as file:
            file.write(json.dumps(hints, indent=1) + "\n")

class Training:
    """A model of random weights that learns the same tokens again and again."""

    def __init__(self, shape, dtype, batch, sequence):
        self.batch, self.sequence, self.layers = batch, sequence, shape[0]
        torch.manual_seed(1)
        with torch.device(DEV):
            self.model = gpt2.Gpt2(*shape, tokens=sequence).to(dtype)
            self.ids = torch.randint(gpt2.VOCABULARY, (batch, sequence + 1))
        # Parameter by parameter, so that the recorded update is in as many pieces.
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5, foreach=False, fused=False)

    def step(self):
        logits = self.model(self.ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), self.ids[:, 1:].flatten())
        del logits
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    def record(self, name):
        """One plain step as a trace."""
        out = os.path.join(ARGS.out, "traces", name.replace(" ", "-"))
        with Recorder(self.model, self.optimizer, out, batch=self.batch, sequence=self.sequence, warmup=3, steps=1) as recorder:
            while True:
                self.step()
                if not recorder.step():
                    break

    def times(self, hints=None, kinds=STATE, profile=False):
        """Whole steps without a wait inside; with what hints place elsewhere, if there are some."""
        placed = None if hints is None else apply(self.model, hints, self.optimizer, kinds=kinds)
        # The first ones take the memory, of which pinning takes long.
        BOOK.put("step first ones", "s", repeat(self.step, want=2, least=2))
        before = {} if placed is None else {k: dict(v) for k, v in placed.moved.items()}
        if not TINY:
            torch.cuda.reset_peak_memory_stats()
        took = repeat(self.step, want=5, least=3, seconds=5.0)
        BOOK.put("step", "s", took)
        if not TINY:
            BOOK.put("device memory at most", "B", torch.cuda.max_memory_allocated())
        for tier, moved in ({} if placed is None else placed.moved).items():
            for way, count in moved.items():
                BOOK.put(f"moved {way} of {tier} per step" if way == "out" else f"moved {way} from {tier} per step",
                         "B", (count - before[tier].get(way, 0)) // len(took))
        if profile:
            profiled(self.step)
        if placed is not None:
            placed.remove()

def plain(name, state):
    write_hints(name, MODELS[name][0][0])
    state[name] = Training(*MODELS[name])
    BOOK.put("parameters", "count", sum(p.numel() for p in state[name].model.parameters()))
    state[name].times(profile=True)

def thread(name):
    """Steps with next to nothing in their ops: plain, and with every placement."""
    training, case = Training(*THREADS[name]), BOOK.current
    training.record(f"{name} thread")
    for what, *hints in [("plain",), *placements(training.layers)]:
        BOOK.current = f"{case}, {what}"
        training.times(*hints)
    BOOK.current = case

def same_losses():
    """Five losses with everything elsewhere are those without, to the last bit."""
    def losses(placed):
        training = Training((4, 128, 4), torch.float32, 2, 64) if not TINY else Training((2, 32, 2), torch.float32, 2, 8)
        hints = {"wte": "CPU", "wpe": "CPU", "h": "CPU", "ln_f": "CPU"}
        if placed:
            apply(training.model, hints, training.optimizer, kinds=[*STATE, "activation"])
        found = [training.step().item() for _ in range(5)]
        # What lies on the host would be summed there in another order.
        return found + [p.detach().cpu().tolist() for p in training.model.parameters()]

    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with warnings.catch_warnings(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            warnings.simplefilter("ignore")
            one, again, other = losses(False), losses(False), losses(True)
    finally:
        torch.use_deterministic_algorithms(False)
    BOOK.put("equal numbers of a second plain run", "count", sum(a == b for a, b in zip(one, again)))
    BOOK.put("equal numbers with everything elsewhere", "count", sum(a == b for a, b in zip(one, other)))
    BOOK.put("numbers compared", "count", len(one))
    assert one == again, "the plain run itself does not repeat"
    assert one == other, f"{one[:5]} against {other[:5]}"

def cases():
    state = {}
    yield "machine", 0, lambda: machine(models={name: repr(model) for name, model in MODELS.items()})
    yield "same losses", 3, same_losses
    for name, (shape, *_) in MODELS.items():
        training = lambda name=name: state[name]
        yield f"{name}: plain", 6, lambda name=name: plain(name, state)
        for what, hints, kinds in placements(shape[0]):
            yield (f"{name}: {what}", 8,
                   lambda t=training, h=hints, k=kinds, w=what: t().times(h, k, profile=w == "all blocks"))
        yield f"{name}: record", 8, lambda t=training, name=name: t().record(name)
        yield f"{name}: thread alone", 8, lambda name=name: thread(name)
        yield f"{name}: end", 0, lambda name=name: state.pop(name) and None

run(list(cases()))
