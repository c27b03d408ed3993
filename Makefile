# The two commands of README, from a checkout with nothing but git, make, python3 and apt.
# DEMO=… are options of tools/demo.py, such as --short; a busy machine is said before anything else.
# PYTHON=… chooses another Python (3.11 or newer) than the first python3 on PATH.

PYTHON ?= python3
export PYTHON

.PHONY: help test test-all demo clean

help:
	@echo 'make demo    build five stacks, compare them, write the report to demo-out/'
	@echo 'make test    run the gate: the linters, and the tests that take minutes together'
	@echo 'make test-all    run the gate, then the battery: all other tests, for hours; goes on where it'
	@echo '                 was stopped. FILES="bench/test_bench": only these. SINCE=REV: what changed first'
	@echo 'make clean   remove what these made in this folder (.venv, build/, demo-out/)'
	@echo
	@echo 'All install what they need: programs by apt (asking sudo unless root), the rest in .venv.'

# The last line counts the tests, whatever was printed before it.
test:
	@tools/bootstrap test
	@rm -f build/tests.xml
	@.venv/bin/python -m nox; status=$$?; .venv/bin/python tools/count_tests.py build/tests.xml; exit $$status

# FILES names some files of the battery, and the gate is left out then.
test-all:
	@if [ -z '$(FILES)' ]; then $(MAKE) --no-print-directory test; else tools/bootstrap test; fi
	@.venv/bin/python tools/battery.py $(if $(SINCE),--since '$(SINCE)') $(FILES)

demo:
	@tools/bootstrap demo
	@.venv/bin/python tools/demo.py $(DEMO)

clean:
	rm -rf .venv build dist demo-out .nox .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
