"""The table of scikit-learn's tools around estimators: which only fit their members.

By name, since this package does not import scikit-learn. A tool of the first table uses
the data through its members alone, so that the releases of all members are all that
there is; one record enters every member. A tool of the second one uses private values
beside the fits that it makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from skfdp.privacy.steps import is_class

_RESAMPLED = "its bootstrap repeats records, and each must appear once"
_OUTSIDE = {
    "CalibratedClassifierCV": (
        "its calibrator is fitted to the target without noise (private_score and "
        "best_temperature calibrate by a release)"
    ),
    "StackingClassifier": "its final estimator is fitted to the target without noise",
    "StackingRegressor": "its final estimator is fitted to the target without noise",
    "TunedThresholdClassifierCV": (
        "its threshold is tuned on the target without noise (private_score and "
        "best_threshold choose one by a release)"
    ),
    "BaggingClassifier": _RESAMPLED,
    "BaggingRegressor": _RESAMPLED,
    "AdaBoostClassifier": "its weights depend on which records are misclassified",
    "OneVsOneClassifier": (
        "each of its members is fitted to the records of two labels, so that the "
        "private target decides who is in which fit"
    ),
}

Members = list[tuple[str, Any]]


def refusal(obj: Any) -> str | None:
    """Return why no report of a fitted tool can vouch for it, None if it can."""
    for kind in type(obj).__mro__:
        if kind.__name__ in _OUTSIDE:
            return _OUTSIDE[kind.__name__]
    return None


def members_of(obj: Any) -> Members | None:
    """Return the fitted members of a tool that does nothing else with the data.

    Returns
    -------
    members : list of (str, object), or None
        None for other objects, and where it is not fitted.

    Raises
    ------
    ValueError
        If the members treat the target of another one as public, or name it.
    """
    if not is_class(obj, *_WRAPPERS):
        return None
    try:
        return _WRAPPERS[type(obj).__name__](obj)
    except AttributeError:
        return None


def reads_classes(obj: Any) -> bool:
    """Whether a tool reads the label set from the target before its members do."""
    return is_class(obj, "OneVsRestClassifier", "VotingClassifier")


def _listed(obj: Any) -> Members:
    return [(f"estimators_[{j}]", one) for j, one in enumerate(obj.estimators_)]


def _voting(obj: Any) -> Members:
    names = [name for name, one in obj.estimators if not isinstance(one, str)]
    return list(zip(names, obj.estimators_, strict=True))


def _one_vs_rest(obj: Any) -> Members:
    found = _listed(obj)
    if obj.multilabel_:
        _check_targets_have_no_name(obj, found)
    return found


def _outputs(obj: Any) -> Members:
    found = _listed(obj)
    _check_targets_have_no_name(obj, found)
    return found


def _chain(obj: Any) -> Members:
    found = _outputs(obj)
    if obj.cv is not None:
        raise ValueError(
            f"report() cannot count the private fits inside {type(obj).__name__}: "
            f"cv={obj.cv!r} makes fits that it does not keep; pass cv=None."
        )
    for one in leaves(found):
        if one.privacy_.public_features:
            raise ValueError(
                f"report() cannot vouch for {type(obj).__name__}: its later members "
                "see the earlier targets as columns, which public_features may "
                "disclose; treat no column as public, or use MultiOutputClassifier."
            )
    return found


def _fixed(obj: Any) -> Members:
    """Return the member that predicts: a fitted one, if it was not fitted again."""
    if hasattr(obj, "estimator_"):
        return [("estimator_", obj.estimator_)]
    return [("estimator", obj.estimator)]


def _check_targets_have_no_name(obj: Any, found: Members) -> None:
    named = [one.privacy_.target_name for one in leaves(found)]
    if any(name is not None for name in named):
        raise ValueError(
            f"report() cannot vouch for {type(obj).__name__}: its members have "
            "different targets, but the same target_name; leave target_name out."
        )


def leaves(found: Members) -> Iterator[Any]:
    """Yield the estimators with a report among members, those in Pipelines too."""
    for _, one in found:
        if hasattr(one, "privacy_"):
            yield one
        else:
            inner = getattr(one, "steps", None) or members_of(one) or []
            yield from leaves([(name, step) for name, step in inner])


_WRAPPERS: dict[str, Callable[[Any], Members]] = {
    "OneVsRestClassifier": _one_vs_rest,
    "VotingClassifier": _voting,
    "VotingRegressor": _voting,
    "MultiOutputClassifier": _outputs,
    "MultiOutputRegressor": _outputs,
    "ClassifierChain": _chain,
    "RegressorChain": _chain,
    "TransformedTargetRegressor": lambda obj: [("regressor_", obj.regressor_)],
    "FixedThresholdClassifier": _fixed,
}
