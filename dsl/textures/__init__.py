"""Textures: grids of texels, looked up at any position."""
