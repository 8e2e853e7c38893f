"""Files that are read over a network.

* `open`: opens a URL and decides who reads it
* `http`, `connection`, `address`: http(s) URLs, kept-alive connections, which hosts may be connected to
* `fsspec`: object stores and everything else that fsspec opens
* `ranges`: which byte ranges are requested for the spans that the engine reads
"""
