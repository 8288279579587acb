//! How a VM's throughput falls with the number of VMs, where a run has several.
//!
//! ```text
//!   scaling: records/s of one VM, 100 % with 1 VM
//!   mode            1 VM  2 VMs  4 VMs
//!   base           100 %   31 %   11 %     records/s of one VM, where one VM alone has 100 %
//!   pvflush        100 %   52 %   26 %
//!   CPUs for each  100 %   50 %   25 %     what an even share of the CPUs would give
//! ```
//! Above the last line the CPUs do more together than alone; below it, waiting for each other costs more than the sharing.

use std::fmt::Write;

use super::grid::{self, Column};
use super::{figure, plural};
use crate::experiment::in_band;
use crate::result::ResultFile;

/// The last line's label.
const EVEN: &str = "CPUs for each";

/// The table as data.
pub(crate) struct Scaling {
    /// What it is.
    pub(crate) title: String,
    /// A heading a column.
    pub(crate) head: Vec<String>,
    /// Label and shares of each line.
    pub(crate) rows: Vec<(String, Vec<Option<String>>)>,
}

/// The table of a result; `None` if it has one number of VMs.
pub(crate) fn scaling(result: &ResultFile) -> Option<Scaling> {
    let (bands, plans) = (result.experiment.bands(), &result.experiment.plans);
    let fewest = bands.iter().copied().min().filter(|_| bands.len() > 1)?;
    let mut modes: Vec<&str> = Vec::new();
    for plan in plans {
        let name = in_band(&plan.mode, plan.vms);
        if !modes.contains(&name) {
            modes.push(name);
        }
    }
    let of_mode = |mode: &str| {
        let of_band = |vms: &u32| {
            let row = result.summary.iter().find(|row| row.vms == *vms && in_band(&row.mode, *vms) == mode)?;
            row.scaling.map(figure::share)
        };
        (mode.to_owned(), bands.iter().map(of_band).collect())
    };
    let cpus_for_each = |vms: u32| Some(plan::entitled_cpus(plans.iter().find(|plan| plan.vms == vms)?).vm);
    let even = |vms: &u32| Some(figure::share(cpus_for_each(*vms)? / cpus_for_each(fewest)?));
    let unit = plans.first().map_or("records", |plan| plan.workload.about().records);
    Some(Scaling {
        title: format!("scaling: {unit}/s of one VM, 100 % with {}", plural(fewest, "VM")),
        head: bands.iter().map(|vms| plural(*vms, "VM")).collect(),
        rows: modes.into_iter().map(of_mode).chain([(EVEN.into(), bands.iter().map(even).collect())]).collect(),
    })
}

impl Scaling {
    /// The lines under the title; the first is the heading.
    pub(super) fn lines(&self) -> Vec<String> {
        let column = |(at, head): (usize, &String)| {
            Column::figures(["", head], self.rows.iter().map(|(_, shares)| shares.get(at).cloned().flatten()))
        };
        let labels: Vec<&str> = self.rows.iter().map(|(label, _)| label.as_str()).collect();
        grid::lines(["", "mode"], &labels, self.head.iter().enumerate().map(column).collect()).split_off(1)
    }

    /// The same in Markdown.
    pub(super) fn markdown(&self) -> String {
        let mut page = format!("\n{}\n\n| mode | {} |\n|---|", self.title, self.head.join(" | "));
        page.push_str(&"--:|".repeat(self.head.len()));
        page.push('\n');
        for (label, shares) in &self.rows {
            let cells: Vec<&str> = shares.iter().map(|share| share.as_deref().unwrap_or(figure::MISSING)).collect();
            // Writing to a String cannot fail.
            let _ = writeln!(page, "| {} | {} |", super::export::cell(label), cells.join(" | "));
        }
        page
    }
}
