//! Machines by name: those on which published figures were measured, and what is known of each.

/// A named machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// The name.
    pub name: &'static str,
    /// Its normal form.
    pub topology: &'static str,
    /// What it is, where it comes from, and what of it is an assumption.
    pub about: &'static str,
}

/// All presets, by name.
pub const PRESETS: [Preset; 11] = [
    Preset {
        name: "e5620",
        topology: "1s:4c:2t",
        about: "Xeon E5620 (Westmere), one package used: 4 cores x 2 threads, one LLC (select_idle_sibling thread, 2012)",
    },
    Preset {
        name: "q6600",
        topology: "1s:2l:2c",
        about: "Core 2 Quad Q6600: two pairs of cores, each pair shares an L2 (select_idle_sibling thread, 2012)",
    },
    Preset {
        name: "q6600-broken",
        topology: "pkg=0-3:llc=0,3/1-2:mc=0-3",
        about: "the Q6600 as 3.4 got it wrong: one MC domain of four CPUs, pairs 0-3 and 1-2; needs broken topologies allowed",
    },
    Preset {
        name: "six-core",
        topology: "1s:6c",
        about: "six cores, no SMT, one LLC: the example of the buddy map, 1 0 3 2 5 4 (select_idle_sibling thread, 2012)",
    },
    Preset {
        name: "stoakley",
        topology: "2s:2l:2c",
        about: "two quad-core packages, each quad two pairs that share an L2; 8 cores (VolanoMark thread, 2008)",
    },
    Preset {
        name: "tigerton",
        topology: "4s:2l:2c",
        about: "four quad-core packages, 16 cores (VolanoMark thread, 2008); pairs that share an L2, as in the processor's data",
    },
    Preset {
        name: "westmere-ex",
        topology: "4n:1s:10c:2t",
        about: "4 packages, 40 cores, SMT (select_idle_sibling thread, 2012); one node a package is assumed",
    },
    Preset {
        name: "x3650m2",
        topology: "2s:4c",
        about: "x3650 M2 (Nehalem), no SMT, no PLE, 8 CPUs (gang thread, 2011); 2 packages of 4 cores are assumed, as is no NUMA",
    },
    Preset {
        name: "x3850x5",
        topology: "2s:4c",
        about: "x3850 X5, SMT off, PLE, 8 CPUs in one span (gang thread, 2011); 2 packages of 4 cores are assumed, as is no NUMA",
    },
    Preset {
        name: "x3850x5-1s",
        topology: "1s:8c",
        about: "x3850 X5 with its 8 CPUs as one package: the other reading of 'one span of 8' (gang thread, 2011)",
    },
    Preset {
        name: "x5472",
        topology: "2s:2l:2c",
        about: "Xeon X5472: 4 MC groups of 2 cores that share an L2, no L3 (CPU_IDLE thread, 2016); pair numbers are assumed",
    },
];

/// The preset of this name.
#[must_use]
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

#[cfg(test)]
mod tests {
    use super::super::Machine;
    use super::*;

    #[test]
    fn every_preset_is_in_normal_form_and_in_order() {
        assert!(PRESETS.is_sorted_by_key(|preset| preset.name));
        for preset in PRESETS {
            let machine: Machine = preset.name.parse().unwrap();
            assert_eq!(machine.to_string(), preset.topology, "{}", preset.name);
        }
    }
}
