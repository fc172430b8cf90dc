"""The toy's rates."""
