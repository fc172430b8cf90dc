"""The toy's figures."""
