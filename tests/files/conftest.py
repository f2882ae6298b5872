"""An object store, for the tests of paths that are URLs."""

import logging

import pytest

import pbos


@pytest.fixture(scope="module")
def server():
    """An object store, found in the way that all programs find one: by environment variables."""
    import s3fs
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    address, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{address}:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        s3fs.S3FileSystem.clear_instance_cache()
        yield server
        s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


@pytest.fixture
def store(server, tmp_path, monkeypatch):
    """The object store with an empty bucket, and an empty cache."""
    import s3fs

    monkeypatch.setenv("PBOS_CACHE", str(tmp_path / "cache"))
    store = s3fs.S3FileSystem(use_listings_cache=False)
    if store.exists("bucket"):
        store.rm("bucket", recursive=True)
    store.mkdir("bucket")
    return store


@pytest.fixture(scope="module")
def model(small_vectors):
    return pbos.train((small_vectors.words[:500], small_vectors.vectors[:500]))
