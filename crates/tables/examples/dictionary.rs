//! Prints the page `docs/reference/results.md`: `cargo run -p incast-tables --example dictionary > docs/reference/results.md`.

fn main() {
    print!("{}", incast_tables::dictionary::markdown());
}
