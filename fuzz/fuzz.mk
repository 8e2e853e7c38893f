# make fuzz         open and read damaged files for FUZZ_SECONDS, under the address sanitizer
# make fuzz-short   the same, just long enough to see that nothing obvious broke
# make fuzz-TARGET  another target for FUZZ_SECONDS; docs/fuzzing.md describes them
# make fuzz-all     all targets, one after the other, each for FUZZ_SECONDS
#
# The sanitizer and the coverage need unstable flags of the compiler, which RUSTC_BOOTSTRAP=1 allows on a stable one. The first
# build takes minutes: all dependencies, the C ones too, are compiled again with the sanitizer, into fuzz/target.
FUZZ_SECONDS ?= 60
FUZZ_SHORT_SECONDS ?= 25
# A clang, for example clang-15: the C code is then built with coverage too, which gcc cannot do.
FUZZ_CLANG ?=
FUZZ_C := $(if $(FUZZ_CLANG),CC=$(FUZZ_CLANG) CFLAGS="-fsanitize=address -fsanitize=fuzzer-no-link -g1")
FUZZ_TARGETS := decode default_limits directory geokeys inflate kernels open_read plan round_trip unzstd wkt xml
# 10 s and 2 GiB are far more than any input of this size may cost.
FUZZ_FLAGS := -timeout=10 -rss_limit_mb=2048
# The threads of a write may still free their thread-local memory when a run ends, and the leak check then reports that memory as
# lost (seen once in 24,800 runs). Memory that really stays shows in the limit above.
FUZZ_FLAGS += -detect_leaks=0

# Flags of one target.
FUZZ_FLAGS_decode := -dict=fuzz/codecs.dict -max_len=4096 -malloc_limit_mb=512
FUZZ_FLAGS_default_limits := -dict=fuzz/tiff.dict -max_len=65536
FUZZ_FLAGS_directory := -dict=fuzz/tiff.dict -max_len=8192 -malloc_limit_mb=64
FUZZ_FLAGS_geokeys := -max_len=2048
FUZZ_FLAGS_inflate := -max_len=16384
FUZZ_FLAGS_kernels := -max_len=2048
FUZZ_FLAGS_open_read := -dict=fuzz/tiff.dict -max_len=65536 -malloc_limit_mb=512
FUZZ_FLAGS_plan := -dict=fuzz/plan.dict -max_len=4096
FUZZ_FLAGS_round_trip := -max_len=1024
FUZZ_FLAGS_unzstd := -max_len=16384
FUZZ_FLAGS_wkt := -dict=fuzz/wkt.dict -max_len=4096
FUZZ_FLAGS_xml := -dict=fuzz/xml.dict -max_len=4096
# Targets that take a file share their seeds.
FUZZ_SEEDS_default_limits := open_read
FUZZ_SEEDS_directory := open_read

.PHONY: fuzz fuzz-short fuzz-all fuzz-seeds fuzz-tool $(FUZZ_TARGETS:%=fuzz-%)

fuzz-tool:
	@$(CARGO) fuzz --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-fuzz

# More files for open_read than the repository holds.
fuzz-seeds:
	@CARGO="$(CARGO)" fuzz/seed.sh

$(FUZZ_TARGETS:%=fuzz-%): fuzz-%: fuzz-tool
	@mkdir -p fuzz/corpus/$*
	RUSTC_BOOTSTRAP=1 $(FUZZ_C) $(FUZZ_PROFILE) $(CARGO) fuzz run $* fuzz/corpus/$* fuzz/seeds/$(or $(FUZZ_SEEDS_$*),$*) -- \
		$(FUZZ_FLAGS) $(FUZZ_FLAGS_$*) -max_total_time=$(FUZZ_SECONDS)

fuzz: fuzz-seeds fuzz-open_read

fuzz-all: fuzz-seeds $(FUZZ_TARGETS:%=fuzz-%)

# Less optimised: on 2 cores it is built in 5 minutes in place of 8 or 9, and runs a tenth slower.
fuzz-short: FUZZ_PROFILE := CARGO_PROFILE_RELEASE_OPT_LEVEL=1
fuzz-short: FUZZ_SECONDS := $(FUZZ_SHORT_SECONDS)
fuzz-short: fuzz
