"""Remote files through open_geotiff and to_geotiff: the same arrays as for local files, and the errors of the
contract.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import xarray as xr

import swath
from range_server import RangeServer, range_server
from swath.remote import http


@pytest.fixture(scope="module")
def scene() -> xr.DataArray:
    values = np.random.default_rng(3).integers(0, 900, (700, 900)).astype("uint16")
    values[:40, :50] = 0
    coords = {"y": 5_000_000 - 20.0 * np.arange(700) - 10, "x": 400_000 + 20.0 * np.arange(900) + 10}
    return xr.DataArray(values, dims=("y", "x"), coords=coords, attrs={"crs": 32633, "nodata": 0})


@pytest.fixture(scope="module")
def local(scene: xr.DataArray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("remote") / "scene.tif"
    swath.to_geotiff(scene, str(path), cog=True, tile_size=128)
    return path


@pytest.fixture
def server(local: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RangeServer]:
    monkeypatch.setenv("SWATH_ALLOW_PRIVATE_HOSTS", "1")
    monkeypatch.setattr(http, "BACKOFF", 0.001)
    with range_server() as server:
        server.files["/data/scene.tif"] = local.read_bytes()
        yield server


@pytest.fixture
def bucket(local: Path) -> Iterator[str]:
    """A folder of the memory filesystem with the scene in it."""
    name = f"/{uuid.uuid4().hex}"
    filesystem = fsspec.filesystem("memory")
    filesystem.pipe_file(f"{name}/scene.tif", local.read_bytes())
    yield f"memory:/{name}"
    filesystem.rm(name, recursive=True)


@pytest.fixture(params=["http", "fsspec"])
def url(request: pytest.FixtureRequest, server: RangeServer, bucket: str) -> str:
    return server.url("/data/scene.tif") if request.param == "http" else f"{bucket}/scene.tif"


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"masked": True},
        {"window": (100, 200, 300, 450)},
        {"bbox": (402_000, 4_990_000, 406_000, 4_996_000)},
        {"overview_level": 1},
        {"chunks": 256},
        {"chunks": (200, 300), "masked": True, "window": (10, 20, 500, 600)},
    ],
    ids=str,
)
def test_a_remote_file_is_the_same_array_as_a_local_one(url: str, local: Path, how: dict[str, Any]) -> None:
    there, here = swath.open_geotiff(url, **how), swath.open_geotiff(local, **how)
    xr.testing.assert_identical(there.compute(), here.compute())
    assert there.chunks == here.chunks


def test_the_name_is_that_of_the_file_without_query_and_fragment(server: RangeServer) -> None:
    assert swath.open_geotiff(server.url("/data/scene.tif?version=1&x=a/b.c#part")).name == "scene"


def test_chunks_fetch_the_header_once_and_nothing_else_before_they_are_computed(server: RangeServer) -> None:
    lazy = swath.open_geotiff(server.url("/data/scene.tif"), chunks=384)
    assert sorted(request.path for request in server.requests) == ["/data/scene.tif", "/data/scene.tif.ovr"]
    lazy.compute(scheduler="threads")
    assert len(server.requests) <= 2 + 6, "one request for each chunk"
    assert server.connections <= 9


def test_an_html_page_instead_of_overviews_is_reported(url: str, server: RangeServer, bucket: str, local: Path) -> None:
    # Some servers answer every name with an HTML page, also for missing files.
    server.files["/data/scene.tif.ovr"] = b"<html>Not found</html>"
    fsspec.filesystem("memory").pipe_file(f"{bucket.removeprefix('memory:/')}/scene.tif.ovr", b"<html>Not found</html>")
    with pytest.warns(
        RuntimeWarning, match=r"Ignoring unreadable sidecar '.*/scene\.tif\.ovr': .*not a TIFF"
    ) as caught:
        xr.testing.assert_identical(swath.open_geotiff(url), swath.open_geotiff(local))
    assert len(caught) == 1
    with pytest.raises(ValueError, match=r"overview_level=9 from external sidecar '.*/scene\.tif\.ovr'"):
        swath.open_geotiff(url, overview_level=9)


class TestStableOnly:
    def test_refuses_remote_files_before_any_request(self, url: str, server: RangeServer) -> None:
        with pytest.raises(swath.RemoteStableSourcesOnlyError, match="stable_only"):
            swath.open_geotiff(url, stable_only=True)
        assert server.requests == []

    def test_allows_experimental_sources_on_request(self, url: str) -> None:
        assert swath.open_geotiff(url, stable_only=True, allow_experimental_codecs=True).shape == (700, 900)


class TestMaxCloudBytes:
    def test_bounds_objects_and_not_http(self, server: RangeServer, bucket: str) -> None:
        with pytest.raises(swath.CloudSizeLimitError, match="max_cloud_bytes=1000"):
            swath.open_geotiff(f"{bucket}/scene.tif", max_cloud_bytes=1000)
        with pytest.raises(swath.CloudSizeLimitError, match="max_cloud_bytes=1000"):
            swath.open_geotiff(f"{bucket}/scene.tif", max_cloud_bytes=1000, window=(0, 0, 1, 1))
        assert swath.open_geotiff(server.url("/data/scene.tif"), max_cloud_bytes=1000).shape == (700, 900)

    def test_can_be_switched_off(self, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SWATH_MAX_CLOUD_BYTES", "1000")
        with pytest.raises(swath.CloudSizeLimitError):
            swath.open_geotiff(f"{bucket}/scene.tif")
        assert swath.open_geotiff(f"{bucket}/scene.tif", max_cloud_bytes=None).shape == (700, 900)
        assert swath.open_geotiff(f"{bucket}/scene.tif", chunks=256).shape == (700, 900), "chunks have no budget"

    @pytest.mark.parametrize("how", [{"chunks": 16}, {"gpu": True}], ids=str)
    def test_is_for_eager_reads_of_the_cpu(self, bucket: str, how: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="max_cloud_bytes"):
            swath.open_geotiff(f"{bucket}/scene.tif", max_cloud_bytes=1 << 30, **how)

    def test_is_not_for_mosaics(self, bucket: str) -> None:
        with pytest.raises(ValueError, match="max_cloud_bytes"):
            swath.open_geotiff(f"{bucket}/scene.vrt", max_cloud_bytes=1 << 30)


@pytest.mark.parametrize("chunks", [None, 256])
def test_headers_of_the_user_go_with_every_request(server: RangeServer, chunks: int | None) -> None:
    options = {"headers": {"Authorization": "Bearer key"}}
    swath.open_geotiff(server.url("/data/scene.tif"), storage_options=options, chunks=chunks).compute()
    assert len(server.requests) > 2
    assert {request.headers.get("Authorization") for request in server.requests} == {"Bearer key"}


def test_private_hosts_are_refused_with_their_url(server: RangeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWATH_ALLOW_PRIVATE_HOSTS")
    for how in ({}, {"chunks": 64}, {"window": (0, 0, 5, 5)}):
        with pytest.raises(swath.UnsafeURLError, match="private") as caught:
            swath.open_geotiff(server.url("/data/scene.tif"), **how)  # type: ignore[arg-type]
        assert caught.value.url == server.url("/data/scene.tif")
    assert server.requests == []


def test_a_missing_file_is_not_found(server: RangeServer, bucket: str) -> None:
    for missing in (server.url("/data/no.tif"), f"{bucket}/no.tif"):
        with pytest.raises(FileNotFoundError, match=r"no\.tif"):
            swath.open_geotiff(missing)


class TestWriting:
    @pytest.mark.parametrize("how", [{}, {"cog": True}, {"compression": "deflate", "tile_size": 64}], ids=str)
    def test_objects_have_the_bytes_of_local_files(
        self, bucket: str, scene: xr.DataArray, tmp_path: Path, how: dict[str, Any]
    ) -> None:
        target = f"{bucket}/out/w.tif"
        assert swath.to_geotiff(scene, target, **how) == target
        swath.to_geotiff(scene, str(tmp_path / "w.tif"), **how)
        eager = fsspec.filesystem("memory").cat_file(target)
        assert eager == (tmp_path / "w.tif").read_bytes()
        swath.to_geotiff(scene.chunk(200), target, **how)
        assert fsspec.filesystem("memory").cat_file(target) == eager, "dask arrays are streamed to the same bytes"

    def test_a_failing_graph_keeps_the_old_object(self, bucket: str, scene: xr.DataArray) -> None:
        def fail(block: Any, block_info: Any = None) -> Any:
            if block_info and block_info[0]["chunk-location"] == (3, 0):
                raise RuntimeError("a chunk failed")
            return block

        target = f"{bucket}/scene.tif"
        before = fsspec.filesystem("memory").cat_file(target)
        broken = scene.chunk({"y": 200, "x": -1})
        broken = broken.copy(data=broken.data.map_blocks(fail, dtype=scene.dtype))
        with pytest.raises(RuntimeError, match="a chunk failed"):
            swath.to_geotiff(broken, target, streaming_buffer_bytes=1 << 18)
        assert fsspec.filesystem("memory").cat_file(target) == before
        assert len(fsspec.filesystem("memory").ls(bucket, detail=False)) == 1

    @pytest.mark.parametrize("target", ["http://host/w.tif", "HTTPS://host/w.tif"])
    def test_http_takes_no_files(self, scene: xr.DataArray, target: str) -> None:
        with pytest.raises(NotImplementedError, match="HTTP"):
            swath.to_geotiff(scene, target)


def test_the_reference_reads_what_is_written_to_a_bucket(reference: Any, bucket: str, scene: xr.DataArray) -> None:
    swath.to_geotiff(scene, f"{bucket}/w.tif")
    theirs = reference.open_geotiff(f"{bucket}/w.tif")
    assert np.array_equal(theirs.values, scene.values)
    assert theirs.attrs["crs"] == 32633
