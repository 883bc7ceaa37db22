"""Learn a picture: a network that returns the colour of each point of the plane.

Points are encoded by grids of growing resolution, whose finer ones share features by a
hash; a small network turns the features into a colour. It learns the Mandelbrot set,
from new random points in each step.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import lumijit as dr
from examples import mandelbrot
from examples.image import pixel_index, to_srgb
from lumijit import llvm, nn
from lumijit.llvm.ad import PCG32, Array2f, Array3f, Float, TensorXf

TITLE = "inverse_network"
SIZE = 240
STEPS = 150
BATCH = 1 << 14

LEVELS = 8
LOOK = mandelbrot.VARIANTS[2]


class Network:
    """A network, and the optimizer of its parameters."""

    def __init__(self, size: int, levels: int = LEVELS) -> None:
        """Make one for pictures of a size."""
        grid = nn.HashGridEncoding(
            Float,
            2,
            n_levels=levels,
            n_features_per_level=4,
            hashmap_size=1 << 14,
            base_resolution=8,
            per_level_scale=max(1, size / 8) ** (1 / (levels - 1)),
        )
        hidden = [nn.Linear(-1, 32), nn.ReLU(), nn.Linear(-1, 32), nn.ReLU()]
        net = nn.Sequential(nn.HashEncodingLayer(grid), *hidden, nn.Linear(-1, 3))
        self.net = nn.pack(net.alloc(TensorXf, 2), layout="training")
        self.opt = dr.opt.Adam(lr=0.01, params=self.net)

    def colours(self, p: Array2f) -> Array3f:
        """Return the sRGB colours of points of the unit square."""
        return Array3f(self.net(nn.CoopVec(p)))

    def picture(self, size: int) -> np.ndarray:
        """Return the colours in the middles of pixels, as rows of sRGB triples."""
        column, row = pixel_index(size, size)
        found = self.colours((Array2f(column, row) + 0.5) / size)
        image = dr.ravel(dr.clip(dr.detach(found), 0, 1))
        return np.asarray(image.numpy()).reshape(size, size, 3)


def truth(p: Array2f) -> Array3f:
    """Return the colours that are to be learned."""
    x, y = llvm.Float(p.x), llvm.Float(p.y)
    count = mandelbrot.escape(
        LOOK.center_x + LOOK.half_width * (2 * x - 1),
        LOOK.center_y + LOOK.half_width * (1 - 2 * y),
        LOOK.iterations,
    )
    return Array3f(to_srgb(mandelbrot.palette(count, LOOK.density, LOOK.phase)))


def wanted(size: int) -> np.ndarray:
    """Return the picture that is to be learned, as rows of sRGB triples."""
    image = mandelbrot.render(size, size, LOOK)
    return np.asarray(image.numpy()).reshape(size, size, 3)


def optimize(network: Network, steps: int, batch: int = BATCH) -> Iterator[float]:
    """Improve the network step by step; yield the loss before each."""
    net, opt = network.net, network.opt
    draws = PCG32(batch)

    @dr.kernel
    def improve() -> Float:
        p = Array2f(draws.next_float32(), draws.next_float32())
        loss = dr.mean(dr.squared_norm(network.colours(p) - truth(p)))
        dr.backward(loss)
        opt.step()
        net.update(opt)
        return loss

    net.update(opt)
    for _ in range(steps):
        yield improve()[0]
