"""What one release, or a schedule of releases, discloses: a value, not an object.

The rules: the meaning of a field never changes; a new mechanism is a new field
or a new class, and code that does not know it refuses it. An event holds public
facts only.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Mapping
from typing import Any

RELATIONS = ("replace_one", "replace_special", "add_or_remove_one")

# Sensitivities are products of float64 factors; a relative excess of this size is
# rounding, a larger one a contradiction.
_ROUNDING = 1e-9


class PrivacyBudgetError(ValueError):
    """A release was refused because of what it, and those before it, would disclose."""


def check_budget(epsilon: float, delta: float, *, allow_infinite: bool = False) -> None:
    """Raise ValueError unless epsilon > 0 and 0 < delta < 1."""
    real = isinstance(epsilon, numbers.Real) and not isinstance(epsilon, bool)
    if not real or math.isnan(epsilon) or epsilon <= 0:
        raise ValueError(
            f"epsilon={epsilon!r} must be a positive number; use epsilon=float('inf') "
            "to train without privacy."
        )
    if math.isinf(epsilon) and not allow_infinite:
        raise ValueError(f"epsilon={epsilon!r} must be finite here: pass a number.")
    real = isinstance(delta, numbers.Real) and not isinstance(delta, bool)
    if not real or not 0 < delta < 1:
        raise ValueError(
            f"delta={delta!r} must lie strictly between 0 and 1; choose it below 1/n."
        )


def check_relation(neighboring_relation: str) -> None:
    """Raise ValueError unless the relation is one of `RELATIONS`."""
    if neighboring_relation not in RELATIONS:
        raise ValueError(
            f"neighboring_relation={neighboring_relation!r} is unknown; choose one of "
            f"{', '.join(map(repr, RELATIONS))}."
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Event:
    """Gaussian releases of sums whose rows have bounded contributions.

    Each of the ``n_steps`` releases is ``sum of clipped contributions of a batch +
    N(0, noise_std[t]**2 I)``; a record is in the batch with probability
    ``sampling_rate``, independently (Poisson sampling), 1 meaning the full batch.

    Parameters
    ----------
    label : str
        Which release this is ("mean", "descent", ...), for people.
    noise_std : tuple of float
        Standard deviation of the noise, in units of the released sum; one number, or
        one for each step.
    clip_norm : float
        L2 bound of one record's contribution, same units.
    sensitivity : float
        Delta: how far the sum over the full batch moves between neighbours, same
        units; at most ``2 * clip_norm`` under ``"replace_one"`` and equal to
        ``clip_norm`` otherwise.
    n_steps : int, default=1
        Number of releases, adaptively composed.
    sampling_rate : float, default=1.0
        Probability per step that a record enters the batch.
    neighboring_relation : {"replace_one", "replace_special", "add_or_remove_one"}
        The relation between neighbours; see :ref:`protected`.
    public_features : tuple of str or int, default=()
        Names (or positions) of the columns treated as public.
    public_target : bool, default=False
        Whether the target was treated as public.
    classes_source : {None, "declared", "data", "public target"}, default=None
        Where the label set came from; "data" is an assumption of the report.
    seeded : bool, default=False
        True if the noise came from a user's seed: no guarantee.
    """

    label: str
    noise_std: tuple[float, ...]
    clip_norm: float
    sensitivity: float
    n_steps: int = 1
    sampling_rate: float = 1.0
    neighboring_relation: str = "replace_one"
    public_features: tuple[str | int, ...] = ()
    public_target: bool = False
    classes_source: str | None = None
    seeded: bool = False

    def __post_init__(self) -> None:
        check_relation(self.neighboring_relation)
        # Python floats only: dp_accounting treats other number types differently.
        coerced = {
            "noise_std": tuple(float(std) for std in self.noise_std),
            "clip_norm": float(self.clip_norm),
            "sensitivity": float(self.sensitivity),
            "sampling_rate": float(self.sampling_rate),
            "n_steps": int(self.n_steps),
            # NumPy integers are no JSON
            "public_features": tuple(
                name if isinstance(name, str) else int(name)
                for name in self.public_features
            ),
            "public_target": bool(self.public_target),
        }
        for name, value in coerced.items():
            object.__setattr__(self, name, value)
        if self.n_steps < 1 or len(self.noise_std) not in (1, self.n_steps):
            raise ValueError(
                f"noise_std has {len(self.noise_std)} entries, expected 1 or "
                f"n_steps={self.n_steps} (at least 1)."
            )
        if not all(std > 0 and math.isfinite(std) for std in self.noise_std):
            raise ValueError(
                "noise_std must hold finite positive numbers: a release without noise "
                "has no privacy guarantee."
            )
        if not 0 < self.sampling_rate <= 1:
            raise ValueError(
                f"sampling_rate={self.sampling_rate!r} must lie in (0, 1]; 1 means the "
                "full batch."
            )
        if self.neighboring_relation == "add_or_remove_one" and (
            self.public_features or self.public_target
        ):
            raise ValueError(
                "an Event under 'add_or_remove_one' cannot have public_features or a "
                "public_target: whole records come and go."
            )
        self._check_sensitivity()

    def _check_sensitivity(self) -> None:
        clip, reach = self.clip_norm, self.sensitivity
        if not (clip > 0 and reach > 0 and math.isfinite(clip + reach)):
            raise ValueError(
                f"clip_norm={clip!r} and sensitivity={reach!r} must be finite and "
                "positive."
            )
        if self.neighboring_relation == "replace_one":
            if reach > 2 * clip * (1 + _ROUNDING):
                raise ValueError(
                    f"sensitivity={reach!r} exceeds 2 * clip_norm={2 * clip!r}, the "
                    "largest possible under 'replace_one'."
                )
        elif abs(reach - clip) > _ROUNDING * clip:
            raise ValueError(
                f"sensitivity={reach!r} must equal clip_norm={clip!r} under "
                f"{self.neighboring_relation!r}: the neighbour contributes zero."
            )

    @property
    def mu(self) -> float | None:
        """Exact Gaussian-DP parameter of a full-batch event, None if q < 1."""
        if self.sampling_rate < 1:
            return None
        repeats = self.n_steps if len(self.noise_std) == 1 else 1
        return math.sqrt(
            repeats * math.fsum((self.sensitivity / std) ** 2 for std in self.noise_std)
        )

    @property
    def protects(self) -> tuple[str, frozenset, bool]:
        """Relation and public set; only events that agree in it compose."""
        return (
            self.neighboring_relation,
            frozenset(self.public_features),
            self.public_target,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the event as JSON-able values, losslessly."""
        values = dataclasses.asdict(self)
        values["noise_std"] = list(self.noise_std)
        values["public_features"] = list(self.public_features)
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Event:
        """Rebuild an event; unknown fields are refused, because they may cost."""
        if "kind" in values:  # not a plain Event; a reader without this line refuses it
            from skfdp.privacy.selection import Selection

            return Selection.from_dict(values)
        unknown = set(values) - {field.name for field in dataclasses.fields(cls)}
        if unknown:
            raise ValueError(
                f"Event has unknown fields {sorted(unknown)}: it was written by a "
                "newer skfdp; upgrade to read it."
            )
        return cls(**values)
