"""Simulated endpoints: a small model behind four wire formats, honest and unfaithful. See README.md."""
