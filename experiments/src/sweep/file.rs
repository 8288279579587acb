//! Experiment files: what to run, on which axes, and which figures decide. `docs/sweeps.md` is their manual.
//!
//! ```toml
//! name = "slices"
//! title = "Does the gain of pvflush depend on the slice?"
//! [run]                        # options of `vmmlab run`, by their names
//! engine = "sim"
//! mode = ["base", "pvflush"]
//! seed = 1
//! [axes]                       # the same, each with a list of values: every combination is a point
//! vms = [2, 4, 8]
//! slice = ["1ms", "4ms"]
//! [metrics]
//! primary = ["records_per_s"]
//! margin_percent = 2
//! ```
//! Options mean here what they mean on the command line, and are checked by the same code. `[reproduce]` belongs to
//! `vmmlab reproduce` and is not read here.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use plan::metric;
use serde::Deserialize;
use toml::{Table, Value};

use crate::cli::RunArgs;
use crate::exit::Error;
use crate::experiment::Metrics;

/// No experiment file is longer, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// Most points of a sweep.
const POINTS_MAX: usize = 10_000;

/// Most characters of a name: it becomes a directory's.
const NAME_MAX: usize = 60;

/// Options of `vmmlab run` that a point cannot have, and why.
const NOT_HERE: &[(&str, &str)] = &[
    ("out", "give --out to `vmmlab sweep`"),
    ("format", "give --format to `vmmlab sweep`"),
    ("dry-run", "give --dry-run to `vmmlab sweep`"),
    ("color", "give --color to `vmmlab sweep`"),
    ("event-log", "give it to `vmmlab run` at one point"),
    ("trace", "give it to `vmmlab run` at one point"),
    ("trace-block", "give it to `vmmlab run` at one point"),
    ("trace-max-events", "give it to `vmmlab run` at one point"),
    ("help", "it asks nothing"),
];

/// An experiment file as it was read.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentFile {
    /// Names the directory of its results.
    pub name: String,
    /// The question in words.
    #[serde(default)]
    pub title: String,
    /// What it does not measure.
    #[serde(default)]
    pub caveats: Vec<String>,
    /// Options that all points share.
    #[serde(default)]
    run: Table,
    /// Options with a list of values each.
    #[serde(default)]
    axes: Table,
    /// What decides.
    #[serde(default)]
    metrics: MetricsTable,
    /// For `vmmlab reproduce`.
    #[serde(default, rename = "reproduce")]
    _reproduce: Option<Table>,
}

/// `[metrics]`: as [`Metrics`], and nothing else.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct MetricsTable {
    #[serde(default)]
    primary: Vec<String>,
    margin_percent: Option<f64>,
    #[serde(default)]
    margins: BTreeMap<String, f64>,
}

impl MetricsTable {
    fn validate(&self) -> Result<(), String> {
        let margins = self.margins.iter().map(|(name, margin)| (format!("margins.{name}"), *margin));
        let all = self.margin_percent.map(|margin| ("margin_percent".into(), margin));
        if let Some((name, margin)) = margins.chain(all).find(|(_, margin)| !(0.0..=100.0).contains(margin)) {
            return Err(format!("[metrics] {name} = {margin}: a margin is in percent, 0 to 100"));
        }
        match self.primary.iter().chain(self.margins.keys()).find(|name| metric::find(name).is_none()) {
            None => Ok(()),
            Some(name) => {
                let near = nearest(metric::METRICS.iter().map(|metric| metric.id.as_ref()), name);
                Err(format!("[metrics] there is no metric '{name}'; did you mean '{near}'? docs/results.md has them"))
            }
        }
    }
}

/// Options that the command line sets for all points; they replace the file's.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// Name and value.
    pub options: Vec<(String, String)>,
}

/// One value of each axis.
#[derive(Debug, Clone)]
pub struct Point {
    /// Axis and value, in alphabetical order of the axes.
    pub axes: Vec<(String, String)>,
    /// The arguments of `vmmlab run` that ask for it, without the word `run`.
    pub words: Vec<String>,
    /// The same, read.
    pub args: RunArgs,
}

impl ExperimentFile {
    /// Reads one. Also answers its text.
    ///
    /// # Errors
    /// One sentence that names the file, the key, and what would be right.
    pub fn read(path: &Path) -> Result<(Self, String), Error> {
        let mut text = String::new();
        let file = File::open(path).map_err(Error::input(path))?;
        let size = file.take(FILE_MAX + 1).read_to_string(&mut text).map_err(Error::input(path))?;
        if size as u64 > FILE_MAX {
            return Err(in_file(path, &format!("larger than {FILE_MAX} bytes; no experiment file is")));
        }
        Ok((Self::parse(&text).map_err(|why| in_file(path, &why))?, text))
    }

    /// Reads the text of one.
    ///
    /// # Errors
    /// One sentence that names the key and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: Self = toml::from_str(text).map_err(|error| located(text, &error))?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !(1..=NAME_MAX).contains(&file.name.len()) || !file.name.chars().all(plain) || file.name.starts_with('.') {
            return Err(format!(
                "name = '{}': it names a directory, so use 1 to {NAME_MAX} letters, digits, - and _",
                file.name
            ));
        }
        file.metrics.validate()?;
        Ok(file)
    }

    /// What decides.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let MetricsTable { primary, margin_percent, margins } = self.metrics.clone();
        Metrics { primary, margin_percent, margins }
    }

    /// Every combination of the axes; the last axis varies fastest.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what would be right.
    pub fn points(&self, overrides: &Overrides) -> Result<Vec<Point>, String> {
        let (mut run, mut axes) = (self.run.clone(), self.axes.clone());
        for (key, value) in &overrides.options {
            known(key).map_err(|why| format!("--set {key}={value}: {why}"))?;
            axes.remove(key);
            run.insert(key.clone(), Value::String(value.clone()));
        }
        let mut fixed = Vec::new();
        for (key, value) in &run {
            if axes.contains_key(key) {
                return Err(format!("{key} is both in [run] and in [axes]; leave one of them out"));
            }
            fixed.push(checked("run", key, value)?.1);
        }
        let mut lists = Vec::new();
        for (key, values) in &axes {
            let list = values.as_array().filter(|list| !list.is_empty());
            let list = list.ok_or_else(|| format!("[axes] {key} = {values}: an axis is a list, as in [2, 4, 8]"))?;
            if key == "engine" {
                return Err("[axes] engine: a sweep has one engine; put it in [run], or make two sweeps".into());
            }
            if list.len() > POINTS_MAX {
                return Err(format!("[axes] {key} has {} values, more than {POINTS_MAX}: leave some out", list.len()));
            }
            let list: Vec<_> = list.iter().map(|value| checked("axes", key, value)).collect::<Result<_, _>>()?;
            if let Some(twice) = (1..list.len()).find(|i| list[..*i].contains(&list[*i])) {
                return Err(format!("[axes] {key} has {} twice; name each value once", list[twice].0));
            }
            lists.push((key.clone(), list));
        }
        let count = lists.iter().try_fold(1usize, |n, (_, list)| n.checked_mul(list.len())).unwrap_or(usize::MAX);
        if count > POINTS_MAX {
            return Err(format!("[axes] has {count} combinations, more than {POINTS_MAX}: leave some values out"));
        }
        (0..count).map(|index| point(&fixed, &lists, index)).collect()
    }
}

/// A file's fault, with its name.
pub(crate) fn in_file(path: &Path, why: &str) -> Error {
    Error::Usage(format!("{}: {why}", path.display()))
}

/// A value of an axis and the words that ask for it.
type Choice = (String, String);

/// The point at that index of the product.
fn point(fixed: &[String], lists: &[(String, Vec<Choice>)], index: usize) -> Result<Point, String> {
    let mut rest = index;
    let mut axes = Vec::new();
    let mut words = Vec::new();
    for (key, list) in lists.iter().rev() {
        let (value, word) = &list[rest % list.len()];
        rest /= list.len();
        axes.push((key.clone(), value.clone()));
        words.push(word.clone());
    }
    axes.reverse();
    words.extend(fixed.iter().rev().cloned());
    words.reverse();
    let args = RunArgs::from_words(&words).map_err(|why| match name(&axes).as_str() {
        "" => why,
        name => format!("at {name}: {why}"),
    })?;
    Ok(Point { axes, words, args })
}

/// `vms=2,slice=1ms`: the name of a point; empty without axes.
pub(crate) fn name(axes: &[(String, String)]) -> String {
    axes.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

/// The value as text and as the word of a command line; checked alone, so that the error names the key.
fn checked(section: &str, key: &str, value: &Value) -> Result<Choice, String> {
    let at = |why: String| format!("[{section}] {key} = {value}: {why}");
    known(key).map_err(at)?;
    let text = match value {
        Value::Array(items) if section == "run" && key == "mode" => {
            let names: Option<Vec<_>> = items.iter().map(Value::as_str).collect();
            names.ok_or_else(|| at("modes are strings, as in [\"base\", \"gang\"]".into()))?.join(",")
        }
        // Bands of one result; in [axes] they are points with a result each.
        Value::Array(items) if section == "run" && key == "vms" => {
            let numbers: Option<Vec<_>> = items.iter().map(|item| item.as_integer().map(|n| n.to_string())).collect();
            numbers.ok_or_else(|| at("numbers of VMs are whole numbers, as in [1, 2, 4]".into()))?.join(",")
        }
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Boolean(yes) => if *yes { "yes" } else { "no" }.into(),
        Value::Array(_) if section == "run" => {
            return Err(at("it takes one value here; a list belongs into [axes]".into()));
        }
        _ => return Err(at("it takes a string, a whole number, or true and false".into())),
    };
    let word = format!("--{key}={text}");
    RunArgs::from_words(std::slice::from_ref(&word)).map_err(at)?;
    Ok((text, word))
}

/// Refuses what is no option of a point.
fn known(key: &str) -> Result<(), String> {
    if let Some((_, why)) = NOT_HERE.iter().find(|(name, _)| *name == key) {
        return Err(format!("no option of a point; {why}"));
    }
    let options = RunArgs::option_names();
    if options.iter().any(|name| name == key) {
        return Ok(());
    }
    let near = nearest(options.iter().map(String::as_str), key);
    Err(format!("`vmmlab run` has no option --{key}; did you mean '{near}'? Its long help lists all"))
}

/// The name that looks most like `given`.
fn nearest<'a>(names: impl Iterator<Item = &'a str>, given: &str) -> &'a str {
    names.max_by(|a, b| strsim::jaro(a, given).total_cmp(&strsim::jaro(b, given))).unwrap_or_default()
}

/// What is wrong and in which line, in one sentence.
fn located(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().and_then(|span| text.get(..span.start)).map(|before| before.matches('\n').count() + 1);
    let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
    format!("{place}{}", error.message().replace('\n', "; "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "name = \"x\"\n[run]\nmode = [\"base\", \"gang\"]\npin = true\nduration = \"1s\"\nseed = 7\n\
                        [axes]\nvms = [2, 4]\nslice = [\"1ms\", \"4ms\"]\n[metrics]\nprimary = [\"records_per_s\"]\n";

    fn points(text: &str) -> Result<Vec<Point>, String> {
        ExperimentFile::parse(text)?.points(&Overrides::default())
    }

    #[test]
    fn every_combination_is_a_point_and_the_last_axis_varies_fastest() {
        let names: Vec<_> = points(GOOD).unwrap().iter().map(|point| name(&point.axes)).collect();
        assert_eq!(names, ["slice=1ms,vms=2", "slice=1ms,vms=4", "slice=4ms,vms=2", "slice=4ms,vms=4"]);
        let words = points(GOOD).unwrap()[1].words.join(" ");
        assert_eq!(words, "--duration=1s --mode=base,gang --pin=yes --seed=7 --slice=1ms --vms=4");
    }

    #[test]
    fn without_axes_there_is_one_point() {
        let one = points("name = \"x\"\n[run]\nvms = 3\n").unwrap();
        assert_eq!((one.len(), one[0].args.vms.as_slice()), (1, &[3][..]));
    }

    #[test]
    fn several_numbers_of_vms_are_one_point_in_run_and_several_in_axes() {
        let bands = points("name = \"x\"\n[run]\nvms = [1, 2, 4]\n").unwrap();
        assert_eq!((bands.len(), bands[0].args.vms.as_slice()), (1, &[1, 2, 4][..]));
        assert_eq!(points("name = \"x\"\n[axes]\nvms = [1, 2, 4]\n").unwrap().len(), 3);
    }

    #[test]
    fn the_command_line_outweighs_the_file() {
        let set = |key: &str, value: &str| Overrides { options: vec![(key.into(), value.into())] };
        let file = ExperimentFile::parse(GOOD).unwrap();
        let found = file.points(&set("vms", "3")).unwrap();
        assert!(found.len() == 2 && found.iter().all(|point| point.args.vms == [3]));
        assert!(file.points(&set("vmz", "3")).unwrap_err().contains("did you mean 'vms'"));
    }

    #[test]
    fn errors_name_key_value_and_what_would_be_right() {
        for (text, wants) in [
            ("", &["missing field `name`"][..]),
            ("name = \"a/b\"", &["name = 'a/b'", "letters, digits"]),
            ("name = \"x\"\nrnu = 1", &["line 2", "unknown field `rnu`", "`run`"]),
            ("name = \"x\"\n[run]\nvmz = 2", &["[run] vmz = 2", "did you mean 'vms'?"]),
            ("name = \"x\"\n[run]\nvms = \"many\"", &["[run] vms = \"many\"", "whole number"]),
            ("name = \"x\"\n[run]\nvcpus = [2, 4]", &["[run] vcpus = [2, 4]", "belongs into [axes]"]),
            ("name = \"x\"\n[run]\nvms = [2, \"4\"]", &["[run] vms = [2, \"4\"]", "[1, 2, 4]"]),
            ("name = \"x\"\n[run]\nvms = 2.5", &["[run] vms = 2.5", "whole number"]),
            ("name = \"x\"\n[run]\nmode = [\"gnag\"]", &["[run] mode", "did you mean 'gang'?"]),
            ("name = \"x\"\n[run]\nout = \"y\"", &["[run] out", "give --out to `vmmlab sweep`"]),
            ("name = \"x\"\n[axes]\nvms = 2", &["[axes] vms = 2", "a list"]),
            ("name = \"x\"\n[axes]\nvms = []", &["[axes] vms = []", "a list"]),
            ("name = \"x\"\n[axes]\nvms = [2, 2]", &["[axes] vms has 2 twice"]),
            ("name = \"x\"\n[axes]\nengine = [\"sim\", \"kvm\"]", &["[axes] engine", "one engine"]),
            ("name = \"x\"\n[run]\nvms = 2\n[axes]\nvms = [4]", &["vms is both in [run] and in [axes]"]),
            ("name = \"x\"\n[metrics]\nmargin_percent = -1", &["margin_percent = -1", "0 to 100"]),
            (
                "name = \"x\"\n[metrics]\nprimary = [\"record_per_s\"]",
                &["'record_per_s'", "did you mean 'records_per_s'?"],
            ),
            ("name = \"x\"\n[metrics]\nmargin = 1", &["unknown field `margin`", "margin_percent"]),
            (
                "name = \"x\"\n[run]\nslice = \"1ms\"\n[axes]\nsched-latency = [\"3ms\"]",
                &["at sched-latency=3ms", "cannot be used with"],
            ),
        ] {
            let error = points(text).unwrap_err();
            assert!(wants.iter().all(|want| error.contains(want)), "{text}\n{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_product_that_no_host_could_run_is_refused_before_it_is_made() {
        let list = (1..=200).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        let text = format!("name = \"x\"\n[axes]\nvms = [{list}]\nblocks = [{list}]\nseed = [{list}]\n");
        assert!(points(&text).unwrap_err().contains("8000000 combinations, more than 10000"));
        let long = format!("name = \"x\"\n[axes]\nvms = [{}]\n", "1,".repeat(100_000));
        assert!(points(&long).unwrap_err().contains("vms has 100000 values, more than 10000"));
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in ".{0,80}", key in "[a-z-]{1,12}", value in "[^\n]{0,20}") {
            let _ = points(&text);
            let _ = points(&format!("name = \"x\"\n[run]\n{key} = {value}\n[axes]\n{key} = [{value}]"));
        }
    }
}
