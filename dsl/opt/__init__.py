"""Optimizers: from gradients to better parameters.

`optimizer` holds `parameters` and takes steps, `methods` says how each method steps,
`scaling` keeps small gradients of half precision from vanishing.
"""

from lumijit.opt.methods import SGD as SGD
from lumijit.opt.methods import Adam as Adam
from lumijit.opt.methods import AdamW as AdamW
from lumijit.opt.methods import RMSProp as RMSProp
from lumijit.opt.optimizer import Optimizer as Optimizer
from lumijit.opt.scaling import GradScaler as GradScaler

__all__ = ["SGD", "Adam", "AdamW", "GradScaler", "Optimizer", "RMSProp"]
