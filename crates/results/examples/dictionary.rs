//! Prints the page `docs/reference/results.md`: `cargo run -p incast-results --example dictionary > docs/reference/results.md`.

fn main() {
    print!("{}", incast_results::dictionary::markdown());
}
