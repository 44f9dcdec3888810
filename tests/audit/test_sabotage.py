"""The script that changes single lines of the package, and a sample of its mutants."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "audits"
TABLE = ROOT / "benchmarks" / "results" / "audits" / "sabotage.txt"

pytestmark = pytest.mark.skipif(
    not (FOLDER / "sabotage.py").exists() or not (ROOT / "skfdp").is_dir(),
    reason="needs a checkout: mutants are made from the source tree",
)


#: What CI asks about, of the table.
KILLED = (
    "fits without privacy let under a ceiling",
    "amplified twice",
    "links without a nonce",
)


@pytest.fixture(scope="module")
def script():
    """Return the modules of the script by name, and take them away afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(FOLDER))
    try:
        import _mutants
        import _rules
        import _slots
        import _tests

        yield {"mutants": _mutants, "rules": _rules, "slots": _slots, "tests": _tests}
    finally:
        sys.path.remove(str(FOLDER))
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(FOLDER)):
                del sys.modules[name]


@pytest.fixture(scope="module")
def sources(script):
    return script["mutants"].read_package(ROOT)


@pytest.fixture(scope="module")
def ruled(script, sources):
    return script["mutants"].by_rule(script["rules"].RULES, sources)


def one(script, sources, **changes):
    """Return the mutants of a rule about one line."""
    rule = {
        "name": "noise halved",
        "reason": "a test",
        "where": "releases/desk.py",
        "find": r"noise_std / unit, generator",
        "put": "noise_std / unit / 2, generator",
    }
    mutants = script["mutants"]
    return mutants.by_rule([mutants.Line(**(rule | changes))], sources)


class TestRules:
    @pytest.mark.slow
    def test_every_rule_finds_its_lines(self, script, sources, ruled):
        assert len(ruled) >= 60
        script["rules"].check_complete(ruled, sources)

    def test_a_rule_that_finds_nothing_is_an_error(self, script, sources):
        with pytest.raises(ValueError, match=r"'noise halved' found 0 line\(s\)"):
            one(script, sources, find="a line that is gone")

    def test_so_is_one_that_finds_too_little(self, script, sources):
        with pytest.raises(ValueError, match=r"found 1 line\(s\).*at least 2"):
            one(script, sources, least=2)

    def test_so_is_one_that_makes_no_python(self, script, sources):
        with pytest.raises(ValueError, match="is no Python"):
            one(script, sources, put="noise_std / , generator")

    def test_so_is_one_that_changes_nothing(self, script, sources):
        with pytest.raises(ValueError, match="found 0"):
            one(script, sources, put="noise_std  /  unit, generator")

    @pytest.mark.parametrize(
        ("rule", "what"),
        [
            ("sensitivity halved", "sensitivity"),
            ("clip left out", "clip"),
            ("fits without privacy not recorded", "charge"),
            ("fixed seed", "coin"),
            ("rounding away from zero", "rounding"),
            ("released without noise", "release"),
        ],
    )
    def test_a_line_without_a_mutant_is_an_error(
        self, script, sources, ruled, rule, what
    ):
        lines = {(m.file, m.line) for m in ruled if m.rule == rule}
        rest = [m for m in ruled if (m.file, m.line) not in lines]
        with pytest.raises(ValueError, match=f"has no mutant, and is a {what}"):
            script["rules"].check_complete(rest, sources)

    def test_a_statement_moves_below_a_later_one(self, sources, ruled):
        (found,) = (
            m
            for m in ruled
            if m.rule == "ledger charged after" and m.file.endswith("_score.py")
        )
        text = found.applied(sources[found.file].bytes).decode()
        assert text.index("table = _released(") < text.index("ledger.charge(")
        before = sources[found.file].bytes.decode()
        assert before.index("ledger.charge(") < before.index("table = _released(")
        assert sorted(text.split()) == sorted(before.split())


class TestRandom:
    @pytest.mark.slow
    def test_every_mutant_is_another_program(self, script, sources):
        from _anything import everything

        found = everything(sources)
        assert len(found) > 5_000
        drawn = script["mutants"].sample(found, 300, 1)
        assert all(script["mutants"]._is_valid(one, sources) for one in drawn)

    def test_a_seed_draws_the_same(self, script):
        sample = script["mutants"].sample
        assert sample(list(range(999)), 9, 3) == sample(list(range(999)), 9, 3)
        assert sample(list(range(999)), 9, 3) != sample(list(range(999)), 9, 4)


@pytest.mark.slow
class TestRuns:
    """Seconds each, most of them for the copy and the compiled loops."""

    @pytest.mark.slow
    def test_a_sample_is_killed_by_the_tests_of_the_table(self):
        command = [sys.executable, str(FOLDER / "sabotage.py"), "--random", "0"]
        command += ["--only", *KILLED, "--killers", str(TABLE)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
        assert "killed, 0 hung, 0 survived (0 explained)" in run.stdout
        assert "all of which pass without a change" in run.stdout

    @pytest.mark.slow
    def test_what_goes_unnoticed_survives(self, tmp_path, ruled):
        # The checker, checked: the right change beside a test that cannot see it.
        blocks = TABLE.read_text(encoding="utf-8").split("\n\n")
        (block,) = (
            block
            for block in blocks
            if block.startswith("skfdp/releases/desk.py:")
            and block.partition("\n")[0].endswith("  noise halved")
        )
        told = block[: block.index("    tests/")]
        told += (
            "    tests/privacy/test_relations.py\n      ::test_what_each_of_them_says"
        )
        table = tmp_path / "table.txt"
        table.write_text(told + "\n", encoding="utf-8")
        command = [sys.executable, str(FOLDER / "sabotage.py"), "--random", "0"]
        # The line may have moved since the table was written.
        new = block.partition("\n  + ")[2].partition("\n")[0]
        (place,) = (
            f"{one.file}:{one.line}  noise halved"
            for one in ruled
            if one.rule == "noise halved" and one.new.strip() == new.strip()
        )
        command += ["--only", place, "--killers", str(table)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert run.returncode == 1, run.stderr[-3000:]
        assert "SURVIVED 1 of 1 tests" in run.stdout
        assert (
            "by rule: 1 mutants, 0 killed, 0 hung, 1 survived (0 explained)"
            in run.stdout
        )
