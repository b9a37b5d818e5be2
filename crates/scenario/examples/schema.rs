//! Prints the JSON Schema of scenarios.

fn main() {
    print!("{}", incast_scenario::schema::json());
}
