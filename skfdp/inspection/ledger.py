"""The display of a ledger: the budget of a data set, charge by charge."""

from __future__ import annotations

import math

import numpy as np

from skfdp.privacy.composition import worst
from skfdp.privacy.curves import check_delta
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.plotting import new_axes
from skfdp.records.checks import shown


class LedgerDisplay:
    """Epsilon spent after each charge, against the ceiling.

    Make it by `from_ledger`.

    Parameters
    ----------
    times : ndarray of datetime64[D], shape (n_charges,)
        The day of each charge, UTC; ledgers tell no finer times.
    epsilons : ndarray of shape (n_charges,)
        What was spent afterwards, by the most exposed record; infinite from the first
        fit without privacy on.
    delta : float
        The delta that epsilons are for.
    ceiling : float or None
        The epsilon of the ledger's :term:`ceiling`.
    dataset : str
        Name of the data set.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        What was spent.
    ceiling_line_ : matplotlib Line2D or None
    """

    def __init__(self, *, times, epsilons, delta, ceiling=None, dataset="default"):
        self.times = times
        self.epsilons = epsilons
        self.delta = delta
        self.ceiling = ceiling
        self.dataset = dataset

    @classmethod
    def from_ledger(cls, ledger, *, delta=None, against="charge", ax=None, **kwargs):
        """Draw what was spent on a ledger's data set.

        Parameters
        ----------
        ledger : PrivacyLedger, str or PathLike
        delta : float, default=None
            None takes the ceiling's.
        against : {"charge", "time"}, default="charge"
            What the horizontal axis shows. Charges are in the order of the record,
            whatever the clock said; those of one day are above one another in time.
        ax : matplotlib Axes, default=None
            None makes a new figure.
        **kwargs : dict
            For `matplotlib.pyplot.plot`.

        Returns
        -------
        display : LedgerDisplay

        Examples
        --------
        >>> from skfdp import PrivacyLedger, calibrate
        >>> from skfdp.inspection import LedgerDisplay
        >>> ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
        >>> for _ in range(3):
        ...     receipt = ledger.charge([calibrate(0.3, 1e-5, n_steps=1).event])
        >>> LedgerDisplay.from_ledger(ledger).epsilons.round(2)
        array([0.3 , 0.44, 0.55])
        """
        if not isinstance(ledger, PrivacyLedger):
            ledger = PrivacyLedger.resolve(ledger)
        if ledger is None:
            raise TypeError("ledger=None must be a path or a PrivacyLedger.")
        delta = ledger.delta if delta is None else delta
        if delta is None:
            raise ValueError(
                "delta=None needs a ledger with a ceiling: pass delta=1e-5, say."
            )
        delta = check_delta(delta)
        entries = ledger.entries
        charges = [entry.charge for entry in entries]
        # Positions after the last event of each charge.
        ends = np.flatnonzero(np.diff(charges, append=0)) + 1
        events = [entry.event for entry in entries]
        parts = [entry.part for entry in entries]
        spent = [worst(events[:end], parts[:end], float(delta)).epsilon for end in ends]
        display = cls(
            times=np.array([entries[e - 1].time for e in ends], "datetime64[D]"),
            epsilons=np.array(spent),
            delta=float(delta),
            ceiling=ledger.epsilon,
            dataset=ledger.dataset,
        )
        return display.plot(ax, against=against, **kwargs)

    def plot(self, ax=None, *, against="charge", **kwargs):
        """Draw it.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        against : {"charge", "time"}, default="charge"
        **kwargs : dict
            For `matplotlib.pyplot.plot`.

        Returns
        -------
        display : LedgerDisplay
        """
        if not isinstance(against, str) or against not in ("time", "charge"):
            raise ValueError(f"against={shown(against)} must be 'time' or 'charge'.")
        ax = new_axes(ax, "LedgerDisplay.plot")
        charges = np.arange(1, len(self.epsilons) + 1)
        where = self.times if against == "time" else charges
        finite = np.isfinite(self.epsilons)
        style = {"drawstyle": "steps-post", "marker": "o", "label": "spent"} | kwargs
        (self.line_,) = ax.plot(where[finite], self.epsilons[finite], **style)
        if not finite.all():
            ax.axvline(
                where[~finite][0],
                color="tab:red",
                linestyle=":",
                label="fit without privacy: nothing is protected",
            )
        self.ceiling_line_ = None
        if self.ceiling is not None and math.isfinite(self.ceiling):
            self.ceiling_line_ = ax.axhline(
                self.ceiling,
                color="black",
                linestyle="--",
                label=f"ceiling {self.ceiling:g}",
            )
        ax.set(
            xlabel="day (UTC)" if against == "time" else "charge",
            ylabel=f"epsilon at delta {self.delta:g}",
            title=f"Data set {self.dataset}",
        )
        ax.set_ylim(bottom=0)
        ax.grid(True, alpha=0.3)
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        if against == "time":
            self.figure_.autofmt_xdate()
        else:
            ax.xaxis.get_major_locator().set_params(integer=True)
        return self
