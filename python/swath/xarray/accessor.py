"""The accessor `.swath` of DataArrays and Datasets: writes them, or reads the part of a file that they cover."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from ..write.to_geotiff import to_geotiff
from .under import open_under

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    import xarray as xr


class SwathDataArray:
    """The accessor of a DataArray: `da.swath.to_geotiff(path)`, `da.swath.open_geotiff(source)`."""

    def __init__(self, array: xr.DataArray) -> None:
        self._array = array

    def to_geotiff(self, path: Any, **keywords: Any) -> Any:
        """Write this array; the same as `swath.to_geotiff(da, path, ...)`."""
        return to_geotiff(self._array, path, **keywords)

    def open_geotiff(
        self,
        source: Any,
        *,
        auto_reproject: bool = False,
        coregister: bool = False,
        resampling: str = "auto",
        **keywords: Any,
    ) -> xr.DataArray:
        """Read the part of a file that this array covers.

        The result has the same kind of array as this one: dask if it has chunks, CuPy if it is on a GPU. `chunks=`
        and `gpu=` override that.

        Parameters
        ----------
        source : str, os.PathLike, bytes or binary file object
            As in `swath.open_geotiff`.
        auto_reproject : bool
            Whether the file may have another CRS. Swath does not reproject: if the two systems differ, the call raises
            NotImplementedError with a hint to a package that does.
        coregister : bool
            Unpack the pixels and resample them to the exact grid of this array, from the coarsest overview that is fine
            enough. Pixels that the file does not cover are NaN.
        resampling : {"auto", "nearest", "bilinear", "cubic"}
            Method for `coregister`. "auto" uses nearest for integers and palettes, and bilinear for other data.
        **keywords
            As in `swath.open_geotiff`, except `window`, which is computed here.

        Returns
        -------
        xarray.DataArray
        """
        return open_under(
            self._array,
            source,
            auto_reproject=auto_reproject,
            coregister=coregister,
            resampling=resampling,
            keywords=keywords,
        )


class SwathDataset:
    """The accessor of a Dataset: `ds.swath.to_geotiff(path, var)`, `ds.swath.open_geotiff(source)`."""

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def to_geotiff(self, path: Any, var: Any = None, **keywords: Any) -> Any:
        """Write all variables as bands with their names, or one variable: `swath.to_geotiff(ds[var], path, ...)`."""
        return to_geotiff(self._dataset if var is None else self._dataset[var], path, **keywords)

    def open_geotiff(
        self,
        source: Any,
        *,
        auto_reproject: bool = False,
        var: Any = None,
        coregister: bool = False,
        resampling: str = "auto",
        **keywords: Any,
    ) -> xr.DataArray:
        """Read the part of a file that this dataset covers, like `DataArray.swath.open_geotiff`.

        `var` names the variable that determines the CRS and the kind of array (numpy, dask, CuPy). None uses the
        first variable with dimensions (y, x).
        """
        return SwathDataArray(template_of(self._dataset, var)).open_geotiff(
            source, auto_reproject=auto_reproject, coregister=coregister, resampling=resampling, **keywords
        )


def template_of(target: xr.DataArray | xr.Dataset, var: Any = None) -> xr.DataArray:
    """Returns the array that determines the grid, the CRS and the kind of array of a target."""
    import xarray as xr

    if isinstance(target, xr.DataArray):
        return target
    if var is None:
        on_grid = [name for name, v in target.data_vars.items() if {"y", "x"} <= set(v.dims)]
        # Prefers a variable that only describes the grid.
        var = min(on_grid, key=lambda name: target[name].ndim, default=None)
        if var is None:
            raise ValueError(
                "Dataset has no 2D variable with 'y' and 'x' dimensions to use for backend inference. Pass "
                "var='<name>' to select one, or call swath.open_geotiff(source, ...) directly."
            )
    array: xr.DataArray = target[var]
    if not {"crs", "crs_wkt"} & array.attrs.keys():
        array = array.assign_attrs({name: target.attrs[name] for name in ("crs", "crs_wkt") if name in target.attrs})
    return array


def register() -> None:
    """Registers `.swath` with xarray's classes. Repeated calls have no effect."""
    import xarray as xr

    if getattr(xr.DataArray, "swath", None) is not SwathDataArray:
        xr.register_dataarray_accessor("swath")(SwathDataArray)  # type: ignore[no-untyped-call]
        xr.register_dataset_accessor("swath")(SwathDataset)  # type: ignore[no-untyped-call]


def register_with_xarray() -> None:
    """Registers `.swath` now if xarray is imported, else when it is imported."""
    if "xarray" in sys.modules:
        register()
    elif not any(isinstance(finder, _WhenImported) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenImported())


class _WhenImported:
    """An import hook that registers the accessors after xarray's module has run, and then removes itself."""

    def __init__(self) -> None:
        self._asking = False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "xarray" or self._asking:
            return None
        import importlib.util

        self._asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking = False
        if spec is None or spec.loader is None:
            return spec
        loader, run = spec.loader, spec.loader.exec_module

        def run_and_register(module: ModuleType) -> None:
            del loader.exec_module
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            run(module)
            register()

        # A loader without a settable `exec_module` stays unchanged: the engine also registers the accessors.
        with contextlib.suppress(AttributeError):
            loader.exec_module = run_and_register  # type: ignore[method-assign]
        return spec
