# make fuzz         open and read damaged files for FUZZ_SECONDS, under the address sanitizer
# make fuzz-short   the same, just long enough to see that nothing obvious broke
# make fuzz-inflate the Deflate decoder of several streams against libdeflate
#
# The sanitizer and the coverage need unstable flags of the compiler, which RUSTC_BOOTSTRAP=1 allows on a stable one. The first
# build takes minutes: all dependencies, the C ones too, are compiled again with the sanitizer, into fuzz/target.
FUZZ_SECONDS ?= 60
FUZZ_SHORT_SECONDS ?= 25
# 10 s and 2 GiB are far more than any input of this size may cost.
FUZZ_FLAGS := -dict=fuzz/tiff.dict -max_len=65536 -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=512
# The threads of a write may still free their thread-local memory when a run ends, and the leak check then reports that memory as
# lost (seen once in 24,800 runs). Memory that really stays shows in the limit above.
FUZZ_FLAGS += -detect_leaks=0

.PHONY: fuzz fuzz-short fuzz-inflate fuzz-seeds fuzz-tool

fuzz-tool:
	@$(CARGO) fuzz --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-fuzz

fuzz-seeds:
	@CARGO="$(CARGO)" fuzz/seed.sh

fuzz: fuzz-tool fuzz-seeds
	RUSTC_BOOTSTRAP=1 $(FUZZ_PROFILE) $(CARGO) fuzz run open_read -- $(FUZZ_FLAGS) -max_total_time=$(FUZZ_SECONDS)

fuzz-inflate: fuzz-tool
	RUSTC_BOOTSTRAP=1 $(FUZZ_PROFILE) $(CARGO) fuzz run inflate -- -max_len=16384 -timeout=10 -max_total_time=$(FUZZ_SECONDS)

# Less optimised: on 2 cores it is built in 5 minutes in place of 8 or 9, and runs a tenth slower.
fuzz-short: FUZZ_PROFILE := CARGO_PROFILE_RELEASE_OPT_LEVEL=1
fuzz-short: FUZZ_SECONDS := $(FUZZ_SHORT_SECONDS)
fuzz-short: fuzz
