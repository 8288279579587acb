//! Which mode is compared with which, and which block belongs to which.

use plan::{RunRecord, RunStatus};

use super::{CompareError, Design, Request, Side};
use crate::result::ResultFile;

/// Two sides with the runs whose values are compared.
pub(super) struct Matched<'a> {
    pub(super) old: Side,
    pub(super) new: Side,
    pub(super) old_runs: Vec<&'a RunRecord>,
    pub(super) new_runs: Vec<&'a RunRecord>,
    pub(super) design: Design,
}

/// The counter in which the simulator leaves the digest of all its events.
const SIM_DIGEST: &str = "sim_digest";

impl Matched<'_> {
    /// Whether both sides are the same simulated runs: the same events in every block.
    pub(super) fn same_events(&self) -> bool {
        let digest = |run: &RunRecord| run.counters.get(SIM_DIGEST).copied();
        let mut blocks = self.old_runs.iter().zip(&self.new_runs);
        self.design == Design::Paired
            && !self.old_runs.is_empty()
            && blocks.all(|(old, new)| digest(old).is_some() && digest(old) == digest(new))
    }
}

/// The modes of input 0 and input `new` that are compared with each other.
pub(super) fn modes(
    results: &[&ResultFile],
    new: usize,
    request: &Request,
) -> Result<Vec<(String, String)>, CompareError> {
    let names = |input: usize| results[input].experiment.plans.iter().map(|plan| plan.mode.as_str());
    let known = |input: usize, mode: &str| match names(input).any(|name| name == mode) {
        true => Ok(mode.to_owned()),
        false => {
            Err(CompareError::NoSuchMode { mode: mode.to_owned(), known: names(input).collect::<Vec<_>>().join(", ") })
        }
    };
    let base = request.base.as_deref().map(|mode| known(0, mode)).transpose()?;
    let asked = request.new.as_deref().map(|mode| known(new, mode)).transpose()?;
    let pairs: Vec<(String, String)> = match (base, asked) {
        (Some(base), Some(asked)) => vec![(base, asked)],
        // Two results: a mode that is named on one side is meant on both.
        (Some(mode), None) | (None, Some(mode)) if new != 0 => {
            vec![(known(0, &mode)?, known(new, &mode)?)]
        }
        (None, None) if new != 0 => {
            names(0).filter(|mode| names(new).any(|other| other == *mode)).map(|m| (m.into(), m.into())).collect()
        }
        // One result: all modes against one, or each against the reference among those with as many VMs.
        (base, asked) => {
            let others = names(0).filter(|mode| asked.as_deref().is_none_or(|asked| asked == *mode));
            let against = |mode| base.as_deref().or_else(|| results[0].experiment.reference(mode));
            let pairs = others.filter_map(|mode| Some((against(mode)?, mode))).filter(|(base, mode)| base != mode);
            pairs.map(|(base, mode)| (base.to_owned(), mode.to_owned())).collect()
        }
    };
    if pairs.is_empty() {
        let list = |input: usize| names(input).collect::<Vec<_>>().join(", ");
        return Err(CompareError::NothingInCommon { old: list(0), new: list(new) });
    }
    Ok(pairs)
}

/// The good runs of both modes, matched block by block where blocks belong together.
pub(super) fn matched<'a>(results: &[&'a ResultFile], new: usize, (old_mode, new_mode): (&str, &str)) -> Matched<'a> {
    let (a, b) = (results[0], results[new]);
    let (mut old_runs, mut new_runs) = (good(a, old_mode), good(b, new_mode));
    let together = |run: &RunRecord, other: &RunRecord| {
        run.block == other.block && (new == 0 || (a.engine == "sim" && b.engine == "sim" && run.seed == other.seed))
    };
    let partner = |run: &RunRecord, others: &[&RunRecord]| others.iter().any(|other| together(run, other));
    let has_pairs = old_runs.iter().any(|run| partner(run, &new_runs));
    // Results whose seeds agree in some blocks and differ in others were not made to be paired.
    let conflict = old_runs
        .iter()
        .any(|run| new != 0 && new_runs.iter().any(|other| run.block == other.block && run.seed != other.seed));
    let design = if has_pairs && !conflict || new == 0 { Design::Paired } else { Design::Unpaired };
    if design == Design::Paired {
        old_runs.retain(|run| partner(run, &new_runs));
        new_runs.retain(|run| partner(run, &old_runs));
    }
    Matched {
        old: side(a, 0, old_mode, old_mode.into(), &old_runs),
        new: side(b, new, new_mode, new_mode.into(), &new_runs),
        old_runs,
        new_runs,
        design,
    }
}

/// One mode against itself: its even blocks against its odd ones.
pub(super) fn split<'a>(result: &'a ResultFile, mode: &str) -> Matched<'a> {
    let (even, odd): (Vec<_>, Vec<_>) = good(result, mode).into_iter().partition(|run| run.block % 2 == 0);
    Matched {
        old: side(result, 0, mode, format!("{mode}, even blocks"), &even),
        new: side(result, 0, mode, format!("{mode}, odd blocks"), &odd),
        old_runs: even,
        new_runs: odd,
        design: Design::Unpaired,
    }
}

/// The good runs of a mode by block; of several runs of one block, the first.
fn good<'a>(result: &'a ResultFile, mode: &str) -> Vec<&'a RunRecord> {
    let mut runs: Vec<_> = result.runs.iter().filter(|r| r.mode == mode && r.status == RunStatus::Ok).collect();
    runs.sort_by_key(|run| run.block);
    runs.dedup_by_key(|run| run.block);
    runs
}

fn side(result: &ResultFile, input: usize, mode: &str, label: String, runs: &[&RunRecord]) -> Side {
    let plan = result.experiment.plans.iter().find(|plan| plan.mode == mode);
    let axes = plan.map(|plan| plan.axes).or_else(|| runs.first().map(|run| run.axes));
    let (blocks, seeds) = runs.iter().map(|run| (run.block, run.seed)).unzip();
    Side { input, mode: mode.into(), label, axes, blocks, seeds }
}
