#!/usr/bin/env python3
"""Times of accelerate and PyTorch when they offload, on the machine it runs on; README.md says which.

Writes OUT_DIR/runs.csv (a line for each quantity) and OUT_DIR/runs.json (every repeat, the machine,
profiles, errors) after each case, and ends within the seconds given, whatever happens.
"""
from book import BOOK, DEV, TINY, machine, now, pages, profiled, repeat, run, sync
import contextlib, itertools, os, tempfile

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
# The collectives of one process need no network.
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")

import accelerate, torch, transformers
import torch.distributed as dist
from accelerate import dispatch_model
from accelerate.hooks import attach_align_device_hook_on_blocks, remove_hook_from_module
from accelerate.utils import OffloadedWeightsLoader, extract_submodules_state_dict, set_module_tensor_to_device
from accelerate.utils.memory import clear_device_cache
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard
from transformers import AutoModelForCausalLM, DynamicCache, LlamaConfig

BF16 = torch.bfloat16
PROMPT, BATCH, SEQUENCE = (16, 2, 32) if TINY else (512, 4, 1024)
# Llama 3.1 8B and Llama 3.2 1B.
INFER = dict(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
             intermediate_size=14336, vocab_size=128256, tie_word_embeddings=False)
TRAIN = dict(INFER, hidden_size=2048, num_hidden_layers=16, intermediate_size=8192, tie_word_embeddings=True)
# As many layers with as many ops, and next to nothing in them: what these take is the thread's.
THREAD = dict(hidden_size=256, num_attention_heads=4, num_key_value_heads=1, intermediate_size=512, vocab_size=1024)
if TINY:
    small = dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, intermediate_size=128, vocab_size=256)
    INFER.update(small)
    TRAIN.update(small, num_hidden_layers=4)

# --- A: accelerate's offloaded inference

def llama(sizes):
    config = LlamaConfig(**sizes, max_position_embeddings=8192, rms_norm_eps=1e-5, attn_implementation="sdpa")
    with torch.device(DEV):
        return AutoModelForCausalLM.from_config(config, dtype=BF16)

class Inference:
    """The model, its weights on the device, and those of the last layers in host memory."""

    def __init__(self, sizes=INFER, prompt=PROMPT):
        self.prompt, self.model = prompt, llama(sizes).eval().requires_grad_(False)
        self.layers = self.model.config.num_hidden_layers
        self.home = {name: parameter.data for name, parameter in self.model.named_parameters()}
        self.host, self.first = {}, {}
        sync()

    def of_layer(self, layer, pinned):
        """The layer's weights in host memory, by full name; made once, each in memory of its own."""
        prefix = f"model.layers.{layer}."
        if not self.first:
            self.first = {n[len(prefix):]: w.cpu() for n, w in self.home.items() if n.startswith(prefix)}
        if (layer, pinned) not in self.host:
            # All layers have the values of one: copying it takes all cores, from the device it takes one.
            self.host[layer, pinned] = {prefix + n: pages(w.shape, BF16, pinned).copy_(w)
                                        for n, w in self.first.items()}
        return self.host[layer, pinned]

    def place(self, offloaded, pinned, hooks):
        """Hands the model to accelerate with the last `offloaded` layers on "cpu"; takes earlier hooks away."""
        model, first = self.model, self.layers - offloaded
        remove_hook_from_module(model, recurse=True)
        weights = dict(self.home)
        for layer in range(first, self.layers):
            weights.update(self.of_layer(layer, pinned))
        for name, weight in weights.items():
            owner, leaf = name.rsplit(".", 1)
            model.get_submodule(owner)._parameters[leaf] = torch.nn.Parameter(weight, requires_grad=False)
        if not hooks:
            return
        device = "cpu" if TINY else 0
        where = dict.fromkeys(["model.embed_tokens", "model.norm", "model.rotary_emb", "lm_head"], device)
        where.update({f"model.layers.{i}": device if i < first else "cpu" for i in range(self.layers)})
        keys, away = model._skip_keys_device_placement, [f"model.layers.{i}" for i in range(first, self.layers)]
        if not TINY:
            # As `from_pretrained(device_map=...)` calls it.
            dispatch_model(model, device_map=where, skip_keys=keys, force_hooks=True)
            return
        # dispatch_model does not offload from a CPU to host memory; this is what it would do.
        attach_align_device_hook_on_blocks(
            model, execution_device={**{n: device for n in where}, "": device}, offload={n: n in away for n in where},
            weights_map=OffloadedWeightsLoader(state_dict=extract_submodules_state_dict(model.state_dict(), away))
            if away else None, skip_keys=keys, tied_params_map={})

    def run(self, ids, cache):
        """One forward; the cache and the next token of each sequence."""
        out = self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return cache, out.logits[:, -1:].argmax(-1)

    def times(self, offloaded, pinned=False, hooks=True, profile=False):
        self.place(offloaded, pinned, hooks)
        quick, state = offloaded == 0 or pinned, {}
        limits = dict(want=12, least=5, seconds=1.5) if quick else dict(want=8, least=2, seconds=3.0)

        def prefill(batch):
            ids = torch.randint(0, self.model.config.vocab_size, (batch, self.prompt), device=DEV)
            state[batch] = self.run(ids, DynamicCache(config=self.model.config))

        def token(batch):
            cache, ids = state[batch]
            state[batch] = self.run(ids, cache)

        # The first pass of all is the warm-up; where a pass takes long, the only one of eight prompts.
        BOOK.put(f"prefill 8 x {self.prompt} first", "s", repeat(lambda: prefill(8), want=1))
        for batch in (8, 1) if quick else (1,):
            BOOK.put(f"prefill {batch} x {self.prompt}", "s", repeat(lambda: prefill(batch), **limits)[quick:])
        for batch in (1, 8):
            BOOK.put(f"decode a token at batch {batch}", "s", repeat(lambda: token(batch), **limits)[quick:])
        BOOK.put("modules with a hook", "count", sum(hasattr(m, "_hf_hook") for m in self.model.modules()))
        if profile:
            profiled(lambda: token(1))

def copies(inference):
    """One layer's matrices alone: the bare copy, and what accelerate's hook does for one weight."""
    layers = range(inference.layers - 4, inference.layers)
    BOOK.put("taking 1 GiB of pinned memory", "s", repeat(lambda: pages(1 << 30), want=1))
    for kind in ("pageable", "pinned"):
        held = [inference.of_layer(layer, kind == "pinned") for layer in layers]
        for matrix in [*(f"self_attn.{x}_proj" for x in "qkvo"), *(f"mlp.{x}_proj" for x in ("gate", "up", "down")),
                       "input_layernorm"]:
            sources = [w[f"model.layers.{i}.{matrix}.weight"] for i, w in zip(layers, held)]
            turn, size, device = itertools.cycle(sources), f"{matrix} of {sources[0].nbytes} B", "cpu" if TINY else 0
            target = torch.empty_like(sources[0], device=DEV)
            target.copy_(sources[0])
            BOOK.put(f"copy in {kind} {size}", "s", repeat(lambda: target.copy_(next(turn)), want=8))
            BOOK.put(f"copy out {kind} {size}", "s", repeat(lambda: next(turn).copy_(target), want=4))
            module = torch.nn.Module()
            module.weight = torch.nn.Parameter(torch.empty_like(sources[0], device="meta"), requires_grad=False)
            load = lambda: set_module_tensor_to_device(module, "weight", device, value=next(turn), tied_params_map={})
            drop = lambda: set_module_tensor_to_device(module, "weight", "meta")
            both = [(*repeat(load, want=1), *repeat(drop, want=1)) for _ in range(9)][1:]
            BOOK.put(f"hook loads {kind} {size}", "s", [t for t, _ in both])
            BOOK.put(f"hook drops {kind} {size}", "s", [t for _, t in both])
    BOOK.put("clear_device_cache with nothing to clear", "s", repeat(clear_device_cache, want=50)[1:])

    def take_and_free(size):
        torch.empty(size, dtype=torch.uint8, device=DEV)
        clear_device_cache()

    for size in sorted({w.nbytes for w in held[0].values()}):
        BOOK.put(f"device memory of {size} B taken and given back to the driver", "s",
                 repeat(lambda: take_and_free(size), want=10, seconds=1.0))

def with_hooks(inference):
    """All on the device but with hooks; and the host time of one hook alone."""
    inference.times(0)
    module = inference.model.model.layers[0].mlp.gate_proj
    x = torch.zeros(1, 1, INFER["hidden_size"], dtype=BF16, device=DEV)

    def both():
        for _ in range(100):
            args, _ = module._hf_hook.pre_forward(module, x)
            module._hf_hook.post_forward(module, args)

    BOOK.put("hook before and after a Linear with nothing to move", "s", [t / 100 for t in repeat(both)])

# --- B: training

def saved(model, state):
    """Bytes that a forward saves for the backward, activations and weights apart."""
    ids = torch.zeros(BATCH, SEQUENCE, dtype=torch.long, device=DEV)
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    sizes = {"activations": [], "weights": []}

    def pack(tensor):
        sizes["weights" if tensor.untyped_storage().data_ptr() in weights else "activations"].append(tensor.nbytes)
        # A tensor that leads back to the op that saves it would keep the whole forward pass for good.
        return tensor.detach()

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        model(input_ids=ids, labels=ids, use_cache=False)
    for kind, found in sizes.items():
        BOOK.put(f"saved for the backward: {kind}", "B", sum(found))
        BOOK.put(f"saved for the backward: tensors of {kind}", "count", len(found))
    state["saved"] = sum(map(sum, sizes.values()))

def steps(optimizer, model, base, batch=BATCH, sequence=SEQUENCE, context=contextlib.nullcontext, warm=2, want=6):
    """Whole steps without waits inside, then forward, backward and optimizer each waited for."""
    ids = torch.randint(0, model.config.vocab_size, (batch, sequence), device=DEV)
    times, kept = {"forward": [], "backward": [], "optimizer": []}, {}
    def forward():
        with context():
            kept["loss"] = model(input_ids=ids, labels=ids, use_cache=False).loss

    def update():
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def step(apart=False):
        for phase, body in zip(times.values(), [forward, lambda: kept.pop("loss").backward(), update]):
            start = now()
            body()
            if apart:
                sync()
                phase.append(now() - start)

    BOOK.put("batch", "sequences", batch)
    BOOK.put("step first ones", "s", repeat(step, want=warm, least=warm))
    if not TINY:
        torch.cuda.reset_peak_memory_stats()
    BOOK.put("step", "s", repeat(step, want=want, least=2, seconds=3.0))
    BOOK.put("device memory at most", "B", torch.cuda.max_memory_allocated() - base)
    BOOK.put("step with waits between its phases", "s", repeat(lambda: step(True), want=want, least=2, seconds=3.0))
    for phase, took in times.items():
        BOOK.put(phase, "s", took)
    profiled(step)

def train_device(kind, state):
    """All on the device; or with activations recomputed, or saved to pinned host memory."""
    base, model = torch.cuda.memory_allocated(), llama(TRAIN).train()
    if kind == "checkpointed":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    BOOK.put("parameters", "count", sum(p.numel() for p in model.parameters()))
    if kind == "device":
        saved(model, state)
    if kind != "saved to host":
        return steps(optimizer, model, base)
    # The first step takes all the pinned memory, which can be longer than all the others together.
    seconds = repeat(lambda: pages(1 << 29), want=1)[0]
    batch = BATCH if state.get("saved", 16e9) * 1.5 / (1 << 29) * seconds < BOOK.left() - 8 else 1
    steps(optimizer, model, base, batch, context=lambda: save_on_cpu(pin_memory=True), warm=1, want=4)

def thread_alone():
    """The same steps, each kind in turn, with next to nothing in their ops."""
    kinds = ["all on the device", "checkpointed", "activations to the host"]
    model = llama(dict(TRAIN, **THREAD)).train()
    optimizer, case = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True), BOOK.current
    for kind in kinds:
        BOOK.current = f"{case}, {kind}"
        if kind == "checkpointed":
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        else:
            model.gradient_checkpointing_disable()
        away = (lambda: save_on_cpu(pin_memory=True)) if kind == kinds[-1] else contextlib.nullcontext
        steps(optimizer, model, torch.cuda.memory_allocated(), 1, 64, away, warm=3, want=16)
    BOOK.current = case

def hooks_alone():
    """accelerate's hooks with half of the layers in pinned memory, and next to nothing in the weights."""
    Inference(dict(INFER, **THREAD), 64).times(16, pinned=True, profile=True)

def train_fsdp(world):
    """FSDP2 with parameters, gradients and optimizer in host memory. A world of 2 is a make-believe: this
    process is its first, and nothing is sent, so half of every weight is copied and the rest is not there."""
    if world == 1:
        store = dist.FileStore(os.path.join(tempfile.mkdtemp(), "store"), 1)
        dist.init_process_group("gloo" if TINY else "nccl", store=store, rank=0, world_size=1)
    else:
        from torch.testing._internal.distributed.fake_pg import FakeStore
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world)
    try:
        base, model, policy = torch.cuda.memory_allocated(), llama(TRAIN).train(), CPUOffloadPolicy(pin_memory=not TINY)
        for part in [*model.model.layers, model]:
            fully_shard(part, offload_policy=policy)
        steps(torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True), model, base, want=4)
    finally:
        dist.destroy_process_group()

# --- C: Adam on the CPU

def cpu_adam():
    count = 10_000 if TINY else 100_000_000
    for dtype, name in [(torch.float32, "fp32"), (BF16, "bf16")]:
        weight = torch.nn.Parameter(torch.zeros(count, dtype=dtype))
        weight.grad = torch.full_like(weight, 1e-3)
        for kind in ("fused", "foreach", "neither"):
            optimizer = torch.optim.AdamW([weight], lr=1e-5, fused=kind == "fused", foreach=kind == "foreach")
            optimizer.step()
            times = repeat(optimizer.step, want=7, least=2, seconds=1.5)
            BOOK.put(f"AdamW {kind} {name}", "s", times)
            BOOK.put(f"AdamW {kind} {name} rate", "parameters/s", [count / t for t in times])

def about():
    machine(transformers=transformers.__version__, accelerate=accelerate.__version__, inference=INFER, training=TRAIN,
            batch=BATCH, sequence=SEQUENCE, prompt=PROMPT)

def main():
    state = {}
    infer = lambda body: lambda: torch.no_grad()(body)(state["inference"])
    # Name, seconds it needs on an H100, and what to run; the most wanted first.
    run([
        ("machine", 0, about),
        ("build the model", 8, lambda: state.update(inference=Inference())),
        ("one layer's copies", 8, infer(copies)),
        ("accelerate: 0 layers and no hooks", 5, infer(lambda i: i.times(0, hooks=False, profile=True))),
        ("accelerate: 0 layers", 5, infer(with_hooks)),
        ("accelerate: 16 layers", 18, infer(lambda i: i.times(16, profile=True))),
        ("accelerate: 16 layers pinned", 8, infer(lambda i: i.times(16, pinned=True, profile=True))),
        ("accelerate: the thread alone", 4, lambda: torch.no_grad()(hooks_alone)()),
        ("train: the thread alone", 6, thread_alone),
        ("train: FSDP2 offloaded", 10, lambda: train_fsdp(1)),
        ("train: all on the device", 4, lambda: train_device("device", state)),
        ("train: checkpointed", 4, lambda: train_device("checkpointed", state)),
        ("train: activations to the host", 10, lambda: train_device("saved to host", state)),
        ("accelerate: 32 layers", 22, infer(lambda i: i.times(32))),
        ("accelerate: 8 layers", 8, infer(lambda i: i.times(8))),
        ("Adam on the CPU", 5, cpu_adam),
        ("train: FSDP2 offloaded as if one of 2", 8, lambda: train_fsdp(2)),
    ])

main()
