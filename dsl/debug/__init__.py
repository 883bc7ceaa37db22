"""Looking inside: text from arrays, assertions, live values, diagrams."""
