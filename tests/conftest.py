"""Settings of every test: examples are drawn the same way on each run, and no variable of the caller is seen."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "trn3",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=40,
    phases=[Phase.explicit, Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("trn3")


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    for name in (
        "NEURON_PLATFORM_TARGET_OVERRIDE",
        "NKI_NC_VERSION",
        "NKI_SIMULATOR",
        "NEURON_RT_STOCHASTIC_ROUNDING_EN",
    ):
        monkeypatch.delenv(name, raising=False)
