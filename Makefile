corpus:
	cargo test --release -p swath --test corpus -- --nocapture --test-threads 1
