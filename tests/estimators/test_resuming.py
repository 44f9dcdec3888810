"""Fits that are stopped and go on: nothing is released twice, nothing is free."""

import contextlib
import itertools
import json
import os
import shutil

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skfdp
from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    PrivacyBudgetError,
    PrivacyLedger,
)
from skfdp.audit import audit_replay
from skfdp.mechanisms import checkpoint
from skfdp.mechanisms.checkpoint import Journal
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import AddOrRemoveOne, read_report
from skfdp.privacy.assumptions import NOT_COPIED, SAME_ROWS
from skfdp.privacy.ledger_file import FencingToken, Store
from skfdp.solvers import (
    AdaptiveCentering,
    FeatureDPSGD,
    NoisyGradientDescent,
    NoisySGD,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::skfdp.data.validation.UtilityWarning"),
    pytest.mark.filterwarnings("ignore:.* held every release of this fit"),
]

N_STEPS = 3
BATCHES = NoisySGD(batch_size=20, max_iter=N_STEPS)
#: Those before the loop included.
N_RELEASES = 6
RNG = np.random.default_rng(0)
X, Y = RNG.random((60, 3)), RNG.integers(0, 2, 60)


class Stopped(BaseException):
    """Ends a fit; no handler of an Exception can hide it."""


def classifier(**parameters):
    given = {"epsilon": 5.0, "bounds": (0, 1), "classes": [0, 1], "centering": None}
    given["solver"] = NoisyGradientDescent(max_iter=N_STEPS)
    return DPSGDFClassifier(**given | parameters)


def regressor(**parameters):
    given = {"epsilon": 5.0, "bounds": (0, 1), "target_bounds": (0, 1)}
    given["solver"] = NoisyGradientDescent(max_iter=N_STEPS)
    return DPSGDFRegressor(**given | parameters)


@pytest.fixture(autouse=True)
def _another_process_each_time(monkeypatch):
    """Forget which fits have ended, as another process would."""

    class Forgetful(set):
        def __contains__(self, fit):
            return False

    monkeypatch.setattr(checkpoint, "_ENDED", Forgetful())


@pytest.fixture
def no_waiting(monkeypatch):
    """Spare the disk where no power is cut."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.fixture
def given(monkeypatch):
    """Return a list of what mechanisms release, and of what they draw anew."""
    found, give, now = [], Mechanism.release, Mechanism._released_now

    def release(self, label, *asked, **more):
        values = give(self, label, *asked, **more)
        found.append(values.tobytes())
        return values

    def released_now(self, *asked):
        found.append("new")
        return now(self, *asked)

    monkeypatch.setattr(Mechanism, "release", release)
    monkeypatch.setattr(Mechanism, "_released_now", released_now)
    return found


def values(given):
    return [one for one in given if one != "new"]


def resumable(model, path, *data, **fit_params):
    """Fit within a checkpoint."""
    with skfdp.checkpoint(path):
        return model.fit(*(data or (X, Y)), **fit_params)


def stop_after(monkeypatch, n_steps):
    """Let the mechanism raise in the place of the release after so many."""
    now, left = Mechanism._released_now, [n_steps]

    def released_now(self, *asked):
        left[0] -= 1
        if left[0] < 0:
            raise Stopped
        return now(self, *asked)

    monkeypatch.setattr(Mechanism, "_released_now", released_now)


def stopped(monkeypatch, model, path, n_releases, *data, end=False, **fit_params):
    """Stop a fit after so many releases, or let it end."""
    ends = contextlib.suppress(Stopped) if end else pytest.raises(Stopped)
    with monkeypatch.context() as patch, ends:
        stop_after(patch, n_releases)
        resumable(model, path, *data, **fit_params)


# -- every moment at which a process can be killed -------------------------------------


class States:
    """Copies of a folder, before, in the middle of and after every write to it."""

    def __init__(self, folder, copies, monkeypatch, given):
        self.folder, self.copies, self.given = folder, copies, given
        self.seen = []
        for owner, name in (
            (Store, "_write"),
            (Store, "append"),
            (FencingToken, "advance"),
            (Journal, "_begin"),
        ):
            self._around(monkeypatch, owner, name)
        write = Journal._write

        def in_two(file, text, start):
            half = len(text) // 2
            for first, last in ((0, half), (half, len(text) - 1), (-1, len(text))):
                self.take()
                first %= len(text)
                write(file, text[first:last], start + first)
            self.take()

        monkeypatch.setattr(Journal, "_write", in_two)

    def _around(self, monkeypatch, owner, name):
        inner = getattr(owner, name)

        def around(*asked, **more):
            self.take()
            try:
                return inner(*asked, **more)
            finally:
                self.take()

        monkeypatch.setattr(owner, name, around)

    def take(self):
        shutil.copytree(self.folder, self.copies / str(len(self.seen)))
        self.seen.append(values(self.given))

    def __iter__(self):
        for number, seen in enumerate(self.seen):
            yield self.copies / str(number), seen


@pytest.fixture
def states(tmp_path, monkeypatch, given, no_waiting):
    """Return what copies the states of a fit, with or without a ledger."""

    def run(model, charged):
        folder = tmp_path / "run"
        folder.mkdir()
        if charged:
            model.set_params(ledger=PrivacyLedger(folder / "ledger.db"))
        with monkeypatch.context() as patch:
            found = States(folder, tmp_path / "states", patch, given)
            resumable(model, folder / "checkpoint")
        found.take()
        given.clear()
        return found

    return run


def ledger_of(folder):
    path = folder / "ledger.db"
    return PrivacyLedger(path) if path.exists() else None


@pytest.mark.slow
@pytest.mark.parametrize("charged", [True, False], ids=["ledger", "no ledger"])
@pytest.mark.parametrize(
    "model",
    [classifier(), regressor(solver=BATCHES)],
    ids=["full", "Poisson"],
)
def test_killed_at_any_moment_it_goes_on(model, charged, states, given):
    model = clone(model)
    found = states(model, charged)
    n_releases = len(found.seen[-1])
    assert n_releases >= N_STEPS
    n_entries = len(model.ledger) if charged else 0
    lengths = set()
    for folder, seen in found:
        given.clear()
        again = clone(model).set_params(ledger=ledger_of(folder))
        resumable(again, folder / "checkpoint")
        released = values(given)
        assert len(released) == n_releases == len(set(released))
        assert again.n_iter_ == N_STEPS
        assert released[: len(seen)] == seen
        # What is drawn anew is what nobody has seen: one more was on its way.
        assert n_releases - given.count("new") - len(seen) in (0, 1)
        lengths.add(len(seen))
        if charged:
            assert len(ledger_of(folder)) == n_entries
            if seen:
                assert again.privacy_.receipts == model.privacy_.receipts
            ledger_of(folder).check_report(again.privacy_)
        assert (folder / "checkpoint").exists()
    assert lengths == set(range(n_releases + 1))


@pytest.mark.slow
def test_no_copy_gets_a_step_for_free(states, given):
    """A checkpoint of any moment meets the ledger of any later one.

    Whatever the original has released until then the copy releases, too, or it is
    refused; and a copy that goes on stops the original.
    """
    model = classifier()
    found = list(states(model, True))
    refused = went_on = 0
    for (folder, _), (later, seen) in itertools.product(found[::3], found[::7]):
        if not (folder / "checkpoint").exists() or not (later / "ledger.db").exists():
            continue
        given.clear()
        place = later.with_name("both")
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(later, place)
        shutil.copy(folder / "checkpoint", place / "copy")
        n_entries = len(ledger_of(place))
        again = clone(model).set_params(ledger=ledger_of(place))
        try:
            resumable(again, place / "copy")
        except PrivacyBudgetError:
            # It may have been answered from the journal, and drew nothing.
            assert "new" not in given
            assert len(ledger_of(place)) == n_entries
            refused += 1
            continue
        went_on += 1
        entries = len(ledger_of(place))
        if entries == n_entries:
            assert values(given)[: len(seen)] == seen
            if (place / "checkpoint").exists() and given.count("new"):
                with pytest.raises(PrivacyBudgetError):
                    again = clone(model).set_params(ledger=ledger_of(place))
                    resumable(again, place / "checkpoint")
        else:  # it had not begun: a fit of its own, charged in full
            n_releases = len(found[-1][1])
            assert given.count("new") == n_releases
            assert entries - n_entries == len(model.plan(X, Y).events)
    assert refused > 20
    assert went_on > 10


# -- copies ----------------------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger(tmp_path / "ledger.db", epsilon=6.0, delta=1e-5)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoint"


class TestCopies:
    @pytest.fixture
    def copy(self, ledger, path, monkeypatch):
        """Return the copy of a checkpoint, the first release of which is released."""
        stopped(monkeypatch, classifier(ledger=ledger), path, 1)
        return shutil.copy(path, path.with_name("copy"))

    @pytest.mark.parametrize("n_releases", [1, 2, N_RELEASES])
    def test_one_that_is_behind_is_refused(
        self, n_releases, ledger, path, copy, monkeypatch, given
    ):
        """Whether the fit was stopped or has ended; the newest one goes on."""
        n_entries = len(ledger)
        stopped(monkeypatch, classifier(ledger=ledger), path, n_releases, end=True)
        given.clear()
        with pytest.raises(PrivacyBudgetError, match="checkpoint is an older copy"):
            resumable(classifier(ledger=ledger), copy)
        assert given == []
        resumable(classifier(ledger=ledger), path)
        assert len(ledger) == n_entries

    def test_one_that_goes_on_stops_the_original(self, ledger, path, copy, monkeypatch):
        """The original waits at its second release while the copy takes it."""
        now, taken = Mechanism._released_now, []

        def released_now(self, *asked):
            if not taken:
                taken.append(True)
                resumable(classifier(ledger=ledger), copy)
            return now(self, *asked)

        monkeypatch.setattr(Mechanism, "_released_now", released_now)
        model = classifier(ledger=ledger)
        with pytest.raises(PrivacyBudgetError, match="a newer copy .* exists"):
            resumable(model, path)
        assert not hasattr(model, "coef_")

    def test_a_fork_cannot_go_on(self, path, monkeypatch):
        now, told = Mechanism._released_now, []

        def released_now(self, *asked):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    values = now(self, *asked)
                    self._journal.keep("descent", "descent", values)
                except RuntimeError:
                    code = 0
                finally:
                    os._exit(code)
            told.append(os.waitpid(child, 0)[1])
            return now(self, *asked)

        monkeypatch.setattr(Mechanism, "_released_now", released_now)
        resumable(classifier(), path)
        assert told == [0] * N_RELEASES


# -- what must be the same -------------------------------------------------------------
def descent(**changed):
    return {"solver": NoisyGradientDescent(**{"max_iter": N_STEPS} | changed)}


class TestOtherFits:
    @pytest.mark.parametrize(
        "parameters, named",
        [
            ({"epsilon": 4.0}, "another epsilon, another plan"),
            ({"delta": 1e-6}, "another delta, another plan"),
            (descent(max_iter=4), "another max_iter, another plan"),
            (descent(learning_rate=0.5), "another learning_rate"),
            ({"bounds": (0, 2)}, "another bounds"),
            ({"bounds": {0: (0, 1)}}, "another bounds"),
            ({"classes": ["a", "b"]}, "another classes"),
            (descent(iterate="tail"), "another iterate"),
            ({"neighboring_relation": "replace_special"}, "neighboring_relation"),
            ({"ledger": PrivacyLedger()}, "another ledger"),
        ],
        ids=str,
    )
    def test_other_parameters_are_refused(
        self, parameters, named, path, monkeypatch, given
    ):
        stopped(monkeypatch, classifier(), path, 1)
        kept = path.read_bytes()
        given.clear()
        y = np.array(["a", "b"])[Y] if "classes" in parameters else Y
        with pytest.raises(ValueError, match=f"of a fit with .*{named}.*another path"):
            resumable(classifier(**parameters), path, X, y)
        assert given == []
        assert path.read_bytes() == kept
        if "ledger" in parameters:
            assert len(parameters["ledger"]) == 0

    @pytest.mark.parametrize("changed", ["columns", "target", "weights", "rows"])
    def test_other_public_values_are_refused(self, changed, path, monkeypatch):
        model = FeatureDPLogisticRegression(
            50.0,
            public_features=[0],
            public_target=True,
            bounds=(0, 1),
            solver=NoisyGradientDescent(max_iter=3),
        )
        facts = {"sample_weight": np.ones(60)}
        stopped(monkeypatch, clone(model), path, 2, X, Y, **facts)
        other, y, weights, n = X.copy(), Y.copy(), np.ones(60), 60
        if changed == "columns":
            other[7, 0] = 0.5
        elif changed == "target":
            y[7] = 1 - y[7]
        elif changed == "weights":
            weights[7] = 2
        else:
            n = 59
        with pytest.raises(ValueError, match="another plan|another public part"):
            resumable(clone(model), path, other[:n], y[:n], sample_weight=weights[:n])
        other = X.copy()
        other[7, 1] = 0.5  # of a private column nobody can tell
        resumable(model.set_params(n_jobs=2), path, other, Y, **facts)

    @pytest.mark.parametrize("in_file", [True, False], ids=["file", "memory"])
    def test_another_ledger_is_refused(self, in_file, path, tmp_path, monkeypatch):
        ledger = PrivacyLedger(tmp_path / "ledger.db" if in_file else None)
        stopped(monkeypatch, classifier(ledger=ledger), path, 1)
        n_entries = len(ledger)
        other = PrivacyLedger(tmp_path / "other.db" if in_file else None)
        with pytest.raises(PrivacyBudgetError, match="has no charge of the fit"):
            resumable(classifier(ledger=other), path)
        assert len(other) == 0
        for named in (None, PrivacyLedger(ledger.path, dataset="other")):
            with pytest.raises(ValueError, match="another ledger"):
                resumable(classifier(ledger=named), path)
        resumable(classifier(ledger=ledger.path or ledger), path)
        assert len(ledger) == n_entries

    def test_a_fit_that_was_refused_leaves_nothing(self, path):
        ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
        with pytest.raises(PrivacyBudgetError, match="budget exhausted"):
            resumable(classifier(ledger=ledger), path)
        assert not path.exists()
        resumable(classifier(epsilon=0.5, ledger=ledger), path)

    def test_in_its_process_a_fit_that_ended_is_in_the_way(
        self, path, given, monkeypatch
    ):
        """The folds of a cross-validation would share a model."""
        monkeypatch.setattr(checkpoint, "_ENDED", set())
        resumable(classifier(), path)
        given.clear()
        with pytest.raises(ValueError, match="has ended in this process"):
            resumable(classifier(), path, X[::-1], Y)
        assert not given

    def test_a_fit_that_ended_gives_its_model_again(self, path, ledger, given):
        """In another process: the first one may have died before it saved it."""
        model = resumable(classifier(ledger=ledger), path)
        n_entries = len(ledger)
        given.clear()
        with pytest.warns(UserWarning, match="learnt nothing from new rows"):
            again = resumable(classifier(ledger=ledger), path, X[::-1], Y)
        assert "new" not in given
        assert len(ledger) == n_entries
        np.testing.assert_array_equal(again.coef_, model.coef_)
        path.unlink()
        resumable(classifier(epsilon=0.5, ledger=ledger), path)
        assert len(ledger) == 2 * n_entries

    @pytest.mark.parametrize(
        "model, path, error, message",
        [
            (classifier(random_state=0), "c", ValueError, "random_state=None, because"),
            (classifier(epsilon=np.inf), "c", ValueError, "epsilon=inf has none"),
            (classifier(), 3, TypeError, r"checkpoint\(3\) takes a path"),
        ],
        ids=["seed", "no privacy", "number"],
    )
    def test_what_cannot_go_on_is_refused(
        self, model, path, error, message, tmp_path, monkeypatch
    ):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(error, match=message):
            resumable(clone(model), path)
        assert not [*tmp_path.iterdir()]


# -- what is on disk, and what is told -------------------------------------------------


def test_it_is_on_disk_before_a_callback_sees_it(path, tmp_path, given):
    pytest.importorskip("sklearn.callback")
    seen = []

    class Watch:
        """A callback that reads a copy of the checkpoint at each step."""

        def _nothing(self, *args, **more):
            """Do nothing."""

        setup = teardown = on_fit_task_begin = _nothing

        def on_fit_task_end(self, estimator, context, **more):
            """Compare the number of releases on disk with those released."""
            if context.task_name != "step":
                return False
            copy = shutil.copy(path, tmp_path / f"copy{len(seen)}")
            facts = json.loads(path.read_bytes().partition(b"\n")[0])
            with Journal(copy, facts["fingerprint"]) as kept:
                seen.append((context.task_id, kept._n_readable, len(values(given))))
            if stop_at and len(seen) == stop_at[0]:
                raise Stopped
            return False

    stop_at = [2]
    model = classifier().set_callbacks(Watch())
    with pytest.raises(Stopped):
        resumable(model, path)
    before, stop_at[:], seen[:] = seen[:], [], []
    first = len(values(given)) - 2  # releases before the loop
    assert before == [(0, first + 1, first + 1), (1, first + 2, first + 2)]
    given.clear()
    resumable(model, path)
    # Steps from the journal are told again, under their numbers.
    assert [step for step, *_ in seen] == [0, 1, 2]
    assert [kept for _, kept, _ in seen] == [first + 2, first + 2, first + 3]
    assert model.n_iter_ == N_STEPS


class TestReports:
    def told(self, model):
        assumptions = model.privacy_.assumptions
        return {one for one in assumptions if not one.enforced}

    def test_without_a_ledger_copies_are_not_checked(self, path, monkeypatch, tmp_path):
        model = resumable(classifier(), path)
        assert self.told(model) == {*self.told(classifier().fit(X, Y)), NOT_COPIED}
        path.unlink()
        stopped(monkeypatch, classifier(), path, 1)
        again = resumable(classifier(), path)
        assert self.told(again) == {*self.told(model), SAME_ROWS}
        assert NOT_COPIED.text in " ".join(again.privacy_.statement(full=True).split())
        text = tmp_path / "report.json"
        text.write_text(again.privacy_.to_json())
        assert read_report(text) == again.privacy_

    def test_with_a_ledger_they_are(self, path, ledger, monkeypatch):
        plain = self.told(classifier().fit(X, Y))
        stopped(monkeypatch, classifier(ledger=ledger), path, 1)
        again = resumable(classifier(ledger=ledger), path)
        assert self.told(again) == {*plain, SAME_ROWS}
        assert again.privacy_.epsilon == pytest.approx(ledger.spent())
        assert again.privacy_.epsilon <= 5.0 * (1 + 1e-9)
        assert again.privacy_.events == tuple(ledger.events)
        ledger.check_report(again.privacy_)


def test_the_file_holds_nothing_private(path, monkeypatch):
    """With the same releases and keys it is the same file, whatever private values."""
    monkeypatch.setattr(checkpoint, "masked", lambda text, seal: text)
    monkeypatch.setattr("secrets.token_hex", lambda n: "ab" * n)
    monkeypatch.setattr("secrets.token_bytes", bytes)
    monkeypatch.setattr(
        Mechanism,
        "_released_now",
        lambda self, asked, *_: np.full(asked.query.shape, 30.0),
    )
    files = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        table = np.column_stack([X[:, 0], rng.random((60, 2))])
        model = FeatureDPLogisticRegression(
            50.0,
            public_features=[0],
            bounds=(0, 1),
            classes=[0, 1],
            solver=NoisyGradientDescent(max_iter=3),
        )
        resumable(model, path, table, rng.integers(0, 2, 60))
        files.append(path.read_bytes())
        path.unlink()
    assert len(files[0]) > 2000
    assert files[0] == files[1] == files[2]
    head = json.loads(files[0].partition(b"\n")[0])
    told = {"schema", "schema_version", "fit", "public_key", "fingerprint", "digest"}
    assert set(head) == told


# -- other relations, persons, networks, Pipelines, audits -----------------------------


PERSONS = {"groups": np.arange(60) // 3}
PADDED = FeatureDPSGD(max_iter=3, public_loss="gaussian", public_batch_size=10)
SMALL = {"epsilon": 5.0, "hidden_layer_sizes": (4,), "public_features": [0]}
ZERO_ONE = {"bounds": (0, 1), "classes": [0, 1]}
CUT = AdaptiveCentering(clip_features=True)
OTHERS = {
    "special": (classifier(neighboring_relation="replace_special"), {}),
    "add": (classifier(neighboring_relation=AddOrRemoveOne(60)), {}),
    "persons": (classifier(), PERSONS),
    "persons, Poisson": (classifier(solver=BATCHES), PERSONS),
    "weights": (regressor(), {"sample_weight": np.arange(60) % 3}),
    "adaptive": (classifier(centering=CUT), {}),
    "bounds": (classifier(bounds="private"), {}),
    "network": (FeatureDPMLPClassifier(**SMALL, **ZERO_ONE, solver=PADDED), {}),
}


@pytest.mark.parametrize("model, more", OTHERS.values(), ids=OTHERS)
def test_others_go_on(model, more, path, ledger, monkeypatch, given):
    model.set_params(ledger=ledger)
    rows = pd.DataFrame(X, columns=list("abc"))
    events = model.plan(rows, Y, **more).events
    for _ in range(2):
        stopped(monkeypatch, clone(model), path, 1, rows, Y, **more)
    given.clear()
    resumable(clone(model), path, rows, Y, **more)
    assert given[:2] == values(given)[:2]
    n_releases = sum(event.n_steps for event in events)
    assert given.count("new") == n_releases - 2
    assert len(set(values(given))) == n_releases
    assert tuple(ledger.events) == events


def test_a_pipeline_goes_on(path, monkeypatch, given):
    pipeline = make_pipeline(FunctionTransformer(), classifier())
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        stop_after(patch, 2)
        resumable(pipeline, path)
    given.clear()
    resumable(pipeline, path)
    assert given.count("new") == N_RELEASES - 2


@pytest.mark.parametrize(
    "model",
    [classifier(), classifier(solver=BATCHES)],
    ids=["full", "Poisson"],
)
def test_an_audit_finds_no_difference(model, path, no_waiting):
    class Kept(type(model)):
        def fit(self, X, y=None):
            with skfdp.checkpoint(path):
                return super().fit(X, y)

    result = audit_replay(Kept(**model.get_params(deep=False)), X, Y)
    assert result.passed, str(result)
    assert not path.exists()


def test_a_model_of_the_public_part_is_the_same_again(path, monkeypatch, given):
    """Public coins are those of before: a public model, batches and weights."""
    model = FeatureDPLogisticRegression(
        5.0,
        public_features=[0, 1],
        public_target=True,
        public_model=LogisticRegression(),
        bounds=(0, 1),
        solver=NoisyGradientDescent(max_iter=3),
    )
    stopped(monkeypatch, clone(model), path, 2)
    given.clear()
    resumable(clone(model), path)
    assert values(given)[:2] == given[:2]
