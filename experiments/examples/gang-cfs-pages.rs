//! Makes `docs/gang-cfs.md`, `docs/gang-cfs-sensitivity.md` and `results/gang-cfs.json` anew, by the full protocol.
use std::path::Path;

use plan::EngineError;
use vmmlab::reproduce::Committed;

fn main() -> Result<(), EngineError> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    Committed::write(&root)
}
