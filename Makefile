# make test         install what the tests need and run all tests
# make wheel        build the Python package in target/wheels
# make bench        compare speed and memory with other programs (an hour or more); results go to bench/results and
#                   docs/performance
# make bench-quick  the same with smaller images and fewer rows, in 3 minutes
# make bench-seeds  compare tiles moved one by one with one batch, on a simulated device
# make fuzz         run the fuzzer for FUZZ_SECONDS
# make faults       let every call of the system fail once, and write docs/faults.md (Linux)
# make features     check the Cargo features one by one
# make licences     write THIRD-PARTY-LICENSES.txt; run it after a change of Cargo.lock
# make sbom         list the linked crates and C libraries in target/sbom.cdx.json
# make device-test  run the device tests on the device in SWATH_TEST_DEVICE
# make ptx          compile the kernels for CUDA; run it after a change of a kernel
CARGO ?= cargo
VENV ?= .venv
PYTHON := $(VENV)/bin/python
BENCH_DIR ?= target/bench
SWATH := target/release/swath
WHEELS := target/wheels

.PHONY: all setup opencl nvidia-wheels build lint features supply-chain licences sbom test rust-test device-test ptx ptx-check corpus interop hostile faults wheel python python-lint python-test demo bench bench-quick bench-setup bench-seeds docs clean

all: build

# A Python environment with the programs that the tests compare with. The newest wheels of rasterio need Python 3.12, so the
# script uses the newest Python of the machine.
$(VENV)/.ready: tests/interop/requirements.txt tests/python/requirements.txt
	@scripts/venv $(VENV)
	@touch $@

setup: $(VENV)/.ready opencl nvidia-wheels
	@scripts/gdal-validator

# OpenCL on the CPU, on which the tests run the kernels.
opencl:
	@scripts/opencl

# NVIDIA's libraries; the tests call the functions that run without a GPU.
nvidia-wheels: $(VENV)/.ready
	@scripts/nvidia-wheels $(PYTHON)

build:
	$(CARGO) build --release

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets -- -D warnings

# Checks the build without optional codecs, with each one alone and with all.
features:
	@CARGO=$(CARGO) scripts/features

# Checks licences, sources and duplicates of the dependencies, and that THIRD-PARTY-LICENSES.txt is up to date.
supply-chain:
	@CARGO=$(CARGO) scripts/supply-chain

licences:
	CARGO=$(CARGO) scripts/third-party

# The bill of materials of a release, in CycloneDX. Equal sources give equal bytes.
sbom:
	@mkdir -p target
	CARGO=$(CARGO) scripts/third-party --sbom > target/sbom.cdx.json

rust-test: opencl nvidia-wheels
	$(CARGO) test --release --workspace -q

# Runs the device suite on one device of this machine, with its driver and libraries: SWATH_TEST_DEVICE=cuda:0 make device-test
# The Python tests use the CuPy and the PyTorch of the environment; without them they are skipped.
device-test:
	@test -n "$$SWATH_TEST_DEVICE" || { echo "set SWATH_TEST_DEVICE, for example to cuda:0 or opencl:0"; exit 2; }
	$(CARGO) test --release -p swath --test devices named:: -- --nocapture --test-threads 1
	@$(MAKE) --no-print-directory python
	$(PYTHON) -m pytest tests/python/gpu/test_gpu_named.py -q -rs

# Compiles the kernels to PTX, which the CUDA driver compiles further. Run it after a change of a kernel file.
ptx: $(VENV)/.ready
	@$(PYTHON) scripts/ptx

ptx-check: $(VENV)/.ready
	@$(PYTHON) scripts/ptx --check

# Compares every file of the corpus with GDAL's result; prints a notice if the corpus is missing. The command names the whole
# workspace, because cargo unifies the features of dependencies over all members: for one member alone it would compile nearly
# everything again.
corpus:
	$(CARGO) test --release --workspace --test corpus -- --nocapture --test-threads 1

# Swath, GDAL and tifffile read each other's files with equal pixels; malformed files give one sentence.
interop: build setup
	SWATH_BIN=$(SWATH) $(PYTHON) -m pytest tests/interop -q

# Files, addresses and targets that try to do harm: each ends in an error or the right result, in bounded time and memory.
hostile: build setup python
	SWATH_BIN=$(abspath $(SWATH)) $(PYTHON) -m pytest tests/hostile -q

# Every call of the system fails once: an error or the right file. `make hostile` tries a few calls of each kind.
faults: build setup python
	SWATH_BIN=$(abspath $(SWATH)) $(PYTHON) tests/hostile/faults/campaign.py

# The Python package. maturin reuses what cargo has built.
wheel: $(VENV)/.ready
	@rm -rf $(WHEELS)
	$(PYTHON) -m maturin build --quiet --release --interpreter $(PYTHON) --out $(WHEELS)
	@ls -l $(WHEELS) | awk 'NR > 1 { printf "%s: %.1f MB\n", $$9, $$5 / 1e6 }'

# Installs the package as users do.
python: wheel
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps $(WHEELS)/*.whl

python-lint: python
	$(PYTHON) -m ruff check python examples tests bench
	$(PYTHON) -m ruff format --check python examples tests/python
	$(PYTHON) -m mypy
	$(PYTHON) -m mypy.stubtest --allowlist scripts/stubtest-types-only swath._swath

# Compares the Python package with rasterio, rioxarray, tifffile and xarray-spatial, which it replaces.
python-test: build setup python-lint
	SWATH_BIN=$(abspath $(SWATH)) $(PYTHON) -m pytest tests/python -q -n 2 --dist loadfile -o faulthandler_timeout=300

demo: build
	$(SWATH) demo --dir target/demo --size 512

test: lint features supply-chain ptx-check rust-test corpus demo interop hostile python-test fuzz-short

# Compares Swath with other programs. BENCH_FLAGS narrows a run, for example: make bench-quick BENCH_FLAGS='--only "full read"'
bench: bench-setup
	SWATH_BIN=$(abspath $(SWATH)) $(PYTHON) bench/run.py --dir $(BENCH_DIR) $(BENCH_FLAGS)

bench-quick: bench-setup
	SWATH_BIN=$(abspath $(SWATH)) $(PYTHON) bench/run.py --dir $(BENCH_DIR) --quick $(BENCH_FLAGS)

# The Rust crates that take part are a cargo project of their own. The benchmark leaves them out if they do not build.
bench-setup: build setup python
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check -r bench/requirements.txt
	@$(CARGO) build --release --quiet --manifest-path bench/rust-peers/Cargo.toml || echo "*** bench/rust-peers DOES NOT BUILD"

# Measures what batching saves: tiles one by one and as one batch, from a slow source to a simulated device and back.
bench-seeds:
	$(CARGO) bench -p swath-sim --bench seeds

# Checks the links between Markdown files, and builds rustdoc without warnings.
docs:
	@scripts/links
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

clean:
	$(CARGO) clean
	rm -rf $(VENV)

-include fuzz/fuzz.mk
