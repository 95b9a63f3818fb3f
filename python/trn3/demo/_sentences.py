"""What the demo embeds by default, and what is published of it."""

from __future__ import annotations

__all__ = ["PUBLISHED", "SENTENCES"]

SENTENCES = (
    # Of the Sentence Transformers documentation, which prints their similarities.
    "The new movie is awesome",
    "The cat sits outside",
    "A man is playing guitar",
    "The dog plays in the garden",
    "The new movie is so great",
    "A woman watches TV",
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
    # Our own; some come in pairs that mean the same.
    "The harbour was quiet when the first ferry left for the islands.",
    "Early in the morning a boat set out from the silent port.",
    "A systolic array passes partial sums from one row to the next.",
    "She put the kettle on and read the letter a second time.",
    "Every floating-point format trades range against precision.",
    "The train to the coast leaves at twenty past seven from platform four.",
    "At 7:20 there is a train to the seaside.",
    "Our neighbours grow tomatoes, beans and far too many courgettes.",
    "When memory is slow, an accelerator waits with most of its units idle.",
    "A fast processor starves if data does not arrive in time.",
    "He repaired the old clock with parts from two broken ones.",
    "Snow closed the pass for three days in the middle of April.",
    "A good test fails for exactly one reason.",
    "The museum keeps its maps in long flat drawers away from the light.",
    "Rounding to nearest, with ties to even, leaves no drift on average.",
    "They walked home along the canal because the last bus had gone.",
    "Copper carries heat better than steel does.",
    "A group of thirty-two numbers can share one scale of a power of two.",
    "The bakery sells out of rye bread before nine o'clock.",
    "Please write down what you expected and what happened instead.",
    "Two rivers meet below the town and flood the meadows each spring.",
    "My grandmother kept bees and could tell their mood by the sound.",
    "Simulators are useful when they say what they do not know.",
)
"""What the demo embeds."""

PUBLISHED = {
    (0, 3): 0.0543,
    (0, 4): 0.8939,
    (0, 5): -0.0502,
    (1, 3): 0.2838,
    (1, 4): -0.0029,
    (1, 5): 0.1310,
    (2, 3): 0.2277,
    (2, 4): -0.0136,
    (2, 5): -0.0327,
    (6, 7): 0.6660,
    (6, 8): 0.1046,
    (7, 8): 0.1411,
}
"""Similarities of pairs of `SENTENCES` as printed in the Sentence Transformers documentation.

https://github.com/huggingface/sentence-transformers, ``README.md`` and
``docs/sentence_transformer/usage/semantic_textual_similarity.rst``.
"""
