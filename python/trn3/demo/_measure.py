"""Running the encoder in each format and holding it against the reference; the figures as plain data."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trn3 import kernels
from trn3.errors import Trn3Error
from trn3.models import minilm, reference
from trn3.nki import RunOptions
from trn3.report import Report
from trn3.system import Run, run

from ._formats import FORMATS
from ._sentences import PUBLISHED, SENTENCES

__all__ = ["run_demo", "unwritable"]

LAUNCH_TOKENS = 1024
"""Tokens of a launch, padding included: what the kernel has room for in SBUF in float32."""

_PAIRS_MAX = 8

Progress = Callable[[str], None]
Doubles = npt.NDArray[np.float64]


def run_demo(
    sentences: Sequence[str] | None = None,
    formats: Sequence[str] = tuple(FORMATS),
    out: str | os.PathLike[str] = "out",
    weights: str | os.PathLike[str] | None = None,
    layers: int | None = None,
    progress: Progress = lambda step: None,
    overrides: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Run the demo and return its figures.

    Parameters
    ----------
    sentences : sequence of str, optional
        What to embed; by default `SENTENCES`.
    formats : sequence of str
        Names in `FORMATS`.
    out : path
        Directory for the Perfetto traces; made if it is not there.
    weights : path, optional
        Weights file or its directory; by default the installed package's.
    layers : int, optional
        Encoder layers to run, from the first on; by default all.
    progress : callable
        Told what is being done.
    overrides : mapping of str to object, optional
        Values in place of the hardware table's; see `trn3.RunOptions`.

    Returns
    -------
    dict
        Plain data: the workload, similarities of pairs, the error of float32 NumPy, and under ``formats`` for each the
        errors (relative L2 to float64) and times of each layer, utilisation, bytes, host seconds.

    Raises
    ------
    FileFormatError
        The model's files are missing or damaged.
    SpecError
        A value cannot take the place of the hardware table's.
    Trn3Error
        A format has no such name; the model has not so many layers; there is no sentence, or one without words; the
        directory cannot be written.
    """
    start = time.perf_counter()
    unknown = [name for name in formats if name not in FORMATS]
    if unknown or not formats:
        raise Trn3Error(f"demo: format {', '.join(unknown) or '(none)'}: not one of {', '.join(FORMATS)}; name some")
    options = RunOptions(overrides=overrides or {})
    progress("reading the model")
    config = minilm.load_config(weights)
    count = config.num_hidden_layers if layers is None else layers
    if not 0 <= count <= config.num_hidden_layers:
        raise Trn3Error(f"demo: {count} layers: the model has {config.num_hidden_layers}; name 0 to as many")
    directory = _made(Path(out))
    given = SENTENCES if sentences is None else tuple(sentences)
    tokens = minilm.tokenize(given, weights)
    model = minilm.load_weights(weights, count)
    host, exact, host_s = _references(model, config, tokens, progress)
    measured = [_Measurement(name, model, config, tokens, exact) for name in formats]
    for each in measured:
        each.run(options, progress)
        each.write_trace(directory)
    embeddings = {"host": host.sentences} | {each.name: each.sentences for each in measured}
    results = [each.figures() for each in measured]
    published = PUBLISHED if given == SENTENCES and count == config.num_hidden_layers else {}
    return {
        "model": "all-MiniLM-L6-v2",
        "target": results[0]["target"],
        "layers": count,
        "sentences": list(given),
        "tokens": int(tokens.lengths.sum()),
        "length": tokens.length,
        "padded_tokens": tokens.ids.size,
        "launches": measured[0].launches,
        "cut": {str(number + 1): had for number, had in tokens.cut.items()},
        "pairs": _pairs(embeddings, published),
        "host": {
            "layers": [_relative_error(a, b) for a, b in zip(host.hidden, exact.hidden, strict=True)],
            "error": _relative_error(host.sentences, exact.sentences),
            "reference_s": host_s,
        },
        "formats": results,
        "passed": all(result["passed"] for result in results),
        "host_s": time.perf_counter() - start,
    }


def _made(directory: Path) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(directory, error) from None
    return directory


def unwritable(path: Path, error: OSError) -> Trn3Error:
    """Return the error for a place that cannot be written."""
    return Trn3Error(f"demo: {path}: cannot be written ({error.strerror or error}); name another place")


def _references(
    model: minilm.Weights, config: minilm.Config, tokens: minilm.Tokens, progress: Progress
) -> tuple[reference.Encoded, reference.Encoded, float]:
    """Return the encoder in float32 and in float64 with NumPy, and the host seconds of float32."""
    progress("NumPy in float32")
    start = time.perf_counter()
    host = reference.encode(model, config, tokens, np.float32)
    host_s = time.perf_counter() - start
    progress("NumPy in float64")
    return host, reference.encode(model, config, tokens, np.float64), host_s


class _Measurement:
    """One format: its runs, and its distance from the reference."""

    def __init__(
        self, name: str, model: minilm.Weights, config: minilm.Config, tokens: minilm.Tokens, exact: reference.Encoded
    ) -> None:
        self.name, self.format = name, FORMATS[name]
        self.model, self.config, self.tokens, self.exact = model, config, tokens, exact
        self.runs: list[Run] = []
        self.prepare_s = self.timing_s = 0.0
        self.launches = 0
        self.sentences: npt.NDArray[Any]
        self._squares = np.zeros((1 + len(model.layers), 2))
        self._reports: list[Report] = []
        self._trace = self._page = ""

    def run(self, options: RunOptions, progress: Progress) -> None:
        """Run the encoder on all sentences, as many a launch as fit."""
        progress(f"{self.name}: preparing weights")
        start = time.perf_counter()
        arguments = self.format.weights(self.model)
        self.prepare_s = time.perf_counter() - start
        tokens, embeddings, done = self.tokens, [], 0
        step = max(1, LAUNCH_TOKENS // tokens.length)
        for first in range(0, len(tokens.ids), step):
            progress(f"{self.name}: running sentences {first + 1} to {min(first + step, len(tokens.ids))}")
            ids, mask = tokens.ids[first : first + step], tokens.mask[first : first + step]
            finished = run(
                kernels.encoder,
                ids.reshape(-1, 1),
                mask.reshape(-1),
                *arguments,
                self.config.num_attention_heads,
                tokens.length,
                self.config.layer_norm_eps,
                options=options,
            )
            sentences, hidden = finished.result
            embeddings.append(sentences)
            self._squares += self._distances(hidden[:, mask.reshape(-1) > 0], done)
            done += int(mask.sum())
            finished.result = None
            self.runs.append(finished)
        self.launches = len(self.runs)
        self.sentences = np.concatenate(embeddings)
        progress(f"{self.name}: timing")
        start = time.perf_counter()
        reports: dict[int, Report] = {}
        for finished in self.runs:
            if id(finished.program) not in reports:
                reports[id(finished.program)] = finished.report
            self._reports.append(reports[id(finished.program)])
        self.timing_s = time.perf_counter() - start

    def _distances(self, hidden: npt.NDArray[Any], done: int) -> Doubles:
        """Return, for the embedding and each layer, the squares of the distance and of the reference."""
        count = hidden.shape[1]
        exact = [layer[done : done + count] for layer in self.exact.hidden]
        pairs = zip(hidden.astype(np.float64), exact, strict=True)
        return np.array([(np.square(found - true).sum(), np.square(true).sum()) for found, true in pairs])

    def write_trace(self, directory: Path) -> None:
        """Write trace and page of the first launch."""
        path, page = (directory / f"demo-{self.name}.{ending}" for ending in ("perfetto-trace", "html"))
        start = time.perf_counter()
        for target, write in ((path, self._reports[0].write_perfetto), (page, self._write_page)):
            try:
                write(target)
            except OSError as error:
                raise unwritable(target, error) from None
        self.timing_s += time.perf_counter() - start
        self._trace, self._page = str(path), str(page)

    def _write_page(self, path: Path) -> None:
        # Which assumed constants count is asked of a kernel: here it would take longer than all the rest.
        self._reports[0].write_html(path, sensitivity=False)

    def figures(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        exact, found = self.exact.sentences, self.sentences.astype(np.float64)
        error, cosines = _relative_error(found, exact), _cosines(found, exact)
        total_s = sum(report.total_s for report in self._reports)

        def share(name: str) -> float:
            used = sum(getattr(report, name) * report.total_s for report in self._reports)
            return float(used / total_s)

        return {
            "format": self.name,
            "target": self.runs[0].program.target,
            "layers": self._layers(),
            "error": error,
            "error_max": self.format.error_max,
            "cosine": float(cosines.min()),
            "cosine_min": self.format.cosine_min,
            # A comparison with NaN is false: what is no number does not pass.
            "passed": bool(error <= self.format.error_max and cosines.min() >= self.format.cosine_min),
            "total_s": total_s,
            "fixed_s": sum(report.fixed_s for report in self._reports),
            "flops": sum(report.flops for report in self._reports),
            "mfu": share("mfu"),
            "mfu_array": share("mfu_array"),
            "hbm_bytes": sum(report.hbm_bytes for report in self._reports),
            "busy_s": self._busy(),
            "instructions": sum(finished.program.instructions for finished in self.runs),
            "findings": [finding for finished in self.runs for finding in finished.findings],
            "prepare_s": self.prepare_s,
            "record_s": sum(finished.record_s for finished in self.runs),
            "run_s": sum(finished.run_s for finished in self.runs),
            "timing_s": self.timing_s,
            "trace": self._trace,
            "page": self._page,
            "report": self._reports[0].to_dict(),
        }

    def _busy(self) -> dict[str, float]:
        """Return the seconds in which each engine had an instruction in flight."""
        busy: dict[str, float] = {}
        for engine in (engine for report in self._reports for engine in report.engines):
            busy[engine.name] = busy.get(engine.name, 0.0) + engine.busy_s
        return busy

    def _layers(self) -> list[dict[str, Any]]:
        """Return error and emulated time of the embedding, each layer and the pooling.

        A part's time is from when the part before had all its results in HBM to when it has its own.
        """
        times: dict[str, float] = {}
        for report in self._reports:
            before = 0.0
            for label in report.labels:
                times[label.name] = times.get(label.name, 0.0) + label.end_s - before
                before = label.end_s
        errors = np.sqrt(self._squares[:, 0] / self._squares[:, 1])
        names = ["embedding", *(f"layer {number}" for number in range(len(errors) - 1))]
        rows = [{"name": name, "error": float(error)} for name, error in zip(names, errors, strict=True)]
        rows.append({"name": "pooling", "error": _relative_error(self.sentences, self.exact.sentences)})
        return [row | {"time_s": times.get(str(row["name"]), 0.0)} for row in rows]


def _relative_error(found: npt.NDArray[Any], expected: npt.NDArray[Any]) -> float:
    """Return the L2 norm of the difference over that of the expected values."""
    return float(np.linalg.norm(found.astype(np.float64) - expected) / np.linalg.norm(expected))


def _cosines(found: Doubles, expected: Doubles) -> Doubles:
    norms = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
    return np.asarray((found * expected).sum(axis=1) / norms)


def _pairs(
    embeddings: Mapping[str, npt.NDArray[Any]], published: Mapping[tuple[int, int], float]
) -> list[dict[str, Any]]:
    """Return similarities of the published pairs, and of the closest and the farthest other ones."""
    similarities = {name: each.astype(np.float64) @ each.astype(np.float64).T for name, each in embeddings.items()}
    host = similarities["host"]
    others = [(i, j) for i in range(len(host)) for j in range(i + 1, len(host)) if (i, j) not in published]
    others.sort(key=lambda pair: -host[pair])
    chosen = [*published, *(others if len(others) <= _PAIRS_MAX else [*others[: _PAIRS_MAX - 2], *others[-2:]])]
    return [
        {"first": i + 1, "second": j + 1, "published": published.get((i, j))}
        | {name: float(matrix[i, j]) for name, matrix in similarities.items()}
        for i, j in chosen
    ]
