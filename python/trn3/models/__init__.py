"""Models: configuration, weights and tokenizers, read from the files that their publishers give out."""

from . import minilm

__all__ = ["minilm"]
