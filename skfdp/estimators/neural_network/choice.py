"""The settings of a network, and what it learns from before its loop."""

from __future__ import annotations

import dataclasses

from skfdp.estimators import defaults
from skfdp.queries.losses import Loss
from skfdp.records.records import PublicRecords


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of the query of a network.

    Attributes
    ----------
    widths : tuple of int
        Of every layer, the input's without a constant.
    loss : Loss
    public_loss : {"zero", "gaussian", "impute"} or None
    padding_scale : float
    backend, device, dtype : str
    n_jobs : int
    """

    widths: tuple[int, ...]
    loss: Loss
    public_loss: str | None
    padding_scale: float
    backend: str
    device: str | None
    dtype: str
    n_jobs: int

    @property
    def hidden(self) -> tuple[int, ...]:
        """Widths of the hidden layers."""
        return self.widths[1:-1]


@dataclasses.dataclass(frozen=True)
class Choice:
    """The choice, from public facts.

    Attributes
    ----------
    pretraining : {"linear", "class_sums", "public"} or None
    share : float or None
        Of ``mu**2``, for what is released before the loop; 1: there is no loop.
    trained_layers : {"all", "last"}
    """

    pretraining: str | None
    share: float | None
    trained_layers: str


@dataclasses.dataclass(frozen=True)
class Pretraining:
    """The start that was asked for.

    Attributes
    ----------
    kind : {"auto", "linear", "class_sums", "public"} or None
    share : float or "auto"
    trained_layers : {"auto", "all", "last"}
    asks_for_loop : bool
        Whether a parameter is set that only the loop has.
    maps_rows : bool
        Whether the user set how rows are mapped, which a linear model does by itself.
    """

    kind: str | None
    share: float | str
    trained_layers: str
    asks_for_loop: bool
    maps_rows: bool

    def choose(self, public: PublicRecords, settings: Settings) -> Choice:
        """Return what to learn from, or raise ValueError for what does not fit."""
        chosen, plain = self.kind, settings.public_loss is None
        sums_fit = public.has_target and public.private_bounded
        shows_columns = public.has_target and public.mask.any()
        refusal = self._refusal_of_linear(public, settings)
        if chosen == "auto":
            chosen = None
            if plain and refusal is None:
                chosen = "linear"
            elif sums_fit and public.n_classes >= defaults.MANY_CLASSES:
                chosen = "class_sums"
            elif shows_columns:
                chosen = "public"
        if chosen == "linear" and refusal is not None:
            raise ValueError(f"pretraining='linear' {refusal}")
        if chosen == "class_sums" and not sums_fit:
            raise ValueError(
                "pretraining='class_sums' sums private columns by public class: it "
                "needs public_target=True and bounds for every private column."
            )
        if chosen == "public" and not shows_columns:
            raise ValueError(
                "pretraining='public' learns from public columns: it needs "
                "public_target=True and public_features."
            )
        if settings.public_loss == "impute" and chosen != "class_sums":
            raise ValueError(
                "public_loss='impute' draws private columns given the class: it needs "
                "pretraining='class_sums'."
            )
        releases = chosen in defaults.PRETRAINING_SHARES
        share = self._share(chosen) if releases else None
        return Choice(chosen, share, self._layers(chosen, settings))

    def _share(self, pretraining: str) -> float:
        if self.share != "auto":
            return min(1.0, float(self.share))
        share = defaults.PRETRAINING_SHARES[pretraining]
        return min(share, 0.5) if self.asks_for_loop else share

    def _refusal_of_linear(
        self, public: PublicRecords, settings: Settings
    ) -> str | None:
        """Return why a network cannot start at a linear model, None if it can."""
        least = 2 * settings.widths[-1]
        if not public.has_target or min(settings.hidden, default=0) < least:
            return (
                "starts from a linear model, which two neurons for each output pass "
                "on: it needs public_target=True and hidden layers of at least "
                f"{least} neurons."
            )
        if self.maps_rows:
            return (
                "maps the rows as FeatureDPLogisticRegression does: it needs "
                "normalize=False and feature_bound='auto'."
            )
        if self._share("linear") < 1 and not public.bounded.all():
            return (
                "with a loop needs bounds for every column: declare them, or set "
                "pretraining_share=1.0 and no parameter of the loop."
            )
        return None

    def _layers(self, pretraining: str | None, settings: Settings) -> str:
        layers, public_loss = self.trained_layers, settings.public_loss
        whole = not settings.hidden or public_loss is not None
        if layers == "auto":
            releases = pretraining in defaults.PRETRAINING_SHARES
            return "last" if releases and not whole else "all"
        # Inputs may be negative, activations may not: the bound of the sensitivity.
        if layers == "last" and (whole or pretraining is None):
            raise ValueError(
                "trained_layers='last' needs hidden layers that were pretrained and no "
                f"public loss, got pretraining={pretraining!r} and "
                f"public_loss={public_loss!r}."
            )
        return layers
