"""Tensors: arrays of any number of dimensions, as NumPy's."""
