//! Runs scenarios and writes their tables: `write OUT SCENARIO...`. `make test-aarch64` compares what two processors write.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use incast::{Control, Job, Scenario};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let out = arguments.next().ok_or("usage: write OUT SCENARIO...")?;
    for file in arguments {
        let scenario = Scenario::parse(&fs::read_to_string(&file)?, &file, &[]).map_err(|report| report.to_string())?;
        let Job { plan, world } = Job::new(&scenario, None, None).map_err(|report| report.to_string())?;
        let run = world.run(&plan, &Control::default())?;
        let name = Path::new(&file).file_stem().ok_or("a scenario has a name")?;
        incast_tables::write(&run, &Path::new(&out).join(name))?;
    }
    Ok(())
}
