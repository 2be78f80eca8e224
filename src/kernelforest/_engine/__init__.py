"""Compiled loops. Each file is self-contained: arrays, scalars and NamedTuples in, arrays out."""
