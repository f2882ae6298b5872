"""The tiers of the tests, and fixtures for all of them."""

import surroundings  # noqa: F401  # before those that read the environment

# isort: split

import atexit
import gc
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import samples
from hypothesis import HealthCheck, settings
from places import DATA, FIXTURES, ROOT, skip_or_fail

import pbos
from pbos.cli import main

# The tier `core` is every file that is not listed here: it needs the base dependencies, pytest and Hypothesis.
NEEDS = {  # the tier `adapters`: files, or folders, and the modules without which they are not collected
    "experiments": "matplotlib rapidfuzz scipy sklearn torch",
    "src/pbos/adapters/arrow.py": "pyarrow",
    "src/pbos/adapters/gensim.py": "gensim",
    "src/pbos/adapters/sentence_transformers.py": "sentence_transformers sklearn torch",
    "src/pbos/adapters/sklearn.py": "sklearn",
    "src/pbos/adapters/spacy.py": "spacy",
    "src/pbos/adapters/torch.py": "torch",
    "src/pbos/jobs/cluster.py": "distributed",
    "src/pbos/files/hub.py": "huggingface_hub",
    "src/pbos/files/remote.py": "fsspec",
    "src/pbos/server": "fastapi uvicorn",
    "src/pbos/tables/columns.py": "pyarrow",
    "tests/adapters/test_arrow.py": "duckdb pandas polars pyarrow",
    "tests/experiments/test_baselines.py": "rapidfuzz torch",
    "tests/experiments/test_downstream.py": "matplotlib rapidfuzz scipy sklearn torch",
    "tests/cli/test_eval.py": "scipy",
    "tests/jobs/test_cluster.py": "distributed",
    "tests/training/test_cluster_training.py": "distributed",
    "tests/corpus/test_cooccurrences.py": "scipy",
    "tests/corpus/test_factoring.py": "scipy",
    "tests/corpus/test_text_sources.py": "scipy",
    "tests/experiments/test_corpora.py": "matplotlib rapidfuzz scipy sklearn torch",
    "tests/test_docs.py": "distributed fastapi fsspec gensim hatchling pandas polars pyarrow scipy "
    "sentence_transformers sklearn spacy torch wordfreq",
    "tests/corpus/test_embed_files.py": "distributed duckdb pandas polars pyarrow",
    "tests/evaluation/test_words_evaluation.py": "scipy",
    "tests/experiments/test_affixes.py": "sklearn",
    "tests/test_examples.py": "sentence_transformers spacy tokenizers torch transformers",
    "tests/adapters/test_gensim.py": "gensim scipy",
    "tests/tables/test_gensim_files.py": "gensim",
    "tests/training/test_gpu.py": "torch",
    "tests/files/test_hub.py": "huggingface_hub yaml",
    "tests/experiments/test_learn_table.py": "matplotlib rapidfuzz scipy sklearn torch",
    "tests/experiments/test_neural.py": "torch",
    "tests/test_packaging.py": "hatchling",
    "tests/server/browser.py": "fastapi playwright uvicorn",
    "tests/server/page_fixtures.py": "fastapi playwright uvicorn",
    "tests/server/test_page.py": "fastapi playwright uvicorn",
    "tests/server/test_page_access.py": "fastapi playwright uvicorn",
    "tests/experiments/test_real_data.py": "matplotlib rapidfuzz scipy sklearn spacy torch",
    "tests/experiments/test_real_tables.py": "matplotlib rapidfuzz scipy sklearn torch",
    "tests/files/test_remote.py": "boto3 distributed fsspec gensim moto pyarrow s3fs",
    "tests/files/test_web.py": "fsspec moto pyarrow s3fs",
    "tests/experiments/test_reproduce.py": "matplotlib rapidfuzz scipy sklearn torch",
    "tests/adapters/test_sentence_transformers.py": "sentence_transformers sklearn torch yaml",
    "tests/server/test_answers.py": "fastapi httpx",
    "tests/server/test_limits.py": "fastapi httpx",
    "tests/server/test_server.py": "fastapi hatchling httpx uvicorn",
    "tests/corpus/test_shards.py": "distributed pyarrow",
    "tests/adapters/test_sklearn.py": "pandas polars pyarrow sklearn",
    "tests/adapters/test_spacy.py": "hatchling spacy",
    "tests/adapters/test_spark_ray.py": "pyarrow pyspark ray",
    "tests/experiments/test_tagging.py": "scipy sklearn",
    "tests/adapters/test_torch.py": "torch",
    "tests/experiments/test_trust.py": "matplotlib rapidfuzz scipy sklearn torch",
}
SLOW = {  # the tier `slow`: files or tests; so are the tests that use the private data
    "tests/cli/test_cli.py::test_embed_streams_in_constant_memory",
    "tests/cli/test_cli.py::test_the_first_use_says_on_a_terminal_that_it_compiles",
    "tests/test_docs.py",
    "tests/test_examples.py",
    "tests/words/test_index.py::test_several_scripts_and_thousands_of_letters",
    "tests/server/test_page.py",
    "tests/server/test_page_access.py",
    "tests/adapters/test_spark_ray.py",
    "tests/files/test_model_folder.py::test_random_damage_never_crashes",
}
NUMPY_2 = {  # kernels as plain Python: the sum of an int and a uint64 is a float before NumPy 2
    "tests/model/test_copies.py::test_kernels_run_as_plain_python_too",
    "tests/training/test_solve.py::test_ridge_runs_as_plain_python_too",
    "tests/training/test_solve.py::test_sgd_runs_as_plain_python_too",
    "tests/words/test_index.py::test_em_runs_as_plain_python_too",
}
MISSING = {path: [name for name in needed.split() if not find_spec(name)] for path, needed in NEEDS.items()}
MISSING = {path: names for path, names in MISSING.items() if names}


def pytest_configure(config):
    """Leave out files whose extras are not installed. As an option, since hooks of this file do not apply to src."""
    left_out = [str(ROOT / path) for path in MISSING]
    config.option.ignore = [*(config.option.ignore or []), *left_out]
    globs = [*(f"{path}/*" for path in left_out), f"{ROOT}/tests/*conftest.py"]  # these have no doctests
    config.option.ignore_glob = [*(config.option.ignore_glob or []), *globs]


def pytest_terminal_summary(terminalreporter):
    """Report which files were left out."""
    for path, missing in MISSING.items():
        terminalreporter.write_line(f"skipped {path}: not installed: {', '.join(missing)}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark every test with its tier."""
    for item in items:
        path = item.path.relative_to(ROOT)
        names = {path.as_posix(), path.parent.as_posix(), f"{path.as_posix()}::{getattr(item, 'originalname', '')}"}
        if names & SLOW or "shared_data" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")
        else:
            item.add_marker("adapters" if names & NEEDS.keys() else "core")
        if names & NUMPY_2 and np.lib.NumpyVersion(np.__version__) < "2.0.0":
            item.add_marker(pytest.mark.skip(reason="needs NumPy 2"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The private data next to the checkout, or at PBOS_DATA."""
    if not DATA.is_dir():
        skip_or_fail(f"no data at {DATA}; set PBOS_DATA to run this test")
    return DATA


@pytest.fixture(scope="session")
def small_vectors() -> pbos.WordVectors:
    """Vectors of 2,000 words of an invented language, by scripts/make_fixture.py; 32 dims, most frequent first."""
    return pbos.WordVectors.read(FIXTURES / "vectors")


@pytest.fixture(scope="session")
def confident(small_vectors) -> pbos.Model:
    """A model that has a confidence; the words of small_vectors from 1,500 on are not training words."""
    return pbos.train((small_vectors.words[:1500], small_vectors.vectors[:1500]))


@pytest.fixture(scope="session")
def sentences(small_vectors) -> list[str]:
    """A text in which the words of small_vectors stand among words with similar vectors."""
    return samples.topical_sentences(small_vectors, 20_000)


@pytest.fixture(scope="session")
def contextual(small_vectors, sentences) -> pbos.Model:
    """A model that can use contexts; the words of small_vectors from 1,500 on are not training words."""
    return pbos.train((small_vectors.words[:1500], small_vectors.vectors[:1500]), text=sentences)


@pytest.fixture(scope="session")
def small_counts() -> pbos.WordCounts:
    """Counts of 3,000 words of that language; the first 2,000 are those of small_vectors."""
    return pbos.WordCounts.read(FIXTURES / "counts.tsv")


@pytest.fixture(scope="session")
def small_morphemes() -> dict[str, list[str]]:
    """The morphemes of each word of small_counts."""
    lines = (FIXTURES / "morphemes.txt").read_text("utf-8").splitlines()
    return {line.replace(" ", ""): line.split() for line in lines}


@pytest.fixture(scope="module")
def client():
    """Dask's client of two worker processes on this machine; with its address, there can be other clients here."""
    import dask

    from pbos.jobs import cluster

    with pytest.MonkeyPatch.context() as patch, cluster.started(n_workers=2) as client:
        patch.setattr(cluster, "PATIENCE", 300)  # tests kill all workers, and a busy machine is slow to start others
        own = client.security.get_tls_config_for_role("client")
        credentials = {"ca-file": own["ca_file"], "client.key": own["key"], "client.cert": own["cert"]}
        with dask.config.set({f"distributed.comm.tls.{name}": value for name, value in credentials.items()}):
            yield client


@pytest.fixture(autouse=True)
def ctrl_c():
    """Begin with the usual handler of SIGINT: it may be ignored, and commands leave it so, as they end processes."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def run(capfd, monkeypatch, tmp_path):
    """Run a command in an empty folder; return its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, stdin=None):
        monkeypatch.setattr(sys, "argv", ["pbos", *map(str, arguments)])
        if stdin is not None:
            (tmp_path / ".stdin").write_text(stdin, encoding="utf-8", newline="")
            monkeypatch.setattr(sys, "stdin", (tmp_path / ".stdin").open(encoding="utf-8"))
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return code, out, err

    return run


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub that this process and those it starts know, with a token and an empty cache."""
    import hub_server
    import huggingface_hub

    with hub_server.serve() as (hub, url):
        settings = {
            "HF_ENDPOINT": url,
            "HF_HOME": str(tmp_path / "home"),
            "HF_TOKEN": hub_server.TOKEN,
            "HF_HUB_DISABLE_XET": "1",  # the server speaks LFS
        }
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        constants = huggingface_hub.constants  # were read from the environment before
        monkeypatch.setattr(constants, "ENDPOINT", url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "home" / "hub"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        yield hub


def pytest_unconfigure():
    """Undo what a command does to end at once: other libraries would report what is left as leaks."""
    atexit.unregister(gc.freeze)


# A first call may compile a kernel, and a busy machine is slow, so no example has a deadline. Examples are always the
# same: a test fails because of a change, not of bad luck. The profile "thorough" hunts with new ones.
PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("default", **PATIENT, derandomize=True, max_examples=100)
settings.register_profile("thorough", **PATIENT, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
