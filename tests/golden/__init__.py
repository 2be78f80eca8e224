"""Recorded values of other forests, the problems they were recorded on, and the script that records them."""
