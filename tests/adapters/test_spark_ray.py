"""The embedder on Spark and Ray, both real and on this machine: the vectors are those of `model.embed`."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import ray
from places import skip_or_fail
from pyarrow import parquet
from pyspark.sql import SparkSession
from test_docs import ROOT, blocks_of

import pbos
from pbos.adapters.arrow import Embedder

PAGE = ROOT / "docs" / "recipes" / "spark-and-ray.md"


@pytest.fixture(scope="module")
def folder(confident, tmp_path_factory):
    """A working folder with a model; Spark stays where it was started."""
    folder = tmp_path_factory.mktemp("spark")
    confident.save(folder / "my-model")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


@pytest.fixture(scope="module")
def spark(folder):
    if shutil.which("java") is None:
        skip_or_fail("Spark needs Java")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.host": "localhost"}
        spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
        yield spark
        spark.stop()


@pytest.fixture(scope="module")
def started_ray(folder):
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


def check(rows, model):
    """Compare the vectors and confidences of rows, as dicts, with those of the model."""
    words = [row["word"] for row in rows if row["word"]]
    vectors = np.array([row["vector"] for row in rows if row["word"]], np.float32)
    assert np.array_equal(vectors, model.embed(words))
    assert [row["trust"] for row in rows if row["word"]] == model.confidence(words).tolist()
    assert all(row["vector"] is row["trust"] is None for row in rows if row["word"] is None)


def test_spark(spark, confident, small_vectors):
    words = [*small_vectors.words[1400:1600], None, "ЖЖ"]
    frame = spark.createDataFrame(list(enumerate(words)), "id long, word string")
    embedder = Embedder("my-model", confidence_column="trust", missing="null")
    found = frame.mapInArrow(embedder, "id long, word string, vector array<float>, trust float").orderBy("id").collect()
    assert [row.word for row in found] == words
    check([row.asDict() for row in found], confident)


def test_spark_reads_what_embed_files_writes(spark, confident, small_vectors):
    parquet.write_table(pa.table({"word": small_vectors.words[:50]}), "words.parquet")
    pbos.embed_files("my-model", "words.parquet", "made-by-pbos", confidence_column="trust")
    check([row.asDict() for row in spark.read.parquet("made-by-pbos").collect()], confident)


def test_ray(started_ray, confident, small_vectors):
    words = [*small_vectors.words[1400:1600], None, "ЖЖ"]
    dataset = ray.data.from_arrow(pa.table({"id": range(len(words)), "word": words})).repartition(2)
    embedder = Embedder("my-model", confidence_column="trust", missing="null")
    found = sorted(dataset.map_batches(embedder, batch_format="pyarrow").take_all(), key=lambda row: row["id"])
    assert [row["word"] for row in found] == words
    check(found, confident)


def test_the_page(spark, started_ray, confident):
    names = {}
    for block in blocks_of(PAGE.read_text(encoding="utf-8")):
        assert (block.language, block.not_run) == ("python", "test_spark_ray.py does")
        exec(block.text, names)
    for made in ("vectors", "more-vectors"):
        rows = pa.concat_tables(map(parquet.read_table, sorted(Path(made).glob("*.parquet")))).to_pylist()
        assert {row["word"] for row in rows} == {"unfriendliest", "covfefe"}
        for row in rows:
            assert np.array_equal(row["vector"], confident[row["word"]])
