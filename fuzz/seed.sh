#!/bin/sh
# Fill fuzz/corpus/open_read with files to start from: those that the tests make, and the small ones of the shared corpus
# (SWATH_CORPUS, or ../shared/corpus) where there is one, with their sidecars in the way that the target takes them.
set -eu
cd "$(dirname "$0")/.."
out=fuzz/corpus/open_read
mkdir -p "$out"

SWATH_SEEDS="$PWD/$out" "${CARGO:-cargo}" test --release -q -p swath --test mutations seeds_are_valid_files

corpus=${SWATH_CORPUS:-../shared/corpus}
[ -d "$corpus" ] || exit 0
find "$corpus" -type f -size -64k \( -iname '*.tif' -o -iname '*.tiff' -o -iname '*.tf8' -o -iname '*.btf' \) |
	while read -r file; do
		name=$(sha1sum <"$file" | cut -c 1-40)
		[ -e "$out/$name" ] || cp "$file" "$out/$name"
		for kind in a:.aux.xml o:.ovr m:.msk; do
			beside="$file${kind#*:}"
			[ -e "$beside" ] || continue
			{
				cat "$file"
				printf '<!--beside:%s' "${kind%%:*}"
				cat "$beside"
			} >"$out/$name${kind#*:}"
		done
	done
