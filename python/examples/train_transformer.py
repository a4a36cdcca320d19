"""Trains a small transformer with PyTorch's own allocator and with scatterheap, and compares.

    python train_transformer.py                       # both, each in a process of its own; losses must be equal
    python train_transformer.py --allocator default   # one of them
    python train_transformer.py --record trace.csv --scenario transformer.csv

The last one records every allocation, and writes those of one training step, after some to warm up, as a scenario of
the benchmark of resources. Needs PyTorch and a GPU.
"""

import argparse
import gc
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ALLOCATORS = ("default", "scatterheap")
WARM_UP = 5


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--allocator", choices=ALLOCATORS, help="train with this one only, and print JSON")
    parser.add_argument("--composition", default="default", help="what scatterheap is made of [%(default)s]")
    parser.add_argument("--steps", type=int, default=60, help="training steps [%(default)s]")
    parser.add_argument("--layers", type=int, default=4, help="layers of the model [%(default)s]")
    parser.add_argument("--width", type=int, default=256, help="width of the model [%(default)s]")
    parser.add_argument("--heads", type=int, default=4, help="heads of each layer [%(default)s]")
    parser.add_argument("--batch", type=int, default=32, help="sequences of a step [%(default)s]")
    parser.add_argument("--length", type=int, default=128, help="tokens of a sequence [%(default)s]")
    parser.add_argument("--record", type=pathlib.Path, help="write every allocation to this file")
    parser.add_argument("--scenario", type=pathlib.Path, help="with --record: write one step to this file")
    options = parser.parse_args()
    if options.steps <= WARM_UP:
        parser.error(f"--steps is {options.steps}, but {WARM_UP} steps warm up: use more")
    if options.scenario and not options.record:
        parser.error("--scenario is a part of a recording: give --record FILE too")
    return options


def open_torch(options):
    """PyTorch with the allocator, set so that the same seed gives the same losses, bit by bit."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    try:
        import torch
    except ImportError:
        sys.exit("the example trains with PyTorch, which is not installed: install torch")
    if options.allocator == "scatterheap":
        import scatterheap.torch

        scatterheap.torch.use(options.composition, trace=options.record)
    if not torch.cuda.is_available():
        sys.exit("the example trains on a GPU, and PyTorch finds none: run it where there is one")
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    if hasattr(torch.backends.cuda, "enable_cudnn_sdp"):
        torch.backends.cuda.enable_cudnn_sdp(False)
    return torch


def make_model(torch, options, tokens):
    """A decoder: embeddings, layers of attention and two linear maps, and a linear map to the next token."""
    nn, functional = torch.nn, torch.nn.functional

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.before_attention = nn.LayerNorm(options.width)
            self.projections = nn.Linear(options.width, 3 * options.width)
            self.mixed = nn.Linear(options.width, options.width)
            self.before_maps = nn.LayerNorm(options.width)
            self.maps = nn.Sequential(
                nn.Linear(options.width, 4 * options.width), nn.GELU(), nn.Linear(4 * options.width, options.width)
            )

        def forward(self, states):
            batch, length, width = states.shape
            shape = (batch, length, options.heads, width // options.heads)
            parts = self.projections(self.before_attention(states)).split(width, dim=2)
            query, key, value = (part.view(shape).transpose(1, 2) for part in parts)
            attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            states = states + self.mixed(attended.transpose(1, 2).reshape(batch, length, width))
            return states + self.maps(self.before_maps(states))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(tokens, options.width)
            self.places = nn.Embedding(options.length, options.width)
            self.layers = nn.Sequential(*[Layer() for _ in range(options.layers)])
            self.last = nn.Sequential(nn.LayerNorm(options.width), nn.Linear(options.width, tokens))

        def forward(self, sequence):
            places = torch.arange(sequence.shape[1], device=sequence.device)
            return self.last(self.layers(self.tokens(sequence) + self.places(places)))

    return Model().cuda()


def batches(torch, options, text):
    """Sequences at random places of a text, with the tokens that come next."""
    generator = torch.Generator().manual_seed(2)
    content = torch.tensor(list(text), dtype=torch.int64)
    while True:
        first = torch.randint(len(content) - options.length - 1, (options.batch,), generator=generator)
        rows = torch.stack([content[start : start + options.length + 1] for start in first.tolist()])
        yield rows[:, :-1].cuda(), rows[:, 1:].cuda()


def train(options):
    """Trains, and returns losses, seconds of a step, and what the allocator counted."""
    torch = open_torch(options)
    # It learns to write this program.
    text = pathlib.Path(__file__).read_bytes()
    model = make_model(torch, options, tokens=256)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = batches(torch, options, text)
    losses, times, marks = [], [], []
    gc.collect()
    gc.disable()  # So that what is freed when does not depend on it.
    for step in range(options.steps):
        if step in (WARM_UP, WARM_UP + 1):
            marks.append(recorded(torch, options))
        start = time.perf_counter()
        sequence, following = next(data)
        scores = model(sequence)
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), following.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())  # Waits for the GPU.
        del sequence, following, scores, loss
        times.append(time.perf_counter() - start)
    marks = (marks + [recorded(torch, options)])[:2]
    result = {"losses": losses, "step_seconds": statistics.median(times[WARM_UP:]), "counted": counted(options)}
    if options.scenario:
        from scatterheap import traces

        result["scenario_allocations"] = traces.convert(options.record, options.scenario, *marks)
    return result


def recorded(torch, options):
    """How many calls are recorded so far."""
    if not options.record:
        return 0
    import scatterheap.torch

    torch.cuda.synchronize()
    scatterheap.torch.resource().flush()
    with open(options.record, encoding="utf-8") as file:
        return sum(1 for _ in file) - 1


def counted(options):
    if options.allocator != "scatterheap":
        return {}
    import scatterheap.torch

    return scatterheap.torch.statistics()


def run(allocator):
    """Trains in a process of its own."""
    command = [sys.executable, __file__, *sys.argv[1:], "--allocator", allocator]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if ran.returncode != 0:
        sys.exit(f"training with the allocator {allocator} failed ({ran.returncode}); see what it printed above")
    return json.loads(ran.stdout)


def compare():
    """Trains with each allocator, and says whether the losses are equal."""
    results = {allocator: run(allocator) for allocator in ALLOCATORS}
    for allocator, result in results.items():
        losses = result["losses"]
        milliseconds = 1000 * result["step_seconds"]
        print(f"{allocator:<12} loss {losses[0]:.6f} -> {losses[-1]:.6f}, {milliseconds:.3f} ms a step (median)")
    print("scatterheap counted:", results["scatterheap"]["counted"])
    first, second = (results[allocator]["losses"] for allocator in ALLOCATORS)
    if first[-1] >= first[0]:
        sys.exit("nothing was learnt: the last loss is not below the first")
    different = [step for step, (one, other) in enumerate(zip(first, second)) if one != other]
    if different:
        step = different[0]
        sys.exit(f"losses differ in {len(different)} steps, first in {step}: {first[step]!r} and {second[step]!r}")
    print(f"all {len(first)} losses are equal, bit by bit")


def main():
    options = arguments()
    if options.record:
        options.allocator = "scatterheap"
    if options.allocator:
        print(json.dumps(train(options)))
    else:
        compare()


if __name__ == "__main__":
    main()
