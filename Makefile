# make test    everything, installing what the tests need first
# make wheel   the Python package, in target/wheels
# make bench   speed compared with other programs, results in bench/results
# make bench-seeds  tiles moved one by one against one batch, on a simulated device
# make fuzz    the fuzzer, for FUZZ_SECONDS
# make features  the Cargo features, checked one by one
# make ptx     the kernels for CUDA, after a change of one
CARGO ?= cargo
VENV ?= .venv
PYTHON := $(VENV)/bin/python
BENCH_DIR ?= target/bench
SWATH := target/release/swath
WHEELS := target/wheels

.PHONY: all setup opencl nvidia-wheels build lint features test rust-test ptx ptx-check corpus interop wheel python python-lint python-test demo bench bench-seeds docs clean

all: build

# A Python with the programs that Swath is compared with. rasterio's newest wheels want Python 3.12, so the newest Python of the machine is taken.
$(VENV)/.ready: tests/interop/requirements.txt tests/python/requirements.txt
	@scripts/venv $(VENV)
	@touch $@

setup: $(VENV)/.ready opencl nvidia-wheels
	@scripts/gdal-validator

# OpenCL on the CPU: what the kernels run on in tests.
opencl:
	@scripts/opencl

# NVIDIA's libraries: what of them runs without a GPU is called in tests.
nvidia-wheels: $(VENV)/.ready
	@scripts/nvidia-wheels $(PYTHON)

build:
	$(CARGO) build --release

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets -- -D warnings

# The build without optional codecs, with each one alone and with all.
features:
	@CARGO=$(CARGO) scripts/features

rust-test: opencl nvidia-wheels
	$(CARGO) test --release --workspace -q

# The kernels as PTX, which the CUDA driver compiles; after a change of a kernel file.
ptx: $(VENV)/.ready
	@$(PYTHON) scripts/ptx

ptx-check: $(VENV)/.ready
	@$(PYTHON) scripts/ptx --check

# Every file of the corpus against what GDAL makes of it; says so loudly when the corpus is not there. The whole workspace is named
# because features of dependencies are those of all its members: for one member alone nearly everything would be compiled again.
corpus:
	$(CARGO) test --release --workspace --test corpus -- --nocapture --test-threads 1

# What GDAL and tifffile write is read back equal; hostile files end in one sentence.
interop: build setup
	SWATH_BIN=$(SWATH) $(PYTHON) -m pytest tests/interop -q

# The Python package. maturin takes what cargo has built already.
wheel: $(VENV)/.ready
	@rm -rf $(WHEELS)
	$(PYTHON) -m maturin build --quiet --release --interpreter $(PYTHON) --out $(WHEELS)
	@ls -l $(WHEELS) | awk 'NR > 1 { printf "%s: %.1f MB\n", $$9, $$5 / 1e6 }'

# The package as users install it.
python: wheel
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps $(WHEELS)/*.whl

python-lint: python
	$(PYTHON) -m ruff check python examples tests bench
	$(PYTHON) -m ruff format --check python examples tests/python
	$(PYTHON) -m mypy
	$(PYTHON) -m mypy.stubtest --allowlist scripts/stubtest-types-only swath._swath

# The Python package against rasterio, rioxarray, tifffile and the system it replaces.
python-test: build setup python-lint
	SWATH_BIN=$(abspath $(SWATH)) $(PYTHON) -m pytest tests/python -q -n 2 --dist loadfile

demo: build
	$(SWATH) demo --dir target/demo --size 512

test: lint features ptx-check rust-test corpus demo interop python-test fuzz-short

bench: build setup python
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check -r bench/requirements.txt
	SWATH_BIN=$(abspath $(SWATH)) $(PYTHON) bench/python.py --dir $(BENCH_DIR)
	SWATH_BIN=$(SWATH) $(PYTHON) bench/read.py --dir $(BENCH_DIR)
	SWATH_BIN=$(SWATH) $(PYTHON) bench/latency.py --dir $(BENCH_DIR)
	SWATH_BIN=$(SWATH) $(PYTHON) bench/write.py --dir $(BENCH_DIR)

# What batching saves: tiles one by one against one batch, from a slow source to a simulated device and back.
bench-seeds:
	$(CARGO) bench -p swath-sim --bench seeds

# Links between Markdown files, and rustdoc without warnings.
docs:
	@scripts/links
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

clean:
	$(CARGO) clean
	rm -rf $(VENV)

-include fuzz/fuzz.mk
