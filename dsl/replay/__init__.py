"""`@kernel`: a function's launches recorded once and replayed."""
