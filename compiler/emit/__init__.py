"""How LLVM IR is written, value by value: types, instructions, math functions."""
