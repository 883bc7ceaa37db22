"""Recovers a texture, shapes and a picture: `python -m examples.inverse`.

Owns the command line, the progress bars and the files: for each problem, what was
seen before and after beside the target, and a plot of the losses.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from tqdm import tqdm

from examples import inverse_network, inverse_shape, inverse_texture
from examples.image import quantize

Pixels = np.ndarray
COLOURS = ("#b4462f", "#2f6db4")


@dataclass(frozen=True)
class Outcome:
    """What became of one problem."""

    title: str
    # Rows of pictures: what was seen before and after, and the target.
    rows: list[list[Pixels]]
    losses: dict[str, list[float]]


def watched(title: str, steps: int, losses: Iterable[float]) -> list[float]:
    """Collect the losses of an optimization, under a progress bar."""
    found = []
    with tqdm(losses, desc=title, total=steps, mininterval=0.2) as bar:
        for loss in bar:
            found.append(loss)
            bar.set_postfix(loss=f"{loss:.2e}", refresh=False)
    return found


def recover_texture(size: int, steps: int) -> Outcome:
    """Recover the texture of a globe."""
    problem = inverse_texture
    opt = problem.begin()
    before = problem.picture(opt["texels"], size)
    losses = watched(problem.TITLE, steps, problem.optimize(opt, size, steps))
    pictures = [before] + [
        problem.picture(texels, size) for texels in (opt["texels"], problem.truth())
    ]
    return Outcome(problem.TITLE, [pictures], {"texture": losses})


def recover_shapes(size: int, steps: int) -> Outcome:
    """Recover a shape twice: as spheres and as a grid."""
    problem = inverse_shape
    rows, losses = [], {}
    for name, opt in problem.begin().items():
        rows.append([problem.picture(opt["shape"], size)])
        steps_of = problem.optimize(opt, size, steps)
        losses[name] = watched(f"{problem.TITLE} ({name})", steps, steps_of)
        rows.append([problem.picture(opt["shape"], size)])
    rows.append([problem.picture(problem.Balls.of(problem.TARGET), size)])
    return Outcome(problem.TITLE, rows, losses)


def learn_picture(size: int, steps: int) -> Outcome:
    """Have a network learn a picture."""
    problem = inverse_network
    network = problem.Network(size)
    before = network.picture(size)
    losses = watched(problem.TITLE, steps, problem.optimize(network, steps))
    pictures = [before, network.picture(size), problem.wanted(size)]
    return Outcome(problem.TITLE, [pictures], {"network": losses})


def mosaic(rows: list[list[Pixels]], gap: int = 4) -> Image.Image:
    """Put pictures of one size side by side, and rows of them below each other."""
    height, width = rows[0][0].shape[:2]
    columns = max(map(len, rows))
    size = (columns * (width + gap) - gap, len(rows) * (height + gap) - gap)
    made = Image.new("RGB", size, "white")
    for y, row in enumerate(rows):
        for x, pixels in enumerate(row):
            place = (x * (width + gap), y * (height + gap))
            made.paste(Image.fromarray(quantize(pixels)), place)
    return made


def plot(
    losses: dict[str, list[float]], width: int = 480, height: int = 300
) -> Image.Image:
    """Draw losses by steps, on a logarithmic scale."""
    left, right, top, bottom = 52, width - 12, 12, height - 30
    made = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(made)
    logs = {k: np.log10(np.maximum(v, 1e-12)) for k, v in losses.items()}
    high = int(np.ceil(max(v.max() for v in logs.values())))
    low = int(np.floor(min(v.min() for v in logs.values())))
    last = max(len(v) for v in logs.values()) - 1

    def place(step: float, log: float) -> tuple[float, float]:
        x = left + (right - left) * step / max(last, 1)
        return x, top + (bottom - top) * (high - log) / max(high - low, 1)

    for power in range(low, high + 1):
        _, y = place(0, power)
        draw.line([(left, y), (right, y)], fill="#dddddd")
        draw.text((8, y - 6), f"1e{power:+d}", fill="black")
    draw.line([(left, top), (left, bottom), (right, bottom)], fill="black")
    for step in sorted({0, last // 2, last}):
        x, _ = place(step, low)
        draw.text((x - 6, bottom + 4), str(step), fill="black")
    draw.text((left + 60, bottom + 16), "steps", fill="black")
    for k, ((name, log), ink) in enumerate(zip(logs.items(), COLOURS, strict=False)):
        draw.line([place(i, v) for i, v in enumerate(log)], fill=ink, width=2)
        draw.text((right - 90, top + 6 + 14 * k), f"loss: {name}", fill=ink)
    return made


PROBLEMS = {
    inverse_texture.TITLE: (recover_texture, inverse_texture),
    inverse_shape.TITLE: (recover_shapes, inverse_shape),
    inverse_network.TITLE: (learn_picture, inverse_network),
}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="examples.inverse", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of PNGs")
    parser.add_argument("--size", type=int, help="width in pixels, for all pictures")
    parser.add_argument("--steps", type=int, help="steps of each optimization")
    parser.add_argument(
        "--only", choices=list(PROBLEMS), help="solve this problem alone"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> list[Outcome]:
    """Solve the problems, write their PNGs and return what became of them."""
    options = parse(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for title, (recover, module) in PROBLEMS.items():
        if options.only not in (None, title):
            continue
        outcome = recover(options.size or module.SIZE, options.steps or module.STEPS)
        outcomes.append(outcome)
        mosaic(outcome.rows).save(options.out / f"{title}.png", optimize=True)
        plot(outcome.losses).save(options.out / f"{title}_loss.png", optimize=True)
        for name, losses in outcome.losses.items():
            print(f"{title} ({name}): loss {losses[0]:.2e} to {losses[-1]:.2e}")
    return outcomes


if __name__ == "__main__":
    main()
