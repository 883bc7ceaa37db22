"""Neural networks: cooperative vectors, their products with matrices, modules.

`vectors` and `views` are what networks are made of, `modules` puts layers together,
`layers` has those without parameters.
"""

from lumijit.hashgrid import HashGridEncoding as HashGridEncoding
from lumijit.hashgrid import PermutoEncoding as PermutoEncoding
from lumijit.nn.layers import Cast as Cast
from lumijit.nn.layers import Exp as Exp
from lumijit.nn.layers import Exp2 as Exp2
from lumijit.nn.layers import LeakyReLU as LeakyReLU
from lumijit.nn.layers import ReLU as ReLU
from lumijit.nn.layers import ScaleAdd as ScaleAdd
from lumijit.nn.layers import Sigmoid as Sigmoid
from lumijit.nn.layers import SinEncode as SinEncode
from lumijit.nn.layers import Tanh as Tanh
from lumijit.nn.layers import TriEncode as TriEncode
from lumijit.nn.modules import HashEncodingLayer as HashEncodingLayer
from lumijit.nn.modules import Linear as Linear
from lumijit.nn.modules import Module as Module
from lumijit.nn.modules import Sequential as Sequential
from lumijit.nn.vectors import CoopVec as CoopVec
from lumijit.nn.vectors import cast as cast
from lumijit.nn.views import MatrixView as MatrixView
from lumijit.nn.views import matvec as matvec
from lumijit.nn.views import pack as pack
from lumijit.nn.views import unpack as unpack
from lumijit.nn.views import view as view

__all__ = [
    "Cast",
    "CoopVec",
    "Exp",
    "Exp2",
    "HashEncodingLayer",
    "HashGridEncoding",
    "LeakyReLU",
    "Linear",
    "MatrixView",
    "Module",
    "PermutoEncoding",
    "ReLU",
    "ScaleAdd",
    "Sequential",
    "Sigmoid",
    "SinEncode",
    "Tanh",
    "TriEncode",
    "cast",
    "matvec",
    "pack",
    "unpack",
    "view",
]
