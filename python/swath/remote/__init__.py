"""Remote files.

* `open`: opens a URL and chooses the reader
* `http`, `connection`, `address`: http(s) URLs, kept-alive connections, the check of host addresses
* `fsspec`: object stores and every other filesystem of fsspec
* `ranges`: the byte ranges to request for the spans that the engine reads
"""
