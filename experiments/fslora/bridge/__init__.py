"""The paper's algorithm on language models, one file per experiment."""
