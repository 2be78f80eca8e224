"""The paper, runnable: every figure and table of Olson and Wyner (2018) as an experiment with claims that can be tested."""
