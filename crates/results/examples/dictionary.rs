//! Prints the page `docs/results.md`: `cargo run -p incast-results --example dictionary > docs/results.md`.

fn main() {
    print!("{}", incast_results::dictionary::markdown());
}
