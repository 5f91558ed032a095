#!/usr/bin/env python3
"""torch_step.py -- a training step of ./train beside the same step in PyTorch, on one core.

The model is ./train's `small`: LLaMA-like, 8 layers, D 512, 8 heads over 4 for keys and values of
size 64, F 1536, V 256, an output head of its own; 8 sequences of 256 tokens; cross-entropy,
gradients clipped at norm 1, AdamW. Both take turns, round by round, pinned to the same core with
one thread each, so that both see the same weather; a figure is the median over all steps but the
first of each turn. bf16: PyTorch's autocast, and ./train --dtype bf16 where it has that.

Prints tokens/s of both and their ratio (ours over PyTorch's). Exit status: 0 good, 1 the two did
not compute the same number of parameters, 2 bad options, 77 PyTorch is not installed.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

LAYERS, D, HEADS, KV_HEADS, H, F, V = 8, 512, 8, 4, 64, 1536, 256


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--train", default="./train", help="our program (default ./train)")
    parser.add_argument("--machine", required=True, help="machine file: saves calibrating it")
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16"])
    parser.add_argument("--batch", type=int, default=8, help="sequences (default 8)")
    parser.add_argument("--seq", type=int, default=256, help="tokens a sequence (default 256)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each (default 3)")
    parser.add_argument("--steps", type=int, default=3, help="timed steps a turn (default 3)")
    parser.add_argument("--json", help="append a JSON line with the figures to this file")
    return parser.parse_args()


def pin():
    """To the last core that this process may use; children inherit it."""
    cpu = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpu})
    return cpu


def make_model(torch):
    """Modules of PyTorch, as its users write them."""
    nn, functional = torch.nn, torch.nn.functional

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(D))

        def forward(self, x):
            scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5)
            return x * scale * self.gain

    def turn(x, cosine, sine):
        low, high = x.chunk(2, dim=-1)
        return torch.cat((low * cosine - high * sine, high * cosine + low * sine), dim=-1)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_norm, self.ffn_norm = Norm(), Norm()
            self.q = nn.Linear(D, HEADS * H, bias=False)
            self.k = nn.Linear(D, KV_HEADS * H, bias=False)
            self.v = nn.Linear(D, KV_HEADS * H, bias=False)
            self.o = nn.Linear(HEADS * H, D, bias=False)
            self.gate = nn.Linear(D, F, bias=False)
            self.up = nn.Linear(D, F, bias=False)
            self.down = nn.Linear(F, D, bias=False)

        def attend(self, x, cosine, sine, mask):
            batch, seq, _ = x.shape
            q = turn(self.q(x).view(batch, seq, HEADS, H).transpose(1, 2), cosine, sine)
            k = turn(self.k(x).view(batch, seq, KV_HEADS, H).transpose(1, 2), cosine, sine)
            v = self.v(x).view(batch, seq, KV_HEADS, H).transpose(1, 2)
            k = k.repeat_interleave(HEADS // KV_HEADS, dim=1)
            v = v.repeat_interleave(HEADS // KV_HEADS, dim=1)
            scores = q @ k.transpose(2, 3) / H**0.5 + mask
            weights = functional.softmax(scores.float(), dim=-1).type_as(v)
            return self.o((weights @ v).transpose(1, 2).reshape(batch, seq, HEADS * H))

        def forward(self, x, cosine, sine, mask):
            x = x + self.attend(self.attention_norm(x), cosine, sine, mask)
            h = self.ffn_norm(x)
            return x + self.down(functional.silu(self.gate(h)) * self.up(h))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(V, D)
            self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
            self.norm = Norm()
            self.head = nn.Linear(D, V, bias=False)

        def forward(self, tokens, targets):
            seq = tokens.shape[1]
            angles = torch.outer(
                torch.arange(seq).float(), 10000.0 ** (-torch.arange(0, H, 2).float() / H)
            )
            mask = torch.full((seq, seq), float("-inf")).triu(1)
            x = self.embed(tokens)
            for block in self.blocks:
                x = block(x, angles.cos(), angles.sin(), mask)
            logits = self.head(self.norm(x)).float()
            return functional.cross_entropy(logits.view(-1, V), targets.reshape(-1))

    torch.manual_seed(1)
    return Model()


def torch_turn(torch, model, optimizer, args):
    """Seconds of each step of a turn, the first left out."""
    times = []
    for _ in range(args.steps + 1):
        text = torch.randint(V, (args.batch, args.seq + 1))
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.dtype == "bf16"):
            loss = model(text[:, :-1], text[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(time.perf_counter() - begin)
    return times[1:]


def our_turn(args, dtype_flags):
    """Seconds of each step of a turn, the first left out, and the parameters."""
    with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as log:
        command = [args.train, "--model", "small", "--untied", "--strategy", "dp:1"]
        command += ["--batch", str(args.batch), "--seq", str(args.seq), "--machine", args.machine]
        command += ["--steps", str(args.steps + 1), "--log", log.name] + dtype_flags
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            sys.exit("torch_step: %s fails:\n%s" % (" ".join(command), done.stdout.decode()))
        records = [json.loads(line) for line in log]
    times = [r["step_s"] for r in records if r["record"] == "step"]
    return times[1:], records[0]["model"]["parameters"]


def dtype_flags(args):
    """What tells ./train the type; None when it cannot."""
    text = subprocess.run([args.train, "--help"], stdout=subprocess.PIPE, check=True).stdout
    if b"--dtype" in text:
        return ["--dtype", args.dtype]
    return [] if args.dtype == "f32" else None


def main():
    args = options()
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    cpu = pin()
    try:
        import torch  # pylint: disable=import-outside-toplevel
    except ImportError:
        print("skipped: PyTorch is not installed for %s" % sys.executable)
        return 77
    torch.set_num_threads(1)
    flags = dtype_flags(args)
    model = make_model(torch)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1
    )
    ours, theirs, parameters = [], [], None
    for _ in range(args.rounds):
        theirs += torch_turn(torch, model, optimizer, args)
        if flags is not None:
            times, parameters = our_turn(args, flags)
            ours += times
    n_parameters = sum(p.numel() for p in model.parameters())
    if parameters not in (None, n_parameters):
        print("PyTorch's model has %d parameters, ours %d" % (n_parameters, parameters))
        return 1
    report(args, torch.__version__, cpu, n_parameters, ours, theirs)
    return 0


def report(args, version, cpu, n_parameters, ours, theirs):
    tokens = args.batch * args.seq
    result = {"dtype": args.dtype, "tokens": tokens, "parameters": n_parameters}
    print(
        "%s, %d parameters, %d x %d tokens a step, one thread on CPU %d, median of %d steps"
        % (args.dtype, n_parameters, args.batch, args.seq, cpu, len(theirs))
    )
    for name, times in (("PyTorch %s" % version, theirs), ("purlin", ours)):
        if not times:
            print("%-18s not measured: ./train has no --dtype" % name)
            continue
        step_s = statistics.median(times)
        rate = 6.0 * n_parameters * tokens / step_s
        print(
            "%-18s %8.1f tokens/s  %8.4f s a step (least %.4f)  %6.1f GFLOP/s (6 N D, attention"
            " left out)" % (name, tokens / step_s, step_s, min(times), 1e-9 * rate)
        )
        result[name.split(" ", maxsplit=1)[0].lower() + "_tokens_per_s"] = tokens / step_s
    if ours:
        result["ratio"] = statistics.median(theirs) / statistics.median(ours)
        print("ratio, ours over PyTorch's: %.3f" % result["ratio"])
    if args.json:
        with open(args.json, "a", encoding="utf-8") as out:
            out.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    sys.exit(main())
