"""Sabotage: a line of a copy of the package is changed, and a named test turns red."""

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import skfdp

TESTS = Path(__file__).resolve().parent
PACKAGE = Path(skfdp.__file__).parent


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A change of one line, and the test that has to notice it."""

    name: str
    file: str
    old: str
    new: str
    test: str


CEILING = "privacy/test_ledger.py::TestNonprivateFits::test_a_limit_refuses_them"
POISSON = "privacy/test_plan.py::TestReferenceValues::test_poisson"
DESK = "releases/test_mechanism_release.py::test_"
ASKED = [
    Mutant(
        "fits without privacy pass a budget limit",
        "privacy/ledger.py",
        "if total > terms.epsilon * (1 + _ROUNDING):",
        "if math.inf > total > terms.epsilon * (1 + _ROUNDING):",
        f"{CEILING}[memory]",
    ),
    Mutant(
        "the sampling rate is squared",
        "privacy/pld.py",
        "with_record = (1 - q) * ndtr(-x / noise) + q * ndtr((1 - x) / noise)",
        "with_record = (1 - q * q) * ndtr(-x / noise) + q * q * ndtr((1 - x) / noise)",
        f"{POISSON}[replace_special-1.0-None-6.342]",
    ),
    Mutant(
        "the sampling rate is squared in a trade-off curve",
        "privacy/pld.py",
        "return (1 - q) * (1 - alpha) * ndtr(-x / noise) + q * tails",
        "return (1 - q * q) * (1 - alpha) * ndtr(-x / noise) + q * q * tails",
        "privacy/test_curves.py::TestClipDeltaCurve::test_a_vanishing_change_vanishes",
    ),
    Mutant(
        "a report in a file marks any sentence as enforced",
        "privacy/assumptions.py",
        "return dataclasses.replace(stated, enforced=False)",
        "return stated",
        "attacks/test_report_claims.py::test_a_key_lends_no_mark_to_another_sentence",
    ),
    Mutant(
        "links of the ledger without a nonce",
        "privacy/ledger_file.py",
        "nonce = secrets.token_hex(32)",
        'nonce = "0" * 64',
        "findings/test_ledger.py"
        "::test_attack_10_equal_charges_to_two_copies_end_in_two_heads",
    ),
]
NIGHTLY = [
    Mutant(
        "a replaced record counts once",
        "privacy/events.py",
        "return 2 * clip_norm if replaced is None else replaced",
        "return clip_norm if replaced is None else replaced",
        "privacy/test_relations.py"
        "::test_neighbours_move_a_sum_by_that_much_and_no_more",
    ),
    Mutant(
        "many releases cost what one does",
        "privacy/events.py",
        "repeats = self.n_steps if len(self.noise_std) == 1 else 1",
        "repeats = 1",
        "privacy/test_curves.py::TestComposition::test_law",
    ),
    Mutant(
        "one charge pays for both means of rates",
        "solvers/target_scales.py",
        "n_steps=_N_RATES,",
        "n_steps=1,",
        "estimators/test_public_regression.py"
        "::test_the_mean_of_the_rates_is_released_within_a_public_interval",
    ),
    Mutant(
        "a replaced row changes one count of a histogram",
        "queries/statistics.py",
        "replaced=math.sqrt(2 * n_columns),",
        "replaced=math.sqrt(n_columns),",
        "estimators/test_row_length.py"
        "::test_a_replaced_wide_row_moves_two_counts_by_one",
    ),
    Mutant(
        "centred labels that seem shorter than they are",
        "queries/statistics.py",
        "clip_norm *= math.sqrt(1 - 1 / self.n_outputs)",
        "clip_norm *= math.sqrt(1 - 2 / self.n_outputs)",
        "estimators/test_one_shot.py"
        "::test_a_nulled_label_moves_the_statistic_by_at_most_its_sensitivity",
    ),
    Mutant(
        "half a charge for the histogram of a target",
        "solvers/target_scales.py",
        "return budget.event(HISTOGRAM, std, sensitivity=smaller), target",
        "return budget.event(HISTOGRAM, std, sensitivity=smaller / 2), target",
        "estimators/test_target_window.py::test_every_release_is_covered_by_the_charge",
    ),
    Mutant(
        "slopes of a wide regression have larger residuals than charged",
        "solvers/postprocessing.py",
        "query = dataclasses.replace(query, loss=huber(HUBER_THRESHOLD))",
        "query = dataclasses.replace(query, loss=huber(2 * HUBER_THRESHOLD))",
        "estimators/test_row_length.py::test_wide_rows_keep_the_scale_of_predictions",
    ),
    Mutant(
        "charges beyond the budget limit",
        "privacy/ledger_file.py",
        "check(terms, recorded)\n            if",
        "if",
        f"{CEILING}[memory]",
    ),
    Mutant(
        "noise halved",
        "mechanisms/release.py",
        "return add_integer_gaussian(total, noise_std / unit, generator) * unit",
        "return add_integer_gaussian(total, noise_std / unit / 2, generator) * unit",
        f"{DESK}the_noise_of_the_k_th_release_is_that_of_the_k_th_step",
    ),
    Mutant(
        "noise of a fixed seed",
        "mechanisms/noise.py",
        "key = secrets.randbits(128)",
        "key = 20_260_101",
        "releases/test_noise.py::test_unseeded_streams_never_repeat",
    ),
    Mutant(
        "batches of a fixed seed",
        "mechanisms/release.py",
        "random_words(self._generator, min(",
        "random_words(np.random.default_rng(0), min(",
        f"{DESK}the_mechanism_draws_the_batches",
    ),
    Mutant(
        "one charge pays for every release",
        "mechanisms/release.py",
        "self._released[event.label] = count + 1",
        "self._released[event.label] = count",
        f"{DESK}a_release_that_fails_stays_counted",
    ),
    Mutant(
        "sensitivity not compared with the charge",
        "mechanisms/release.py",
        '("sensitivity", moved, event.sensitivity)',
        '("sensitivity", event.sensitivity, event.sensitivity)',
        f"{DESK}more_than_was_charged[check_the_move]",
    ),
    Mutant(
        "clip norm not compared with the charge",
        "mechanisms/release.py",
        '("clip_norm", query.clip_norm, event.clip_norm)',
        '("clip_norm", event.clip_norm, event.clip_norm)',
        f"{DESK}more_than_was_charged[check_the_clip]",
    ),
    Mutant(
        "sensitivity halved",
        "queries/network.py",
        "return relation.sensitivity(self.clip_norm)",
        "return relation.sensitivity(self.clip_norm) / 2",
        "queries/test_mlp.py::test_neighbours_move_the_sum_by_at_most_its_sensitivity",
    ),
    Mutant(
        "sqrt 2 claimed where signs are private",
        "queries/linear.py",
        "return public.has_target and loss.sign_fixed and public.private_bounded",
        "return loss.sign_fixed",
        "queries/test_sensitivities.py"
        "::test_the_orthant_is_claimed_under_all_its_conditions",
    ),
    Mutant(
        "clip left out",
        "kernels/contributions.py",
        "factor = factor if norm > clip_norm else 1.0",
        "factor = 1.0",
        "queries/test_linear.py"
        "::test_difference_matches_materialised_gradients[4-same rows]",
    ),
    Mutant(
        "large residuals of a single output left as they are",
        "kernels/contributions.py",
        "r = limit if r > limit else r",
        "r = 1.0 * r",
        "queries/test_linear.py"
        "::test_difference_matches_materialised_gradients[2-same rows]",
    ),
    Mutant(
        "coded rows that seem shorter than they are",
        "data/codes.py",
        "bend = own - 2 * both + after",
        "bend = own - 2 * both",
        "queries/test_coded_rows.py"
        "::test_a_contribution_is_never_longer_than_the_clip_norm[1.0-1]",
    ),
    Mutant(
        "coded rows that are summed without a bound",
        "queries/statistics.py",
        "_SHRINK / np.maximum(lengths, 1.0))",
        "_SHRINK)",
        "queries/test_contract.py"
        "::test_no_record_moves_a_sum_further_than_said[0-coded rows]",
    ),
    Mutant(
        "a centre that is subtracted from margins alone",
        "data/codes.py",
        "return (self._columns @ sums.T).T - np.outer(total, self.shift)",
        "return (self._columns @ sums.T).T",
        "queries/test_coded_rows.py::test_margins_and_sums_are_those_of_a_matrix[None-1]",
    ),
    Mutant(
        "no room for rounding in limits that are computed before",
        "kernels/contributions.py",
        "room = clip.clip_norm - 0.5 * clip.unit * math.sqrt(n_outputs) * size",
        "room = clip.clip_norm - 0 * size",
        "kernels/test_contributions.py"
        "::test_no_contribution_is_longer_than_the_clip_norm[0-1.0-3]",
    ),
    Mutant(
        "private rows in the public gradient",
        "queries/linear.py",
        "work = products(self.padded, self.n_outputs)",
        "work = products(self.rows, self.n_outputs)",
        "queries/test_linear.py::test_public_gradient_matches_the_loss",
    ),
    Mutant(
        "rounding away from zero",
        "data/grid.py",
        "np.trunc(entries, out=entries)\n            # The result",
        "entries = np.sign(X[block]) * np.ceil(np.abs(entries))\n"
        "            # The result",
        "records/test_rows.py::test_quantising_is_toward_zero_and_saturates",
    ),
    Mutant(
        "a NaN that keeps other rows from being clipped",
        "data/grid.py",
        "if not (least <= ends[0] and ends[1] <= most):",
        "if least > ends[0] or ends[1] > most:",
        "queries/test_contract.py"
        "::test_a_record_of_any_size_is_bounded[nan-temperature]",
    ),
    Mutant(
        "public columns counted as private",
        "data/records.py",
        "n_private = int((~self.mask).sum())",
        "n_private = int(self.mask.sum())",
        "records/test_records.py"
        "::test_the_reach_of_private_columns_follows_bounds_or_what_is_told",
    ),
]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """Return a copy of the package, with its compiled loops."""
    found = tmp_path_factory.mktemp("sabotage") / "skfdp"
    return shutil.copytree(PACKAGE, found, ignore=shutil.ignore_patterns("*.pyc"))


def run(copy, *tests):
    """Run tests on a copy of the package."""
    names = [str(TESTS / test) for test in tests]
    return subprocess.run(
        [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", *names],
        cwd=copy.parent,
        env=os.environ | {"PYTHONPATH": str(copy.parent)},
        capture_output=True,
        text=True,
        timeout=900,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutant",
    [
        *ASKED,
        *(pytest.param(one, marks=pytest.mark.nightly) for one in NIGHTLY),
    ],
    ids=lambda mutant: mutant.name,
)
def test_a_change_is_noticed(mutant, copy):
    path = copy / mutant.file
    text = path.read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        done = run(copy, mutant.test)
    finally:
        path.write_text(text, encoding="utf-8")
    assert done.returncode == 1, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.slow
def test_without_a_change_they_pass(copy):
    done = run(copy, *(mutant.test for mutant in ASKED))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
