"""What type checkers refuse: the lines that end in "# wrong", and no others."""

import lumijit as dr
from lumijit.llvm import Array2f, Array3f, Array3u, Bool, Float, Float128, Int  # wrong

f, i, v = Float(1), Int(1), Array3f(1)


def length(p: Array3f) -> Float:
    return dr.norm(p)


def shorter(p: Array3f) -> Array3f:
    return dr.norm(p)  # wrong


Array2f(1) + v  # wrong
f.x  # wrong
Array2f(1).z  # wrong
v.xq  # wrong
v.x = "1"  # wrong
f // 2  # wrong
i / i  # wrong
f << 1  # wrong
f & f  # wrong
v + "1"  # wrong
v + 1j  # wrong
v + [f, "1"]  # wrong
length(f)  # wrong
length(v < 1)  # wrong
length(Array3u(1))  # wrong
dr.sin("1")  # wrong
dr.maximum(f, "1")  # wrong
dr.dot(v, Array2f(1))  # wrong
dr.sinus(f)  # wrong
dr.zeros("Float")  # wrong
Bool(True) + Bool(True)  # wrong
f.numpy() + 1
