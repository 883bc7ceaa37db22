"""Random programs of the patterns that once went wrong, against plain Python.

`writer` draws a program's text, `plain` runs it lane by lane without lumijit, `check`
runs it vectorized in every mode and compares, `shrink` makes it small. Run as
`python -m tests.fuzz --count 10000 --pattern local,objects --seed 1`.
"""
