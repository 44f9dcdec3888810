"""Rules for tables in partitions: what leaves them, and the coins of each."""

from _mutants import Line

PLACE = "estimators/partitions/"

RULES = [
    Line(
        "coins of partitions of a fixed key",
        "anybody can compute who was in a batch",
        "releases/partition_coins.py",
        r"random_words\(generator, _KEY_WORDS\)\.tobytes\(\)",
        "bytes(8 * _KEY_WORDS)",
    ),
    Line(
        "coins of partitions for the whole table",
        "every record in the batch of its partition",
        "releases/partition_coins.py",
        r"return PoissonBatches\(generator_of\(self\.key\), .*\.draw\(\)",
        "return np.arange(n_rows)",
    ),
    Line(
        "void records of partitions kept",
        "a record that should add nothing adds to the sum of its partition",
        PLACE + "shelf.py",
        r"not_void\(batch, void, query\.n_rows\)",
        "batch",
    ),
    Line(
        "coins of partitions not drawn",
        "no amplification, which was accounted for",
        PLACE + "shelf.py",
        r"None if coins is None else coins\.members\(query\.n_rows\)",
        "None",
    ),
    Line(
        "one key for all steps",
        "who is in a batch is in all of them",
        "releases/partition_coins.py",
        r'f"\{self\.step\}/\{partition\}"',
        'f"{partition}"',
    ),
    Line(
        "one key for all partitions",
        "members of two partitions are the same rows",
        "releases/partition_coins.py",
        r'f"\{self\.step\}/\{partition\}"',
        'f"{self.step}"',
    ),
    Line(
        "batches of one step",
        "who is in a batch is in all of them",
        "releases/partition_coins.py",
        r"self\._step \+= 1",
        "pass",
    ),
    Line(
        "key of coins shown",
        "whoever reads a log knows who was in the batch",
        "releases/partition_coins.py",
        r"key: int = dataclasses\.field\(repr=False\)",
        "key: int",
    ),
    Line(
        "private columns gathered",
        "what is private leaves the partitions",
        PLACE + "reading.py",
        r"return records\.X\[:, records\.public\.mask\]",
        "return records.X[:, records.public.mask | True]",
    ),
    Line(
        "private target gathered",
        "what is private leaves the partitions",
        PLACE + "reading.py",
        r"    if estimator\.public_target:",
        "    if True:",
    ),
    Line(
        "digests of fits without a seed",
        "a digest of private rows leaves the partitions",
        PLACE + "reading.py",
        r'getattr\(estimator, "random_state", None\) is not None and not planning',
        "not planning",
    ),
    Line(
        "errors of partitions raised there",
        "logs of a cluster quote what was asked for",
        PLACE + "shelf.py",
        r"return Failure\(type\(error\), str\(error\)\)",
        "raise",
    ),
    Line(
        "text of unknown errors told",
        "an error may quote a value",
        PLACE + "shelf.py",
        r"\{kind\}\.",
        "{error}.",
    ),
    Line(
        "kept after the fit",
        "workers keep private rows",
        PLACE + "cluster.py",
        r"self\._client\.cancel\(self\._futures\)",
        "pass",
    ),
    Line(
        "methods for one place let in",
        "refused after the charge, or not at all",
        "estimators/base.py",
        r"reading\.check_method\(records, method\)",
        "pass",
        least=2,
    ),
]
