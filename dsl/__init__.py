"""lumijit: ordinary Python, traced into megakernels."""
