# The tasks of a contributor; CONTRIBUTING.rst says how long each takes.
.PHONY: install test lint docs nightly

install:
	python -m pip install -e ".[test,lint,docs]"
	pre-commit install

test:
	python -m pytest tests -n auto --dist worksteal -m "not slow and not nightly"

lint:
	ruff check .
	ruff format --check .
	python .ci/names
	codespell
	lint-imports
	mypy

docs:
	python -m sphinx -W -b html docs build/html
	python docs/check_links.py build/html

nightly:
	.ci/nightly
