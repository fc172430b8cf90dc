"""The paper is imported where it is installed, by tests/test_sixth_paper.py, and not from here."""

collect_ignore_glob = ["fedprox/*"]
